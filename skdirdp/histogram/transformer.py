"""Private discretizer of numeric columns, based on private histograms."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .._contributions import check_given_counts
from .._docs import shared_docs
from .._messages import describe, errors_without_data, warn
from .._persons import CountedRows, select_persons, select_rows
from .._random import sampling_generator
from .._sklearn_compat import (
    Interval,
    Options,
    StrOptions,
    _check_feature_names_in,
    _fit_context,
)
from .._validation import by_column, check_cells, check_integer, check_real, check_sizes
from ..base import CountingEstimator, NoisyTablesMixin, Release, ReleaseContext, ReleasePlan
from ..engines import Part, TableCounts, lazy_for_dask, open_by_schema
from ..mechanisms.tables import CountTable
from ..numerics.rows import row_blocks
from ..schema import FINE_SCALES, FineGrid, Schema, as_numbers, fine_grid, quantile_edges
from .columns import SchemaColumns
from .histogram import (
    BLOCK_ENTRIES,
    BinCounter,
    FeatureBins,
    NoisyHistogram,
    ReleasedHistogram,
    assign_bins,
    bins_from_onehot,
    check_bins_fit,
    check_categories,
    check_pair,
    exact_quantiles,
    observed_bounds,
    value_edges,
)

_FLOATS = (np.float64, np.float32)


@shared_docs
class DirichletHistogramTransformer(NoisyTablesMixin, TransformerMixin, CountingEstimator):
    """Private bins for numeric columns; drop-in replacement for `KBinsDiscretizer`.

    `fit` counts each feature on a fine grid that is chosen from public bounds, and releases
    each of these histograms once. Quantile edges, densities, the CDF and samples are computed
    from the release, at no further privacy cost.

    Parameters
    ----------
    n_bins : int or array-like of shape (n_features,), default=10
        Number of bins, at least 2; not used for categorical features. With a finite
        `epsilon` there are exactly as many, and some may be empty. With a schema, there are at
        most as many as whole numbers or dates in the column, and one more for missing values.
    encode : {"onehot", "onehot-dense", "ordinal", "density", "cdf"}, default="onehot"
        The first three as in `KBinsDiscretizer`. "density" gives the estimated density at the
        value, and "cdf" the estimated share of values below it, a private quantile transform.
        Both are NaN for missing values, and do not count them.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins with about the same number of records, or with the same width. A value that many
        records share fills a bin by itself.
    dtype : {np.float32, np.float64}, default=None
        Type of the output. If None, it is that of the input.
    schema : Schema, default=None
        Public description of the columns of X. Bounds, categories, person ids and `max_rows` are
        then taken from the schema, and features are in its order, without keys and ignored columns.
        Each category is a bin. Missing values, and cells that do not fit, have a bin of their own,
        the last, if the column allows them.
    bounds : (low, high), or array-like or dict of such pairs, one per feature, default=None
        Public bounds on all features, or on each, in order or by name. Bounds that are None
        are taken from the data, with a warning. Values outside are counted in the first or last
        bin.
    n_categories : int, array-like of shape (n_features,) or dict, default=None
        Number of categories of each feature with integer codes from 0, in order or by name; None
        for numeric features. Each category is a bin. An int applies to all features.
    n_fine_bins : int, default=512
        Number of bins of the released histogram of a numeric feature. Quantile bins consist
        of these, so it must be at least `n_bins`.
    fine_scale : {"mixed", "linear", "symlog"}, default="mixed"
        Spacing of the fine bins: even, even in a symmetric logarithm, or half of each.
    {epsilon, delta, order, mechanism, calibration, adjacency, n_samples, max_rows}
    postprocess : bool, default=True
        Whether to post-process the noisy counts, at no privacy cost: the Dirichlet prior is
        subtracted, and the CDF is made monotone. If False, probabilities are released, and
        their bias is corrected with `n_samples`.
    {accountant, label, random_state}

    Attributes
    ----------
    bin_edges_ : ndarray of ndarray of shape (n_features,)
        Edges of the bins; those of a categorical feature lie between the codes. Dates are
        units of their resolution from the lower bound. A bin of missing values ends at inf.
    n_bins_ : ndarray of shape (n_features,)
        Number of bins of each feature, with that of missing values: as `n_bins`, or the
        number of its categories.
    histogram_ : list of ndarray of shape (number of fine bins,)
        Released histogram of each feature, as a distribution.
    fine_edges_ : list of ndarray of shape (number of fine bins + 1,)
        Edges of its bins.
    release_ : list of ndarray of shape (number of fine bins,)
        Noisy counts; probabilities if `postprocess=False` or `epsilon` is infinite.
    {privacy_, n_features_in_, feature_names_in_}

    Notes
    -----
    The number of output columns depends on parameters alone, so the noise of the next step does
    too. It may be smaller only at infinite `epsilon`, as in `KBinsDiscretizer`. Bounds that are
    taken from the data are widened if the bins do not fit between them: those of a constant
    feature c to c - h and c + h, with h = max(1, abs(c)) / 2.

    Three parameters of `KBinsDiscretizer` are missing. `quantile_method`: quantiles are edges of
    released fine bins. `subsample`: all records are counted, in one pass. `sample_weight`: shares
    and their confidence limits use the public number of records; a total weight is not public.

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

    _columns_: SchemaColumns | None  # None without a schema

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CountingEstimator._parameter_constraints,
        "n_bins": [Interval(Integral, 2, None, closed="left"), "array-like"],
        "encode": [StrOptions({"onehot", "onehot-dense", "ordinal", "density", "cdf"})],
        "strategy": [StrOptions({"uniform", "quantile"})],
        "dtype": [None, Options(type, set(_FLOATS))],
        "schema": [None, Schema],
        "bounds": [None, "array-like", dict],
        "n_categories": [None, "array-like", dict, Interval(Integral, 1, None, closed="left")],
        "n_fine_bins": [Interval(Integral, 2, None, closed="left")],
        "fine_scale": [StrOptions(set(FINE_SCALES))],
        "postprocess": ["boolean"],
    }

    def __init__(
        self,
        n_bins: Any = 10,
        *,
        encode: str = "onehot",
        strategy: str = "quantile",
        dtype: Any = None,
        schema: Schema | None = None,
        bounds: Any = None,
        n_categories: Any = None,
        n_fine_bins: int = 512,
        fine_scale: str = "mixed",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        order: float | None = None,
        mechanism: str = "dirichlet",
        calibration: str = "exact",
        adjacency: str = "replace",
        n_samples: float | None = None,
        max_rows: int = 1,
        postprocess: bool = True,
        accountant: Any = None,
        label: str | None = None,
        random_state: Any = None,
    ):
        self.n_bins = n_bins
        self.encode = encode
        self.strategy = strategy
        self.dtype = dtype
        self.schema = schema
        self.bounds = bounds
        self.n_categories = n_categories
        self.n_fine_bins = n_fine_bins
        self.fine_scale = fine_scale
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.mechanism = mechanism
        self.calibration = calibration
        self.adjacency = adjacency
        self.n_samples = n_samples
        self.max_rows = max_rows
        self.postprocess = postprocess
        self.accountant = accountant
        self.label = label
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "DirichletHistogramTransformer":
        """Count and release the histogram of each feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or lazy frame
            Finite numbers, or any cells of columns that a schema declares. Declared columns
            that X lacks are not binned. Tables that are not in memory are counted by their own
            engine (docs/scale.md).
        y : Ignored
        groups : array-like of shape (n_samples,), or str, default=None
            Person of each record, as whole numbers or strings, or the name of the column that
            contains them. Only the first `max_rows` records of each person are counted. If None,
            each person is assumed to have at most `max_rows` records. Not given if the schema has a
            `person`.

        Returns
        -------
        self
        """
        with self._fitting() as context:
            table = open_by_schema(self.schema, X, groups, self.max_rows)
            if table.in_memory:
                X, counted = self._select(table.part)
                bins, leaks = self._choose_bins(X)
                counts = TableCounts(counted, bins.count(X))
            else:
                self._set_features(table.empty)
                bins = self._declared_bins(table.kind)
                counts = table.count(BinCounter(self._for_workers(), bins, int(self.max_rows)))
                X, leaks = None, []
            self._release_counts(context, counts, bins, leaks, X)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(self, tables: Any, *, n_samples: int) -> "DirichletHistogramTransformer":
        """Release histograms that are already counted.

        The caller ensures that each record, or each of the `max_rows` records of a person, is
        in one bin of each feature. This cannot be checked.

        Parameters
        ----------
        tables : list of array-like, or dict
            For each feature, in order or by name, the number of records in each of its fine
            bins (see `fine_bins`) or categories.
        n_samples : int
            Number of records that were counted.

        Returns
        -------
        self

        Examples
        --------
        >>> from skdirdp import DirichletHistogramTransformer
        >>> bins = DirichletHistogramTransformer(2, bounds=(0, 100), n_fine_bins=4)
        >>> bins.fit_counts([[400, 100, 300, 200]], n_samples=1000).n_bins_
        array([2])
        """
        with self._fitting() as context:
            by_name = isinstance(tables, Mapping)
            given = list(tables.values()) if by_name else list(tables)
            self._declare_features(list(tables) if by_name else len(given))
            bins = self._declared_bins("given as counts")
            counted = self._selected(n_samples)
            counts = []
            for k, (cells, edges) in enumerate(zip(given, bins.edges(), strict=True)):
                name, shape = f"the table of feature {k}", (len(edges) - 1,)
                counts.append(check_given_counts(name, cells, shape, counted.n_rows))
            self._release_counts(context, TableCounts(counted, counts), bins, [], None)
        return self

    def fine_bins(self, columns: Any) -> list[np.ndarray]:
        """Return the edges of the fine bins that `fit` would count, without any data.

        Bin k contains the values from edge k on that are below edge k + 1; values beyond the bounds
        are in the first and the last bin. Each category is a separate bin.

        Parameters
        ----------
        columns : int, or list of str
            Number of features, or their names.

        Returns
        -------
        list of ndarray
        """
        copy = self._for_workers()
        copy._declare_features(columns)
        return copy._declared_bins("given as counts").edges()

    def _release_counts(
        self,
        context: ReleaseContext,
        counts: TableCounts,
        bins: FeatureBins,
        leaks: list[str],
        X: np.ndarray | None,
    ) -> None:
        n_samples, size_leaks = self._public_n_samples(counts.counted, context.budget)
        tables = {
            size: CountTable(n_samples, size, min_smoothing=0.0, postprocess=self.postprocess)
            for size in {len(cells) for cells in counts.tables}
        }
        with_counts = [(tables[len(cells)], cells) for cells in counts.tables]
        plan = ReleasePlan(self, context, with_counts, counts.counted, leaks + size_leaks)
        releases = context.release(plan)
        is_noisy = context.is_private and self.postprocess
        number: float | None = n_samples
        if is_noisy:
            number = None if plan.n_records is None else float(plan.n_records)
        self._keep_noisy_tables(dict(enumerate(releases)) if is_noisy else {}, number)
        kind = NoisyHistogram if is_noisy else ReleasedHistogram
        self._set_histograms(releases, bins, kind, number)
        self._set_edges(bins, X, is_private=context.is_private)

    def _set_histograms(
        self, releases: Sequence[Release], bins: FeatureBins, kind: Any, n_samples: float | None
    ) -> None:
        self.fine_edges_ = bins.edges()
        self.release_ = [release.drawn for release in releases]
        self._is_categorical_ = np.array([size is not None for size in bins.n_categories])
        has_missing = [grid is not None and grid.has_missing for grid in bins.grids]
        self._has_missing_ = np.array(has_missing)
        flags = zip((~self._is_categorical_).tolist(), has_missing, strict=True)
        # None for a feature with a single bin, which needs no release.
        self._histograms_ = [
            None
            if release.mechanism is None
            else kind(value_edges(edges), *release, n_samples, *flag)
            for edges, release, flag in zip(self.fine_edges_, releases, flags, strict=True)
        ]
        self.histogram_ = [np.ones(1) if h is None else h.probabilities for h in self._histograms_]

    def _set_edges(self, bins: FeatureBins, X: np.ndarray | None, *, is_private: bool) -> None:
        """Set the edges of the bins, which consist of fine bins; X is needed only without noise."""
        self.bin_edges_ = np.empty(self.n_features_in_, dtype=object)
        for k, n_bins in enumerate(bins.n_bins):
            grid, histogram = bins.grids[k], self._histograms_[k]
            if grid is None or histogram is None:
                self.bin_edges_[k] = self.fine_edges_[k]
                continue
            if self.strategy == "uniform":
                self.bin_edges_[k] = np.linspace(grid.low, grid.high, n_bins + 1)
            elif is_private:
                # Edges of fine bins: equal values share a bin, whose share is released.
                self.bin_edges_[k] = histogram.edges[quantile_edges(histogram.cdf, n_bins)]
            else:
                assert X is not None
                inside = np.clip(X[~np.isnan(X[:, k]), k], grid.low, grid.high)
                self.bin_edges_[k] = exact_quantiles(inside, n_bins, k)
            if self._has_missing_[k]:
                self.bin_edges_[k] = np.append(self.bin_edges_[k], np.inf)
        self.n_bins_ = np.array([len(edges) - 1 for edges in self.bin_edges_])

    def _select(self, part: Part) -> tuple[np.ndarray, CountedRows]:
        """Return the counted records of a table in memory as numbers."""
        if self.schema is None:
            self._columns_ = None
            X = self._validate(part.X, reset=True)
            counted = select_rows(part.groups, len(X), self.max_rows)
            return counted.take(X), counted
        columns: Any = self._set_features(part.X)
        records = columns.open(part.X)
        if records.n_records == 0:
            raise ValueError("X must contain at least one record; got 0")
        counted = select_persons(self.schema, records, part.groups, self.max_rows)
        return columns.encode(records, counted.rows), counted

    def _set_features(self, sample: Any, names: Any = None) -> SchemaColumns | None:
        """Set number and names of the features, and return the columns of a schema.

        No cell of `sample` is used. `names` replaces it if there is a schema.
        """
        if self.schema is None:
            self._columns_ = None
            with errors_without_data(X=sample):
                validate_data(self, sample, skip_check_array=True)
            return None
        if self.bounds is not None or self.n_categories is not None:
            raise ValueError(
                "bounds and n_categories must not be given with a schema, which declares them"
            )
        if names is None:
            records = self.schema.records(sample, optional=True)
            names = [name for name in self.schema.features if name in records.columns]
        self._columns_ = SchemaColumns.from_names(self.schema, names)
        self._set_feature_names(names)
        return self._columns_

    def _declare_features(self, columns: Any) -> None:
        if self.schema is None:
            if isinstance(columns, Integral):
                columns = range(check_integer("columns", columns, at_least=1))
            self._set_features(pd.DataFrame(columns=list(columns)))
            return
        names = self.schema.features if isinstance(columns, Integral) else list(columns)
        if isinstance(columns, Integral) and len(names) != columns:
            raise ValueError(f"there must be {len(names)} features by the schema; got {columns}")
        self._set_features(None, names)

    def _validate(self, X: Any, *, reset: bool) -> np.ndarray:
        if self._columns_ is not None:
            return self._columns_.encode(self._columns_.open(X))
        with errors_without_data(X=X):
            return validate_data(self, as_numbers(X), dtype=_FLOATS, reset=reset)

    def _by_feature(self, name: str) -> Any:
        names = getattr(self, "feature_names_in_", None)
        return by_column(name, getattr(self, name), names, self.n_features_in_)

    def _numbers_of_bins(self) -> list[int]:
        """Return the number of bins of each feature; errors are those of scikit-learn."""
        n_bins, n_features = self.n_bins, self.n_features_in_
        if np.ndim(n_bins) > 0:
            if np.ndim(n_bins) != 1 or len(n_bins) != n_features:
                raise ValueError(
                    "n_bins must be a scalar or array of shape (n_features,). There are "
                    f"{n_features} features; got {describe(n_bins)}"
                )
            wrong = [str(k) for k, n in enumerate(n_bins) if not isinstance(n, Integral) or n < 2]
            if wrong:
                raise ValueError(
                    "KBinsDiscretizer received an invalid number of bins at indices "
                    f"{', '.join(wrong)}. Number of bins must be at least 2, and must be an int."
                )
        numbers = check_sizes("n_bins", n_bins, n_features, at_least=2).tolist()
        return numbers if self._columns_ is None else self._columns_.limit_bins(numbers)

    def _sizes(self) -> list[int | None]:
        """Return the number of categories of each feature, None for numeric ones."""
        given, n_features = self._by_feature("n_categories"), self.n_features_in_
        if self._columns_ is not None:
            given = self._columns_.n_categories()
        is_single = given is None or isinstance(given, Integral)
        sizes = [given] * n_features if is_single else list(given)
        if len(sizes) != n_features:
            raise ValueError(
                f"n_categories must be an integer or have one entry per feature, {n_features}; "
                f"got {len(sizes)}"
            )
        sizes = [
            None if size is None else int(check_sizes("n_categories", size, 1, at_least=1)[0])
            for size in sizes
        ]
        n_cells = sum(int(self.n_fine_bins) if size is None else size for size in sizes)
        check_cells("n_categories and n_fine_bins", n_cells)
        return sizes

    def _public_bounds(self, sizes: list[int | None]) -> list[tuple[float, float] | None]:
        """Return the bounds of each feature, None if they are not given or not needed."""
        given, n_features = self._by_feature("bounds"), self.n_features_in_
        if given is None:
            return [None] * n_features
        pairs = list(given)
        if len(pairs) == 2 and all(isinstance(end, Real) for end in pairs):
            pairs = [pairs] * n_features
        if len(pairs) != n_features:
            raise ValueError(
                f"bounds must be a pair of numbers or have one pair per feature, {n_features}; "
                f"got {len(pairs)}"
            )
        return [
            None if pair is None or sizes[k] is not None else check_pair(pair, k)
            for k, pair in enumerate(pairs)
        ]

    def _choose_bins(self, X: np.ndarray) -> tuple[FeatureBins, list[str]]:
        """Return the fine bins, and the parameters that were taken from the data."""
        n_bins, sizes = self._numbers_of_bins(), self._sizes()
        if len(X):
            check_categories(X, sizes)
        leaks, is_private = [], self._is_private
        bounds, n_fine_bins = self._public_bounds(sizes), int(self.n_fine_bins)
        grids: list[FineGrid | None] = [None] * len(sizes)
        if self._columns_ is not None:
            grids = self._columns_.grids(n_fine_bins, self.fine_scale)
        for k in [k for k, size in enumerate(sizes) if size is None and grids[k] is None]:
            pair = bounds[k]
            if pair is None:
                leaks = ["bounds"]
                min_bins = max(n_fine_bins, n_bins[k]) if is_private else 0
                pair = observed_bounds(X[:, k], min_bins)
            if pair[0] < pair[1]:
                grids[k] = fine_grid(*pair, n_fine_bins, self.fine_scale)
            else:
                warn(f"Feature {k} is constant and will be replaced with 0.")
        if is_private:
            check_bins_fit(n_bins, grids, self.strategy, n_fine_bins)
        return FeatureBins(n_bins, sizes, grids), leaks

    def _declared_bins(self, kind: str) -> FeatureBins:
        """Return the fine bins of a table that is not in memory, from public parameters."""
        sizes = self._sizes()
        pairs = zip(sizes, self._public_bounds(sizes), strict=True)
        missing = self._columns_ is None and any(s is None and pair is None for s, pair in pairs)
        self._check_declared(kind, ["bounds"] if missing else [])
        if not self._is_private and self.strategy == "quantile" and None in sizes:
            raise ValueError(
                f"epsilon must be finite, or strategy 'uniform', where X is {kind}: exact "
                "quantiles need all values at once"
            )
        return self._choose_bins(np.empty((0, len(sizes))))[0]

    def _public_output(self) -> dict[str, Any]:
        if self.encode == "density":
            return {}
        if self.encode == "ordinal":
            n_bins, sizes = self._numbers_of_bins(), self._sizes()
            if self._columns_ is not None:
                n_bins = self._columns_.with_missing(n_bins)
            pairs = zip(n_bins, sizes, strict=True)
            return {"n_categories": [bins if size is None else size for bins, size in pairs]}
        return {"max_count": 1.0, "max_total": float(self.n_features_in_)}

    @lazy_for_dask(lambda model: model._output())
    def transform(self, X: Any) -> Any:
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
        X = self._validate(X, reset=False)
        check_categories(
            X, [n if self._is_categorical_[k] else None for k, n in enumerate(self.n_bins_)]
        )
        dtype = X.dtype if self.dtype is None else self.dtype
        if self.encode == "cdf":
            return self._evaluate_cdf(X).astype(dtype, copy=False)
        if self.encode == "density":
            bins = self._assign_bins(X, np.intp)
            values = [density[bins[:, k]] for k, density in enumerate(self._densities())]
            return np.column_stack(values).astype(dtype, copy=False)
        if self.encode == "ordinal":
            return self._assign_bins(X, dtype)
        starts = np.concatenate([[0], np.cumsum(self.n_bins_)])
        columns = self._assign_bins(X, np.int32)
        columns += starts[:-1].astype(np.int32)
        shape = (len(X), int(starts[-1]))
        if self.encode == "onehot-dense":
            dense = np.zeros(shape, dtype=dtype)
            np.put_along_axis(dense, columns, 1, axis=1)
            return dense
        ends = np.arange(0, columns.size + 1, X.shape[1])
        return sparse.csr_matrix((np.ones(columns.size, dtype), columns.ravel(), ends), shape)

    def _assign_bins(self, X: np.ndarray, dtype: Any) -> np.ndarray:
        """Return the bin of each value; that of missing values is the last."""
        bins = assign_bins(X, [value_edges(edges)[1:-1] for edges in self.bin_edges_], dtype)
        if self._has_missing_.any():
            np.copyto(bins, self.n_bins_ - 1, where=np.isnan(X), casting="unsafe")
        return bins

    def _output(self) -> tuple[int, Any]:
        """Return the number of output columns, and an empty array of the output type."""
        width = int(np.sum(self.n_bins_)) if "onehot" in self.encode else self.n_features_in_
        empty = np.empty((0, width), np.float64 if self.dtype is None else self.dtype)
        return width, sparse.csr_matrix(empty) if self.encode == "onehot" else empty

    def _densities(self) -> list[np.ndarray]:
        """Return the estimated share of each bin divided by its width, NaN for missing values."""
        densities = []
        for k, histogram in enumerate(self._histograms_):
            edges = value_edges(self.bin_edges_[k])
            if histogram is None or np.isinf(edges[0]):
                density = np.ones(1)
            else:
                shares = np.interp(edges[1:-1], histogram.edges, histogram.cdf)
                density = np.diff(shares, prepend=0.0, append=1.0) / np.diff(edges)
            densities.append(np.append(density, np.nan) if self._has_missing_[k] else density)
        return densities

    def _evaluate_cdf(self, X: np.ndarray) -> np.ndarray:
        values = np.full_like(X, 0.5)
        for block in row_blocks(len(X), X.shape[1], BLOCK_ENTRIES):
            for k, histogram in enumerate(self._histograms_):
                if histogram is not None:
                    values[block, k] = np.interp(X[block, k], histogram.edges, histogram.cdf)
        return values

    def inverse_transform(self, X: Any) -> Any:
        """Return a value in each bin; for `encode="cdf"` the quantile.

        The value is the estimated mean of the records in the bin or, at infinite `epsilon`,
        its centre, as in `KBinsDiscretizer`. Whole numbers and dates are rounded down.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features_out)
            Output of `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A DataFrame of values in their declared types if there is a schema.
        """
        check_is_fitted(self)
        values = self._invert(X)
        return values if self._columns_ is None else self._columns_.decode(values)

    def _invert(self, X: Any) -> np.ndarray:
        """Return a value in each bin as a number, NaN for missing values."""
        if self.encode == "density":
            raise ValueError("encode='density' has no inverse: many values have one density")
        finite: Any = "allow-nan" if self.encode == "cdf" and self._has_missing_.any() else True
        with errors_without_data(X=X):
            X = check_array(
                X, accept_sparse=self.encode == "onehot", dtype=_FLOATS, ensure_all_finite=finite
            )
        n_columns, _ = self._output()
        if X.shape[1] != n_columns:
            raise ValueError(f"X must have {n_columns} columns; got {X.shape[1]}")
        if self.encode == "cdf":
            values = np.empty_like(X)
            for k, histogram in enumerate(self._histograms_):
                if histogram is None:
                    values[:, k] = 0.0 if self._is_categorical_[k] else np.nan
                else:
                    values[:, k] = np.interp(X[:, k], histogram.cdf, histogram.edges)
            return values
        if "onehot" in self.encode:
            X = bins_from_onehot(X, self.n_bins_)
        if np.any(X < 0) or np.any(self.n_bins_ <= X):
            raise ValueError("X must contain bins from 0 to n_bins_ - 1 of each feature")
        bins = X.astype(np.intp)
        columns = [self._representatives(k)[bins[:, k]] for k in range(bins.shape[1])]
        return np.column_stack(columns).astype(X.dtype, copy=False)

    def _representatives(self, k: int) -> np.ndarray:
        edges, histogram = value_edges(self.bin_edges_[k]), self._histograms_[k]
        if histogram is None or histogram.mechanism.is_exact or self._is_categorical_[k]:
            with np.errstate(invalid="ignore"):
                values = edges[1:] / 2 + edges[:-1] / 2
        else:
            values = histogram.means(edges)
        return np.append(values, np.nan) if self._has_missing_[k] else values

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns.

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
        numbered = zip(names, self.n_bins_, strict=True)
        columns = [f"{name}_{float(k)}" for name, n in numbered for k in range(n)]
        return np.array(columns, dtype=object)

    def linf_error(self, confidence: float = 0.95) -> np.ndarray:
        """Return a bound on the error of `histogram_`, for all bins of a feature at once.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            Probability, over the noise, that the bound holds.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return self._errors(confidence, lambda h: (h.probabilities, h.band(confidence)))

    def cdf_error(self, confidence: float = 0.95) -> np.ndarray:
        """Return a bound on the error of the estimated CDF, for all edges of a feature at once.

        The share of records below an edge of `bin_edges_` is also within this distance.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            Probability, over the noise, that the bound holds.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return self._errors(confidence, lambda h: (h.cdf, h.cdf_band(confidence)))

    def _errors(self, confidence: float, estimate: Any) -> np.ndarray:
        """Return the largest distance between an estimate and its limits, for each feature."""
        check_is_fitted(self)
        check_real("confidence", confidence, above=0, below=1)
        errors = np.zeros(len(self._histograms_))
        for k, histogram in enumerate(self._histograms_):
            if histogram is not None and not histogram.mechanism.is_exact:
                values, (lower, upper) = estimate(histogram)
                errors[k] = max(np.max(values - lower), np.max(upper - values))
        return errors

    def histogram_band(
        self, feature: int, confidence: float = 0.95, starts: Any = None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return simultaneous limits of the true shares of the bins of `histogram_`.

        Parameters
        ----------
        feature : int
            Position of the feature.
        confidence : float in (0, 1), default=0.95
            Probability, over the noise, that all limits hold.
        starts : array-like of int, default=None
            If given, the limits are those of runs of bins that start there.

        Returns
        -------
        tuple of two ndarrays, or None
            Lower and upper limits. None for a feature with a single bin.
        """
        check_is_fitted(self)
        histogram = self._histograms_[feature]
        if histogram is None:
            return None
        return histogram.band(confidence, None if starts is None else np.asarray(starts))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw records from the released histograms, at no privacy cost.

        Features are drawn independently.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            Seed of the draws; not related to the noise.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Uniform within a fine bin; codes of categorical features; nan for a constant
            feature, which is possible only at infinite `epsilon`. A DataFrame of values in
            their declared types if there is a schema.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, at_least=1)
        generator = sampling_generator(random_state)
        drawn = np.full((n_samples, len(self._histograms_)), np.nan)
        for k, histogram in enumerate(self._histograms_):
            if self._is_categorical_[k]:
                shares = self.histogram_[k]
                drawn[:, k] = generator.choice(len(shares), n_samples, p=shares)
            elif histogram is not None:
                drawn[:, k] = np.interp(generator.random(n_samples), histogram.cdf, histogram.edges)
                if histogram.has_missing:
                    drawn[generator.random(n_samples) < histogram.probabilities[-1], k] = np.nan
        return drawn if self._columns_ is None else self._columns_.decode(drawn)

    def to_sklearn(self) -> KBinsDiscretizer:
        """Return the bins as a `KBinsDiscretizer` without sparse output, such as for ONNX.

        Returns
        -------
        KBinsDiscretizer
            Fitted, with the same bins. Its `inverse_transform` returns the centres of bins.
        """
        check_is_fitted(self)
        if self._columns_ is not None or self.encode in ("density", "cdf"):
            raise ValueError("to_sklearn must be called for numeric bins without a schema")
        if min(self.n_bins_) < 2:
            raise ValueError("each feature must have at least two bins to be exported")
        encode = "ordinal" if self.encode == "ordinal" else "onehot-dense"
        sizes = self.n_bins_.tolist()
        bins = KBinsDiscretizer(sizes, encode=encode, strategy="uniform", dtype=self.dtype)
        names = getattr(self, "feature_names_in_", None)
        bins.fit(pd.DataFrame([[0.0] * len(sizes), [1.0] * len(sizes)], columns=names))
        bins.bin_edges_ = deepcopy(self.bin_edges_)
        return bins

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        if self.schema is not None:
            tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags
