"""How numbers read in messages and reports."""

from typing import Any


def plural(number: int, noun: str) -> str:
    """The number with its noun, which takes an s unless there is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def exactly(claimed: float) -> str:
    """A claim in as many digits as it has: rounded, it might say less than is true."""
    short = f"{claimed:g}"
    return short if float(short) == claimed else repr(float(claimed))


def brief(value: Any) -> str:
    """A noise level in few digits, for readers; a claim is never shortened so."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
