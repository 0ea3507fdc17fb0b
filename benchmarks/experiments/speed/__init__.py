"""Every speed that the library promises, one module for each thing that is timed."""

from .experiment import Speed

__all__ = ["Speed"]
