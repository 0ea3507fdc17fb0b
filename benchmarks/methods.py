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
#: The library's defaults, whose releases are post-processed.
POSTPROCESSED: dict[str, dict[str, Any]] = {
    "Dirichlet, post-processed": {},
    "auto, post-processed": {"mechanism": "auto"},
}
#: Baselines: the same mechanism without post-processing.
DRAWN = {"Dirichlet, post-processed": "Dirichlet, exact", "auto, post-processed": "auto"}
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


def postprocessing_claims(
    results: pd.DataFrame,
    what: str,
    loss: str | None,
    accuracy: str,
    promised: float | None = None,
) -> list[Claim]:
    """Claims about the post-processing of the same release, by the mean and 95th percentile.

    `loss` and `accuracy` are the names of scores, the smaller and the larger the better;
    `promised` is the largest mean ratio of the Dirichlet mechanism to Algorithm 1.
    """
    new, old, paper = "auto, post-processed", "auto", "Dirichlet, Algorithm 1"
    kl = by_method(results, "expected_kl")
    ratio = kl[new] / kl[old]
    claims = [
        _nearly_always(f"expected KL divergence of `auto` on {what}", ratio),
        _on_average(f"expected KL divergence of `auto` on {what}, ε ≤ 3", _up_to(ratio, 3), 0.85),
    ]
    if loss is not None:
        losses = by_method(results, loss)
        ratio = losses[new] / losses[old]
        claims.append(_nearly_always(f"cross-entropy on {what}", ratio))
        claims.append(_on_average(f"cross-entropy on {what}, ε ≤ 1", _up_to(ratio, 1), 0.9))
    scores = by_method(results, accuracy)
    gain = scores[new] - scores[old]
    claims.append(
        Claim(
            "skdirdp",
            f"Post-processed, the {accuracy.replace('_', '-')} on {what} is on average not lower",
            bool(gain.mean() >= 0),
            f"mean gain {gain.mean():+.4f}, from {gain.min():+.3f} to {gain.max():+.3f}",
        )
    )
    dirichlet = kl["Dirichlet, post-processed"] / kl[paper]
    here = kl.xs(("DP", 1.0), level=("guarantee", "epsilon"))
    beside = here["Dirichlet, post-processed"] / here[new]
    claims += [
        Claim(
            "skdirdp",
            f"Post-processed, the Dirichlet mechanism's expected KL divergence on {what} is on "
            "average, and in 95% of cases, at most Algorithm 1's",
            bool(dirichlet.mean() <= 1 and dirichlet.quantile(0.95) <= 1),
            f"ratio {dirichlet.mean():.3f} on average, 95th percentile "
            f"{dirichlet.quantile(0.95):.3f}, largest {dirichlet.max():.3f}",
        ),
        Claim(
            "skdirdp",
            f"At (1, 1e-5)-DP it is on average at most 1.3 times that of `auto` on {what}",
            bool(beside.mean() <= 1.3),
            f"{beside.mean():.3f} times, from {beside.min():.3f} to {beside.max():.3f}",
        ),
    ]
    if promised is not None:
        ratio = here["Dirichlet, post-processed"] / here[paper]
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


def _nearly_always(what: str, ratio: pd.Series) -> Claim:
    worst = ", ".join(map(str, ratio.idxmax()))
    return Claim(
        "skdirdp",
        f"Post-processed, the {what} is on average at most that of the release as drawn, and in "
        "95% of cases at most 1.02 times",
        bool(ratio.mean() <= 1 and ratio.quantile(0.95) <= 1.02),
        f"mean {ratio.mean():.3f}, 95th percentile {ratio.quantile(0.95):.3f}, largest "
        f"{ratio.max():.3f} ({worst})",
    )


def _on_average(what: str, ratio: pd.Series, limit: float) -> Claim:
    return Claim(
        "skdirdp",
        f"Post-processed, the {what} is on average at most {limit:g} of that as drawn",
        bool(ratio.mean() <= limit),
        f"mean {ratio.mean():.3f}, from {ratio.min():.3f} to {ratio.max():.3f}",
    )
