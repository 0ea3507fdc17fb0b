"""The privacy loss that releases of a posterior realise."""

import numpy as np

from skdirdp.posterior import global_sensitivity
from skdirdp.posterior.hellinger import paper_exponent

from .. import figures
from ..experiment import Claim, Experiment
from .posteriors import EXACT, EXPONENTIAL, GAMMA, SMOOTH, draw_methods, exponent

#: EHD with the sensitivity that the paper prints, which is that of a uniform prior.
CONSTANT = "EHD, √(1 − π/4)"


class PosteriorLosses(Experiment):
    name = "posterior-losses"
    title = "Posteriors: the privacy loss that mechanisms realise"
    reproduces = "paper C, figure 7, for more priors, by enumeration of all neighbours"

    def tasks(self, settings):
        sizes = (1, 5, 20, 60, 100) if settings.quick else (1, 2, 5, 10, 20, 60, 100, 300, 600)
        return [{"prior": prior, "n": n} for prior in (0.01, 0.1, 0.5, 1.0) for n in sizes]

    def measure(self, task, settings):
        prior, n = (task["prior"],) * 2, task["n"]
        exponents = {method: exponent(method, prior, n, 1.0) for method in EXPONENTIAL}
        # A smaller sensitivity acts as a larger epsilon.
        larger = global_sensitivity(prior, n) / np.sqrt(1 - np.pi / 4)
        constant = paper_exponent("ehd", prior, n, larger, GAMMA)
        return [
            {"method": method, "loss": found.loss, "exponent": found.scale}
            for method, found in (exponents | {CONSTANT: constant}).items()
        ]

    def figure(self, results):
        cases = results.groupby("prior")
        figure, axes = figures.panels(cases.ngroups, columns=4, width=3.3)
        for axis, (prior, part) in zip(axes, cases, strict=True):
            draw_methods(axis, part, "n", "loss")
            axis.axhline(1, color="black", linewidth=0.8)
            axis.set(title=f"prior {prior:g}, ε = 1", xlabel="n", xscale="log", ylim=(0, 1.3))
        axes[0].set_ylabel("largest log-ratio")
        figures.legend_below(figure, axes, columns=6)
        return figure

    def table(self, results):
        grouped = results.groupby(["method", "prior"], sort=False)["loss"]
        ranges = grouped.agg(lambda losses: f"{losses.min():.3f} to {losses.max():.3f}")
        return ranges.unstack("prior").add_prefix("prior ").rename_axis(columns=None)

    def remarks(self, results):
        return (
            "Two categories, ε = 1. EHDL uses the local sensitivity, for which no proof exists, "
            "and does exceed ε. The constant √(1 − π/4) is the global sensitivity of a uniform "
            "prior only; with smaller priors it is a privacy violation."
        )

    def claims(self, results):
        # The range over which the library states its losses.
        shown = results[(results["n"] <= 60) & results["prior"].between(0.1, 1)]
        ranges = shown.groupby("method")["loss"].agg(["min", "max"])
        losses = results.groupby("method")["loss"].max()
        worst = results.loc[results[results["method"] == "EHDL (not private)"]["loss"].idxmax()]
        constant = results.loc[results[results["method"] == CONSTANT]["loss"].idxmax()]
        uniform = results[results["prior"] == 1].groupby("method")["loss"].max()
        exact = results[results["method"].isin(("EHD, exact", EXACT))]["loss"]

        def text(method: str) -> str:
            return f"{ranges.loc[method, 'min']:.2f} to {ranges.loc[method, 'max']:.2f}"

        return [
            Claim(
                "C, figure 7",
                "With a uniform prior the loss of EHDS stays below ε.",
                bool(uniform[SMOOTH] < 1),
                f"{uniform[SMOOTH]:.2f} of ε at most; at most {losses[SMOOTH]:.2f} for all priors",
            ),
            Claim(
                "C, section 5.2",
                "The exponential mechanism with local sensitivity (EHDL) is not ε-DP.",
                bool(losses["EHDL (not private)"] > 1),
                f"{worst['loss']:.3f} of ε at prior {worst['prior']:g}, n = {worst['n']}",
            ),
            Claim(
                "“Differentially Private Bayesian Inference”, section 1",
                "EHD with the constant sensitivity √(1 − π/4) is ε-DP for every prior.",
                bool(losses[CONSTANT] <= 1),
                f"{constant['loss']:.3f} of ε at prior {constant['prior']:g}, n = {constant['n']}",
            ),
            Claim(
                "skdirdp",
                "For n ≤ 60 and priors 0.1, ½ and 1 the losses are 0.50 to 0.65 of ε (EHD), 0.25 "
                "to 0.38 (EHDS) and up to 0.92 (EHDL).",
                bool(
                    ranges.loc["EHD"].between(0.495, 0.655).all()
                    and ranges.loc[SMOOTH].between(0.245, 0.385).all()
                    and abs(ranges.loc["EHDL (not private)", "max"] - 0.92) < 0.01
                ),
                f"{text('EHD')}, {text(SMOOTH)} and {text('EHDL (not private)')}",
            ),
            Claim(
                "skdirdp",
                "Exactly calibrated, the loss is ε and never more.",
                bool(exact.max() <= 1 and exact.min() > 1 - 1e-6),
                f"{exact.min():.7f} to {exact.max():.7f} of ε",
            ),
        ]
