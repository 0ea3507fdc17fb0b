"""Exports of a guarantee and of a release: registries, SACRO-ML, cards, quality, data sheets."""

import html
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import pandas as pd

from ..accounting.attacks import AttackBounds
from .pages import quality_page, write
from .statements import (
    EXAMPLE_RATE,
    Claim,
    attack_sentences,
    exceptions_to,
    number,
    percent_up,
    terms,
    visible,
)

_CURATOR_FIELDS = (
    *("data_curators", "description", "intended_use", "data_product_region"),
    *("data_product_sector", "publication_date"),
)


def registry_entry(
    claim: Claim,
    *,
    mechanisms: str,
    attacks: AttackBounds,
    name: str | None = None,
    not_covered: Sequence[str] = (),
    several: bool = False,
) -> dict[str, Any]:
    """Return an entry in the shape of the Differential Privacy Deployments Registry."""
    # Fields that only the curator knows are None.
    if not claim.holds:
        raise ValueError("epsilon must be finite for an entry in a registry; got no guarantee")
    variant = "Approximate DP" if claim.delta else "Pure DP"
    parameters = {"epsilon": claim.epsilon}
    if claim.order is not None:
        variant, parameters["order"] = "Rényi DP", claim.order
    elif claim.delta:
        parameters["delta"] = claim.delta
    unit = "User-level" if claim.is_of_persons else "Record-level"
    model = {"model_name": "Central", "access_type": "Non-interactive"}
    model |= {"data_source_type": "Static"} | ({} if several else {"release_type": "One release"})
    return {
        "deployment": {
            "basic": {"name": name, **dict.fromkeys(_CURATOR_FIELDS)},
            "dp_variant": {
                "variant_name": variant,
                "unprotected_quantities": " ".join(exceptions_to(not_covered)) or None,
            },
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": f"Adjacent data sets differ by {claim.against}.",
                "privacy_parameters": parameters,
                "privacy_parameters_details": attack_sentences(claim, attacks),
            },
            "deployment_model": model,
            "implementation": {"mechanisms": mechanisms, "justification": None},
        }
    }


def card_sections(
    claim: Claim, statement: str, attacks: AttackBounds, not_covered: Sequence[str]
) -> dict[str, str]:
    """Return sections of a model card, in Markdown, by title."""
    rows = [("protected change", claim.against), ("ε", number(claim.epsilon))]
    if claim.holds:
        rows.append(("at", terms(claim)))
    rate = float(attacks.true_positive_rate(EXAMPLE_RATE))
    rows += [
        (f"detections at {percent_up(EXAMPLE_RATE)} false alarms, at most", percent_up(rate)),
        ("right guesses between two cases, at most", percent_up(attacks.advantage() / 2, 50)),
    ]
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)])
    sections = {"Privacy": f"{statement}\n\n{table}"}
    if not_covered:
        sections["Privacy/Not covered"] = "\n".join(exceptions_to(not_covered))
    return sections


def sacro_fields(
    claim: Claim, statement: str, attacks: AttackBounds, not_covered: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return fields of a target of SACRO-ML, with the names and recommendations of its checks."""
    faults = exceptions_to(not_covered)
    if not claim.holds:
        faults = ["There is no guarantee: epsilon is infinite.", *faults]
    check = {"details": statement, "recommendation": "Proceed to next step of checking"}
    if faults:
        check |= {"recommendation": "Do not allow release", "reason": " ".join(faults)}
    numbers = {"epsilon": claim.epsilon, "delta": claim.delta, "renyi_order": claim.order}
    check |= {name: str(value) for name, value in numbers.items() if value is not None}
    check |= {
        "protected_against": claim.against,
        "largest_TPR_at_FPR_0.01": percent_up(float(attacks.true_positive_rate(0.01))),
        "largest_Advantage": percent_up(attacks.advantage()),
    }
    return {"safemodel": [check]}


@dataclass(frozen=True)
class QualityReport:
    """Errors of the margins of synthetic records: expected from noise, and measured.

    An error is the total variation distance between two distributions: the share of records that
    would have to change. Expected errors are those of the noisy tables before post-processing,
    which usually reduces them.

    Attributes
    ----------
    rows : sequence of tuple
        Rows of `errors`.
    warnings : tuple of str
        Sentences about columns without information, and about a budget that is too small.
    n_records : float
        Number of records, public or released.
    sigma : dict of float
        Standard deviation of the noise of counts of columns and of cliques.
    privacy : PrivacyReport or None
        Guarantee of the fit; None if it is planned.
    measured_privacy : PrivacyReport or None
        Guarantee of the measured errors; None if none were measured.
    rejected : float
        Share of the records drawn from the network that violate the constraints of the schema,
        computed from the release; 0 if it is planned.

    Examples
    --------
    >>> from skdirdp import PrivateBayesNet
    >>> model = PrivateBayesNet({"sex": ["f", "m"], "city": ["x", "y", "z"]}, epsilon=0.5)
    >>> planned = model.planned_quality(500)
    >>> planned.summary["expected"].round(2).to_dict()
    {1: 0.06, 2: 0.06}
    """

    rows: Sequence[tuple[tuple[Hashable, ...], int, int, float, float, float]]
    warnings: tuple[str, ...]
    n_records: float
    sigma: Mapping[str, float]
    privacy: Any = None
    measured_privacy: Any = None
    rejected: float = 0.0

    @property
    def errors(self) -> pd.DataFrame:
        """Error of each margin.

        Columns are the "columns" of the margin, their number ("ways"), the number of "cells", the
        "expected" and the "measured" error, and the "noise" of the measured error, which is a
        standard deviation. The expected error is missing if no released table has all columns.
        """
        names = ["columns", "ways", "cells", "expected", "measured", "noise"]
        frame = pd.DataFrame(list(self.rows), columns=names)
        return frame if self.measured_privacy is not None else frame.iloc[:, :4]

    @property
    def summary(self) -> pd.DataFrame:
        """Mean errors of the margins of one, two and three columns."""
        by_ways = self.errors.groupby("ways")
        expected = by_ways["expected"]
        frame = pd.DataFrame({"margins": by_ways.size(), "in a table": expected.count()})
        frame["expected"], frame["largest expected"] = expected.mean(), expected.max()
        if self.measured_privacy is not None:
            frame["measured"] = by_ways["measured"].mean()
            frame["noise"] = by_ways["noise"].mean() / frame["margins"] ** 0.5
        return frame

    def to_html(self) -> str:
        """Return a page about the quality, as one HTML file."""
        return quality_page(self)

    def report(self, path: "str | PathLike[str]") -> str:
        """Write a page about the quality, as one HTML file.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced. Only its owner can read a new one.

        Returns
        -------
        str
            The path of the file.
        """
        return write(path, self.to_html())

    def __str__(self) -> str:
        return "\n".join([self.summary.round(4).to_string(), *self.warnings])

    def _repr_html_(self) -> str:
        warned = "".join(f"<li>{html.escape(visible(text))}</li>" for text in self.warnings)
        return f"{self.summary.round(4).to_html()}<ul>{warned}</ul>"


#: Title of a section of a data sheet, with paragraphs, lists and tables (columns and rows).
SheetSection = tuple[str, Sequence[Any]]


def sheet_text(title: str, sections: Sequence[SheetSection]) -> str:
    """Return a data sheet in Markdown: a part is a paragraph, a list, or a table as a tuple."""
    lines = [f"# {_markdown(title)}"]
    for name, parts in sections:
        lines.append(f"## {_markdown(name)}")
        for part in parts:
            if isinstance(part, str):
                lines.append(_markdown(part))
            elif isinstance(part, list):
                lines.append("\n".join(f"- {_markdown(item)}" for item in part))
            else:
                columns, rows = part
                cells = [columns, ["---"] * len(columns), *rows]
                lines.append("\n".join(f"| {' | '.join(map(_markdown, row))} |" for row in cells))
    return "\n\n".join(lines) + "\n"


def _markdown(value: Any) -> str:
    """Return a value on one line, with characters escaped that Markdown or HTML would interpret."""
    text = " ".join(visible(value).split())
    return text if text == "---" else re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)
