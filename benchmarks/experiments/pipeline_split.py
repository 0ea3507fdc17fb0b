"""Whole pipelines with their default shares, against a budget that is split by hand."""

import numpy as np
import pandas as pd

from skdirdp import PrivatePipeline

from .. import figures
from ..experiment import Claim, Experiment, Row, Settings
from ..problems import BOUNDS
from .end_to_end import (
    BINS_SHARE,
    DELTA,
    QUICK_DATA,
    Outcome,
    Trial,
    classifier,
    private_bins,
    scores,
    with_private_bins,
)

#: The main budget, and further ones.
EPSILON = 1.0
OTHER_EPSILONS = (0.3, 3.0)
#: The shares were chosen with these data sets; the others confirm them.
CHOSEN_ON = ("adult", "breast_cancer", "digit", "shopper")
REPEATS = {"breast_cancer": 200, "digit": 60, "spam": 60}
OTHER_REPEATS = 40
#: At other budgets, and of other mechanisms than the default.
FEWER = 4


def with_pipeline(trial: Trial, mechanism: str) -> tuple[Outcome, float]:
    """Return scores of a pipeline with the same seeds, and the share of its bins."""
    whole, (train, test) = trial.whole, trial.parts
    seeds = np.random.SeedSequence(trial.repeat).generate_state(2)
    pipe = PrivatePipeline(
        [
            ("bins", private_bins(whole, mechanism=mechanism, random_state=int(seeds[0]))),
            ("model", classifier(whole, mechanism=mechanism, random_state=int(seeds[1]))),
        ],
        epsilon=trial.epsilon,
        delta=DELTA,
    ).fit(whole.X[train], whole.y[train])
    spent = pipe.privacy_.composition().epsilon(DELTA)
    bins = dict(pipe.privacy_.steps)["bins"].epsilon
    return (pipe.predict_log_proba(whole.X[test]), spent), bins / trial.epsilon


class PipelineSplit(Experiment):
    name = "pipeline-split"
    title = "One budget for a whole pipeline"
    reproduces = "PrivatePipeline with its default shares, against a quarter of ε by hand"

    def tasks(self, settings: Settings) -> list[Row]:
        if settings.quick:
            return [
                {"data": name, "epsilon": EPSILON, "mechanism": "dirichlet", "repeats": 6}
                for name in QUICK_DATA
            ]
        most = {name: REPEATS.get(name, OTHER_REPEATS) for name in BOUNDS}
        cases = [(EPSILON, "dirichlet", 1)]
        cases += [(epsilon, "dirichlet", FEWER) for epsilon in OTHER_EPSILONS]
        cases += [(EPSILON, "auto", FEWER)]
        return [
            {
                "data": name,
                "epsilon": epsilon,
                "mechanism": mechanism,
                "repeats": repeats // fewer,
            }
            for epsilon, mechanism, fewer in cases
            for name, repeats in most.items()
        ]

    def measure(self, task: Row, settings: Settings) -> list[Row]:
        by_hand, piped, spent, shares = [], [], [], []
        for repeat in range(task["repeats"]):
            trial = Trial(task["data"], settings.data, task["epsilon"], repeat)
            truth = trial.whole.y[trial.parts[1]]
            by_hand.append(scores(with_private_bins(trial, task["mechanism"])[0], truth))
            (log_p, epsilon), share = with_pipeline(trial, task["mechanism"])
            piped.append(scores(log_p, truth))
            spent.append(epsilon)
            shares.append(share)
        hand, pipe = pd.DataFrame(by_hand), pd.DataFrame(piped)
        difference = pipe - hand
        row: Row = {"share": np.mean(shares), "spent": max(spent)}
        for score in ("accuracy", "cross_entropy"):
            row |= {
                f"{score}_by_hand": hand[score].mean(),
                f"{score}_difference": difference[score].mean(),
                f"{score}_error": difference[score].std() / np.sqrt(task["repeats"]),
            }
        return [row]

    def figure(self, results: pd.DataFrame):
        cases = [*results.groupby(["epsilon", "mechanism"], sort=False)]
        figure, axes = figures.panels(len(cases), min(2, len(cases)), width=5.0, height=2.8)
        for axis, ((epsilon, mechanism), part) in zip(axes, cases, strict=False):
            axis.errorbar(
                part["accuracy_difference"],
                part["data"],
                xerr=2 * part["accuracy_error"],
                fmt="o",
                capsize=3,
                color="#0b61a4",
            )
            axis.axvline(0, color="0.6", linewidth=1)
            axis.invert_yaxis()
            axis.set(title=f"ε = {epsilon:g}, {mechanism}", xlabel="difference in accuracy")
        return figure

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        def shown(score: str) -> list[str]:
            return [
                f"{difference:+.4f} ± {error:.4f}"
                for difference, error in zip(
                    results[f"{score}_difference"], results[f"{score}_error"], strict=True
                )
            ]

        return pd.DataFrame(
            {
                "data": results["data"],
                "ε": [f"{epsilon:g}" for epsilon in results["epsilon"]],
                "mechanism": results["mechanism"],
                "repeats": results["repeats"],
                "ε of bins / ε": [f"{share:.3f}" for share in results["share"]],
                "accuracy by hand": [f"{each:.4f}" for each in results["accuracy_by_hand"]],
                "difference": shown("accuracy"),
                "of cross-entropy": shown("cross_entropy"),
            }
        )

    def remarks(self, results: pd.DataFrame) -> str:
        return (
            "Mean differences in test accuracy and cross-entropy, pipeline minus by hand, with "
            "standard errors of the mean over repeated 70-30 splits; both have the same splits "
            f"and seeds. By hand, bins get {BINS_SHARE:g} of ε and naive Bayes what exact "
            f"composition leaves. The rule for shares was chosen on {', '.join(CHOSEN_ON)}; "
            "the other data sets had no part in it. Where there are many records for the "
            "columns both splits are nearly the same, by design, and so are the models. Where "
            "the bins would drown in noise the pipeline leaves them nearly nothing."
        )

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        main = results[(results["epsilon"] == EPSILON) & (results["mechanism"] == "dirichlet")]
        difference, error = main["accuracy_difference"], main["accuracy_error"]
        used = results["spent"] / results["epsilon"]
        found = ", ".join(
            f"{name} {mean:+.4f} ({se:.4f})"
            for name, mean, se in zip(main["data"], difference, error, strict=True)
        )
        return [
            Claim(
                "skdirdp",
                f"At (1, {DELTA:g})-DP a PrivatePipeline with default shares is at least as "
                "accurate as a quarter split by hand, within two standard errors, on each data set",
                bool((difference + 2 * error >= 0).all()),
                f"mean difference (standard error): {found}",
            ),
            Claim(
                "skdirdp",
                "A PrivatePipeline spends its budget, and no more",
                bool(used.between(0.999, 1).all()),
                f"{used.min():.5f} to {used.max():.5f} of it",
            ),
        ]
