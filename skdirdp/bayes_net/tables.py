"""Counting, scoring, predicting and sampling with the tables of a network.

All work on whole columns of state numbers; nothing loops over records or over
configurations of parents.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from .._contributions import UNWEIGHTED, Weights, count_cells

#: State numbers of each column.
Codes = Mapping[Hashable, np.ndarray]


@dataclass(frozen=True)
class Family:
    """A node with its parents: a table with a row for each configuration of the parents.

    Rows are numbered as `itertools.product` of the parents' states would list them.
    """

    node: Hashable
    parents: tuple[Hashable, ...]
    n_states: int
    parent_states: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return prod(self.parent_states)

    @property
    def n_cells(self) -> int:
        return self.n_rows * self.n_states

    def row_numbers(self, codes: Codes) -> np.ndarray:
        """The row of the table that each record falls into."""
        if not self.parents:
            return np.zeros(len(codes[self.node]), dtype=np.intp)
        rows = codes[self.parents[0]]
        for parent, size in zip(self.parents[1:], self.parent_states[1:], strict=True):
            rows = rows * size + codes[parent]
        return rows

    def count(self, codes: Codes, weights: Weights = UNWEIGHTED) -> np.ndarray:
        """Counts of the records in each cell; each record is in one."""
        if self.parents:
            cells = self.row_numbers(codes) * self.n_states
            cells += codes[self.node]
        else:
            cells = codes[self.node]
        return count_cells(cells, self.n_cells, weights).reshape(self.n_rows, self.n_states)

    def stride(self, parent: Hashable) -> int:
        """How many rows further the next state of a parent is."""
        return prod(self.parent_states[self.parents.index(parent) + 1 :])


#: Probabilities by node: rows are configurations of the parents, columns its states.
Tables = Mapping[Hashable, np.ndarray]


def _log(table: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(table)


def log_likelihood(families: Mapping[Hashable, Family], tables: Tables, codes: Codes):
    """The log-likelihood of each record."""
    total: np.ndarray | float = 0.0
    for node, family in families.items():
        total = total + _log(tables[node])[family.row_numbers(codes), codes[node]]
    return total


def blanket(families: Mapping[Hashable, Family], target: Hashable) -> list[Hashable]:
    """What makes a node independent of all others: parents, children, and their parents."""
    members = dict.fromkeys(families[target].parents)
    for node, family in families.items():
        if target in family.parents:
            members.update(dict.fromkeys((node, *family.parents)))
    return [node for node in members if node != target]


def target_probabilities(
    families: Mapping[Hashable, Family],
    tables: Tables,
    codes: Codes,
    target: Hashable,
    n_records: int,
) -> np.ndarray:
    """P(target | its blanket) of each record, of shape (n_records, n_states)."""
    family = families[target]
    states = np.arange(family.n_states)
    # With the target's own state set to 0, `stride` leads to the rows of its other states.
    codes = {**codes, target: np.zeros(n_records, dtype=np.intp)}
    joint = _log(tables[target])[family.row_numbers(codes)]
    for node, child in families.items():
        if target in child.parents:
            rows = child.row_numbers(codes)[:, np.newaxis] + child.stride(target) * states
            joint += _log(tables[node])[rows, codes[node][:, np.newaxis]]
    return normalised(joint)


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """Probabilities of each row; equal ones where no state is possible."""
    largest = log_weights.max(axis=1, keepdims=True)
    log_weights = np.where(np.isneginf(largest), 0.0, log_weights)
    weights = np.exp(log_weights - np.where(np.isneginf(largest), 0.0, largest))
    return weights / weights.sum(axis=1, keepdims=True)


def draw_codes(
    families: Mapping[Hashable, Family],
    tables: Tables,
    n_samples: int,
    generator: np.random.Generator,
    *,
    even: bool = False,
) -> dict[Hashable, np.ndarray]:
    """State numbers of records drawn from the network, each node after its parents.

    With `even`, records of one row of a table share its states as evenly as whole numbers
    allow: each record is still a draw from the network, but their counts hardly vary.
    """
    codes: dict[Hashable, np.ndarray] = {}
    for node, family in families.items():
        codes[node] = np.zeros(n_samples, dtype=np.intp)
        if family.n_states > 1:
            rows = family.row_numbers(codes)
            uniform = (
                _even_uniforms(rows, family.n_rows, generator)
                if even
                else generator.random(n_samples)
            )
            codes[node] = _draw_states(tables[node], rows, uniform)
    return codes


def _even_uniforms(rows: np.ndarray, n_rows: int, generator: np.random.Generator) -> np.ndarray:
    """Uniform numbers that are evenly spaced within each row, in random order."""
    shuffled = generator.permutation(len(rows))
    order = shuffled[np.argsort(rows[shuffled], kind="stable")]
    sizes = np.bincount(rows, minlength=n_rows)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    within = np.arange(len(rows)) - starts + np.repeat(generator.random(n_rows), sizes)
    uniform = np.empty(len(rows))
    uniform[order] = within / np.repeat(sizes, sizes)
    return uniform


def _draw_states(table: np.ndarray, rows: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """A state for each record, by a binary search in the cumulated row of its parents."""
    cumulated = np.cumsum(table, axis=1)
    # The last is 1 exactly, so that a state of probability 0 is never drawn.
    cumulated /= cumulated[:, -1:]
    n_states = table.shape[1]
    flat, starts = cumulated.ravel(), rows * n_states
    states = np.zeros(len(rows), dtype=np.intp)
    step = 1 << ((n_states - 1).bit_length() - 1)
    while step:
        further = states + step
        # Where the step leads past the last state the index is kept inside, and not taken.
        beyond = flat[starts + np.minimum(further, n_states - 1) - 1] <= uniform
        states = np.where(beyond & (further < n_states), further, states)
        step >>= 1
    return states
