"""Tables of noisy counts."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..mechanisms.noise import Noise


@dataclass(frozen=True)
class NoisyTable:
    """Counts with noise of mean 0, one dimension for each variable.

    Attributes
    ----------
    counts : ndarray
        Some may be negative. The last dimension is of the variable whose distribution is
        wanted, given those before it.
    noise : Noise
        Its variance, independent from cell to cell.
    axes : tuple
        The variable of each dimension. Tables that share a variable count the same records by
        it.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.reading import Noise, NoisyTable
    >>> NoisyTable(np.array([[12.5, -3.0], [7.5, 3.0]]), Noise(4.0, 0.5), ("class", "x")).variance
    6.5
    """

    counts: np.ndarray
    noise: Noise
    axes: tuple[Hashable, ...]

    def __post_init__(self):
        if len(self.axes) != self.counts.ndim or len(set(self.axes)) < len(self.axes):
            raise ValueError(
                f"axes must name each of the {self.counts.ndim} dimensions once; got {self.axes}"
            )

    @cached_property
    def variance(self) -> float:
        """The mean variance of a cell's noise."""
        return float(self.noise.of(max(self.counts.sum() / self.counts.size, 0.0)))
