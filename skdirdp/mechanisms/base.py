"""The base of mechanisms: public bounds, curves from worst cases, and the release of a table."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._messages import format_short
from .._random import noise_generator
from .._validation import check_choice, check_counts, check_real
from ..accounting.composition import PrivacyCurves
from ..accounting.worst_case import REVEALS_ALL, TABLE_RELATIONS, WorstCase, in_every_direction
from ..numerics.rows import is_whole, row_blocks
from .contribution import ContributionBound
from .noise import Noise, expected_divergence_of_reading
from .sampling import check_platform
from .table import CountTable

# Tables are drawn in blocks of rows that stay in the processor's cache, small ones together.
_BLOCK_CELLS = 1 << 17


@dataclass(frozen=True, kw_only=True, repr=False)
class Mechanism(PrivacyCurves):
    """A way to publish the rows of a table of counts as probabilities.

    Abstract: `DirichletMechanism`, `GaussianMechanism` and `LaplaceMechanism` are the ways
    there are. Values: a mechanism has no state, and two with equal parameters are equal.

    Parameters
    ----------
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether one record is exchanged for another, or added or removed. Or
        "replace_person", "add_remove_person": the same of a person, with all records of
        that person, to whom the bounds then apply.
    max_count, max_total : float
        Public bounds on one record's entries in the table. Without `max_total` a
        record touches a single cell, with a weight of at most `max_count`.

    Examples
    --------
    >>> from skdirdp.mechanisms import GaussianMechanism, Mechanism
    >>> mechanism = GaussianMechanism(sigma=10.0)
    >>> isinstance(mechanism, Mechanism), mechanism == GaussianMechanism(sigma=10.0)
    (True, True)
    """

    #: What estimators and `calibrate` call the mechanism.
    name: ClassVar[str]
    # Calibration compares mechanisms, so it stands above them and sets this itself.
    _calibrator: ClassVar[Callable[..., "Mechanism"]]

    adjacency: str = "replace"
    max_count: float = 1.0
    max_total: float | None = None

    def __post_init__(self):
        check_choice("adjacency", self.adjacency, TABLE_RELATIONS)
        rows = ContributionBound(self.max_count, self.max_total)
        object.__setattr__(self, "max_count", rows.max_count)
        object.__setattr__(self, "max_total", rows.max_total)

    def __repr__(self) -> str:
        """What the mechanism was given, its own parameters first; defaults are left out."""
        return self._describe(repr)

    def __str__(self) -> str:
        """The same for a reader, who needs four digits of a noise level and not all."""
        return self._describe(format_short)

    def _describe(self, show: Callable[[Any], str]) -> str:
        given = [
            f"{field.name}={show(getattr(self, field.name))}"
            for field in sorted(fields(self), key=lambda field: field.kw_only is True)
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    @property
    def contribution(self) -> ContributionBound:
        return ContributionBound(self.max_count, self.max_total)

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether no noise is added at all."""

    @abstractmethod
    def _noisy_worst_cases(self) -> Mapping[str, WorstCase]: ...

    @classmethod
    @abstractmethod
    def _draw(
        cls, requests: "Sequence[Request]", generator: np.random.Generator
    ) -> tuple[np.ndarray, ...]:
        """What is drawn for each count of all tables in turn; they are one-dimensional here."""

    @abstractmethod
    def _noisy_counts(self, grid: float, *drawn: np.ndarray) -> np.ndarray:
        """Counts with noise of mean 0, from what was drawn."""

    def _prepared(self, *drawn: np.ndarray) -> tuple[np.ndarray, ...]:
        """What `_probabilities` takes, from what was drawn."""
        return drawn

    @staticmethod
    @abstractmethod
    def _probabilities(*prepared: np.ndarray) -> np.ndarray:
        """Positive probabilities for each row of a two-dimensional table."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The variance of what was drawn, as a noisy count."""

    @property
    @abstractmethod
    def smoothing(self) -> float:
        """What is added to every count, in counts."""

    @abstractmethod
    def _divergence_as_drawn(self, table: CountTable) -> float:
        """`expected_divergence`, of a table that is not read any better."""

    def expected_divergence(self, table: CountTable) -> float:
        """Expected KL divergence of a published row from the true one.

        An average over a reference for the unknown counts; it sees no data, only
        the public description of the table.

        Parameters
        ----------
        table : CountTable
            The table to be released.

        Returns
        -------
        float
        """
        if not table.postprocess or self.is_exact:
            return self._divergence_as_drawn(table)
        return expected_divergence_of_reading(table, self.noise)

    @abstractmethod
    def _with_precision(self, precision: float) -> "Mechanism": ...

    @abstractmethod
    def _unbiased(self, release: np.ndarray, n_samples: float) -> np.ndarray:
        """`unbiased`, of a release with noise."""

    @abstractmethod
    def _limits(
        self,
        release: np.ndarray,
        first: np.ndarray,
        stop: np.ndarray,
        n_samples: float,
        confidence: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`limits`, of a release with noise."""

    @abstractmethod
    def _limits_with_total(
        self,
        noisy: np.ndarray,
        first: np.ndarray,
        stop: np.ndarray,
        n_samples: float,
        confidence: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`limits_from_noisy`, where the number of records is public."""

    @abstractmethod
    def _count_limits(
        self, sums: np.ndarray, n_cells: np.ndarray, tail: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Limits for the counts of so many cells whose noisy counts have these sums.

        Each is passed with probability `tail` at most.
        """

    def with_precision(self, precision: float) -> "Mechanism":
        """The same mechanism with noise that is so many times smaller.

        Parameters
        ----------
        precision : float
            Positive.

        Returns
        -------
        Mechanism
        """
        return self._with_precision(check_real("precision", precision, above=0))

    def unbiased(self, release: np.ndarray, n_samples: float) -> np.ndarray:
        """Estimated shares of the records in each cell, whose noise has mean 0.

        Parameters
        ----------
        release : ndarray of shape (n_categories,)
            One released row.
        n_samples : float
            The public number of records that the row counts.

        Returns
        -------
        ndarray of shape (n_categories,)
            They sum to 1, and some may be negative. For additive noise the mean is 0 up
            to terms that vanish as the records grow beside the noise.
        """
        if self.is_exact:
            return without_smoothing(release, self.smoothing, n_samples, len(release))
        return self._unbiased(release, n_samples)

    def limits(
        self,
        release: np.ndarray,
        first: np.ndarray,
        stop: np.ndarray,
        *,
        n_samples: float,
        confidence: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Limits that hold for the true shares of several runs of cells at once.

        Parameters
        ----------
        release : ndarray of shape (n_categories,)
            One released row.
        first, stop : ndarray of int of shape (n_runs,)
            Each run has the cells from `first` to before `stop`, one at least.
        n_samples : float
            The public number of records that the row counts.
        confidence : float in (0, 1)
            The probability that all limits hold, at least.

        Returns
        -------
        lower, upper : ndarray of shape (n_runs,)
        """
        check_real("confidence", confidence, above=0, below=1)
        if self.is_exact:
            exact = without_smoothing(
                sums_of_runs(release, first, stop),
                self.smoothing,
                n_samples,
                len(release),
                stop - first,
            )
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
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same as `limits`, from noisy counts instead of a released row.

        Parameters
        ----------
        noisy : ndarray of shape (n_categories,)
            With the noise of the mechanism.
        first, stop : ndarray of int of shape (n_runs,)
            Each run has the cells from `first` to before `stop`, one at least.
        n_samples : float or None
            The public number of records that were counted, or None where it is not public.
        confidence : float in (0, 1)
            The probability that all limits hold, at least.

        Returns
        -------
        lower, upper : ndarray of shape (n_runs,)
        """
        check_real("confidence", confidence, above=0, below=1)
        if n_samples is None:
            limits = self._limits_without_total(noisy, first, stop, confidence)
        else:
            limits = self._limits_with_total(noisy, first, stop, n_samples, confidence)
        # All cells hold all records, whatever the noise is.
        lower, upper = (np.where(stop - first < len(noisy), limit, 1.0) for limit in limits)
        return lower, upper

    def _limits_without_total(
        self, noisy: np.ndarray, first: np.ndarray, stop: np.ndarray, confidence: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """`limits_from_noisy`, where the number of records is not public."""
        # Each run has limits for its own count and for that of all other cells, on two sides.
        tail = (1 - confidence) / (4 * len(first))
        sums, n_cells = sums_of_runs(noisy, first, stop), stop - first
        least, most = self._count_limits(sums, n_cells, tail)
        others = self._count_limits(noisy.sum() - sums, len(noisy) - n_cells, tail)
        # A share x / (x + y) grows with x and falls with y.
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = np.where(least > 0, least / (least + others[1]), 0.0)
            upper = np.where(others[0] > 0, most / (most + others[0]), 1.0)
        return lower, upper

    @classmethod
    def calibrate(cls, **budget_and_sizes: Any) -> Any:
        """The mechanism of least expected divergence within a budget.

        Parameters
        ----------
        **budget_and_sizes
            The parameters of `skdirdp.mechanisms.calibrate`.

        Returns
        -------
        an instance of the class

        Examples
        --------
        >>> from skdirdp.accounting import Composition
        >>> from skdirdp.mechanisms import DirichletMechanism
        >>> m = DirichletMechanism.calibrate(
        ...     epsilon=1.0, delta=1e-5, releases=14, n_samples=34189, n_categories=10, n_rows=2
        ... )
        >>> Composition([(m, 14)]).epsilon(1e-5) <= 1.0
        True
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
            Non-negative; each row along the last axis becomes a distribution. The
            whole array is one table: a record changes it once, within `max_count`
            and `max_total`.
        random_state : None, int, Generator or RandomState
            None draws cryptographically secure noise.
        accountant : PrivacyAccountant, optional
            Charged for one release before any noise is drawn.
        label : str, optional
            What the charge is called in the accountant's history.

        Returns
        -------
        ndarray of the same shape
            Positive probabilities that sum to 1 along the last axis.

        Examples
        --------
        >>> from skdirdp.mechanisms import LaplaceMechanism
        >>> released = LaplaceMechanism(scale=2.0).release([[12, 0, 5], [3, 3, 0]])
        >>> released.shape, bool((released > 0).all())
        ((2, 3), True)
        """
        counts = check_counts(counts)
        self.check_table(counts)
        generator = None if self.is_exact else noise_generator(random_state)
        if accountant is not None:
            accountant.charge(self, releases=1, label=label)
        return self.draw(counts, generator)

    def check_table(self, counts: np.ndarray, grid: float | None = None) -> None:
        """Refuse a table that cannot be released as the guarantee assumes.

        Parameters
        ----------
        counts : ndarray of shape (..., n_categories)
            Finite and non-negative.
        grid : float, optional
            A public power of two of which all counts are multiples. By default the one that
            follows from the bounds.
        """
        if self.is_exact:
            return
        check_platform()  # which would else refuse to draw what was paid for
        grid = self.contribution.grid if grid is None else grid
        if counts.max() >= 2.0**53:
            raise ValueError(
                "counts must be below 2^53, from where floats do not hold every whole number; "
                "got a larger entry"
            )
        whole = is_whole(counts)
        if not whole and not is_whole(counts / grid):
            raise ValueError(
                f"counts must be multiples of {grid:g}, so that noise is exact: round what each "
                "record adds down to that before it is added"
            )
        self._check_table(counts, grid, whole=whole)

    def draw(
        self,
        counts: np.ndarray,
        generator: np.random.Generator | None,
        grid: float | None = None,
    ) -> np.ndarray:
        """The release itself, of a valid table that was paid for.

        Noise is an exact sample, rounded to a public grid: docs/sampling.md.

        Parameters
        ----------
        counts : ndarray of shape (..., n_categories)
            Checked before.
        generator : Generator or None
            None only for a mechanism that adds no noise.
        grid : float, optional
            As for `check_table`.

        Returns
        -------
        ndarray of the same shape
        """
        grid = self.contribution.grid if grid is None else grid
        return Mechanism.draw_all([Request(self, counts, grid)], generator)[0]

    @staticmethod
    def draw_all(
        requests: "Sequence[Request]", generator: np.random.Generator | None
    ) -> list[np.ndarray]:
        """The releases of several tables that were paid for, each as by `draw`.

        Noise of all is drawn at once, which takes little longer than that of one small table.

        Parameters
        ----------
        requests : sequence of Request
            Tables that were checked, each with the mechanism that was charged for it.
        generator : Generator or None
            None only where no mechanism adds noise.

        Returns
        -------
        list of ndarray of the shapes of the tables
            Probabilities, or noisy counts where those are requested.
        """
        released = [np.empty(request.counts.shape) for request in requests]
        for request, target in zip(requests, released, strict=True):
            if request.mechanism.is_exact:
                target[:] = request.mechanism._released_without_noise(request.counts)
        for (kind_of_mechanism, as_counts), batch in _noisy_batches(requests, released):
            assert generator is not None
            fill = _fill_counts if as_counts else _fill
            fill(kind_of_mechanism, batch, generator)
        return released

    @staticmethod
    def check_all(requests: "Sequence[Request]") -> None:
        """Refuse tables that cannot be released as guarantees assume, before they are paid for.

        They are looked at as `draw_all` draws them: those of one mechanism together, of which
        all or none are whole numbers.

        Parameters
        ----------
        requests : sequence of Request
        """
        for _, batch in _noisy_batches(requests, [request.counts for request in requests]):
            for request in _joined_runs(batch):
                request.mechanism.check_table(request.counts, request.grid)

    def _released_without_noise(self, counts: np.ndarray) -> np.ndarray:
        return smoothed_mean(counts, self.smoothing)

    def _check_table(self, counts: np.ndarray, grid: float, *, whole: bool) -> None:
        """Refuse a table outside what the mechanism can draw; `whole` numbers or not."""


class Request(NamedTuple):
    """A table that is to be drawn; see `Mechanism.draw` for the parts.

    With `as_counts` the noisy counts themselves are asked for, and not probabilities: what the
    guarantee was proved for, before anything is made of it.
    """

    mechanism: Mechanism
    counts: np.ndarray
    grid: float
    as_counts: bool = False


#: Rows of a table, and the place for what becomes of them; both two-dimensional.
_Part = tuple[Request, np.ndarray]


def _noisy_batches(
    requests: Sequence[Request], targets: Sequence[np.ndarray]
) -> Iterator[tuple[tuple[type[Mechanism], bool], list[_Part]]]:
    """What is drawn at once, by the kind of mechanism and whether counts are asked for."""
    noisy: dict[tuple[type[Mechanism], bool], list[_Part]] = {}
    for request, target in zip(requests, targets, strict=True):
        if not request.mechanism.is_exact:
            kind = (type(request.mechanism), request.as_counts)
            noisy.setdefault(kind, []).append((request, target))
    for kind, several in noisy.items():
        for batch in _batches(several):
            yield kind, batch


def _batches(requests: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Blocks of rows with the places for what becomes of them, several small ones at once."""
    batch: list[_Part] = []
    cells = 0
    for request, target in requests:
        for part, place in _blocks(request, target):
            if batch and cells + part.counts.size > _BLOCK_CELLS:
                yield batch
                batch, cells = [], 0
            batch.append((part, place))
            cells += part.counts.size
    if batch:
        yield batch


def _blocks(request: Request, target: np.ndarray) -> Iterable[_Part]:
    """Rows of a table, block by block; a small one is one as it is."""
    if request.counts.ndim == 2 and request.counts.size <= _BLOCK_CELLS:
        return [(request, target)]
    columns = request.counts.shape[-1]
    counts, target = request.counts.reshape(-1, columns), target.reshape(-1, columns)
    blocks = row_blocks(len(counts), columns, _BLOCK_CELLS)
    return ((request._replace(counts=counts[rows]), target[rows]) for rows in blocks)


def _fill(kind: type[Mechanism], batch: Sequence[_Part], generator: np.random.Generator) -> None:
    """Draw the tables of a batch, all by mechanisms of one kind, and put them in their places."""
    flat, pieces = _drawn(kind, batch, generator)
    drawn = [
        _joined(each)
        for each in zip(
            *(
                request.mechanism._prepared(*piece)
                for request, piece in zip(flat, pieces, strict=True)
            ),
            strict=True,
        )
    ]
    start = 0
    # Tables with rows of one length are normalised in one go too.
    for columns, parts in _runs(batch, lambda part: part.counts.shape[1]):
        targets = [target for _, target in parts]
        rows = sum(map(len, targets))
        stop = start + rows * columns
        found = kind._probabilities(
            *(values[start:stop].reshape(rows, columns) for values in drawn)
        )
        start = stop
        for target in targets:
            target[:], found = found[: len(target)], found[len(target) :]


def _fill_counts(
    kind: type[Mechanism], batch: Sequence[_Part], generator: np.random.Generator
) -> None:
    """The same, where noisy counts are asked for."""
    flat, pieces = _drawn(kind, batch, generator)
    found = _joined(
        [
            request.mechanism._noisy_counts(request.grid, *piece)
            for request, piece in zip(flat, pieces, strict=True)
        ]
    )
    for _, target in batch:
        target[:], found = found[: target.size].reshape(target.shape), found[target.size :]


def _drawn(
    kind: type[Mechanism], batch: Sequence[_Part], generator: np.random.Generator
) -> tuple[list[Request], list[tuple[np.ndarray, ...]]]:
    """Requests that follow each other and are alike as one, and what was drawn for each."""
    flat = _joined_runs(batch)
    drawn = kind._draw(flat, generator)
    pieces, start = [], 0
    for request in flat:
        stop = start + request.counts.size
        pieces.append(tuple(each[start:stop] for each in drawn))
        start = stop
    return flat, pieces


def _joined_runs(batch: Sequence[_Part]) -> list[Request]:
    return [
        Request(mechanism, _joined([part.counts.reshape(-1) for part, _ in parts]), grid)
        for (mechanism, grid), parts in _runs(batch, lambda part: (part.mechanism, part.grid))
    ]


def _runs(batch: Sequence[_Part], key: Callable[[Request], Any]) -> list[tuple[Any, list[_Part]]]:
    """Parts that follow each other and are alike."""
    return [(value, list(parts)) for value, parts in groupby(batch, lambda part: key(part[0]))]


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def smoothed_mean(counts: np.ndarray, smoothing: float) -> np.ndarray:
    """``(x + s) / sum(x + s)`` along the last axis; an empty row without smoothing is uniform."""
    weights = np.add(counts, smoothing, dtype=float)
    total = weights.sum(axis=-1, keepdims=True)
    empty = total == 0
    if empty.any():
        weights = np.where(empty, 1.0, weights)
        total = weights.sum(axis=-1, keepdims=True)
    weights /= total
    return weights


def without_smoothing(
    mean: np.ndarray,
    smoothing: float,
    n_samples: float,
    n_categories: int,
    n_cells: np.ndarray | int = 1,
) -> np.ndarray:
    """``x / N`` from smoothed means of counts x that add up to N, or from sums of some cells."""
    s = smoothing / n_samples
    return mean * (1 + n_categories * s) - n_cells * s


def sums_of_runs(row: np.ndarray, first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """The sums of the cells from `first` to before `stop`."""
    below = np.concatenate([[0.0], np.cumsum(row)])
    return below[stop] - below[first]


def normalise(weights: np.ndarray) -> np.ndarray:
    """Divide rows of positive weights by their sums, in place; nothing underflows to 0."""
    weights /= row_sums(weights)[:, np.newaxis]
    return np.maximum(weights, np.finfo(float).tiny, out=weights)


def row_sums(table: np.ndarray) -> np.ndarray:
    """Sums along the rows; for short rows many times faster than `ndarray.sum`."""
    if table.shape[1] > 16:
        return table.sum(axis=1)
    total = table[:, 0].copy()
    for column in range(1, table.shape[1]):
        total += table[:, column]
    return total
