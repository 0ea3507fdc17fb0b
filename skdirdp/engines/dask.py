"""Dask arrays and frames: parts are counted on workers, and their counts added in a tree.

What travels to the client is one sum of tables. The workers have the public parameters of
the estimator, and neither its accountant nor its generator: a part may be counted twice, if
a worker is lost, and is released once, where `fit` was called.
"""

from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from .._messages import errors_without_data
from ..records import as_labels
from .parts import Counter, Part, Roles, added, count_part, outcome, persons_after
from .progress import PATIENCE, is_watched

# How many tables are added in one task.
_FAN_IN = 8


class DaskTable:
    """A Dask array or frame, with what stands beside its records.

    Attributes
    ----------
    sample : an empty table of the same columns, as a part would have.
    given : parameters of `fit` that were given.
    """

    in_memory = False
    kind = "a Dask collection"

    def __init__(self, X: Any, given: dict[str, Any]):
        if X.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, records and columns; got {X.ndim} of them"
            )
        self._is_frame = hasattr(X, "to_dask_array")
        if self._is_frame:
            self._roles = Roles.of(list(X.columns), given)
            self.sample = X._meta[self._roles.features]
        else:
            self.sample = np.empty((0, X.shape[1]))
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        self._X = X
        self._beside = {
            role: self._parts_of(role, value)
            for role, value in given.items()
            if value is not None and not (self._is_frame and role in self._roles.named)
        }
        self.given = {role for role, value in given.items() if value is not None}

    def select_features(self, features: list[Any]) -> "DaskTable":
        """The same where only some of the columns are read."""
        if self._is_frame:
            self._roles = self._roles.of_features(features)
        return self

    def _parts_of(self, role: str, value: Any) -> list[Delayed]:
        """What stands beside each part of X."""
        known = None if self._is_frame else self._X.chunks[0]
        if known is not None and np.isnan(known).any():
            known = None
        if not dask.is_dask_collection(value):
            if known is None or isinstance(value, str):
                raise TypeError(
                    f"{role} must be a Dask array or series with the partitions of X, or, where X "
                    f"is a frame, the name of a column; got {type(value).__name__}"
                )
            with errors_without_data(**{role: value}):
                values = as_labels(value)
                if values.ndim != 1 or len(values) != sum(known):
                    raise ValueError(f"{role} must have an entry for each row of X; it has not")
            value = da.from_array(values, chunks=(known,))
        elif known is not None and hasattr(value, "rechunk") and not np.isnan(value.shape[0]):
            if value.shape[0] != sum(known):
                raise ValueError(f"{role} must have an entry for each row of X; it has not")
            value = value.rechunk({0: known})
        parts = np.ravel(value.to_delayed()).tolist()
        if len(parts) != len(self._parts()):
            raise ValueError(
                f"{role} must have the partitions of X, {len(self._parts())}; got {len(parts)}"
            )
        return parts

    def _parts(self) -> list[Delayed]:
        X = self._X[self._roles.columns] if self._is_frame else self._X
        return np.ravel(X.to_delayed()).tolist()

    def count(self, counter: Counter) -> Any:
        """The counts of all parts, added on the workers."""
        # Once for all tasks, and not looked into for collections.
        shipped = dask.delayed(counter, traverse=False)
        split = partial(_split, self._roles if self._is_frame else None)
        before = None
        counts = []
        for k, records in enumerate(self._parts()):
            beside = {role: parts[k] for role, parts in self._beside.items()}
            part = dask.delayed(split, pure=False)(records, **beside)
            counts.append(dask.delayed(count_part, pure=False)(shipped, part, before))
            if "groups" in self.given:
                # Ids go from worker to worker, and not to the client.
                before = dask.delayed(_persons_after, pure=False)(before, part, counter.max_rows)
        while len(counts) > 1:
            counts = [
                dask.delayed(added, pure=False)(counts[start : start + _FAN_IN])
                for start in range(0, len(counts), _FAN_IN)
            ]
        return outcome(_computed(counts[0]))

    def mapped(self, model: Any, method: str, n_columns: int | None, meta: Any) -> Any:
        """A lazy array of what a method of a fitted model gives for each part."""
        shipped = dask.delayed(model, traverse=False)
        lengths = [np.nan] * len(self._parts()) if self._is_frame else self._X.chunks[0]
        results = []
        for records, length in zip(self._parts(), lengths, strict=True):
            found = dask.delayed(_applied, pure=False)(shipped, method, records, meta)
            shape = (length,) if n_columns is None else (length, n_columns)
            results.append(da.from_delayed(found, shape, meta=meta))
        return da.concatenate(results)


def _split(roles: Roles | None, records: Any, **beside: Any) -> Part:
    return Part(records, **beside) if roles is None else roles.split(records, **beside)


def _persons_after(before: Any, part: Part, max_rows: int) -> Any:
    return persons_after(before, part.groups, max_rows)


def _applied(model: Any, method: str, records: Any, meta: Any) -> Any:
    """What a method gives for a part; nothing is asked of it for an empty one."""
    return getattr(model, method)(records) if records.shape[0] else meta


def _computed(counts: Delayed) -> Any:
    """The sum, by whatever scheduler is in use."""
    with errors_without_data():
        try:
            return _with_progress(counts)
        except BaseException as error:  # a future that is cancelled raises no Exception
            # Of what tasks raise, only a cluster's own errors surely hold no data.
            if type(error).__module__.partition(".")[0] not in ("distributed", "asyncio"):
                raise
            lost = type(error).__name__
    raise RuntimeError(
        f"X could not be counted, because workers or their scheduler were lost ({lost}). Nothing "
        "was released, and the accountant is not charged; fit again"
    )


def _with_progress(counts: Delayed) -> Any:
    client = _client(counts)
    if not is_watched():
        return counts.compute()
    if client is not None:
        from distributed import progress

        future = client.compute(counts)
        progress(future)
        return future.result()
    from dask.callbacks import Callback
    from dask.diagnostics import ProgressBar

    if Callback.active:  # the user's own
        return counts.compute()
    with ProgressBar(minimum=PATIENCE):
        return counts.compute()


def _client(counts: Delayed) -> Any:
    """The client of a cluster that would compute it, or None."""
    owner = getattr(dask.base.get_scheduler(collections=[counts]), "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None
