"""The command ``skdirdp``: for those who answer for a budget and write no Python."""

from .main import main

__all__ = ["main"]
