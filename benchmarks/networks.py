"""Bayesian networks: the three of paper A (figure 6), and pgmpy's own."""

import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from networkx import topological_sort
from pgmpy.utils import get_example_model

from . import data

#: The parents of each node, by data set.
PAPER: dict[str, dict[str, list[str]]] = {
    "adult": {
        "age": [],
        "sex": [],
        "education": ["age"],
        "occupation": ["age", "sex", "education"],
        "capital-gain": ["sex", "education", "occupation"],
        "capital-loss": ["sex", "occupation", "capital-gain"],
        "income": ["occupation", "capital-gain", "capital-loss"],
    },
    "bank": {
        "month": [],
        "day_of_week": [],
        "housing": ["month"],
        "pdays": ["housing", "month"],
        "poutcome": ["housing", "pdays"],
        "previous": ["poutcome"],
        "contact": ["previous", "month"],
        "campaign": ["day_of_week", "month"],
        "duration": ["housing", "contact", "campaign"],
        "y": ["poutcome", "duration", "month"],
    },
    "german_credit": {
        "housing": [],
        "property": ["housing"],
        "age": ["housing"],
        "amount": ["property"],
        "other_debtors": ["property"],
        "sex_marital_status": ["amount"],
        "purpose": ["amount"],
        "installment_rate": ["amount"],
        "duration": ["amount", "installment_rate"],
        "people_liable": ["sex_marital_status"],
        "foreign_worker": ["duration"],
        "number_credits": ["age"],
        "credit_history": ["number_credits"],
        "other_installment_plans": ["credit_history"],
    },
}
#: Networks of other makers, whose records are drawn from the networks themselves.
EXAMPLES = ("asia", "sachs", "child", "insurance", "alarm")
_EXAMPLE_RECORDS = 20_000

Structure = dict[str, list[str]]


def load(name: str, folder: Path | None) -> tuple[Structure, pd.DataFrame]:
    """A network of the paper, and its data with numbers binned."""
    table = data.load(name, folder)[list(PAPER[name])]
    return PAPER[name], table.apply(lambda column: data.binned(column).astype("category"))


@lru_cache(maxsize=8)
def load_example(name: str) -> tuple[Structure, pd.DataFrame]:
    """A network that comes with pgmpy, and records drawn from it."""
    with warnings.catch_warnings():
        # The corresponding function of pgmpy downloads the networks.
        warnings.simplefilter("ignore", FutureWarning)
        network = get_example_model(name)
    structure = {node: list(network.get_parents(node)) for node in network.nodes}
    return structure, _records(network, np.random.default_rng(0))


def _records(network, rng: np.random.Generator) -> pd.DataFrame:
    """Records drawn node by node, parents first."""
    codes: dict[str, np.ndarray] = {}
    for node in topological_sort(network):
        cpd = network.get_cpds(node)
        parents, sizes = cpd.variables[1:], cpd.cardinality[1:]
        rows = np.zeros(_EXAMPLE_RECORDS, dtype=int)
        if parents:
            rows = np.ravel_multi_index([codes[parent] for parent in parents], sizes)
        cumulative = np.cumsum(cpd.get_values(), axis=0)[:-1, rows]
        codes[node] = (rng.random(_EXAMPLE_RECORDS) > cumulative).sum(axis=0)
    return pd.DataFrame(
        {
            node: pd.Categorical.from_codes(numbers, network.states[node])
            for node, numbers in codes.items()
        }
    )
