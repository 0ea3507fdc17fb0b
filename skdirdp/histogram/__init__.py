"""Private bins, and the private histograms that they rest on."""

from .transformer import DirichletHistogramTransformer

__all__ = ["DirichletHistogramTransformer"]
