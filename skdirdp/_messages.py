"""Messages: what they say of data and parameters, and how numbers read in them."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# What scikit-learn and numpy say of data that they refuse, and what to say instead. Their
# messages quote a value, print the whole array, or recommend what is not private.
_TELLING = (
    (
        re.compile(r"(Expected 2D array, got \dD array instead):\narray=.*?\.\n(?=Reshape)", re.S),
        r"\1. ",
    ),
    (
        re.compile(r"(could not convert string to float|invalid literal for int\(\)).*", re.S),
        "numbers are needed; got text. Encode categories first, with those that are publicly "
        "known: OrdinalEncoder(categories=[...]), for example",
    ),
    (
        re.compile(r"(contains NaN)\.?\n.*", re.S),
        r"\1. Fill in a public constant, SimpleImputer(strategy='constant'), or make 'missing' a "
        "category of its own; a mean or a median of the data is not private",
    ),
)


@contextmanager
def errors_without_data() -> Iterator[None]:
    """Let errors of validation say what is wrong with the data, and show none of it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        told = str(error)
        for pattern, instead in _TELLING:
            told = pattern.sub(instead, told)
        if told == str(error):
            raise
        # Without the original, whose text would be printed above.
        raise type(error)(told) from None


def beyond_the_guarantee(not_covered: Sequence[str]) -> str:
    """The end of a sentence that states a guarantee."""
    seeded = "random_state" in not_covered
    from_data = [name for name in not_covered if name != "random_state"]
    told = ""
    if from_data:
        told += f"; not covered: {', '.join(from_data)}, taken from the data"
    if seeded:
        told += "; random_state was given, and whoever knows it can remove the noise"
    return told


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
