"""Learning a structure: public constraints, the schedule of releases, and the search."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from math import isqrt, prod
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from .._contributions import UNWEIGHTED, ColumnBlock, column_blocks, count_cells, sum_vectors
from .._random import NoiseGenerator
from .._validation import are_hashable
from ..base import PrivacyReport, select_categories
from ..mechanisms import GaussianMechanism, JointMechanism
from ..mechanisms.additive import SelectionMechanism
from ..mechanisms.splitting import noise_for_distances, noise_for_share, split_gaussian
from ..mechanisms.tables import ContributionBound
from ..numerics.rows import row_blocks, stacks_by_shape
from ..schema import (
    Categories,
    Dates,
    Kind,
    Names,
    Numbers,
    Records,
    Schema,
    has_float_dtype,
    raise_if_errors,
)
from ..schema.bins import BinCells, Refinement
from ..table_classifier.releases import Releases
from .base import Codes, Parents
from .clique_tree import MAX_TOTAL_CELLS, Clique, Measurement
from .columns import (
    MAX_MOMENT_COLUMNS,
    SQUARED_NORM,
    Moments,
    ReleasedColumn,
    Tail,
    clipped_squares,
    encode_cells,
    find_tails,
)

# The constants were chosen on the adult data set.
# Shares of the budget of column counts, of scores of pairs, and of clique tables.
_BUDGET_SHARES = (0.25, 0.05, 0.70)
# Share of the budget of second moments of numbers, if there are any; chosen with the constants of
# numbers in `columns`.
_MOMENT_SHARE = 0.1
# Share of the budget of the counts within the bins of numbers. Parts of bins are divided further if
# they have this number of standard deviations of the noise, and this share of the records.
_REFINEMENT_SHARE = 0.05
_MIN_REFINED_DEVIATIONS, _MIN_REFINED_SHARE = 5.0, 0.005
# Moments are left out if the noise of correlations is larger: on houses at epsilon = 1 (0.2), the
# error of margins of two numbers is 0.195 instead of 0.213 without them.
_MAX_CORRELATION_NOISE = 0.1
# Share of the budget of cliques for the squares of columns with long tails, if there are any.
_TAIL_SHARE = 0.5
# They are left out if the noise of cliques is above this share of the records. Sums of squares are
# used above this many standard deviations, where the noise of a deviation is at most 10%.
_MAX_TAIL_NOISE, _MIN_SQUARES = 1e-3, 5.0
# Products of two records have a scalar product of at least 0, before they are rounded to the grid.
# The bound on their length includes the rounding: docs/theory.md, section 17.1.
_MOMENT_NORM = 1.001
# The share of a clique grows with its cells to this power, which minimises the l1 error.
_CELL_EXPONENT = 2 / 3
# Tables of this number of blocks of columns are compared with independence at once. It affects only
# the speed.
_BLOCKS_AT_ONCE = 64
_PRODUCTS_AT_ONCE = 2**22  # products of numbers
# Limits on the input, because all pairs of columns and all states of each column are counted.
MAX_COLUMNS, _MAX_STATES = 1000, 10**6
_ROUND_UP = 1 + 1e-12  # far above the rounding errors of powers and sums
# The sums of the vectors of records are multiples of this. The grid of the noise has to divide it,
# or noisy sums would reveal the last bits of exact ones. The default is coarser for persons.
_GRID = ContributionBound(UNWEIGHTED.bound).grid


@dataclass(frozen=True)
class StructureConstraints:
    """Public constraints on a structure that is learnt; columns are added in `order`."""

    # Required parents of each column, which are connected with each other.
    required: Mapping[Hashable, frozenset[Hashable]] = field(default_factory=dict)
    forbidden: frozenset[tuple[Hashable, Hashable]] = frozenset()
    order: tuple[Hashable, ...] = ()


def parse_constraints(
    given: Any, columns: Sequence[Hashable], max_parents: int
) -> StructureConstraints:
    """Check constraints against the columns and against each other."""
    if given is None:
        return StructureConstraints()
    if not isinstance(given, Mapping) or not set(given) <= {"required", "forbidden", "order"}:
        raise ValueError(
            "constraints must be None or a dict with edges (parent, child) under 'required' and "
            "'forbidden', and columns under 'order'"
        )
    required_edges = _check_edges("required", given, columns)
    forbidden = frozenset(_check_edges("forbidden", given, columns))
    order = list(given.get("order", ()))
    _check_known("order", order, columns)
    if len(set(order)) < len(order):
        raise ValueError("constraints['order'] must name each column once; some are duplicates")
    before: dict[Hashable, set[Hashable]] = {}
    for parent, child in (*required_edges, *pairwise(order)):
        before.setdefault(parent, set())
        before.setdefault(child, set()).add(parent)
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        raise ValueError(
            "constraints must have no cycle in the required edges and the order; they have one"
        ) from None
    required = _connect_parents(required_edges, order)
    for child, parents in required.items():
        if len(parents) > max_parents:
            raise ValueError(
                f"max_parents={max_parents} must be at least the number of parents that the "
                f"required edges give {child!r}, {len(parents)} with those that connect the "
                "parents of one column"
            )
        clash = [parent for parent in parents if (parent, child) in forbidden]
        if clash:
            raise ValueError(
                f"constraints forbid {(clash[0], child)!r}, which the required edges need"
            )
    return StructureConstraints(required, forbidden, tuple(order))


def _check_edges(
    key: str, given: Mapping, columns: Sequence[Hashable]
) -> list[tuple[Hashable, Hashable]]:
    edges = [() if isinstance(edge, str | bytes) else tuple(edge) for edge in given.get(key, ())]
    if any(len(edge) != 2 for edge in edges):
        raise ValueError(f"constraints[{key!r}] must contain pairs (parent, child)")
    _check_known(key, [node for edge in edges for node in edge], columns)
    return [(edge[0], edge[1]) for edge in edges]


def _check_known(key: str, nodes: Sequence[Any], columns: Sequence[Hashable]) -> None:
    known = set(columns)
    for node in nodes:
        if not are_hashable([node]) or node not in known:
            raise ValueError(f"constraints[{key!r}] must name columns of X; {node!r} is not one")


def _connect_parents(
    edges: Sequence[tuple[Hashable, Hashable]], order: Sequence[Hashable]
) -> dict[Hashable, frozenset[Hashable]]:
    """Return the required parents of each column, with all parents of one connected.

    From the last column to the first: of two parents of a column, the later gets the earlier.
    """
    position = {node: i for i, node in enumerate(order)}
    parents: dict[Hashable, set[Hashable]] = {node: set() for node in order}
    for parent, child in edges:
        parents[child].add(parent)
    for node in reversed(order):
        for first, second in combinations(sorted(parents[node], key=position.__getitem__), 2):
            parents[second].add(first)
    return {node: frozenset(found) for node, found in parents.items() if found}


# Releases ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnlistedColumn:
    """Exact values of a column without public states: codes among the distinct values."""

    codes: np.ndarray
    distinct: list
    is_categorical: bool


@dataclass(frozen=True)
class EncodedTable:
    """Exact cells of all counted records, by column.

    The domain of an unlisted column is None until its states are selected. `codes` are the encoded
    values of numbers and dates.
    """

    domains: dict[Hashable, Any]
    cells: dict[Hashable, np.ndarray]
    unlisted: dict[Hashable, UnlistedColumn]
    codes: dict[Hashable, np.ndarray] = field(default_factory=dict)

    @classmethod
    def from_records(
        cls, records: Records, schema: Schema, rows: np.ndarray | None
    ) -> "EncodedTable":
        """Encode the counted columns by their schema."""
        table = cls({}, {}, {})
        if not any(schema.columns[name].is_counted for name in records.columns):
            raise ValueError(
                "X must have at least one column that is counted; all are keys or ignored"
            )
        kinds, codes = schema.columns, schema.encode_columns(records, rows)
        for name, values in records.columns.items():
            kind = kinds[name]
            if not kind.is_counted:
                continue
            is_categorical = isinstance(getattr(values, "dtype", None), pd.CategoricalDtype)
            if isinstance(kind, Names):
                absent = frozenset(schema.missing_values)
                found = kind.factorise(name, values, rows, absent)
                table.domains[name] = None
                table.unlisted[name] = UnlistedColumn(*found, is_categorical)
                continue
            table.domains[name], table.cells[name] = encode_cells(kind, codes[name], is_categorical)
            if isinstance(table.domains[name], BinCells):
                table.codes[name] = codes[name]
        return table

    def add_states(self, selected: Mapping[Hashable, Categories]) -> None:
        """Encode the unlisted columns by their selected states."""
        for name, kind in selected.items():
            column = self.unlisted[name]
            codes = kind.finish(kind.encode_distinct(column.codes, column.distinct))
            self.domains[name], self.cells[name] = encode_cells(kind, codes, column.is_categorical)

    def count(self) -> dict[Hashable, np.ndarray]:
        """Return the exact number of records in each cell of each column."""
        return {n: count_cells(self.cells[n], size) for n, size in self.sizes.items()}

    def check_sizes(self, constraints: StructureConstraints, max_cells: int) -> None:
        """Raise an error if tables are too large, based on public sizes only."""
        n_columns = len(self.domains)
        if n_columns > MAX_COLUMNS:
            raise ValueError(f"X must have at most {MAX_COLUMNS} columns; got {n_columns}")
        if max_cells * n_columns > MAX_TOTAL_CELLS:
            raise ValueError(
                f"max_family_cells must be at most {MAX_TOTAL_CELLS // n_columns} for {n_columns} "
                f"columns, so that all tables fit into memory; got {max_cells}"
            )
        sizes = dict.fromkeys(self.domains, isqrt(max_cells))
        for name, n_cells in self.sizes.items():
            if n_cells > _MAX_STATES:
                raise ValueError(
                    f"column {name!r} must have at most {_MAX_STATES} states; got {n_cells}"
                )
            sizes[name] = min(n_cells, sizes[name])
        for child, parents in constraints.required.items():
            n_cells = prod(sizes[name] for name in (child, *parents))
            if n_cells > max_cells:
                raise ValueError(
                    f"the table of {child!r} and its required parents must have at most "
                    f"max_family_cells={max_cells} cells; it may have {n_cells}, and more with "
                    "a larger limit, which allows more ranges of numbers: "
                    f"max_family_cells={prod(self.sizes[name] for name in (child, *parents))} is "
                    "enough. Or declare fewer states"
                )

    @property
    def sizes(self) -> dict[Hashable, int]:
        """Number of cells of each column whose states are known."""
        return {name: self.domains[name].n_cells for name in self.cells}


def schema_from_parameters(records: Records, states: Mapping, bounds: Mapping) -> Schema:
    """Return a strict schema of all columns from the parameters `states` and `bounds`."""
    both = [name for name in states if name in bounds]
    if both:
        raise ValueError(f"states and bounds must not both be given for {both[0]!r}")
    for parameter, given in (("states", states), ("bounds", bounds)):
        unknown = [name for name in given if name not in records.columns]
        if unknown:
            raise ValueError(f"{parameter} must name columns of X; {unknown[0]!r} is not one")
    kinds: dict[Hashable, Kind] = kinds_from_states(states, missing=True)
    for name, values in records.columns.items():
        if name in bounds:
            kinds[name] = _numbers_from_bounds(name, bounds[name])
        elif name not in states:
            if has_float_dtype(values):
                raise ValueError(
                    f"bounds must be given for columns of numbers; {name!r} has none. States are "
                    "found privately for text and whole numbers alone"
                )
            kinds[name] = Names()
    columns = {name: kinds[name] for name in records.columns}
    return Schema(columns, missing_values=(), strict=True)


def plan_refinements(columns: Any) -> list[int]:
    """Return the number of refinements of each column of numbers and dates.

    `columns` is a schema, or `bounds`.
    """
    schema = columns if isinstance(columns, Schema) or not columns else Schema(columns)
    kinds = schema.columns.values() if columns else ()
    numbers = [kind for kind in kinds if isinstance(kind, Numbers | Dates)]
    return [BinCells.from_kind(kind).n_refinements for kind in numbers]


def kinds_from_states(states: Mapping, *, missing: bool) -> dict[Hashable, Any]:
    """Return the kinds of columns with public states."""
    kinds, errors = {}, {}
    for name, values in states.items():
        try:
            kinds[name] = Categories.from_values(values, missing=missing)
            if not kinds[name].values:
                raise ValueError("values must have at least one entry; got none")
        except (TypeError, ValueError) as error:
            errors[name] = str(error)
    raise_if_errors("states must be lists of values", errors)
    return kinds


def _numbers_from_bounds(name: Hashable, bounds: Any) -> Numbers:
    try:
        low, high = bounds
        return Numbers.from_bounds(low, high)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds must be a pair (low, high); for {name!r}: {error}") from None


class BayesNetReport(PrivacyReport):
    """Report of a network whose steps are charged as one Gaussian release."""

    _more: ClassVar[tuple[str, ...]] = ()

    def _describe_releases(self) -> str:
        *selections, gaussian = (mechanism for mechanism, _ in self.mechanisms)
        steps = ["column counts", "pair scores", "clique tables", *self._more]
        listed = ", ".join(steps[:-1]) + (", and " if self._more else " and ") + steps[-1]
        names = "".join(f", and names of states by {mechanism}" for mechanism in selections)
        return f"{listed} released at the privacy cost of one table by {gaussian}{names}"


class MomentsReport(BayesNetReport):
    """Report of a network with second moments of numbers."""

    _more = ("second moments of numbers",)


class TargetReport(BayesNetReport):
    """Report of a network with an additive model of the target."""

    _more = ("tables and residual sums of the target",)


class TargetMomentsReport(BayesNetReport):
    """Report of a network with both."""

    _more = (*MomentsReport._more, *TargetReport._more)


def _check_cost(whole: GaussianMechanism, parts: Sequence[tuple[GaussianMechanism, float]]) -> None:
    """Check, without rounding, that releases of vectors of these norms cost at most one table."""
    if whole.is_exact:
        return
    costs = [(Fraction(norm) / Fraction(part.sigma)) ** 2 for part, norm in parts]
    # Not an assert statement, which `python -O` removes.
    if sum(costs) * Fraction(whole.sigma) ** 2 > 1:
        raise AssertionError("steps were about to use more than the whole budget")


class ReleaseSchedule:
    """Releases of a fit, one after the other, as parts of one that is charged before.

    The Gaussian release `whole` is divided over all steps; `selections` select the states of
    unlisted columns. A clique has at most `max_cells` cells. `refinements` has the number of
    refinements of each column of numbers. Second moments are released if there are several, but not
    too many. A model of the target gets `target_share`.
    """

    def __init__(
        self,
        whole: GaussianMechanism,
        selections: Sequence[SelectionMechanism],
        n_columns: int,
        max_cells: int,
        refinements: Sequence[int] = (),
        target_share: float = 0.0,
    ):
        has_moments = 2 <= len(refinements) <= MAX_MOMENT_COLUMNS
        moment_share = _MOMENT_SHARE if has_moments else 0.0
        self._n_refinements = sum(refinements)
        refinement_share = _REFINEMENT_SHARE if self._n_refinements else 0.0
        network_share = 1 - moment_share - target_share - refinement_share
        network = noise_for_share(whole, network_share)
        self._moments: GaussianMechanism | None = None
        if has_moments:
            self._moments = noise_for_share(whole, moment_share, _MOMENT_NORM)
        #: Releases of the model of the target; None if it gets no share.
        self.target: Releases | None = None
        if target_share > 0:
            part = noise_for_share(whole, target_share)
            self.target = Releases(part, ContributionBound(), n_columns - 1)
        parts = [(network, 1.0)]
        parts += [(self._moments, _MOMENT_NORM)] if self._moments is not None else []
        self._refinement = whole
        if self._n_refinements:
            self._refinement = noise_for_share(whole, refinement_share / self._n_refinements)
            parts += [(self._refinement, 1.0)] * self._n_refinements
        parts += [(self.target.whole, 1.0)] if self.target is not None else []
        _check_cost(whole, parts)
        columns, pairs, self._cliques = split_gaussian(network, _BUDGET_SHARES)
        self._column = split_gaussian(columns, [1.0] * n_columns)[0]
        self._pair = noise_for_distances(pairs, max(1, n_columns * (n_columns - 1) // 2))
        self._selections = selections
        self._max_cells = max_cells
        self._generator: NoiseGenerator | None = None
        self.joint = JointMechanism.from_mechanisms([*selections, whole])
        self.column_sigma = self._column.sigma
        self.pair_sigma = self._pair.sigma
        self._n_cliques = max(1, n_columns - 1)
        self._tails: GaussianMechanism | None = None
        # The smallest share of a clique, next to as many of the largest and as many columns.
        smallest = np.sqrt(1 + 2 * n_columns * max_cells**_CELL_EXPONENT)
        without_tails = self._cliques.sigma / np.sqrt(1 - _TAIL_SHARE)
        largest_noise = replace(self._cliques, sigma=without_tails * smallest)
        # Noise that cannot be drawn raises an error before the charge.
        moments = () if self._moments is None else (self._moments,)
        smaller = (self._column, self._pair, self._refinement, largest_noise, *moments)
        for mechanism in (whole, *selections, *smaller):
            mechanism.check_table(np.zeros(1), _GRID)

    def start(self, generator: NoiseGenerator | None) -> None:
        """Allow the releases, after the charge, with the generator of the noise."""
        self._generator = generator
        if self.target is not None:
            self.target.start(generator)

    def _add_noise(self, mechanism: GaussianMechanism, values: np.ndarray) -> np.ndarray:
        if mechanism.is_exact:
            return values
        # An assert statement would be removed by `python -O`.
        if self._generator is None:
            raise AssertionError("a step was about to be released before it was charged")
        return mechanism.noisy(values, self._generator, _GRID)

    def select_states(
        self, columns: Mapping[Hashable, UnlistedColumn]
    ) -> dict[Hashable, Categories]:
        """Release the states of unlisted columns."""
        return {
            name: select_categories(mechanism, column.codes, column.distinct, self._generator)
            for (name, column), mechanism in zip(columns.items(), self._selections, strict=True)
        }

    def release_columns(self, counts: Mapping[Hashable, np.ndarray]) -> dict[Hashable, Measurement]:
        """Release the counts of each column."""
        return {
            name: Measurement((name,), self._add_noise(self._column, each), self.column_sigma)
            for name, each in counts.items()
        }

    def release_numbers(
        self, columns: dict[Hashable, ReleasedColumn], table: EncodedTable, total: float
    ) -> dict[Hashable, Tail]:
        """Release the distribution of numbers within their bins, and long tails."""
        columns |= self._refine(columns, table, total)
        self._choose_moments(len(table.codes), total)
        tails = self._release_tails(columns, table.cells, total)
        columns |= {name: columns[name].with_tail(tail) for name, tail in tails.items()}
        return tails

    def _refine(
        self, columns: Mapping[Hashable, ReleasedColumn], table: EncodedTable, total: float
    ) -> dict[Hashable, ReleasedColumn]:
        """Release the distribution of numbers within their bins."""
        domains = {name: table.domains[name] for name in table.codes}
        # An assert statement would be removed by `python -O`.
        if sum(domain.n_refinements for domain in domains.values()) > self._n_refinements:
            raise AssertionError("more counts were about to be released than were planned")
        sigma = self._refinement.sigma
        least = max(_MIN_REFINED_DEVIATIONS * sigma, _MIN_REFINED_SHARE * total)
        refined = {}
        for name, domain in domains.items():
            ranks = domain.ranks(table.codes[name])
            search = Refinement(domain, columns[name].counts[:-1], ranks, least)
            for _ in range(domain.n_refinements):
                if search.is_done:
                    break
                search.update(self._add_noise(self._refinement, search.count()), sigma)
            refined[name] = replace(columns[name], domain=search.refined())
        return refined

    def release_distances(self, distances: np.ndarray) -> np.ndarray:
        """Release the distance of each pair of columns from independence."""
        return self._add_noise(self._pair, distances)

    @property
    def report_class(self) -> type[BayesNetReport]:
        """Report that names the steps that are released."""
        if self._moments is None:
            return BayesNetReport if self.target is None else TargetReport
        return MomentsReport if self.target is None else TargetMomentsReport

    @property
    def clique_sigma(self) -> float:
        """Approximate noise of the counts of a clique."""
        return float(self._cliques.sigma * np.sqrt(self._n_cliques))

    @property
    def number_sigmas(self) -> dict[str, float]:
        """Standard deviations of the noise of steps for numbers, if there are any."""
        refinement = self._refinement if self._n_refinements else None
        steps = {"parts": refinement, "tails": self._tails, "moments": self._moments}
        return {step: each.sigma for step, each in steps.items() if each is not None}

    def release_moments(self, moments: Moments, cells: Codes) -> np.ndarray:
        """Release the sums of the products of all records."""
        assert self._moments is not None
        n_columns = len(moments.values)
        return self._release_sums(
            self._moments,
            lambda cells: moments.products(moments.vectors(cells)),
            n_columns * (n_columns + 1) // 2,
            {name: cells[name] for name in moments.values},
        )

    def _choose_moments(self, n_numbers: int, total: float) -> None:
        """Add the share of second moments to that of cliques if noise would hide correlations."""
        if self._moments is None:
            return
        # Records are clipped to this number of variances in all columns together.
        noise = SQUARED_NORM * n_numbers * self._moments.sigma / total
        if noise > _MAX_CORRELATION_NOISE:
            precision = self._cliques.sigma**-2 + self._moments.sigma**-2
            self._cliques = replace(self._cliques, sigma=float(precision**-0.5 * _ROUND_UP))
            self._moments = None

    def _release_tails(
        self, columns: Mapping[Hashable, ReleasedColumn], cells: Codes, total: float
    ) -> dict[Hashable, Tail]:
        """Release the mean squares of columns with long tails, from the share of cliques."""
        if self._moments is None or self.clique_sigma > _MAX_TAIL_NOISE * total:
            return {}
        part, rest = split_gaussian(self._cliques, [_TAIL_SHARE, 1 - _TAIL_SHARE])
        part = replace(part, sigma=part.sigma * _MOMENT_NORM)
        tails = find_tails(columns, part.sigma, total)
        if not tails:
            return {}
        self._cliques, self._tails = rest, part
        chosen = {name: cells[name] for name in tails}
        sums = self._release_sums(
            part, lambda cells: clipped_squares(tails, cells), len(chosen), chosen
        )
        return {
            name: replace(tail, mean=each / total)
            for (name, tail), each in zip(tails.items(), sums.tolist(), strict=True)
            if each > _MIN_SQUARES * part.sigma  # otherwise the column keeps its counts
        }

    def _release_sums(
        self,
        mechanism: GaussianMechanism,
        vectors: Callable[[Codes], np.ndarray],
        n_entries: int,
        cells: Codes,
    ) -> np.ndarray:
        """Release the sums of a vector of each record."""
        n_records = len(next(iter(cells.values())))
        blocks = (
            (rows, vectors({name: each[rows] for name, each in cells.items()}))
            for rows in row_blocks(n_records, n_entries, _PRODUCTS_AT_ONCE)
        )
        one_state = ColumnBlock(0, [1], np.zeros(n_records, dtype=np.uint8))
        sums = sum_vectors(blocks, n_entries, [one_state], 1.0, UNWEIGHTED)[0]
        return self._add_noise(mechanism, sums)

    def release_cliques(
        self, cliques: Mapping[Clique, np.ndarray], columns: Mapping[Hashable, np.ndarray]
    ) -> tuple[dict[Clique, Measurement], dict[Hashable, Measurement]]:
        """Release the counts of cliques, and the counts of some columns once more."""
        names = [*cliques, *((name,) for name in columns)]
        counts = [*cliques.values(), *columns.values()]
        weights = [min(each.size, self._max_cells) ** _CELL_EXPONENT for each in counts]
        parts = split_gaussian(self._cliques, weights)
        released = [
            Measurement(nodes, self._add_noise(part, each), part.sigma)
            for nodes, part, each in zip(names, parts, counts, strict=True)
        ]
        again = dict(zip(columns, released[len(cliques) :], strict=True))
        return dict(zip(cliques, released, strict=False)), again


def grouped_counts(columns: Mapping, counts: Mapping) -> dict[Hashable, np.ndarray]:
    """Return the counts of columns with several categories in a group, which are counted again."""
    return {name: counts[name] for name in columns if columns[name].has_grouped_categories}


def estimate_total(columns: Iterable[Measurement]) -> float:
    """Return the number of records, as a weighted mean over columns of their sums."""
    counts = [column.values for column in columns]
    weights = np.array([1 / len(each) for each in counts])
    return max(1.0, float(weights @ [each.sum() for each in counts] / weights.sum()))


# Search -----------------------------------------------------------------------


def pair_distances(codes: Codes, shares: Mapping[Hashable, np.ndarray], total: float) -> np.ndarray:
    """Return the exact l1 distance of each pair's counts from those of independent columns.

    `shares` and `total` are released. Expected counts are rounded to whole numbers, so that
    distances are whole, exact, and change by no more than the counts do: docs/theory.md,
    section 17.
    """
    parts = [shares[name] for name in codes]
    blocks = column_blocks(list(codes.values()), [len(share) for share in parts])
    distances = np.zeros((len(parts), len(parts)))
    for i, first in enumerate(blocks):
        rows = slice(first.start, first.start + len(first.sizes))
        for k in range(i, len(blocks), _BLOCKS_AT_ONCE):
            chosen = blocks[k : k + _BLOCKS_AT_ONCE]
            counts = np.hstack([first.count_pairs(second) for second in chosen])
            columns = slice(chosen[0].start, chosen[-1].start + len(chosen[-1].sizes))
            expected = np.outer(np.concatenate(parts[rows]), np.concatenate(parts[columns]))
            errors = np.abs(counts - np.rint(total * expected))
            for axis, part in enumerate((rows, columns)):
                sizes = [len(share) for share in parts[part]]
                errors = np.add.reduceat(errors, np.cumsum([0, *sizes[:-1]]), axis=axis)
            distances[rows, columns] = errors
    return distances[np.triu_indices(len(parts), 1)]


def dependence_scores(
    noisy: np.ndarray, shares: Mapping[Hashable, np.ndarray], total: float
) -> np.ndarray:
    """Return a symmetric matrix of released distances minus those expected by chance.

    The mean of |x - m| is about sqrt(2 m / pi) for a count x with mean m.
    """
    parts = list(shares.values())
    scores, chance = np.zeros((2, len(parts), len(parts)))
    for i, first in enumerate(parts):
        for later, second in stacks_by_shape(parts[i + 1 :]):
            expected = total * (first[:, np.newaxis] * second[:, np.newaxis])
            sums = np.sqrt(2 / np.pi * expected).reshape(len(later), -1).sum(axis=1)
            chance[i, np.add(later, i + 1)] = sums
    upper = np.triu_indices(len(parts), 1)
    scores[upper] = noisy - chance[upper]
    return scores + scores.T


def learn_parents(
    columns: Sequence[Hashable],
    sizes: Mapping[Hashable, int],
    scores: np.ndarray,
    cell_cost: float,
    max_parents: int,
    max_cells: int,
    constraints: StructureConstraints,
) -> Parents:
    """Add one column after another, always the one with the largest gain.

    The parents of a column all lie in the family of an earlier one. Its gain is the sum of its
    scores with them, minus `cell_cost` for each cell of its table. So tables are small if noise
    is large, down to columns without parents. A family has at most `max_cells` cells, unless
    it is required.
    """
    search = _Search(columns, sizes, scores, cell_cost, max_cells, constraints)
    search.offer(())
    while search.remaining.any():
        family = search.add_best()
        for size in range(1, min(max_parents, len(family)) + 1):
            for subset in combinations(family, size):
                search.offer(subset)
    return {
        columns[i]: tuple(columns[parent] for parent in parents)
        for i, parents in search.families.items()
    }


class _Search:
    """Families so far, and the best parents that were offered to each remaining column.

    Columns are numbers here. Of equal gains, the parents that were offered first win.
    """

    def __init__(self, columns, sizes, scores, cell_cost, max_cells, constraints):
        number = {node: i for i, node in enumerate(columns)}
        self._scores = scores
        self._states = np.array([sizes[node] for node in columns], dtype=float)
        self._cell_cost, self._max_cells = cell_cost, max_cells
        self._allowed_scores = scores.copy()  # indexed by parent, child
        for parent, child in constraints.forbidden:
            self._allowed_scores[number[parent], number[child]] = -np.inf
        self._required = {
            number[child]: {number[parent] for parent in parents}
            for child, parents in constraints.required.items()
        }
        self._predecessor = {
            number[later]: number[earlier] for earlier, later in pairwise(constraints.order)
        }
        self._offers: dict[frozenset[int], int] = {}
        self._best_gain = np.full(len(columns), -np.inf)
        self._best_offer = np.zeros(len(columns), dtype=int)
        self.families: dict[int, tuple[int, ...]] = {}
        self.remaining = np.ones(len(columns), dtype=bool)

    def offer(self, parents: tuple[int, ...]) -> None:
        """Offer parents to all columns."""
        key = frozenset(parents)
        if key in self._offers:
            return
        self._offers[key] = len(self._offers)
        cells = prod(self._states[list(parents)]) * self._states
        gains = self._allowed_scores[list(parents)].sum(axis=0) - self._cell_cost * cells
        if parents:
            gains[cells > self._max_cells] = -np.inf
        for child, required in self._required.items():
            if not required <= key:
                gains[child] = -np.inf
        better = gains > self._best_gain
        self._best_gain[better] = gains[better]
        self._best_offer[better] = self._offers[key]

    def add_best(self) -> list[int]:
        """Add the remaining column with the largest gain, and return its family."""
        ready = self.remaining.copy()
        for later, earlier in self._predecessor.items():
            ready[later] &= not self.remaining[earlier]
        free = np.flatnonzero(ready)
        best = self._best_gain[free].max()
        if not self.families:  # start with one of the two columns that depend most on each other
            off_diagonal = np.where(np.eye(len(ready), dtype=bool), -np.inf, self._scores)
            chosen, parents = int(free[off_diagonal[free].max(axis=1).argmax()]), set()
        elif np.isneginf(best):  # only required parents remain, and their tables are too large
            chosen = int(free[0])
            parents = self._required[chosen]
        else:
            ties = free[self._best_gain[free] == best]
            chosen = int(ties[self._best_offer[ties].argmin()])
            parents = set(list(self._offers)[self._best_offer[chosen]])
        self.remaining[chosen] = False
        self.families[chosen] = tuple(sorted(parents, key=list(self.families).index))
        return [*self.families[chosen], chosen]
