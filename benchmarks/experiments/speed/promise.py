"""What is promised of a speed, and what was found."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Timing:
    """One thing that was timed.

    Attributes
    ----------
    what, case : what is promised for, and which of its cases this is.
    ours, theirs : seconds; theirs is nan where the promise is in seconds.
    peer : who they are.
    plain : seconds of the barest numpy operation that any implementation needs.
    plain_is : which that is.
    at_most_ratio, at_most_seconds : what is promised of ours/theirs, or of ours.
    difference : how far our result without noise is from theirs, or from what it should be.
    """

    what: str
    case: str
    ours: float
    theirs: float = np.nan
    peer: str = ""
    plain: float = np.nan
    plain_is: str = ""
    at_most_ratio: float = np.nan
    at_most_seconds: float = np.nan
    difference: float = np.nan


def largest_gap(ours, theirs) -> float:
    """The largest difference between two lists of arrays."""
    return max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))
