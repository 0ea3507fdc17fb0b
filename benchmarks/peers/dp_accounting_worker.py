"""Runs inside dp-accounting's environment: ``dp_accounting_worker.py audit given.npz found.json``.

It imports nothing of this project, which need not be installed there.
"""

import json
import sys

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant


def audit(given) -> list[dict]:
    """Claims of the accountant for noise of known scales, and scores of draws of this noise."""
    runs, delta = int(given["runs"]), float(given["delta"])
    rng = np.random.default_rng(int(given["seed"]))
    sigma, scale, q, steps = 1.5, 1.0, 0.2, 10

    def sampled(present: int) -> np.ndarray:
        drawn = (rng.random((runs, steps)) < q) * present + rng.normal(0, sigma, (runs, steps))
        return np.log1p(q * np.expm1((drawn - 0.5) / sigma**2)).sum(axis=1)

    def laplace(present: int) -> np.ndarray:
        drawn = present + rng.laplace(0, scale, (runs, 3))
        return (np.abs(drawn) - np.abs(drawn - 1)).sum(axis=1)

    def gaussian(present: int) -> np.ndarray:
        return (present + rng.normal(0, sigma, (runs, 4))).sum(axis=1)

    noise = dp_accounting.GaussianDpEvent(sigma)
    events = {
        "4 Gaussian releases": (dp_accounting.SelfComposedDpEvent(noise, 4), gaussian),
        "3 Laplace releases": (
            dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(scale), 3),
            laplace,
        ),
        "10 sampled Gaussian releases": (
            dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(q, noise), steps),
            sampled,
        ),
    }
    found = []
    for case, (event, draw) in events.items():
        epsilon = PLDAccountant().compose(event).get_epsilon(delta)
        scores = [draw(present).tolist() for present in (1, 0)]
        found.append({"case": case, "epsilon": epsilon, "delta": delta, "scores": scores})
    return found


if __name__ == "__main__":
    _, given_path, found_path = sys.argv[1:]
    with np.load(given_path) as arrays:
        answer = audit(dict(arrays))
    with open(found_path, "w") as file:
        json.dump(answer, file)
