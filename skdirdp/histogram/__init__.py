"""Private histograms of numeric columns, and bins that are based on them."""

from .transformer import DirichletHistogramTransformer

__all__ = ["DirichletHistogramTransformer"]
