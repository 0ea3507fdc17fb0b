"""Which records are held out: a split under which neighbours stay neighbours.

Under replacement the split is by position. A record that is replaced stays in its part, and the
other part is the same for both data sets. Under "add_remove" positions move, so each record is
held out by a coin of its own: what an added record does to its part, it does not to the other,
whatever the coins of the others (docs/theory.md, section 14).
"""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import model_selection

from .._messages import describe
from ..mechanisms.sampling import bernoulli

# Splitters that look at labels or groups, and so at the records.
_DEPENDENT = tuple(
    getattr(model_selection, name)
    for name in (
        "StratifiedKFold",
        "StratifiedShuffleSplit",
        "RepeatedStratifiedKFold",
        "StratifiedGroupKFold",
        "GroupKFold",
        "GroupShuffleSplit",
        "LeaveOneGroupOut",
        "LeavePGroupsOut",
    )
)


def split_once(
    n_records: int, cv: Any, adjacency: str, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the records to fit to, and of those that are held out.

    Parameters
    ----------
    n_records : int
    cv : int, splitter or iterable
        As for `PrivateGridSearchCV`.
    adjacency : {"replace", "add_remove"}
    generator : numpy.random.Generator

    Returns
    -------
    train, test : ndarray of int
        Increasing where they are drawn here.
    """
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv must be at least 2, to hold out one record in so many; got {cv}")
        if adjacency == "add_remove":
            held_out = bernoulli(1 / int(cv), n_records, generator)
        else:
            held_out = np.zeros(n_records, dtype=bool)
            held_out[generator.permutation(n_records)[: -(-n_records // int(cv))]] = True
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)
    if isinstance(cv, _DEPENDENT):
        raise ValueError(
            f"cv must not look at the records; got a {type(cv).__name__}, which splits by labels "
            "or groups: replacing one record would move others from one part to the other, and "
            "the guarantee is for one record. Pass an integer, or a splitter by position, such "
            "as ShuffleSplit(n_splits=1)"
        )
    if adjacency == "add_remove":
        raise ValueError(
            "cv must be an integer where adjacency is 'add_remove': one record more moves the "
            f"positions of others, so that each is held out by chance; got {describe(cv)}"
        )
    splits = _splits(cv, n_records)
    if len(splits) != 1:
        raise ValueError(
            f"cv must give one split; got {len(splits)}. Every further one would be another "
            "private fit in every run, paid for with more noise in all of them. Pass an integer, "
            "or a splitter such as ShuffleSplit(n_splits=1)"
        )
    train, test = (_positions(part, n_records) for part in splits[0])
    if np.intersect1d(train, test).size:
        raise ValueError("cv must hold out records that are not fitted to; some are in both parts")
    return train, test


def may_hold_data(cv: Any) -> bool:
    """Whether a split may have been made from the records: an iterable says nothing of its origin.

    A splitter is shown no record, and `PredefinedSplit` declares that its split was fixed
    without looking at them.
    """
    return not isinstance(cv, Integral) and not hasattr(cv, "split")


def _splits(cv: Any, n_records: int) -> list[tuple[Any, Any]]:
    if not isinstance(cv, (str, bytes)):
        if hasattr(cv, "split"):
            # It is shown how many records there are, and none of them.
            return list(cv.split(np.zeros((n_records, 1))))
        if isinstance(cv, Iterable):
            return list(cv)
    raise TypeError(
        f"cv must be an integer, a splitter or an iterable of one split; got {describe(cv)}"
    )


def _positions(part: Any, n_records: int) -> np.ndarray:
    positions = np.asarray(part)
    if positions.dtype == bool:
        positions = np.flatnonzero(positions)
    within = positions.size == 0 or (positions.min() >= 0 and positions.max() < n_records)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or not within:
        raise ValueError("cv must give positions of records, from 0 to their number less 1")
    if np.unique(positions).size != positions.size:
        raise ValueError("cv must give each position once; some are given twice")
    return positions
