from .gamma import gamma_cells
from .normal import normal_cells
from .exponential import laplace_cells, exponential_cells
