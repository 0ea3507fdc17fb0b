"""Tables change within the charged bounds, for any container, dtype and order of calls.

Each example is a use of the public interface: an estimator with parameters, one or several batches
in some container and dtype, `set_params` between them, and a release. It runs three times: with a
record, with another record in its place, and without it. The tables that are passed to the
mechanisms must differ by at most what the mechanisms were charged for:

- the contribution of a record to a table is within `max_count` and `max_total`, and in one cell
  if there is no `max_total`;
- the releases, `privacy_` and the charge of the accountant agree;
- the noise does not depend on the record, unless `privacy_` names a parameter that was taken from
  the data;
- an example that raises an error has charged nothing.

The tests know nothing of how rows are bounded, so they cover every implementation.
"""

import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import ClassifierMixin

from skdirdp import (
    DirichletBernoulliNB,
    DirichletCategoricalNB,
    DirichletComplementNB,
    DirichletHistogramTransformer,
    DirichletNB,
    PrivateBayesNetMLE,
)

from .probes import Recorder, charged_releases, drawn_tables, outside_bounds


def tried(ways, n):
    """Check a number of examples, the same ones in every run."""
    repeatable = settings(
        max_examples=n,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return lambda test: repeatable(given(ways)(test))


# --- Containers -----------------------------------------------------------------

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS, "longdouble", "object")
#: Formats that can hold several entries for one cell; the row's value is their sum.
REPEATING = ("csr", "csc", "bsr", "coo")
FORMATS = (*REPEATING, "dok", "lil", "dia")
NULLABLE = {
    "bool": "boolean",
    **{name: name.replace("i", "I", 1).replace("uI", "UI") for name in INTEGERS},
    "float32": "Float32",
    "float64": "Float64",
}
CONTAINER_DTYPES = {
    **dict.fromkeys(("C", "F", "list", "frame"), DTYPES),
    "nullable frame": tuple(NULLABLE),
    "sparse frame": ("bool", *INTEGERS, "float32", "float64"),
    "polars": ("bool", *INTEGERS, "float32", "float64"),
    **{
        f"{name}_{kind}": ("bool", *INTEGERS, "float32", "float64", "longdouble")
        for name in FORMATS
        for kind in ("array", "matrix")
    },
}
DENSE = ("C", "F", "list", "frame", "nullable frame", "sparse frame", "polars")
N_FEATURES = 3


@dataclass(frozen=True)
class Record:
    """A row, its label and weight, and how often a sparse row repeats each entry."""

    values: tuple
    label: Any = 0
    weight: float = 1.0
    repeats: int = 1


@dataclass(frozen=True)
class Batch:
    """Records in a container, with parameters that are set before they are counted.

    `stale` sparse matrices say that their entries are sorted and not repeated.
    """

    records: tuple[Record, ...]
    container: str = "C"
    dtype: str = "float64"
    weights: str | None = None
    unsorted: bool = False
    stale: bool = False
    changes: dict[str, Any] = field(default_factory=dict)

    def data(self):
        return _contain(self)

    def labels(self):
        return [record.label for record in self.records]

    def sample_weight(self):
        if self.weights is None:
            return None
        return np.array([record.weight for record in self.records], dtype=self.weights)


def _contain(batch):
    rows = [record.values for record in batch.records]
    kind, dtype = batch.container, batch.dtype
    dense = np.array(rows, dtype=dtype)
    if kind == "C":
        return dense
    if kind == "F":
        return np.asfortranarray(dense)
    if kind == "list":
        return dense.tolist()
    if kind == "polars":
        return pl.DataFrame({str(k): column.copy() for k, column in enumerate(dense.T)})
    if kind.endswith("frame"):
        frame = pd.DataFrame(dense, columns=[str(k) for k in range(dense.shape[1])])
        if kind == "nullable frame":
            return frame.astype(NULLABLE[dtype])
        if kind == "sparse frame":
            return frame.astype(pd.SparseDtype(dtype, np.zeros((), dtype)[()]))
        return frame
    name = kind.split("_")[0]
    if name not in REPEATING:
        return getattr(sparse, kind)(dense)
    # Every entry is kept, zeros too: a stored 0 must not matter.
    entries = [
        (row, column, value)
        for row, record in enumerate(batch.records)
        for column, value in enumerate(dense[row])
        for _ in range(record.repeats)
    ]
    if batch.unsorted:
        entries.reverse()
    major = 1 if name == "csc" else 0
    if name != "coo":
        entries.sort(key=lambda entry: entry[major])
    indices = np.array([entry[:2] for entry in entries], dtype=np.int32).reshape(-1, 2)
    values = np.array([entry[2] for entry in entries], dtype=dtype)
    make = getattr(sparse, kind)
    if name == "coo":
        found = make((values, indices.T), shape=dense.shape)
    else:
        ends = np.searchsorted(indices[:, major], np.arange(dense.shape[major] + 1))
        values = values[:, np.newaxis, np.newaxis] if name == "bsr" else values
        found = make((values, indices[:, 1 - major], ends), shape=dense.shape)
    if batch.stale:
        found.has_canonical_format = True
        if name != "coo":
            found.has_sorted_indices = True
    return found


# --- Ways to a release ----------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """Estimator, its batches, and the record that is removed.

    With `whole` the only batch is fitted at once, else all are partially.
    """

    estimator: type
    parameters: dict[str, Any]
    batches: tuple[Batch, ...]
    first: Record
    second: Record
    at: int = 0
    whole: bool = True
    changes: dict[str, Any] = field(default_factory=dict)

    def go(self, record):
        """Return the released tables, with the record or without it."""
        recorder = Recorder()
        model = self.estimator(**self.parameters, accountant=recorder)
        batches = list(self.batches)
        if record is not None:
            batch = batches[self.at]
            batches[self.at] = replace(batch, records=(*batch.records, record))
        # As for a user: a warning does not stop a fit.
        with drawn_tables() as tables, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = [(batch.data(), batch.labels(), batch.sample_weight()) for batch in batches]
            try:
                for batch, (X, y, weight) in zip(batches, data, strict=True):
                    model.set_params(**batch.changes)
                    if not issubclass(self.estimator, ClassifierMixin):
                        model.fit(X)
                    elif self.whole:
                        model.fit(X, y, sample_weight=weight)
                    else:
                        model.partial_fit(X, y, sample_weight=weight)
                if not self.whole:
                    model.set_params(**self.changes)
                    model.release()
                refusal = None
            except (TypeError, ValueError) as error:
                refusal = repr(error)
        if refusal is None:
            return Released(tables, model.privacy_, charged_releases(recorder.charges))
        assert not recorder.charges, f"charged, and then failed: {refusal}"
        assert not tables, f"released, and then failed: {refusal}"
        return None


@dataclass(frozen=True)
class Released:
    tables: list[tuple[Any, np.ndarray]]
    privacy: Any
    charged: Counter


#: The coarsest grid that contributions may be rounded to, as a part of their bound.
GRID = 2.0**-19
#: Parameters that may be taken from the data without changing the cells of tables.
BOUNDS = {"max_count", "max_total", "max_weight", "n_samples"}


def check(way):
    """Assert that neighbours differ within the charged bounds; return the number of tables."""
    without, first, second = (way.go(record) for record in (None, way.first, way.second))
    releases = [released for released in (without, first, second) if released is not None]
    for released in releases:
        drawn = Counter(mechanism for mechanism, _ in released.tables)
        assert drawn == dict(released.privacy.mechanisms), "drawn is not what privacy_ says"
        assert drawn == released.charged, "drawn is not what was charged"
    n_records = 1 + sum(len(batch.records) for batch in way.batches)
    for after, before in ((first, without), (second, without), (first, second), (second, first)):
        if before is None or after is None or np.isinf(after.privacy.epsilon):
            continue
        if not BOUNDS.issuperset(after.privacy.not_covered):
            continue  # cells mean something else where classes or categories are other ones
        for (mechanism, cells), (other, others) in zip(after.tables, before.tables, strict=True):
            rounding = n_records * np.spacing(max(cells.max(), others.max()))
            if mechanism.contribution != other.contribution:
                # Rows may be rounded to a grid that follows from the bounds, here the data's.
                rounding += n_records * GRID * max(mechanism.max_count, other.max_count)
            change = cells - others
            if before is not without:  # and the other record's part is negative
                change = np.maximum(change, 0)
            wrong = outside_bounds(change, mechanism, rounding)
            assert wrong is None, f"{wrong}, of {mechanism!r}"
    public = [
        released
        for released in releases
        if np.isfinite(released.privacy.epsilon) and not released.privacy.not_covered
        # Under replacement the number of records is public, and without one it is another.
        if released is not without or released.privacy.adjacency == "add_remove"
    ]
    for released in public[1:]:
        assert released.privacy == public[0].privacy, "noise depends on the data"
    return len(releases)


# --- Ways that are tried --------------------------------------------------------

MAX_COUNTS = (None, 0.05, 0.3, 1, 2.0, 1e20, np.uint8(16), np.int8(100), np.float16(0.1))
MAX_TOTALS = (None, 0.3, 1, 2.5, 20, 1e6, np.uint8(200), np.int8(127), np.float16(0.3))
MAX_WEIGHTS = (None, 0.01, 0.25, 1, 20, np.uint8(20), np.int8(2), np.float16(0.1))
WEIGHTS = (0.01, 0.0625, 0.25, 1.0, 2.0, 20.0)
FRACTIONS = (0.1, 0.25, 0.3, 1 / 3, 0.7, 1.5, 7.3)


def values(dtype):
    """Numbers of a type: small ones, and the largest there are."""
    if dtype == "bool":
        return st.sampled_from((0, 1))
    small = (0, 1, 2, 3, 7)
    if dtype in INTEGERS:
        largest = int(np.iinfo(dtype).max)
        return st.sampled_from((*small, largest, largest // 2 + 1, largest // 3))
    if dtype == "object":
        return st.sampled_from((*small, *FRACTIONS, 2**70))
    # Not the largest doubles, whose sum overflows.
    largest = float(np.finfo(dtype if dtype != "longdouble" else "float64").max) / 16
    return st.sampled_from((*small, *FRACTIONS, largest, largest**0.5))


def codes(dtype):
    """Categories, and numbers that are none."""
    if dtype == "bool":
        return st.sampled_from((0, 1))
    none = () if dtype.startswith("uint") else (-1,)
    return st.sampled_from((0, 1, 2, 0, 1, 2, 3, *none))


def zeros_and_ones(dtype):
    return st.sampled_from((0, 1))


@st.composite
def records(draw, kind, dtype, max_weight=None):
    within = [w for w in WEIGHTS if max_weight is None or w <= max_weight]
    # The largest weight is the worst.
    worst = within[-1] if max_weight is None else float(max_weight)
    return Record(
        tuple(draw(kind(dtype)) for _ in range(N_FEATURES)),
        draw(st.sampled_from((0, 1))),
        draw(st.sampled_from((worst, worst, 0.0, *within))),
        draw(st.sampled_from((1, 2, 20))),
    )


@st.composite
def batches(draw, containers, changes, max_weight):
    dtype = draw(st.sampled_from(DTYPES))
    container = draw(st.sampled_from([c for c in containers if dtype in CONTAINER_DTYPES[c]]))
    changed = {} if changes is None else draw(changes)
    max_weight = changed.get("max_weight", max_weight)
    # One record besides, with small numbers, so that nothing is lost when it is added; of
    # the weights one at least must not be 0.
    other = replace(draw(records(zeros_and_ones, dtype, max_weight)), weight=WEIGHTS[0])
    return Batch(
        (other,),
        container,
        dtype,
        draw(st.sampled_from((None, "float64", "float32", "float16", "object"))),
        draw(st.booleans()),
        draw(st.booleans()),
        changed,
    )


@st.composite
def ways(draw, estimator, kind, containers, parameters, changes=None):
    """A way of one batch; or of several, with `set_params` in between."""
    given = {**draw(st.fixed_dictionaries(parameters)), **draw(BUDGETS)}
    max_weight = given.get("max_weight")
    several = [draw(batches(containers, None, max_weight))]
    after = {}
    if changes is not None:
        for _ in range(draw(st.integers(0, 2))):
            max_weight = several[-1].changes.get("max_weight", max_weight)
            several.append(draw(batches(containers, changes, max_weight)))
        after = draw(changes)
    at = draw(st.integers(0, len(several) - 1))
    max_weight = given.get("max_weight")
    for batch in several[: at + 1]:
        max_weight = batch.changes.get("max_weight", max_weight)
    first, second = (draw(records(kind, several[at].dtype, max_weight)) for _ in range(2))
    return Way(
        estimator, given, tuple(several), first, second, at, whole=changes is None, changes=after
    )


# One order is quick to calibrate for, and the noise does not matter here.
BUDGETS = st.fixed_dictionaries(
    {
        "epsilon": st.sampled_from((1.0, 1.0, 1.0, np.float16(2.0), np.inf)),
        "order": st.just(2.0),
        "mechanism": st.sampled_from(("gaussian",) * 6 + ("laplace", "dirichlet")),
        "adjacency": st.sampled_from(("replace", "add_remove")),
        "n_samples": st.sampled_from((10, 10, np.uint8(200), None)),
    }
)


def changes_of(**parameters):
    return st.fixed_dictionaries(
        {},
        optional={
            **{name: st.sampled_from(choices) for name, choices in parameters.items()},
            "epsilon": st.sampled_from((1.0, 0.5, np.inf)),
            "adjacency": st.sampled_from(("replace", "add_remove")),
        },
    )


ROWS = {
    "classes": st.just([0, 1]),
    "fit_prior": st.booleans(),
    "max_count": st.sampled_from(MAX_COUNTS),
    "max_total": st.sampled_from(MAX_TOTALS),
    "max_weight": st.sampled_from(MAX_WEIGHTS),
}
ROW_CHANGES = changes_of(max_count=MAX_COUNTS, max_total=MAX_TOTALS, max_weight=MAX_WEIGHTS)
COMPLEMENT = {**ROWS, "norm": st.booleans()}
#: Two of three features at most, all, or none declared; some values are no 0 or 1.
OCCURRENCES = {
    "classes": st.just([0, 1]),
    "fit_prior": st.booleans(),
    "binarize": st.sampled_from((0.0, 1.5, None)),
    "max_total": st.sampled_from((None, 1, 2, np.int8(2), 3)),
    "max_weight": st.sampled_from(MAX_WEIGHTS),
}
OCCURRENCE_CHANGES = changes_of(
    binarize=(0.0, 1.5, None), max_total=(None, 1, 2), max_weight=MAX_WEIGHTS
)
CATEGORIES = {
    "classes": st.just([0, 1]),
    "fit_prior": st.booleans(),
    "n_categories": st.sampled_from((3, np.int8(3), [3, 4, 5], None)),
    "max_weight": st.sampled_from(MAX_WEIGHTS),
}
CATEGORY_CHANGES = changes_of(max_weight=MAX_WEIGHTS, n_categories=(3, 5, [3, 4, 5]))
BINS = {
    "bounds": st.sampled_from(([(0, 3), (0.25, 7.5), None], (np.int8(0), np.int8(100)), None)),
    "n_categories": st.sampled_from((None, [None, None, np.int8(8)])),
    "n_fine_bins": st.just(6),
    "n_bins": st.just(3),
}
NODES = {
    "structure": st.just({"0": [], "1": ["0"], "2": ["0", "1"]}),
    "states": st.sampled_from(({name: [0, 1, 2] for name in "012"}, None)),
    "columns": st.just(["0", "1", "2"]),
    "split": st.just("even"),
}


@tried(ways(DirichletNB, values, tuple(CONTAINER_DTYPES), ROWS), 400)
def test_sums_of_rows_change_within_the_charged_bound(way):
    check(way)


@tried(ways(DirichletNB, values, tuple(CONTAINER_DTYPES), ROWS, ROW_CHANGES), 150)
def test_sums_of_rows_in_batches_change_within_the_charged_bound(way):
    check(way)


@tried(ways(DirichletCategoricalNB, codes, DENSE, CATEGORIES), 60)
def test_counts_of_categories_change_within_the_charged_bound(way):
    check(way)


@tried(ways(DirichletCategoricalNB, codes, DENSE, CATEGORIES, CATEGORY_CHANGES), 100)
def test_counts_of_categories_in_batches_change_within_the_charged_bound(way):
    check(way)


@tried(ways(DirichletComplementNB, values, tuple(CONTAINER_DTYPES), COMPLEMENT), 60)
def test_sums_of_complements_change_within_the_charged_bound(way):
    check(way)


@tried(ways(DirichletBernoulliNB, values, tuple(CONTAINER_DTYPES), OCCURRENCES), 100)
def test_occurrences_change_within_the_charged_bound(way):
    check(way)


@tried(
    ways(DirichletBernoulliNB, values, tuple(CONTAINER_DTYPES), OCCURRENCES, OCCURRENCE_CHANGES),
    100,
)
def test_occurrences_in_batches_change_within_the_charged_bound(way):
    check(way)


@tried(ways(DirichletHistogramTransformer, values, DENSE, BINS), 60)
def test_histograms_change_within_the_charged_bound(way):
    check(way)


@tried(ways(PrivateBayesNetMLE, codes, DENSE, NODES), 60)
def test_tables_of_a_network_change_within_the_charged_bound(way):
    check(way)


# --- Ways that once led past the bounds -----------------------------------------

QUICK = {"classes": [0, 1], "order": 2.0, "mechanism": "gaussian", "n_samples": 10}


def sums(*batches, first, second=(0, 0, 0), changes=None, at=0, **parameters):
    """A way of `DirichletNB`, partially if something changes."""
    whole = changes is None and len(batches) == 1
    first = first if isinstance(first, Record) else Record(first)
    return Way(
        DirichletNB,
        {**QUICK, **parameters},
        batches,
        first,
        Record(second),
        at,
        whole,
        changes or {},
    )


def batch(*rows, **how):
    return Batch(tuple(Record(row) for row in rows or [(0, 1, 0)]), **how)


KNOWN = {
    "no weights and a max_weight below 1": sums(
        batch(), first=(1, 0, 0), max_count=1, max_total=1, max_weight=0.01
    ),
    "no weights in a batch and a max_weight below 1": sums(
        batch(),
        first=(1, 0, 0),
        max_count=1,
        max_total=1,
        max_weight=0.01,
        changes={"delta": 0.1},
    ),
    "no weights of categories and a max_weight below 1": Way(
        DirichletCategoricalNB,
        {**QUICK, "n_categories": 3, "max_weight": 0.01},
        (batch(),),
        Record((2, 0, 0)),
        Record((0, 0, 0)),
    ),
    **{
        f"repeated entries of {kind}{', said to have none' * stale}": sums(
            batch(container=kind, stale=stale),
            first=Record((1, 0, 0), repeats=20),
            max_count=1,
            max_total=20,
        )
        for kind in ("csr_array", "csr_matrix", "csc_array", "bsr_array", "coo_array")
        for stale in (False, True)
    },
    "repeated entries of int8 that wrap": sums(
        batch(container="csr_array", dtype="int8"),
        first=Record((100, 0, 0), repeats=2),
        max_count=1,
        max_total=1,
    ),
    "repeated entries of another record and no max_count": sums(
        Batch((Record((1, 0, 0), repeats=20),), container="csr_array"),
        first=(20, 0, 0),
        max_total=1000,
    ),
    "bounds set lower before the release": sums(
        batch(),
        first=(1, 0, 0),
        max_count=1,
        max_total=1,
        changes={"max_count": 0.05, "max_total": 0.05},
    ),
    "bounds set lower between batches": sums(
        batch(),
        batch(changes={"max_count": 0.05, "max_total": 0.05}),
        first=(1, 0, 0),
        max_count=1,
        max_total=1,
    ),
    "max_weight set lower before the release": sums(
        batch(weights="float64"),
        first=(1, 0, 0),
        max_count=1,
        max_total=1,
        max_weight=1,
        changes={"max_weight": 0.01},
    ),
    "epsilon made finite before the release": sums(
        batch(),
        first=(7, 7, 7),
        max_count=1,
        max_total=1,
        epsilon=np.inf,
        changes={"epsilon": 1.0},
    ),
    "bounds given after data were counted without": sums(
        batch(), first=(7, 7, 7), changes={"max_count": 1, "max_total": 1}
    ),
    "n_categories given after data were counted without": Way(
        DirichletCategoricalNB,
        {**QUICK, "n_categories": None},
        (batch(),),
        Record((2, 0, 0)),
        Record((0, 0, 0)),
        whole=False,
        changes={"n_categories": 2},
    ),
    "entries of float16 that are rounded up": sums(
        batch(dtype="float16"), first=(1, 0, 0), max_count=0.3, max_total=1
    ),
    "totals of float16 that are rounded": sums(
        batch(dtype="float16"), first=(1, 1 / 3, 0.7), max_count=1, max_total=1
    ),
    "totals of float32 that are rounded": sums(
        batch(dtype="float32"), first=(1, 1 / 3, 0.7), max_count=1, max_total=1
    ),
    "bounds of uint8 whose product wraps": sums(
        batch(weights="float64"),
        first=Record((16, 0, 0), weight=20.0),
        max_count=np.uint8(16),
        max_total=np.uint8(16),
        max_weight=20,
    ),
    "bounds of float16 whose product is rounded": sums(
        batch(weights="float64"),
        first=Record((1, 0, 0), weight=0.3),
        max_count=np.float16(0.3),
        max_total=1,
        max_weight=0.3,
    ),
    **{
        f"totals of {dtype} that wrap, {kind}": sums(
            batch(dtype=dtype, container=kind),
            first=(np.iinfo(dtype).max, np.iinfo(dtype).max, 3),
            max_count=1e20,
            max_total=1,
        )
        for dtype in ("int64", "uint64")
        for kind in ("C", "csr_array")
    },
    "a row of longdouble": sums(
        batch(dtype="longdouble"), first=(1, 1 / 3, 0.7), max_count=1, max_total=1
    ),
}


@pytest.mark.parametrize("way", KNOWN.values(), ids=KNOWN)
def test_known_ways_around_the_bounds_are_closed(way):
    check(way)
