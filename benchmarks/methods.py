"""The mechanisms that models are compared with, each at the same true privacy."""

from typing import Any

import pandas as pd

from .experiment import Claim, Row

#: Parameters of an estimator by the method's name, of releases that are taken as drawn.
PRIVATE: dict[str, dict[str, Any]] = {
    "Dirichlet, exact": {"postprocess": False},
    "Dirichlet, Algorithm 1": {"calibration": "algorithm1", "postprocess": False},
    "Gaussian, smoothed": {"mechanism": "gaussian", "postprocess": False},
    "Laplace, smoothed": {"mechanism": "laplace", "postprocess": False},
    "auto": {"mechanism": "auto", "postprocess": False},
}
#: The library's defaults, whose releases are read as well as they can be.
READ: dict[str, dict[str, Any]] = {
    "Dirichlet, read": {},
    "auto, read": {"mechanism": "auto"},
}
#: What these are compared with: the same mechanism, whose releases are taken as drawn.
DRAWN = {"Dirichlet, read": "Dirichlet, exact", "auto, read": "auto"}
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


def reading_claims(
    results: pd.DataFrame,
    what: str,
    loss: str | None,
    accuracy: str,
    promised: float | None = None,
) -> list[Claim]:
    """What a better reading of the same release is worth, in every case and on average.

    `loss` and `accuracy` are the names of scores, the smaller and the larger the better;
    `promised` is the largest mean ratio of the Dirichlet mechanism to Algorithm 1.
    """
    new, old, paper = "auto, read", "auto", "Dirichlet, Algorithm 1"
    kl = by_method(results, "expected_kl")
    ratio = kl[new] / kl[old]
    claims = [
        _every_case(f"expected KL divergence of `auto` on {what}", ratio),
        _on_average(f"expected KL divergence of `auto` on {what}, ε ≤ 3", _up_to(ratio, 3), 0.85),
    ]
    if loss is not None:
        losses = by_method(results, loss)
        ratio = losses[new] / losses[old]
        claims.append(_every_case(f"cross-entropy on {what}", ratio))
        claims.append(_on_average(f"cross-entropy on {what}, ε ≤ 1", _up_to(ratio, 1), 0.9))
    scores = by_method(results, accuracy)
    gain = scores[new] - scores[old]
    claims.append(
        Claim(
            "skdirdp",
            f"Read well, the {accuracy.replace('_', '-')} on {what} is on average not lower",
            bool(gain.mean() >= 0),
            f"mean gain {gain.mean():+.4f}, from {gain.min():+.3f} to {gain.max():+.3f}",
        )
    )
    dirichlet = kl["Dirichlet, read"] / kl[paper]
    here = kl.xs(("DP", 1.0), level=("guarantee", "epsilon"))
    beside = here["Dirichlet, read"] / here[new]
    claims += [
        Claim(
            "skdirdp",
            f"Read well, the Dirichlet mechanism's expected KL divergence on {what} is never above "
            "Algorithm 1's",
            bool((dirichlet <= 1).all()),
            f"largest ratio {dirichlet.max():.3f}; {(dirichlet <= 1).sum()} of {len(dirichlet)} "
            "at most 1",
        ),
        Claim(
            "skdirdp",
            f"At (1, 1e-5)-DP it is on average at most 1.3 times that of `auto` on {what}",
            bool(beside.mean() <= 1.3),
            f"{beside.mean():.3f} times, from {beside.min():.3f} to {beside.max():.3f}",
        ),
    ]
    if promised is not None:
        ratio = here["Dirichlet, read"] / here[paper]
        claims.append(
            Claim(
                "skdirdp",
                f"At (1, 1e-5)-DP it is on average at most {promised:g} of Algorithm 1's on {what}",
                bool(ratio.mean() <= promised),
                f"mean {ratio.mean():.3f}, from {ratio.min():.3f} to {ratio.max():.3f}",
            )
        )
    return claims


def _up_to(ratio: pd.Series, epsilon: float) -> pd.Series:
    return ratio[ratio.index.get_level_values("epsilon") <= epsilon]


def _every_case(what: str, ratio: pd.Series) -> Claim:
    worst = ", ".join(map(str, ratio.idxmax()))
    return Claim(
        "skdirdp",
        f"Read well, the {what} is in every case at most 1.02 of what it is as drawn",
        bool((ratio <= 1.02).all()),
        f"largest {ratio.max():.3f} ({worst}); {(ratio <= 1.02).sum()} of {len(ratio)} at most "
        "1.02",
    )


def _on_average(what: str, ratio: pd.Series, limit: float) -> Claim:
    return Claim(
        "skdirdp",
        f"Read well, the {what} is on average at most {limit:g} of what it is as drawn",
        bool(ratio.mean() <= limit),
        f"mean {ratio.mean():.3f}, from {ratio.min():.3f} to {ratio.max():.3f}",
    )
