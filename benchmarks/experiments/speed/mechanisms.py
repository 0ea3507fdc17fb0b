"""Releases of tables, and the calibration of their noise."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy.special import digamma

from skdirdp.accounting import Composition
from skdirdp.mechanisms import DirichletMechanism

from ...timing import alternate, processor_seconds
from ..sampling import AT_MOST_NUMPY
from .promise import Timing


def time_release(quick: bool) -> Iterator[Timing]:
    rng = np.random.default_rng(0)
    shrink = 100 if quick else 1
    for rows, cells in ((1000, 1000), (100_000, 10), (500_000, 2)):
        counts = rng.integers(0, 100, (rows // shrink, cells)).astype(float)
        for r, alpha in ((0.05, 2.0), (1.0, 5.0), (0.01, 0.5), (0.001, 0.05)):
            shapes = r * counts + alpha
            mechanism = DirichletMechanism(r, alpha)
            ours, theirs = alternate(
                partial(mechanism.release, counts),
                partial(np.random.default_rng(1).standard_gamma, shapes),
                repeats=3 if quick else 9,
            )
            expected = digamma(shapes) - digamma(shapes.sum(axis=1, keepdims=True))
            released = mechanism.release(counts, random_state=0)
            yield Timing(
                f"release of {len(counts)} x {cells} cells",
                f"r = {r:g}, alpha = {alpha:g}",
                ours,
                theirs,
                "numpy's standard_gamma",
                theirs,
                "the same",
                at_most_ratio=AT_MOST_NUMPY,
                difference=float(np.log(released).mean() / expected.mean() - 1),
            )


def time_calibration(quick: bool) -> Iterator[Timing]:
    sizes = {"n_samples": 34_189, "n_categories": 10, "n_rows": 2, "releases": 14}
    DirichletMechanism.calibrate(epsilon=0.7, delta=1e-6, **sizes)  # imports
    for case, kind in (("(1, 1e-5)-DP", {"delta": 1e-5}), ("(5, 1)-RDP", {"order": 5.0})):
        # Results are cached, so a cold call is one for a budget that was not asked before.
        calls = [
            partial(DirichletMechanism.calibrate, epsilon=epsilon, **kind, **sizes)
            for epsilon in (1.0, 1.001, 1.002)
        ]
        cold = min(processor_seconds(call) for call in calls)
        warm = min(processor_seconds(call) for call in calls)
        composed = Composition([(calls[0](), sizes["releases"])])
        spent = composed.epsilon(1e-5) if "delta" in kind else composed.rdp(5.0)
        for state, found, promised in (("cold", cold, 1.0), ("warm", warm, 1e-3)):
            yield Timing(
                f"calibration, {state}",
                case,
                found,
                at_most_seconds=promised,
                difference=float(spent) - 1,
            )
