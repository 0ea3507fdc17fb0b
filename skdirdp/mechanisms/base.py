"""Base class of mechanisms: public bounds, privacy curves, and the release of tables."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._messages import format_short
from .._random import NoiseGenerator, noise_generator
from .._validation import check_choice, check_counts, check_integer, check_real
from ..accounting.composition import MAX_RELEASES, Composition, PrivacyCurves, same_adjacency
from ..accounting.worst_case import REVEALS_ALL, TABLE_RELATIONS, WorstCase, in_every_direction
from ..numerics.rows import is_whole, row_blocks
from .sampling import check_platform
from .tables import ContributionBound, CountTable, Noise, postprocessed_divergence

# Tables are drawn in blocks of rows that fit into the processor's cache, small ones together.
_BLOCK_CELLS = 1 << 17

Limits = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True, repr=False)
class Mechanism(PrivacyCurves):
    """Abstract base class of mechanisms that publish rows of counts as probabilities.

    Parameters
    ----------
    adjacency : {"replace", "add_remove", "replace_person", "add_remove_person"}, default="replace"
        Whether neighbouring data sets differ by replacing one record, or by adding or removing
        one. With "replace_person" or "add_remove_person" they differ by all records of a person.
    max_count, max_total : float
        Public bounds on the contribution of one record or person to the table. Without `max_total`
        a record contributes to a single cell, with a weight of at most `max_count`.

    Examples
    --------
    >>> from skdirdp.mechanisms import GaussianMechanism, Mechanism
    >>> mechanism = GaussianMechanism(sigma=10.0)
    >>> isinstance(mechanism, Mechanism), mechanism == GaussianMechanism(sigma=10.0)
    (True, True)
    """

    #: Name of the mechanism in estimators and in `calibrate`.
    name: ClassVar[str]
    # `calibration` imports the mechanisms that it compares, and sets this attribute.
    _calibrator: ClassVar[Callable[..., "Mechanism"]]

    adjacency: str = "replace"
    max_count: float = 1.0
    max_total: float | None = None

    def __post_init__(self):
        check_choice("adjacency", self.adjacency, TABLE_RELATIONS)
        bound = ContributionBound(self.max_count, self.max_total)
        object.__setattr__(self, "max_count", bound.max_count)
        object.__setattr__(self, "max_total", bound.max_total)

    def __repr__(self) -> str:
        return self._describe(repr)

    def __str__(self) -> str:
        return self._describe(format_short)

    def _describe(self, show: Callable[[Any], str]) -> str:
        """Return the parameters that differ from their defaults, the mechanism's own first."""
        given = [
            f"{field.name}={show(getattr(self, field.name))}"
            for field in sorted(fields(self), key=lambda field: field.kw_only is True)
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    @property
    def contribution(self) -> ContributionBound:
        """Bound on the entries of one record."""
        return ContributionBound(self.max_count, self.max_total)

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether no noise is added."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """Distribution of the noise added to a count."""

    @property
    @abstractmethod
    def smoothing(self) -> float:
        """Number that is added to every count."""

    @abstractmethod
    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]: ...

    @classmethod
    @abstractmethod
    def _draw(
        cls, requests: "Sequence[Request]", generator: NoiseGenerator
    ) -> tuple[np.ndarray, ...]:
        """Draw the noisy cells of several one-dimensional tables, concatenated."""

    @abstractmethod
    def _noisy_counts(self, grid: float, *drawn: np.ndarray) -> np.ndarray:
        """Return counts with noise of mean 0."""

    def _prepare(self, *drawn: np.ndarray) -> tuple[np.ndarray, ...]:
        return drawn

    @staticmethod
    @abstractmethod
    def _probabilities(*prepared: np.ndarray) -> np.ndarray:
        """Return positive probabilities for each row of a two-dimensional table."""

    def _check_table(self, counts: np.ndarray, grid: float, *, whole: bool) -> None:
        """Raise an error if the mechanism cannot release a table.

        `whole` states whether all counts are integers.
        """

    def _released_without_noise(self, counts: np.ndarray) -> np.ndarray:
        return smoothed_mean(counts, self.smoothing)

    @abstractmethod
    def _divergence_as_drawn(self, table: CountTable) -> float:
        """Return the expected divergence of a table that is not post-processed."""

    @abstractmethod
    def _with_precision(self, precision: float) -> "Mechanism": ...

    @abstractmethod
    def _unbiased(self, release: np.ndarray, n_samples: float) -> np.ndarray: ...

    @abstractmethod
    def _limits(self, release, first, stop, n_samples, confidence) -> Limits: ...

    @abstractmethod
    def _limits_with_total(self, noisy, first, stop, n_samples, confidence) -> Limits: ...

    @abstractmethod
    def _count_limits(self, sums: np.ndarray, n_cells: np.ndarray, tail: float) -> Limits:
        """Return limits for sums of counts; each fails with probability at most `tail`."""

    def expected_divergence(self, table: CountTable) -> float:
        """Return the expected KL divergence between a published row and the true row.

        Parameters
        ----------
        table : CountTable
            Public description of the table. Its rows are assumed to follow the reference
            distribution.
        """
        if not table.postprocess or self.is_exact:
            return self._divergence_as_drawn(table)
        return postprocessed_divergence(
            table.n_categories, table.row_total, self.noise, table.min_smoothing
        )

    def with_precision(self, precision: float) -> "Mechanism":
        """Return the mechanism with its noise scale divided by `precision`.

        Parameters
        ----------
        precision : float
            Positive factor.
        """
        return self._with_precision(check_real("precision", precision, above=0))

    def unbiased(self, release: np.ndarray, n_samples: float) -> np.ndarray:
        """Return approximately unbiased estimates of the share of records in each cell.

        Parameters
        ----------
        release : ndarray of shape (n_categories,)
            A released row.
        n_samples : float
            Public number of records in the row.
        """
        if self.is_exact:
            return remove_smoothing(release, self.smoothing, n_samples, len(release))
        return self._unbiased(release, n_samples)

    def limits(
        self,
        release: np.ndarray,
        first: np.ndarray,
        stop: np.ndarray,
        *,
        n_samples: float,
        confidence: float,
    ) -> Limits:
        """Return simultaneous confidence limits (lower, upper) for the shares of runs of cells.

        Parameters
        ----------
        release : ndarray of shape (n_categories,)
            A released row.
        first, stop : ndarray of int of shape (n_runs,)
            A run consists of the cells ``first`` to ``stop - 1`` and contains at least one cell.
        n_samples : float
            Public number of records in the row.
        confidence : float in (0, 1)
            Minimum probability that all limits hold.
        """
        check_real("confidence", confidence, above=0, below=1)
        if self.is_exact:
            released, n_cells = sums_of_runs(release, first, stop), stop - first
            exact = remove_smoothing(released, self.smoothing, n_samples, len(release), n_cells)
            return exact, exact
        return self._limits(release, first, stop, n_samples, confidence)

    def limits_from_noisy(
        self,
        noisy: np.ndarray,
        first: np.ndarray,
        stop: np.ndarray,
        *,
        n_samples: float | None,
        confidence: float,
    ) -> Limits:
        """Return the same limits as `limits`, from noisy counts instead of a released row.

        Parameters
        ----------
        noisy : ndarray of shape (n_categories,)
            Counts with the noise of the mechanism.
        first, stop, confidence
            As in `limits`.
        n_samples : float or None
            Public number of counted records. None if it is not public.
        """
        check_real("confidence", confidence, above=0, below=1)
        n_cells = stop - first
        if n_samples is not None:
            lower, upper = self._limits_with_total(noisy, first, stop, n_samples, confidence)
        else:
            # Each run needs two limits for its own count and two for the count of other cells.
            tail = (1 - confidence) / (4 * len(first))
            sums = sums_of_runs(noisy, first, stop)
            least, most = self._count_limits(sums, n_cells, tail)
            others = self._count_limits(noisy.sum() - sums, len(noisy) - n_cells, tail)
            # A share x / (x + y) increases with x and decreases with y.
            with np.errstate(divide="ignore", invalid="ignore"):
                lower = np.where(least > 0, least / (least + others[1]), 0.0)
                upper = np.where(others[0] > 0, most / (most + others[0]), 1.0)
        # A run of all cells contains all records, whatever the noise is.
        partial = n_cells < len(noisy)
        return np.where(partial, lower, 1.0), np.where(partial, upper, 1.0)

    @classmethod
    def calibrate(cls, **budget_and_sizes: Any) -> Any:
        """Return the mechanism with the smallest expected divergence within a budget.

        Parameters
        ----------
        **budget_and_sizes
            The parameters of `skdirdp.mechanisms.calibrate`.
        """
        return cls._calibrator(cls.name, **budget_and_sizes)

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        if self.is_exact:
            return in_every_direction(self.adjacency, REVEALS_ALL)
        return self._noisy_worst_cases()

    def release(
        self,
        counts: ArrayLike,
        random_state: Any = None,
        *,
        accountant: Any = None,
        label: str | None = None,
    ) -> np.ndarray:
        """Publish a table of counts.

        Parameters
        ----------
        counts : array-like of shape (..., n_categories)
            Non-negative. Each row along the last axis becomes a distribution. The whole array is
            one table: a record contributes at most `max_count` per cell and `max_total` in total.
        random_state : None, int, Generator or RandomState
            If None, the noise is cryptographically secure.
        accountant : PrivacyAccountant, optional
            Accountant that is charged for one release before noise is drawn.
        label : str, optional
            Name of the charge in the accountant's history.

        Returns
        -------
        ndarray of the same shape
            Positive probabilities that sum to 1 along the last axis.
        """
        counts = check_counts(counts)
        self.check_table(counts)
        generator = None if self.is_exact else noise_generator(random_state)
        if accountant is not None:
            accountant.charge(self, releases=1, label=label)
        return self.draw(counts, generator)

    def check_table(self, counts: np.ndarray, grid: float | None = None) -> None:
        """Raise an error if a table cannot be released as the guarantee assumes.

        Parameters
        ----------
        counts : ndarray of shape (..., n_categories)
            Finite and non-negative.
        grid : float, optional
            Public power of two that divides all counts. By default it follows from the bounds.
        """
        if self.is_exact:
            return
        check_platform()  # an unsuitable platform must raise before the accountant is charged
        grid = self.contribution.grid if grid is None else grid
        if counts.max() >= 2.0**53:
            raise ValueError(
                "counts must be below 2^53, because floats do not represent every larger whole "
                "number; got a larger entry"
            )
        whole = is_whole(counts)
        if not whole and not is_whole(counts / grid):
            raise ValueError(
                f"counts must be multiples of {grid:g} for exact noise: round the contribution of "
                "each record down to such a multiple before adding it"
            )
        self._check_table(counts, grid, whole=whole)

    def draw(
        self, counts: np.ndarray, generator: NoiseGenerator | None, grid: float | None = None
    ) -> np.ndarray:
        """Draw the release of a table that has been checked and accounted for.

        Parameters
        ----------
        counts : ndarray of shape (..., n_categories)
            Counts that passed `check_table`.
        generator : Generator or None
            None only if the mechanism adds no noise.
        grid : float, optional
            As in `check_table`.
        """
        grid = self.contribution.grid if grid is None else grid
        return Mechanism.draw_all([Request(self, counts, grid)], generator)[0]

    @staticmethod
    def draw_all(
        requests: "Sequence[Request]", generator: NoiseGenerator | None
    ) -> list[np.ndarray]:
        """Draw the releases of several tables that have been checked and accounted for.

        Parameters
        ----------
        requests : sequence of Request
            Tables with their mechanisms. Small ones are drawn together.
        generator : Generator or None
            None only if no mechanism adds noise.
        """
        released = [np.empty(request.counts.shape) for request in requests]
        for request, target in zip(requests, released, strict=True):
            if request.mechanism.is_exact:
                target[:] = request.mechanism._released_without_noise(request.counts)
        for batch in _batches(requests, released):
            assert generator is not None
            _draw_batch(batch, generator)
        return released


class Request(NamedTuple):
    """A table to be released by a mechanism."""

    mechanism: Mechanism
    counts: np.ndarray
    grid: float  # public power of two that divides all counts
    as_counts: bool = False  # whether to draw noisy counts instead of probabilities


#: Two-dimensional blocks of rows, each with the array that the result is written to.
_Batch = list[tuple[Request, np.ndarray]]


def _batches(requests: Sequence[Request], targets: Sequence[np.ndarray]) -> Iterator[_Batch]:
    """Yield batches that are drawn together, each with mechanisms of a single type."""
    kinds: dict[tuple[type[Mechanism], bool], _Batch] = {}
    for request, target in zip(requests, targets, strict=True):
        if request.mechanism.is_exact:
            continue
        blocks = kinds.setdefault((type(request.mechanism), request.as_counts), [])
        columns = request.counts.shape[-1]
        counts, target = request.counts.reshape(-1, columns), target.reshape(-1, columns)
        for rows in row_blocks(len(counts), columns, _BLOCK_CELLS):
            blocks.append((request._replace(counts=counts[rows]), target[rows]))
    for blocks in kinds.values():
        batch: _Batch = []
        n_cells = 0
        for request, target in blocks:
            if batch and n_cells + request.counts.size > _BLOCK_CELLS:
                yield batch
                batch, n_cells = [], 0
            batch.append((request, target))
            n_cells += request.counts.size
        if batch:
            yield batch


def _join_equal(batch: _Batch) -> list[Request]:
    """Concatenate consecutive blocks of equal mechanisms, as one-dimensional tables."""
    joined = []
    for _, run in groupby(batch, lambda block: (block[0].mechanism, block[0].grid)):
        requests = [request for request, _ in run]
        counts = np.concatenate([request.counts.reshape(-1) for request in requests])
        joined.append(requests[0]._replace(counts=counts))
    return joined


def check_requests(requests: Sequence[Request]) -> None:
    """Raise an error if a table cannot be released as the guarantee assumes."""
    # Check the batches of `draw_all`, because batches with fractional counts need more bits.
    for batch in _batches(requests, [request.counts for request in requests]):
        for request in _join_equal(batch):
            request.mechanism.check_table(request.counts, request.grid)


def _draw_batch(batch: _Batch, generator: NoiseGenerator) -> None:
    """Draw all blocks of a batch at once and write the results to their targets."""
    requests = _join_equal(batch)
    kind, as_counts = type(requests[0].mechanism), requests[0].as_counts
    drawn = kind._draw(requests, generator)
    prepared: list[tuple[np.ndarray, ...]] = []
    start = 0
    for mechanism, counts, grid, _ in requests:
        cells = [array[start : start + counts.size] for array in drawn]
        if as_counts:
            prepared.append((mechanism._noisy_counts(grid, *cells),))
        else:
            prepared.append(mechanism._prepare(*cells))
        start += counts.size
    values = [np.concatenate(arrays) for arrays in zip(*prepared, strict=True)]
    start = 0
    # Consecutive blocks with rows of equal length are normalised together.
    for columns, run in groupby(batch, lambda block: block[1].shape[1]):
        targets = [target for _, target in run]
        n_rows = sum(map(len, targets))
        stop = start + n_rows * columns
        rows = [array[start:stop].reshape(n_rows, columns) for array in values]
        result = rows[0] if as_counts else kind._probabilities(*rows)
        start = stop
        for target in targets:
            target[:], result = result[: len(target)], result[len(target) :]


@dataclass(frozen=True)
class JointMechanism(PrivacyCurves):
    """Several mechanisms whose releases are charged together.

    Its dominating pairs are the products of those of its parts (docs/theory.md, section 1).

    Parameters
    ----------
    parts : tuple of (mechanism, number of releases)
        All mechanisms have the same adjacency.

    Examples
    --------
    >>> from skdirdp.mechanisms import DirichletMechanism, JointMechanism
    >>> prior, features = DirichletMechanism(0.1, 4.0), DirichletMechanism(0.05, 4.0)
    >>> JointMechanism(((prior, 1), (features, 13))).releases
    14
    """

    parts: tuple[tuple[Mechanism, int], ...]

    def __post_init__(self):
        adjacency, parts = None, []
        for mechanism, count in self.parts:
            count = check_integer("releases", count, at_least=1, at_most=MAX_RELEASES)
            parts.append((mechanism, count))
            adjacency = same_adjacency(mechanism, adjacency)
        object.__setattr__(self, "parts", tuple(parts))

    def __str__(self) -> str:
        return " and ".join(f"{count} x {mechanism}" for mechanism, count in self.parts)

    @classmethod
    def from_mechanisms(cls, mechanisms: Iterable[Mechanism]) -> "JointMechanism":
        """Build a joint mechanism with one release per mechanism; equal ones become one part.

        Parameters
        ----------
        mechanisms : iterable of Mechanism
            Mechanisms of the same adjacency.
        """
        return cls(tuple(Counter(mechanisms).items()))

    def as_charge(self) -> "tuple[Mechanism | JointMechanism, int]":
        """Return the only part, or the joint mechanism itself with one release."""
        return self.parts[0] if len(self.parts) == 1 else (self, 1)

    @property
    def adjacency(self) -> str:
        """Adjacency of all parts."""
        return self.parts[0][0].adjacency

    @property
    def releases(self) -> int:
        """Number of released tables."""
        return sum(count for _, count in self.parts)

    def _worst_cases(self) -> Mapping[str, WorstCase]:
        return Composition(self.parts).worst_cases()


def smoothed_mean(counts: np.ndarray, smoothing: float) -> np.ndarray:
    """Return ``(x + s) / sum(x + s)`` along the last axis; uniform for an all-zero row."""
    weights = np.add(counts, smoothing, dtype=float)
    total = weights.sum(axis=-1, keepdims=True)
    if not total.all():
        weights = np.where(total == 0, 1.0, weights)
        total = weights.sum(axis=-1, keepdims=True)
    weights /= total
    return weights


def remove_smoothing(mean, smoothing: float, n_samples: float, n_categories: int, n_cells=1):
    """Return ``x / N`` from a smoothed mean.

    x is a count, or a sum of `n_cells` counts, and N is the total.
    """
    s = smoothing / n_samples
    return mean * (1 + n_categories * s) - n_cells * s


def sums_of_runs(row: np.ndarray, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the sums of the cells from `first` up to, but not including, `stop`."""
    below = np.concatenate([[0.0], np.cumsum(row)])
    return below[stop] - below[first]


def normalise(weights: np.ndarray) -> np.ndarray:
    """Divide rows of positive weights by their sums, in place, without underflow to 0."""
    # For short rows, adding columns is much faster than `ndarray.sum`.
    sums = weights.sum(axis=1) if weights.shape[1] > 16 else reduce(np.add, weights.T)
    weights /= sums[:, np.newaxis]
    return np.maximum(weights, np.finfo(float).tiny, out=weights)
