"""Promised speed, and its measurement."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Timing:
    """One thing that was timed.

    Attributes
    ----------
    what, case : subject of the promise, and one of its cases.
    ours, theirs : seconds; theirs is nan where the promise is in seconds.
    peer : name of the peer.
    plain : seconds of the barest numpy operation that any implementation needs.
    plain_is : which that is.
    at_most_ratio, at_most_seconds : promised limit of ours/theirs, or of ours.
    difference : distance of our result without noise from theirs, or from the correct one.
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
