"""Models that others hand from one worker to the next."""

import sys

# Frames between a call of `partial_fit` and its caller.
_NEAR = 8


def check_stays_here() -> None:
    """Refuse a batch if the model would have to leave the process with exact counts.

    `dask_ml.wrappers.Incremental` sends a model from worker to worker between batches. A
    model that holds exact counts is not pickled, and Dask would try again without end.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None or not _is_called_by("dask_ml"):
        return
    try:
        worker = distributed.get_worker()
    except ValueError:  # no worker
        return
    if worker.address.startswith("inproc://"):  # its models stay in one process
        return
    raise TypeError(
        "partial_fit must not be called by dask_ml on workers that are processes: between batches "
        "the model would be sent on with exact counts in it, which it refuses. Give the Dask "
        "arrays to fit itself: it counts on the workers, and only tables of counts travel"
    )


def _is_called_by(package: str) -> bool:
    frame = sys._getframe(1)
    for _ in range(_NEAR):
        if frame.f_back is None:
            return False
        frame = frame.f_back
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            return True
    return False
