"""Numbers to classify, with public bounds.

Bounds are those of possible values, not of the data. Data sets are used with their numeric columns
only, since a peer for numbers is compared with.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from . import data

AGE = (0, 120)
_MONEY = (0, 2_000_000)  # New Taiwan dollars; twice the largest credit limit
_PERCENT = (0, 100)
_SECONDS_OF_A_DAY = (0, 86_400)
# Nuclei of cells, in micrometres or without a unit. The greyscale ends at 255, and its deviation
# within a nucleus is a fraction of that.
_NUCLEUS = {
    "radius": 50,
    "texture": 100,
    "perimeter": 350,
    "area": 8000,
    "smoothness": 1,
    "compactness": 2,
    "concavity": 2,
    "concave points": 1,
    "symmetry": 1,
    "fractal dimension": 1,
}

#: Bounds of values by column; other columns are not used.
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    "adult": {
        "age": AGE,
        "education-num": (1, 16),  # a code of sixteen levels
        "capital-gain": (0, 100_000),  # the census writes 99 999 for all above
        "capital-loss": (0, 10_000),
        "hours-per-week": (0, 100),  # two digits
    },
    "bank": {
        "age": AGE,
        "duration": (0, 7200),  # a telephone call of two hours
        "campaign": (0, 100),
        "pdays": (0, 999),  # 999 means never
        "previous": (0, 20),
        # Published statistics of Portugal and of the euro area.
        "emp.var.rate": (-5, 5),
        "cons.price.idx": (90, 100),
        "cons.conf.idx": (-100, 0),
        "euribor3m": (0, 6),
        "nr.employed": (4500, 5500),
    },
    "credit_card": {
        "LIMIT_BAL": (0, 1_000_000),
        "AGE": AGE,
        **{f"PAY_{month}": (-2, 9) for month in (0, 2, 3, 4, 5, 6)},  # a code of months
        **{f"BILL_AMT{month}": (-500_000, 2_000_000) for month in range(1, 7)},
        **{f"PAY_AMT{month}": _MONEY for month in range(1, 7)},
    },
    "digit": {f"pixel_{i}_{j}": (0, 16) for i in range(8) for j in range(8)},  # grey levels
    "shopper": {
        "Administrative": (0, 100),
        "Administrative_Duration": _SECONDS_OF_A_DAY,
        "Informational": (0, 100),
        "Informational_Duration": _SECONDS_OF_A_DAY,
        "ProductRelated": (0, 1000),
        "ProductRelated_Duration": _SECONDS_OF_A_DAY,
        "BounceRates": (0, 1),
        "ExitRates": (0, 1),
        "PageValues": (0, 1000),
        "SpecialDay": (0, 1),
    },
    "spam": {
        **{f"word_freq_{k}": _PERCENT for k in range(48)},
        **{f"char_freq_{k}": _PERCENT for k in range(6)},
        # Letters: a mail of some twenty pages at most.
        "capital_run_length_average": (1, 10_000),
        "capital_run_length_longest": (1, 10_000),
        "capital_run_length_total": (1, 50_000),
    },
    "breast_cancer": {
        **{f"mean {name}": (0, most) for name, most in _NUCLEUS.items()},
        # The standard error of a mean over tens of nuclei.
        **{f"{name} error": (0, most / 5) for name, most in _NUCLEUS.items()},
        **{f"worst {name}": (0, most) for name, most in _NUCLEUS.items()},
    },
}


@dataclass(frozen=True)
class Problem:
    """Numbers with public bounds, classes, and the same numbers binned as in the papers."""

    X: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_classes: int
    papers: data.Coded


@lru_cache(maxsize=4)
def problem(name: str, folder: Path | None) -> Problem:
    table = data.load_fresh(name) if name in data.FRESH else data.load(name, folder)
    columns = list(BOUNDS[name])
    papers = data.coded(table[[*columns, table.columns[-1]]])
    low, high = np.array(list(BOUNDS[name].values()), dtype=float).T
    X = table[columns].to_numpy(dtype=float)
    return Problem(X, papers.y, low, high, papers.n_classes, papers)


def symlog(problem: Problem) -> np.ndarray:
    """Numbers in [0, 1] by a logarithm of their size, which only looks at the bounds."""
    unit = np.maximum(abs(problem.low), abs(problem.high)) / 4096

    def logarithm(values):
        return np.arcsinh(values / unit)

    low, high = logarithm(problem.low), logarithm(problem.high)
    return (logarithm(np.clip(problem.X, problem.low, problem.high)) - low) / (high - low)


def linear(problem: Problem) -> np.ndarray:
    inside = np.clip(problem.X, problem.low, problem.high)
    return (inside - problem.low) / (problem.high - problem.low)
