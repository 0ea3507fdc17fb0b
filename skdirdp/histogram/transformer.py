"""A private discretizer, and the private histogram that it rests on."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._contributions import check_given_counts
from .._messages import errors_without_data, warn
from .._persons import select_rows
from .._random import sampling_generator
from .._sklearn_compat import Interval, StrOptions, _check_feature_names_in, _fit_context
from .._validation import by_column, check_cells, check_integer, check_real
from ..base import CountingEstimator, Release, ReleaseContext, ReleasePlan
from ..engines import TableCounts, lazy_for_dask, open_table
from ..mechanisms.tables import CountTable
from ..numerics.rows import row_blocks
from ..records import as_numbers
from .counting import BinCounter, count_columns
from .grid import (
    BLOCK_ENTRIES,
    FINE_SCALES,
    FineGrid,
    assign_bins,
    fine_grid,
    observed_bounds,
)
from .inputs import (
    bins_of_onehot,
    check_categories,
    public_bins,
    public_bounds,
    public_sizes,
)
from .quantiles import quantile_borders
from .released import Histogram, NoisyHistogram, ReleasedHistogram

_FLOATS = (np.float64, np.float32)
# scikit-learn merges bins that are narrower than this.
_NARROWEST = 1e-8
# The edges of the one bin of a constant feature, as in scikit-learn.
_EVERYTHING = np.array([-np.inf, np.inf])


class DirichletHistogramTransformer(TransformerMixin, CountingEstimator):
    """Private bins for numeric columns; drops in for `KBinsDiscretizer`.

    `fit` counts each feature on a fine grid that is chosen from public bounds, and
    releases each of these histograms once. Quantile edges, densities, the CDF and
    samples are all read from the release, and cost nothing more.

    Parameters
    ----------
    n_bins : int or array-like of shape (n_features,), default=10
        The number of bins of all features, or of each; at least 2. Not used for
        categorical features. With a finite `epsilon` there are exactly as many, however
        the records lie: some may be empty.
    encode : {"onehot", "onehot-dense", "ordinal", "density", "cdf"}, default="onehot"
        The first three as in `KBinsDiscretizer`. "density" gives the estimated
        probability density at the value, which is constant within each of the `n_bins`
        bins; "cdf" the estimated share of values below it: a private quantile
        transform, monotone and within [0, 1].
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of about equally many records, or of equal width. A value that many records
        share fills a bin by itself, and the others are smaller.
    bounds : (low, high), or array-like or dict of such pairs, one per feature, default=None
        Public bounds on all features, or on each, in order or by name; None, as a whole or
        for a feature, takes them from the data, with a warning. Values beyond fall into the
        end bins.
    n_categories : array-like of shape (n_features,) or dict, default=None
        For each feature, in order or by name, None, or the number of its categories if it
        holds integer codes from 0; each category is a bin then. An int makes all features
        categorical.
    n_fine_bins : int, default=512
        The number of bins of the released histogram of a numeric feature. Quantile bins
        are made of these, so it must be at least `n_bins`.
    fine_scale : {"mixed", "linear", "symlog"}, default="mixed"
        How their borders are spread between the bounds: evenly, evenly in a symmetric
        logarithm of the value, or half of each.
    epsilon : float, default=1.0
        The budget of one `fit`. Infinite for no noise: the bins are then those of
        `KBinsDiscretizer`, which merges narrow ones.
    delta : float, default=1e-5
        The whole fit is (epsilon, delta)-differentially private. Laplace noise takes 0.
    order : float, default=None
        Given, the fit is (order, epsilon)-RDP instead, and `delta` is not used.
    mechanism : {"dirichlet", "gaussian", "laplace", "auto"}, default="dirichlet"
        What draws the noise; "auto" takes the one of least expected KL divergence for
        the public sizes and the budget.
    calibration : {"exact", "algorithm1", "tcdp"}, default="exact"
        How the noise is chosen; the last two reproduce the papers.
    postprocess : bool, default=True
        Whether noisy counts are released and post-processed, at no privacy cost: the Dirichlet
        prior is subtracted, and the CDF is made monotone. False releases the drawn
        probabilities and corrects their bias. The noise is calibrated for the choice.
    adjacency : {"replace", "add_remove"}, default="replace"
        Whether a neighbouring data set has one record replaced, or one more or fewer.
    n_samples : float, default=None
        A public number of records, for which the noise is chosen. With
        `postprocess=False` it also corrects the bias. None takes the actual one, which is
        public under replacement only.
    max_rows : int, default=1
        A public bound on the records of one person, who is then protected with all of them.
        Given `groups`, `fit` counts no more; otherwise it is a declaration.
    accountant : PrivacyAccountant, default=None
        Charged by every fit before any noise is drawn.
    label : str, default=None
        What the accountant's history calls the fit; by default, the name of the class.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographically secure noise. Anything else is reproducible, and
        whoever knows it can remove the noise.

    Attributes
    ----------
    bin_edges_ : ndarray of ndarray of shape (n_features,)
        The edges of the bins; those of a categorical feature lie between the codes.
    n_bins_ : ndarray of shape (n_features,)
        The number of bins of each feature: `n_bins`, or that of its categories.
    histogram_ : list of ndarray of shape (number of fine bins,)
        The normalised histogram of each feature: the release, read as a distribution.
    fine_edges_ : list of ndarray of shape (number of fine bins + 1,)
        The edges of its bins.
    release_ : list of ndarray of shape (number of fine bins,)
        What the mechanism drew: noisy counts, of which some may be negative, or
        probabilities (`postprocess=False`, or an infinite `epsilon`).
    privacy_ : PrivacyReport
        What was guaranteed.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    The number of columns that `transform` gives follows from parameters alone, so that
    the noise of a next step does too. Without privacy, at infinite `epsilon`, it may be
    smaller, as in `KBinsDiscretizer`; a constant feature has one bin then.

    Bounds that are taken from the data are moved apart where there would be no room for
    the bins between them: those of a constant feature c to c - h and c + h, with
    h = max(1, abs(c)) / 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skdirdp.histogram import DirichletHistogramTransformer
    >>> X = np.random.default_rng(0).lognormal(mean=8, size=(20_000, 1))
    >>> binner = DirichletHistogramTransformer(4, encode="ordinal", bounds=(0, 1e6))
    >>> bins = binner.fit_transform(X)
    >>> shares = np.bincount(bins[:, 0].astype(int)) / len(X)
    >>> bool(np.all(abs(shares - 0.25) < 0.05))
    True
    >>> binner.privacy_.releases
    1
    >>> bool(binner.cdf_error(confidence=0.95)[0] < 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CountingEstimator._parameter_constraints,
        "n_bins": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "encode": [StrOptions({"onehot", "onehot-dense", "ordinal", "density", "cdf"})],
        "strategy": [StrOptions({"uniform", "quantile"})],
        "bounds": [None, "array-like", dict],
        "n_categories": [None, "array-like", dict, Interval(Integral, 1, None, closed="left")],
        "n_fine_bins": [Interval(Integral, 2, None, closed="left")],
        "fine_scale": [StrOptions(set(FINE_SCALES))],
        "postprocess": ["boolean"],
    }

    def __init__(
        self,
        n_bins=10,
        *,
        encode="onehot",
        strategy="quantile",
        bounds=None,
        n_categories=None,
        n_fine_bins=512,
        fine_scale="mixed",
        epsilon=1.0,
        delta=1e-5,
        order=None,
        mechanism="dirichlet",
        calibration="exact",
        postprocess=True,
        adjacency="replace",
        n_samples=None,
        max_rows=1,
        accountant=None,
        label=None,
        random_state=None,
    ):
        self.n_bins = n_bins
        self.encode = encode
        self.strategy = strategy
        self.bounds = bounds
        self.n_categories = n_categories
        self.n_fine_bins = n_fine_bins
        self.fine_scale = fine_scale
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.mechanism = mechanism
        self.calibration = calibration
        self.postprocess = postprocess
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_rows = max_rows
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    # Fitting -----------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, groups=None):
        """Count, and release the histogram of each feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or lazy frame
            Finite numbers. What is not in memory is counted where it is: docs/scale.md says
            which tables can be.
        y : ignored
        groups : array-like of shape (n_samples,), or str, default=None
            The person that each record is of, by whole numbers or strings, or the name of the
            column that says so. Only the first `max_rows` records of each are counted. None if
            no person has more.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            table = open_table(X, groups=groups)
            if table.in_memory:
                X = self._validated(table.part.X, reset=True)
                counted = select_rows(table.part.groups, len(X), self.max_rows)
                X = counted.take(X)
                n_bins = public_bins(self.n_bins, X.shape[1]).tolist()
                sizes = self._public_sizes(X.shape[1])
                check_categories(X, sizes)
                grids, leaks = self._grids(X, n_bins, sizes)
                counts = TableCounts(counted, count_columns(X, sizes, grids))
            else:
                self._take_columns(table.sample)
                self._check_public(table.kind)
                sizes, grids = self._public_bins()
                counts = table.count(BinCounter(self._for_workers(), sizes, grids))
                X, leaks = None, []
            self._release_counts(context, counts, sizes, grids, leaks, X)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self, tables, *, n_samples):
        """Release histograms that are counted already.

        That each record, or each of a person's `max_rows`, is in one bin of each feature is
        what you say: nothing can check it here.

        Parameters
        ----------
        tables : list of array-like, or dict
            For each feature, in order or by name, the number of records in each of its fine
            bins, or categories. `fine_bins` says which those are.
        n_samples : int
            The number of records that were counted.

        Returns
        -------
        self

        Examples
        --------
        >>> from skdirdp import DirichletHistogramTransformer
        >>> bins = DirichletHistogramTransformer(
        ...     2, bounds=(0, 4), n_fine_bins=4, fine_scale="linear"
        ... )
        >>> bins.fine_bins(1)
        [array([0., 1., 2., 3., 4.])]
        >>> bins.fit_counts([[400, 100, 300, 200]], n_samples=1000).n_bins_
        array([2])
        """
        with self._fitting() as context:
            names = list(tables) if isinstance(tables, Mapping) else None
            given = list(tables.values()) if isinstance(tables, Mapping) else list(tables)
            self._name_columns(names if names is not None else len(given))
            self._check_public("given as counts")
            sizes, grids = self._public_bins()
            counted = self._selected(n_samples)
            counts = [
                check_given_counts(
                    f"the table of feature {k}", cells, (len(edges) - 1,), counted.n_rows
                )
                for k, (cells, edges) in enumerate(
                    zip(given, map(_fine_edges, sizes, grids), strict=True)
                )
            ]
            self._release_counts(context, TableCounts(counted, counts), sizes, grids, [], None)
        return self

    def fine_bins(self, columns):
        """Edges of the fine bins that `fit` would count, from public parameters alone.

        Bin k of a feature holds the values from edge k on that are below edge k + 1; those
        beyond the bounds are in the first and the last bin. A category is a bin of its own.

        Parameters
        ----------
        columns : int, or list of str
            The number of features, or their names.

        Returns
        -------
        list of ndarray

        Examples
        --------
        >>> from skdirdp import DirichletHistogramTransformer
        >>> bins = DirichletHistogramTransformer(bounds=(0, 100), n_categories={"ward": 2})
        >>> [len(edges) for edges in bins.fine_bins(["age", "ward"])]
        [513, 3]
        """
        twin = self._for_workers()
        twin._name_columns(columns)
        twin._check_public("given as counts")
        return [*map(_fine_edges, *twin._public_bins())]

    def _name_columns(self, columns: Any) -> None:
        sample = (
            np.empty((0, check_integer("columns", columns, at_least=1)))
            if isinstance(columns, Integral)
            else pd.DataFrame(columns=list(columns))
        )
        self._take_columns(sample)

    def _take_columns(self, sample: Any) -> None:
        """Take number and names of the columns from a table without records."""
        with errors_without_data(X=sample):
            validate_data(self, sample, skip_check_array=True)

    def _public_bins(self) -> tuple[list[int | None], list[FineGrid | None]]:
        """Categories and fine bins of features of which all that is public is given."""
        n_features = self.n_features_in_
        sizes = self._public_sizes(n_features)
        n_bins = public_bins(self.n_bins, n_features).tolist()
        return sizes, self._grids(np.empty((0, n_features)), n_bins, sizes)[0]

    def _release_counts(
        self, context: ReleaseContext, counts: TableCounts, sizes, grids, leaks, X
    ) -> None:
        """Release the histograms, and find the bins; X is for fits without privacy."""
        n_samples, size_leaks = self._public_n_samples(counts.counted, context.budget)
        tables = [
            (
                CountTable(n_samples, len(cells), min_smoothing=0.0, postprocess=self.postprocess),
                cells,
            )
            for cells in counts.tables
        ]
        plan = ReleasePlan(self, context, tables, counts.counted, leaks + size_leaks)
        self._set_fitted_attributes(context.release(plan), sizes, grids, n_samples, plan.n_records)
        n_bins = public_bins(self.n_bins, self.n_features_in_).tolist()
        self.bin_edges_ = np.empty(self.n_features_in_, dtype=object)
        for k, (grid, histogram) in enumerate(zip(grids, self._histograms_, strict=True)):
            column = None if X is None else X[:, k]
            self.bin_edges_[k] = (
                self.fine_edges_[k]
                if grid is None or histogram is None
                else self._edges(k, n_bins[k], grid, histogram, column)
            )
        self.n_bins_ = np.array([len(edges) - 1 for edges in self.bin_edges_])

    def _validated(self, X: Any, *, reset: bool) -> np.ndarray:
        with errors_without_data(X=X):
            return validate_data(self, as_numbers(X), dtype=_FLOATS, reset=reset)

    def _check_public(self, kind: str) -> None:
        """Refuse a table that is not in memory if more would have to be known of it."""
        n_features = self.n_features_in_
        sizes = self._public_sizes(n_features)
        given = by_column("bounds", self.bounds, self._names, n_features)
        pairs = zip(sizes, public_bounds(given, n_features, sizes), strict=True)
        missing = ["bounds"] if any(size is None and pair is None for size, pair in pairs) else []
        self._check_declared(kind, missing)
        if not self._is_private and self.strategy == "quantile" and None in sizes:
            raise ValueError(
                f"epsilon must be finite, or strategy 'uniform', where X is {kind}: exact "
                "quantiles are those of all values at once"
            )

    @property
    def _names(self) -> Any:
        """The names of the columns, where they have some."""
        return getattr(self, "feature_names_in_", None)

    def _public_sizes(self, n_features: int) -> list[int | None]:
        given = by_column("n_categories", self.n_categories, self._names, n_features)
        sizes = public_sizes(given, n_features)
        n_cells = sum(int(self.n_fine_bins) if size is None else size for size in sizes)
        check_cells("n_categories and n_fine_bins", n_cells)
        return sizes

    def _grids(self, X, n_bins, sizes) -> tuple[list[FineGrid | None], list[str]]:
        """Fine bins of the numeric features that vary, and what choosing them leaks."""
        given = by_column("bounds", self.bounds, self._names, X.shape[1])
        bounds = public_bounds(given, X.shape[1], sizes)
        n_fine_bins = int(self.n_fine_bins)
        grids: list[FineGrid | None] = [None] * X.shape[1]
        leaks = []
        for k, size in enumerate(sizes):
            if size is not None:
                continue
            if bounds[k] is None:
                leaks = ["bounds"]
                room = max(n_fine_bins, n_bins[k]) if self._is_private else 0
                bounds[k] = observed_bounds(X[:, k], room)
            low, high = bounds[k]
            if low < high:
                grids[k] = grid = fine_grid(low, high, n_fine_bins, self.fine_scale)
                self._check_room(grid, n_bins[k], k)
            else:
                warn(f"Feature {k} is constant and will be replaced with 0.")
        return grids, leaks

    def _public_output(self) -> dict[str, Any]:
        if self.encode == "density":
            return {}
        n_features = self.n_features_in_
        if self.encode == "ordinal":
            n_bins = public_bins(self.n_bins, n_features).tolist()
            pairs = zip(n_bins, self._public_sizes(n_features), strict=True)
            return {"n_categories": [bins if size is None else size for bins, size in pairs]}
        return {"max_count": 1.0, "max_total": float(n_features)}

    def _check_room(self, grid: FineGrid, n_bins: int, feature: int) -> None:
        """Refuse, before anything is paid for, what would give fewer bins than asked for."""
        if not self._is_private:
            return
        if self.strategy == "quantile":
            if n_bins <= grid.n_bins:
                return
            raise ValueError(
                f"n_bins must be at most the number of fine bins; got {n_bins} and {grid.n_bins} "
                f"for feature {feature}, of n_fine_bins={self.n_fine_bins}. There are fewer where "
                "floating-point numbers between the bounds are fewer"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            distinct = np.all(np.diff(np.linspace(grid.low, grid.high, n_bins + 1)) > 0)
        if not distinct:
            raise ValueError(
                f"bounds must have room for n_bins={n_bins} bins of equal width; those of feature "
                f"{feature} have not, in floating point"
            )

    def _set_fitted_attributes(
        self, releases: list[Release], sizes, grids, n_samples: float, n_records: int | None
    ) -> None:
        self.fine_edges_ = [
            _fine_edges(size, grid) for size, grid in zip(sizes, grids, strict=True)
        ]
        self.release_ = [release.drawn for release in releases]
        kind: type[Histogram] = ReleasedHistogram
        number: float | None = n_samples
        if self._is_private and self.postprocess:
            kind = NoisyHistogram
            number = None if n_records is None else float(n_records)
        # None where there is but one bin, of which nothing was released.
        self._histograms_ = [
            None
            if mechanism is None
            else kind(edges, drawn, mechanism, number, ordered=size is None)
            for edges, (drawn, mechanism), size in zip(
                self.fine_edges_, releases, sizes, strict=True
            )
        ]
        self.histogram_ = [np.ones(1) if h is None else h.probabilities for h in self._histograms_]
        self._is_categorical_ = np.array([size is not None for size in sizes])

    def _edges(
        self,
        feature: int,
        n_bins: int,
        grid: FineGrid,
        histogram: Histogram,
        column: np.ndarray | None,
    ) -> np.ndarray:
        """Edges of the bins of a numeric feature; the column is for fits without privacy."""
        if self.strategy == "uniform":
            return np.linspace(grid.low, grid.high, n_bins + 1)
        if self._is_private:
            # Edges are borders of fine bins: a value that many records share is not cut off
            # from itself, and the share of records in a bin is one that was released.
            return histogram.edges[quantile_borders(histogram.cdf, n_bins)]
        # Without noise, the edges that KBinsDiscretizer would find, to the last bit:
        # 100 * 0.3 is not 30, and an average of two values may hang on that.
        assert column is not None
        inside = np.clip(column, grid.low, grid.high)
        percents = np.linspace(0, 100, n_bins + 1)
        edges = np.percentile(inside, percents, method="averaged_inverted_cdf")
        edges = edges[np.ediff1d(edges, to_begin=np.inf) > _NARROWEST].astype(float)
        if len(edges) <= n_bins:
            warn(
                "Bins whose width are too small (i.e., <= 1e-8) in feature "
                f"{feature} are removed. Consider decreasing the number of bins."
            )
        return edges if len(edges) > 1 else _EVERYTHING

    # Transforming ------------------------------------------------------------------

    @lazy_for_dask(lambda model: model._output())
    def transform(self, X):
        """Bin the values, or evaluate the density or the CDF at them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        {ndarray, sparse matrix} of shape (n_samples, n_features_out)
            Sparse if `encode` is "onehot".
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        check_categories(
            X, [n if self._is_categorical_[k] else None for k, n in enumerate(self.n_bins_)]
        )
        if self.encode == "cdf":
            return self._evaluate_cdf(X)
        borders = [edges[1:-1] for edges in self.bin_edges_]
        if self.encode == "density":
            bins = assign_bins(X, borders, np.intp)
            values = [density[bins[:, k]] for k, density in enumerate(self._densities())]
            return np.column_stack(values).astype(X.dtype, copy=False)
        if self.encode == "ordinal":
            return assign_bins(X, borders, X.dtype)
        starts = np.concatenate([[0], np.cumsum(self.n_bins_)])
        columns = assign_bins(X, borders, np.int32)
        columns += starts[:-1].astype(np.int32)
        shape = (len(X), int(starts[-1]))
        if self.encode == "onehot-dense":
            dense = np.zeros(shape, dtype=X.dtype)
            np.put_along_axis(dense, columns, 1, axis=1)
            return dense
        ends = np.arange(0, columns.size + 1, X.shape[1])
        return sparse.csr_matrix((np.ones(columns.size, X.dtype), columns.ravel(), ends), shape)

    def _output(self) -> tuple[int, Any]:
        """The number of columns that `transform` gives, and an empty array of its type."""
        if "onehot" not in self.encode:
            return self.n_features_in_, np.empty((0, self.n_features_in_))
        width = int(np.sum(self.n_bins_))
        empty = np.empty((0, width))
        return width, sparse.csr_matrix(empty) if self.encode == "onehot" else empty

    def _densities(self) -> list[np.ndarray]:
        """The estimated share of each bin, over its width."""
        densities = []
        for edges, histogram in zip(self.bin_edges_, self._histograms_, strict=True):
            if histogram is None or np.isinf(edges[0]):
                densities.append(np.ones(1))
            else:
                shares = np.interp(edges[1:-1], histogram.edges, histogram.cdf)
                densities.append(np.diff(shares, prepend=0.0, append=1.0) / np.diff(edges))
        return densities

    def _evaluate_cdf(self, X) -> np.ndarray:
        values = np.empty_like(X)
        for block in row_blocks(len(X), X.shape[1], BLOCK_ENTRIES):
            for k, histogram in enumerate(self._histograms_):
                if histogram is None:
                    values[block, k] = 0.5
                else:
                    values[block, k] = np.interp(X[block, k], histogram.edges, histogram.cdf)
        return values

    def _representatives(self, k: int) -> np.ndarray:
        """A value that stands for each bin of a feature."""
        edges, histogram = self.bin_edges_[k], self._histograms_[k]
        if histogram is None or histogram.mechanism.is_exact or self._is_categorical_[k]:
            with np.errstate(invalid="ignore"):
                return edges[1:] / 2 + edges[:-1] / 2
        return histogram.means(edges)

    def inverse_transform(self, X):
        """A value in each bin; for `encode="cdf"` the quantile.

        The centre of the bin, as in `KBinsDiscretizer`, at infinite `epsilon`. Else the mean
        of its records, as far as the released fine bins tell: the outermost of bins with
        equally many records are wide, and most of their records are far from the centre.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_out)
            What `transform` gave.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        if self.encode == "density":
            raise ValueError("encode='density' has no inverse: many values have one density")
        with errors_without_data(X=X):
            X = check_array(X, accept_sparse=self.encode == "onehot", dtype=_FLOATS)
        n_features = len(self.n_bins_)
        expected = int(self.n_bins_.sum()) if "onehot" in self.encode else n_features
        if X.shape[1] != expected:
            raise ValueError(
                f"X must have {expected} columns, as transform gives; got {X.shape[1]}"
            )
        if self.encode == "cdf":
            values = np.empty_like(X)
            for k, histogram in enumerate(self._histograms_):
                if histogram is None:
                    values[:, k] = 0.0 if self._is_categorical_[k] else np.nan
                else:
                    values[:, k] = np.interp(X[:, k], histogram.cdf, histogram.edges)
            return values
        if "onehot" in self.encode:
            X = bins_of_onehot(X, self.n_bins_)
        if np.any(X < 0) or np.any(self.n_bins_ <= X):
            raise ValueError("X must hold bins from 0 to n_bins_ - 1 of each feature")
        bins = X.astype(np.intp)
        values = np.empty(bins.shape, dtype=X.dtype)
        for k in range(n_features):
            values[:, k] = self._representatives(k)[bins[:, k]]
        return values

    def get_feature_names_out(self, input_features=None):
        """Names of the columns that `transform` gives.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the features, if `fit` did not see them.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features)
        if "onehot" not in self.encode:
            return names
        columns = [
            f"{name}_{float(k)}"
            for name, n in zip(names, self.n_bins_, strict=True)
            for k in range(n)
        ]
        return np.array(columns, dtype=object)

    # What the release tells --------------------------------------------------------

    def linf_error(self, confidence=0.95):
        """How far `histogram_` may be from the true shares of its bins, at most.

        Read from the release and the mechanism, by the exact distribution of each
        released share: it costs no privacy. It holds for all bins of a feature at once.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            The probability, over the noise, that the limit holds.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return self._errors(
            confidence, lambda histogram: (histogram.probabilities, histogram.band(confidence))
        )

    def cdf_error(self, confidence=0.95):
        """How far the estimated CDF may be from the true one at a fine edge, at most.

        It bounds quantiles too: an edge of `bin_edges_` has the estimated share q of
        records below it, and the true share is within this of q, for all edges of a
        feature at once.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            The probability, over the noise, that the limit holds.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return self._errors(
            confidence, lambda histogram: (histogram.cdf, histogram.cdf_band(confidence))
        )

    def histogram_band(self, feature, confidence=0.95, starts=None):
        """Limits on the true shares of the bins of `histogram_`, for all of them at once.

        Parameters
        ----------
        feature : int
            Its position.
        confidence : float in (0, 1), default=0.95
            The probability, over the noise, that the limits hold.
        starts : array-like of int, default=None
            Given, the limits are those of runs of bins that start there.

        Returns
        -------
        tuple of two ndarrays, or None
            The lower and the upper limits. None where nothing was released.
        """
        check_is_fitted(self)
        histogram = self._histograms_[feature]
        if histogram is None:
            return None
        return histogram.band(confidence, None if starts is None else np.asarray(starts))

    def _errors(self, confidence, read) -> np.ndarray:
        check_is_fitted(self)
        check_real("confidence", confidence, above=0, below=1)
        errors = np.zeros(len(self._histograms_))
        for k, histogram in enumerate(self._histograms_):
            if histogram is not None and not histogram.mechanism.is_exact:
                estimate, (lower, upper) = read(histogram)
                errors[k] = max(np.max(estimate - lower), np.max(upper - estimate))
        return errors

    def sample(self, n_samples=1, random_state=None):
        """Draw records from the released histograms, feature by feature.

        This uses nothing but what was released, and costs no privacy. Features are drawn
        independently of each other.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : None, int, Generator or RandomState, default=None
            Not the noise: a known seed gives nothing away.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Uniform within a fine bin; codes for categorical features. Without privacy, a
            feature that is constant is nan.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, at_least=1)
        generator = sampling_generator(random_state)
        drawn = np.full((n_samples, len(self._histograms_)), np.nan)
        for k, histogram in enumerate(self._histograms_):
            if self._is_categorical_[k]:
                drawn[:, k] = generator.choice(
                    len(self.histogram_[k]), n_samples, p=self.histogram_[k]
                )
            elif histogram is not None:
                drawn[:, k] = np.interp(generator.random(n_samples), histogram.cdf, histogram.edges)
        return drawn

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _fine_edges(size: int | None, grid: FineGrid | None) -> np.ndarray:
    if grid is not None:
        return grid.edges
    return _EVERYTHING if size is None else np.arange(size + 1) - 0.5
