"""Count the records of Dask collections on the workers, and add the counts in a tree reduction.

Only the sum of the counts is sent to the client. The workers receive the public parameters of the
estimator, without its accountant or random generator. If a worker is lost, the counts of a part
may be computed again, but the noise is drawn only once, in the process that called `fit`.
"""

from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from .._messages import errors_without_data
from ..schema import as_labels
from . import in_memory
from .in_memory import ColumnRoles, Counter, Part

# Number of counts that are added in one task.
_FAN_IN = 8


class DaskTable(in_memory.OutOfCoreTable):
    """Dask array or DataFrame, with the labels, weights and ids of its records.

    `empty` is an empty table with the same columns as a partition of X. `given` names the `fit`
    parameters that were passed.
    """

    kind = "a Dask collection"

    def __init__(self, X: Any, given: dict[str, Any]):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions; got {X.ndim}")
        self._is_frame = hasattr(X, "to_dask_array")
        if self._is_frame:
            self._roles = ColumnRoles.from_names(list(X.columns), given)
            self.empty = X._meta[self._roles.features]
        else:
            self.empty = np.empty((0, X.shape[1]))
            X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        self._X = X
        self._others = {
            role: self._align(role, value)
            for role, value in given.items()
            if value is not None and not (self._is_frame and role in self._roles.named)
        }
        self.given = {role for role, value in given.items() if value is not None}

    def select_features(self, features: list[Any]) -> in_memory.OutOfCoreTable:
        return super().select_features(features) if self._is_frame else self

    def _align(self, role: str, value: Any) -> list[Delayed]:
        chunks = None if self._is_frame or np.isnan(self._X.chunks[0]).any() else self._X.chunks[0]
        if not dask.is_dask_collection(value):
            if chunks is None or isinstance(value, str):
                raise TypeError(
                    f"{role} must be a Dask array or Series that is partitioned like X or, if X is "
                    f"a DataFrame, the name of a column; got {type(value).__name__}"
                )
            with errors_without_data(**{role: value}):
                values = as_labels(value)
                if values.ndim != 1 or len(values) != sum(chunks):
                    raise ValueError(f"{role} must have one entry per row of X")
            value = da.from_array(values, chunks=(chunks,))
        elif chunks is not None and hasattr(value, "rechunk") and not np.isnan(value.shape[0]):
            if value.shape[0] != sum(chunks):
                raise ValueError(f"{role} must have one entry per row of X")
            value = value.rechunk({0: chunks})
        parts = np.ravel(value.to_delayed()).tolist()
        n = len(self._parts())
        if len(parts) != n:
            raise ValueError(f"{role} must have as many partitions as X ({n}); got {len(parts)}")
        return parts

    def _parts(self) -> list[Delayed]:
        X = self._X[self._roles.columns] if self._is_frame else self._X
        return np.ravel(X.to_delayed()).tolist()

    def count(self, counter: Counter) -> Any:
        """Return the sum of the counts of all parts, computed on the workers."""
        # Send the counter once for all tasks, and do not search it for Dask collections.
        shared = dask.delayed(counter, traverse=False)
        split = partial(_split, self._roles if self._is_frame else None)
        previous, counts = None, []
        for k, records in enumerate(self._parts()):
            others = {role: parts[k] for role, parts in self._others.items()}
            part = dask.delayed(split, pure=False)(records, **others)
            counts.append(dask.delayed(in_memory.count_part, pure=False)(shared, part, previous))
            if "groups" in self.given:
                # Ids are sent from worker to worker, but not to the client.
                count = dask.delayed(in_memory.count_per_person, pure=False)
                previous = count(shared, part, previous)
        while len(counts) > 1:
            counts = [
                dask.delayed(in_memory.add_counts, pure=False)(counts[start : start + _FAN_IN])
                for start in range(0, len(counts), _FAN_IN)
            ]
        return in_memory.check_total(_compute(counts[0]))

    def map_method(self, model: Any, method: str, n_columns: int | None, meta: Any) -> Any:
        """Return the result of a method of a fitted model as a lazy array."""
        shared = dask.delayed(model, traverse=False)
        lengths = [np.nan] * len(self._parts()) if self._is_frame else self._X.chunks[0]
        results = []
        for records, length in zip(self._parts(), lengths, strict=True):
            result = dask.delayed(_call, pure=False)(shared, method, records, meta)
            shape = (length,) if n_columns is None else (length, n_columns)
            results.append(da.from_delayed(result, shape, meta=meta))
        return da.concatenate(results)


def _split(roles: ColumnRoles | None, records: Any, **others: Any) -> Part:
    return Part(records, **others) if roles is None else roles.split(records, **others)


def _call(model: Any, method: str, records: Any, meta: Any) -> Any:
    """Call a method of a model on a part, or return `meta` if the part is empty."""
    return getattr(model, method)(records) if records.shape[0] else meta


def _compute(counts: Delayed) -> Any:
    """Compute the sum with the current scheduler."""
    with errors_without_data():
        try:
            return _compute_with_progress(counts)
        # A cancelled future raises CancelledError, which is not an Exception.
        except BaseException as error:
            # Only errors raised by the cluster itself are certain to contain no data.
            if type(error).__module__.partition(".")[0] not in ("distributed", "asyncio"):
                raise
            reason = type(error).__name__
    raise RuntimeError(
        f"X could not be counted because workers or the scheduler were lost ({reason}). Nothing "
        "was released, and the accountant was not charged; call fit again"
    )


def _compute_with_progress(counts: Delayed) -> Any:
    if not in_memory.is_interactive():
        return counts.compute()
    client: Any = getattr(dask.base.get_scheduler(collections=[counts]), "__self__", None)
    if hasattr(client, "scheduler_info"):  # a cluster
        from distributed import progress

        future = client.compute(counts)
        progress(future)
        return future.result()
    from dask.callbacks import Callback
    from dask.diagnostics import ProgressBar

    if Callback.active:  # the user has active callbacks, such as a progress bar
        return counts.compute()
    with ProgressBar(minimum=in_memory.PROGRESS_DELAY):
        return counts.compute()
