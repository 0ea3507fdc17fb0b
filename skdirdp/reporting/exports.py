"""Exports of a guarantee: for a registry of deployments, a model card, and SACRO-ML."""

from collections.abc import Sequence
from typing import Any

from ..accounting.attacks import AttackBounds
from .statements import (
    EXAMPLE_RATE,
    Claim,
    attack_sentences,
    exceptions_to,
    number,
    percent_up,
    terms,
)

_CURATORS_FIELDS = (
    "data_curators",
    "description",
    "intended_use",
    "data_product_region",
    "data_product_sector",
    "publication_date",
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
    """Return an entry in the shape of the Differential Privacy Deployments Registry.

    Fields that only the curator knows are None.
    """
    if not claim.holds:
        raise ValueError("epsilon must be finite for an entry in a registry; got no guarantee")
    variant = "Approximate DP" if claim.delta else "Pure DP"
    parameters = {"epsilon": claim.epsilon}
    if claim.order is not None:
        variant, parameters["order"] = "Rényi DP", claim.order
    elif claim.delta:
        parameters["delta"] = claim.delta
    unit = "Record-level" if claim.protected == "one record" else "User-level"
    model = {
        "model_name": "Central",
        "access_type": "Non-interactive",
        "data_source_type": "Static",
    }
    if not several:
        model["release_type"] = "One release"
    return {
        "deployment": {
            "basic": {"name": name, **dict.fromkeys(_CURATORS_FIELDS)},
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
    check: dict[str, Any] = {"details": statement}
    faults = exceptions_to(not_covered)
    if not claim.holds:
        faults = ["There is no guarantee: epsilon is infinite.", *faults]
    check["recommendation"] = "Proceed to next step of checking"
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
