"""The mechanisms that models are compared with, each at the same true privacy."""

from typing import Any

import pandas as pd

from .experiment import Claim, Row

#: Parameters of an estimator by the method's name.
PRIVATE: dict[str, dict[str, Any]] = {
    "Dirichlet, exact": {},
    "Dirichlet, Algorithm 1": {"calibration": "algorithm1"},
    "Gaussian, smoothed": {"mechanism": "gaussian"},
    "Laplace, smoothed": {"mechanism": "laplace"},
    "auto": {"mechanism": "auto"},
}
#: The same noise as another method, clipped and normalised as in paper A.
CLIPPED = {
    "Gaussian, clipped": "Gaussian, smoothed",
    "Laplace, clipped": "Laplace, smoothed",
}
BASELINES = ("no privacy", "random guess")

EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
ORDER, DELTA = 5.0, 1e-5
GUARANTEES = {"RDP": f"({ORDER:g}, ε)-RDP", "DP": f"(ε, {DELTA:g})-DP"}


def budget(task: Row) -> dict[str, float]:
    """A task's guarantee as parameters of an estimator."""
    kind = {"order": ORDER} if task["guarantee"] == "RDP" else {"delta": DELTA}
    return {"epsilon": task["epsilon"], **kind}


def by_method(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One column per method, by guarantee, data set and epsilon."""
    keys = ["guarantee", "data", "epsilon"]
    return results.set_index([*keys, "method"])[metric].unstack("method")


def ratio_claims(
    results: pd.DataFrame, what: str, promised: tuple[float, float] | None
) -> list[Claim]:
    """How expected KL divergences compare with Algorithm 1's, everywhere and at (1, 1e-5)-DP.

    `promised` are the largest mean ratios of the exact Dirichlet mechanism and with "auto".
    """
    n = results["data"].nunique()
    kl = by_method(results, "expected_kl")
    exact, auto = (kl[name] / kl["Dirichlet, Algorithm 1"] for name in ("Dirichlet, exact", "auto"))
    guarantee, data, epsilon = exact.idxmax()
    claims = [
        Claim(
            "skdirdp",
            "The exact calibration's expected KL divergence is at most Algorithm 1's on each of "
            f"the {n} {what} at every ε, under both guarantees",
            bool((exact <= 1).all()),
            f"largest ratio {exact.max():.3f} ({data}, {GUARANTEES[guarantee]}, ε = {epsilon:g}); "
            f"{(exact <= 1).sum()} of {len(exact)} at most 1",
        )
    ]
    for words, found, limit in zip(
        ("", ' with `mechanism="auto"`'), (exact, auto), promised or (1.0, 1.0), strict=True
    ):
        found = found.xs(("DP", 1.0), level=("guarantee", "epsilon"))
        claims.append(
            Claim(
                "skdirdp",
                f"At (1, 1e-5)-DP the mean ratio to Algorithm 1{words} is at most {limit:g} over "
                f"{n} {what}",
                bool(found.mean() <= limit),
                f"mean {found.mean():.3f}, from {found.min():.3f} to {found.max():.3f}",
            )
        )
    return claims
