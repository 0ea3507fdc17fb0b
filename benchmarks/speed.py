"""Speed and memory as ratios, both sides in one run: ``python -m benchmarks.speed``.

Each line names what is measured, the limit it should stay within, and what was found.
Times are the best of several runs, alternating between the two sides; peak memory is that of a
process of its own, above what its inputs take.
"""

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse
from sklearn.naive_bayes import CategoricalNB, MultinomialNB

from skdirdp import DirichletCategoricalNB, DirichletNB
from skdirdp.mechanisms import DirichletMechanism, _calibration


def alternate(ours: Callable, theirs: Callable, repeats: int) -> tuple[float, float]:
    """The best time of each, in seconds."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, seconds in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


def report(what: str, ours: float, theirs: float, limit: str) -> None:
    ratio = ours / theirs
    print(
        f"{what:58} {ours * 1e3:10.1f} ms {theirs * 1e3:10.1f} ms   ratio {ratio:6.2f} "
        f"(faster by {1 / ratio:5.2f})   wanted: {limit}",
        flush=True,
    )


def release_speed(repeats: int) -> None:
    rng = np.random.default_rng(0)
    for shape in ((1000, 1000), (100_000, 10), (500_000, 2)):
        for r, alpha in ((0.05, 2.0), (1.0, 5.0), (0.01, 0.5), (0.001, 0.05)):
            counts = rng.integers(0, 100, shape).astype(float)
            shapes = r * counts + alpha
            mechanism, generator = DirichletMechanism(r, alpha), np.random.default_rng(1)
            ours, theirs = alternate(
                lambda m=mechanism, x=counts: m.release(x),
                lambda g=generator, s=shapes: g.standard_gamma(s),
                repeats,
            )
            report(f"release {shape}, r={r}, alpha={alpha}", ours, theirs, "ratio <= 1.5")


def calibration_speed() -> None:
    sizes = {"n_samples": 34189, "n_categories": 10, "n_rows": 2, "releases": 14}
    DirichletMechanism.calibrate(epsilon=0.7, delta=1e-6, **sizes)  # imports
    for budget in ({"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 1.0, "order": 5.0}):
        start = time.perf_counter()
        DirichletMechanism.calibrate(**budget, **sizes)
        cold = time.perf_counter() - start
        start = time.perf_counter()
        DirichletMechanism.calibrate(**budget, **sizes)
        warm = time.perf_counter() - start
        print(
            f"calibrate {budget}: cold {cold * 1e3:.0f} ms (wanted < 1000), "
            f"warm {warm * 1e3:.3f} ms (wanted < 1)",
            flush=True,
        )


def categorical_data(n: int = 1_000_000, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 10, (n, d)), rng.integers(0, 5, n)


def private_categorical() -> DirichletCategoricalNB:
    return DirichletCategoricalNB(classes=range(5), n_categories=10)


def sparse_data(n: int = 100_000, d: int = 50_000, nnz: int = 10_000_000):
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, n, nnz))
    columns = (d * rng.random(nnz) ** 2).astype(np.int32)
    X = sparse.csr_array((np.ones(nnz), (rows, columns)), (n, d))
    return X, rng.integers(0, 20, n)


def private_multinomial() -> DirichletNB:
    return DirichletNB(classes=range(20), max_count=3, max_total=150)


def naive_bayes_speed(repeats: int) -> None:
    X, y = categorical_data()
    ours, theirs = private_categorical(), CategoricalNB(min_categories=10)
    times = alternate(lambda: ours.fit(X, y), lambda: theirs.fit(X, y), repeats)
    report("DirichletCategoricalNB.fit, 1 000 000 x 20", *times, "at least 6 times faster")
    times = alternate(lambda: ours.predict(X), lambda: theirs.predict(X), repeats)
    report("DirichletCategoricalNB.predict", *times, "at least 1.5 times faster")

    X, y = sparse_data()
    ours, theirs = private_multinomial(), MultinomialNB()
    times = alternate(lambda: ours.fit(X, y), lambda: theirs.fit(X, y), repeats)
    report("DirichletNB.fit, 100 000 x 50 000 sparse, 10 M entries", *times, "ratio <= 1.3")

    def first_fit():
        _calibration._exact_dirichlet.cache_clear()
        ours.fit(X, y)

    times = alternate(first_fit, lambda: theirs.fit(X, y), repeats)
    report("  the first one, with its calibration", *times, "ratio <= 1.3")
    times = alternate(lambda: ours.predict(X), lambda: theirs.predict(X), repeats)
    report("DirichletNB.predict", *times, "ratio <= 1.05")

    X, y = categorical_data(n=150)
    small = private_categorical().fit(X, y)
    times = alternate(lambda: small.fit(X, y), lambda: CategoricalNB().fit(X, y), 20 * repeats)
    report("DirichletCategoricalNB.fit, 150 rows, warm", *times, "under 5 ms")


MEMORY = {
    "DirichletCategoricalNB": (categorical_data, private_categorical),
    "CategoricalNB": (categorical_data, lambda: CategoricalNB(min_categories=10)),
    "DirichletNB": (sparse_data, private_multinomial),
    "MultinomialNB": (sparse_data, MultinomialNB),
}


def peak_of(name: str) -> None:
    """Print the peak memory of one fit, in MiB: for a process of its own."""
    make_data, make_model = MEMORY[name]
    X, y = make_data()
    make_model().fit(X[:100], y[:100])  # imports and calibration are not what is measured
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")  # resets the peak of resident memory
    make_model().fit(X, y)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, read_peak())


def read_peak() -> float:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("no peak of resident memory in /proc/self/status")


def memory() -> None:
    peaks = {}
    for name in MEMORY:
        command = [sys.executable, "-m", "benchmarks.speed", "--peak-of", name]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peaks[name] = float(output.split()[1])
    for ours, theirs in (
        ("DirichletCategoricalNB", "CategoricalNB"),
        ("DirichletNB", "MultinomialNB"),
    ):
        print(
            f"peak memory of {ours}.fit {peaks[ours]:.0f} MiB, {theirs} {peaks[theirs]:.0f} MiB: "
            f"ratio {peaks[ours] / peaks[theirs]:.2f} (wanted <= 1.5)",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peak-of", choices=sorted(MEMORY), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.peak_of:
        peak_of(arguments.peak_of)
        return
    release_speed(arguments.repeats)
    calibration_speed()
    naive_bayes_speed(arguments.repeats)
    memory()


if __name__ == "__main__":
    main()
