"""The tCDP bound of paper B, claimed and actual."""

import numpy as np

from skdirdp import utility
from skdirdp.mechanisms import DirichletMechanism
from skdirdp.mechanisms.dirichlet import tcdp_epsilon

from .. import figures
from ..experiment import Claim, Experiment, Row
from .privacy import REPLACED, by_kind


class TcdpClaims(Experiment):
    name = "tcdp-claims"
    title = "Privacy: truncated concentrated DP, claimed and actual"
    reproduces = "paper B, figure 1, with the exact values of the same noise"

    X = np.array([11.0, 8, 65, 25, 38, 0])

    def tasks(self, settings):
        return [{"part": part} for part in ("rho against alpha", "delta against epsilon")]

    def measure(self, task, settings):
        if task["part"] == "rho against alpha":
            alphas = np.linspace(1.2, 10, 12 if settings.quick else 45).round(6).tolist()
            return [row for alpha in alphas for row in self.rhos(alpha)]
        deltas = np.logspace(-10, -2, 5 if settings.quick else 17).tolist()
        return [
            {"alpha": alpha, "delta": delta, "analysis": analysis, "value": value}
            for alpha in (10.0, 30.0, 100.0)
            for delta in deltas
            for analysis, value in (
                ("B (8)", tcdp_epsilon(1.0, alpha, delta, REPLACED)[0]),
                ("exact", DirichletMechanism(1.0, alpha).epsilon(delta)),
            )
        ]

    def rhos(self, alpha: float) -> list[Row]:
        """rho at order 2, of posteriors that differ by one record added to the last cell."""
        x, one_more = self.X + alpha, np.eye(6)[5]
        large = x + 30 * one_more
        found = {
            "B (2)": utility.tcdp_rho(alpha, squared_sensitivity=1.0),
            "worst case, exact": DirichletMechanism(1.0, alpha, adjacency="add_remove").rdp(2) / 2,
            "actual, from 0 to 1": utility.dirichlet_renyi(x, x + one_more, 2.0) / 2,
            "actual, from 30 to 31": utility.dirichlet_renyi(large, large + one_more, 2.0) / 2,
        }
        return [
            {"alpha": alpha, "delta": np.nan, "analysis": name, "value": value}
            for name, value in found.items()
        ]

    def figure(self, results):
        figure, axes = figures.panels(2, columns=2, width=5, height=3.8)
        rhos, epsilons = (results[results["part"] == part] for part in results["part"].unique())
        for name, curve in rhos.groupby("analysis", sort=False):
            axes[0].semilogy(curve["alpha"], curve["value"], label=name, **_TCDP_LINES[name])
        axes[0].set(title="ρ at order 2", xlabel="α", ylabel="ρ")
        axes[0].legend()
        colours = dict(zip((10.0, 30.0, 100.0), ("#c1440e", "#2e7d32", "#0b61a4"), strict=True))
        for (alpha, name), curve in epsilons.groupby(["alpha", "analysis"]):
            line = "--" if name == "B (8)" else "-"
            label = f"α = {alpha:g}, {name}"
            axes[1].semilogy(
                curve["value"], curve["delta"], line, color=colours[alpha], label=label
            )
        axes[1].set(title="(ε, δ)-DP", xlabel="ε", ylabel="δ")
        axes[1].legend()
        return figure

    def table(self, results):
        epsilons = results[results["part"] == "delta against epsilon"]
        table = by_kind(epsilons, ["alpha", "delta"], "analysis", "value")
        table = table[table.index.get_level_values("delta").isin((1e-10, 1e-6, 1e-2))]
        table = table.rename_axis(columns=None)
        return table.assign(**{"B / exact": table["B (8)"] / table["exact"]})

    def claims(self, results):
        rhos = by_kind(results[results["delta"].isna()], ["alpha"], "analysis", "value")
        epsilons = by_kind(
            results[results["delta"].notna()], ["alpha", "delta"], "analysis", "value"
        )
        bound, worst = rhos["B (2)"], rhos["worst case, exact"]
        loose = bound / rhos["actual, from 0 to 1"]
        large = bound / rhos["actual, from 30 to 31"]
        dear = epsilons["B (8)"] / epsilons["exact"]
        return [
            Claim(
                "B, Theorem 1",
                "The bound (2) on ρ is never exceeded.",
                bool((bound >= worst).all()),
                f"{(bound / worst).min():.2f} to {(bound / worst).max():.1f} times the exact "
                "worst case",
            ),
            Claim(
                "B, figure 1",
                "The bound (2) is close to the actual ρ (within a factor of two) where a count "
                "goes from 0 to 1.",
                bool(loose.max() <= 2),
                ", ".join(
                    f"{loose.iloc[at]:.2f} times at α = {loose.index[at]:g}"
                    for at in (0, int(np.argmin(np.abs(loose.index - 2))), -1)
                ),
            ),
            Claim(
                "B, section 3.1",
                "The bound (2) is far from the actual ρ where counts are large.",
                bool(large.min() > 2),
                f"{large.min():.1f} to {large.max():.0f} times, where a count goes from 30 to 31",
            ),
            Claim(
                "B, Theorem 2",
                "The ε of (8) is never exceeded.",
                bool((dear >= 1).all()),
                f"{dear.min():.2f} to {dear.max():.2f} times the exact ε",
            ),
        ]


_TCDP_LINES = {
    "B (2)": {"color": "#6fb1e0", "linestyle": "--"},
    "worst case, exact": {"color": "#0b61a4"},
    "actual, from 0 to 1": {"color": "black", "linestyle": ":"},
    "actual, from 30 to 31": {"color": "0.6", "linestyle": "-."},
}
