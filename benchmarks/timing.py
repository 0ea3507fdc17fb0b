"""Times and memory, always as ratios of sides measured in one run."""

import ctypes
import gc
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

_MIB = 2**20


def seconds(function: Callable[[], Any]) -> float:
    """Return the wall time of one call, for calls that wait for a disk."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def processor_seconds(function: Callable[[], Any]) -> float:
    """Return the processor time of one call, which other load hardly affects."""
    start = time.process_time()
    function()
    return time.process_time() - start


def alternate(*functions: Callable[[], Any], repeats: int) -> list[float]:
    """Return the smallest processor time of each call; calls take turns, so caches affect all."""
    rounds = [[processor_seconds(function) for function in functions] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def allocated(function: Callable[[], Any]) -> float:
    """Return the peak memory that Python and numpy allocate in a call, in MiB."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / _MIB
    finally:
        tracemalloc.stop()


def peak_memory(prepare: Callable[..., Callable[[], Any]], *arguments: Any) -> tuple[float, float]:
    """Return resident MiB before a call and at its peak, in a separate process.

    ``prepare(*arguments)`` prepares the call in that process and returns it.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_resident, prepare, arguments).result()


def _resident(prepare, arguments) -> tuple[float, float]:
    call = prepare(*arguments)
    _give_back()
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")  # reset the peak to the current resident memory
    before = _peak()
    call()
    return before, _peak()


def _give_back() -> None:
    """Return freed memory to the system, so that the call cannot reuse it unnoticed."""
    gc.collect()
    with suppress(OSError, AttributeError):  # other systems have other libraries
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _peak() -> float:
    """The largest resident memory in MiB; where it cannot be reset, since the process started."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
