"""Time and memory of a call with all processes that it starts, in a separate process."""

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_context
from typing import Any, NamedTuple

import psutil

_MIB = 2**20
# Interval of memory measurements, in seconds.
_PACE = 0.02


class Resources(NamedTuple):
    """Resources of a call.

    Attributes
    ----------
    seconds : by the clock, at best.
    processor : seconds of all processors, over all processes, at best.
    peak : largest memory of all processes together, in MiB.
    growth : by how many MiB the process itself grew at its peak.
    result : return value of the call.
    """

    seconds: float
    processor: float
    peak: float
    growth: float
    result: Any


def resources(
    prepared: Callable[..., AbstractContextManager[Callable[[], Any]]],
    *arguments: Any,
    repeats: int,
) -> Resources:
    """Measure a call in a new process.

    ``prepared(*arguments)`` prepares the call in that process and returns it. The call is
    made several times.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measured, prepared, arguments, repeats).result()


def _measured(prepared, arguments, repeats: int) -> Resources:
    with prepared(*arguments) as call:
        gc.collect()
        seconds, processor, peak, growth, results = zip(
            *(_taken(call) for _ in range(repeats)), strict=True
        )
    return Resources(min(seconds), min(processor), max(peak), max(growth), results[0])


def _taken(call: Callable[[], Any]) -> Resources:
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    before, own = _processor_time(family), family[0].memory_info().rss / _MIB
    watch = _Watch(family)
    start = time.perf_counter()
    with watch:
        result = call()
    seconds = time.perf_counter() - start
    return Resources(
        seconds, _processor_time(family) - before, watch.peak, watch.own_peak - own, result
    )


def _processor_time(family: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in family]
    return sum(time.user + time.system for time in times)


class _Watch:
    """Measure the memory of some processes until stopped."""

    def __init__(self, family: list[psutil.Process]):
        self.family, self.peak, self.own_peak = family, 0.0, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            held = []
            for process in self.family:
                with suppress(psutil.NoSuchProcess):
                    held.append(process.memory_info().rss / _MIB)
            self.peak = max(self.peak, sum(held))
            self.own_peak = max(self.own_peak, held[0])
            if self._stop.wait(_PACE):
                return
