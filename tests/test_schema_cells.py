"""Record-wise conversion: a cell's code depends on that cell and on public facts alone."""

import datetime as dt
import pickle
import random
import time
from collections import namedtuple
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdirdp.schema import (
    MISSING,
    OUTSIDE,
    UNKNOWN,
    Categories,
    as_labels,
    as_numbers,
    column_numbers,
    factorise,
    label_codes,
    plain_value,
    rebuild,
    sort_values,
)
from skdirdp.schema.columns import distinct_cells

BIG = 2**53


class Text(str):
    """A string that carries a document."""

    def __new__(cls, value, document="a whole document"):
        made = super().__new__(cls, value)
        made.document = document
        return made

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class Hostile:
    """An object all of whose methods fail with an error that shows data."""

    def _fail(self, *args):
        raise RuntimeError("private data")

    __hash__ = __eq__ = __lt__ = __float__ = __int__ = __index__ = __repr__ = __str__ = _fail
    __class__ = property(_fail)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Whole(int):
    pass


class Real(float):
    pass


Pair = namedtuple("Pair", "left right")

PLAIN = [
    (Text("a"), "a"),
    (np.str_("a"), "a"),
    (Whole(3), 3),
    (np.int64(BIG + 1), BIG + 1),
    (np.bool_(True), True),
    (Real(1.5), 1.5),
    (-0.0, 0.0),
    (np.float32(0.5), 0.5),
    (np.longdouble(0.5), 0.5),
    (np.bytes_(b"x"), b"x"),
    (Decimal("1.50"), Decimal("1.5")),
    (Decimal("1E+2"), Decimal(100)),
    (Decimal("-0"), Decimal(0)),
    (Fraction(2, 4), Fraction(1, 2)),
    (complex(-0.0, 1), 1j),
    (Pair(Text("a"), None), ("a", None)),
    (np.datetime64("2020-01-02"), dt.date(2020, 1, 2)),
    (np.datetime64("2020-01-02", "s"), pd.Timestamp("2020-01-02")),
    (np.timedelta64(3, "s"), pd.Timedelta(3, "s")),
    (pd.Interval(0, np.float64(1.0)), pd.Interval(0, 1.0)),
    (pd.Period("2020-03", "M"), pd.Period("2020-03", "M")),
    (dt.time(1, 2, fold=1), dt.time(1, 2)),
]
NULLS = [None, np.nan, float("nan"), pd.NaT, pd.NA, np.datetime64("NaT"), np.float32("nan")]
NULLS += [np.timedelta64("NaT"), Decimal("nan"), Decimal("sNaN"), complex("nan"), np.ma.masked]


@pytest.mark.parametrize(("value", "plain"), PLAIN)
def test_a_plain_value_has_exactly_a_type_and_a_value(value, plain):
    found = plain_value(value)
    assert type(found) is type(plain)
    assert found == plain
    assert repr(found) == repr(plain)
    assert b"document" not in pickle.dumps(found)


@pytest.mark.parametrize("value", NULLS)
def test_missing_values_have_one_marker(value):
    assert plain_value(value) is np.nan


def test_an_object_of_an_unknown_type_is_not_rebuilt():
    for value in (Hostile(), Colour.RED, [1], {1: 2}, object(), (1, Hostile())):
        assert rebuild(value) is UNKNOWN
    assert pickle.loads(pickle.dumps(UNKNOWN)) is UNKNOWN


def test_equal_times_of_several_zones_have_one_name():
    zones = [dt.timezone.utc, dt.timezone(dt.timedelta(hours=3))]
    noon = dt.datetime(2020, 1, 1, 12, tzinfo=zones[0])
    for made in (lambda value: value, pd.Timestamp):
        first, second = (rebuild(made(noon.astimezone(zone))) for zone in zones)
        assert repr(first) == repr(second)
    seconds, nanoseconds = (rebuild(pd.Timestamp("2020-01-01").as_unit(u)) for u in ("s", "ns"))
    assert pickle.dumps(seconds) == pickle.dumps(nanoseconds)


# Columns -------------------------------------------------------------------------------

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "object array": lambda cells: np.array([*cells, None], dtype=object)[:-1],
    "masked array": lambda cells: np.ma.array(
        [0 if cell is None else cell for cell in cells], mask=[cell is None for cell in cells]
    ),
    "object series": lambda cells: pd.Series(cells, dtype=object),
    "nullable": lambda cells: pd.Series(cells, dtype="Int64"),
    "categorical": lambda cells: pd.Series(
        pd.Categorical(cells, categories=[3, 1, 2, BIG, BIG + 1])
    ),
    "arrow series": lambda cells: pd.Series(cells, dtype="int64[pyarrow]"),
    "polars": lambda cells: pl.Series(cells, dtype=pl.Int64),
    "arrow": lambda cells: pa.array(cells, type=pa.int64()),
    "chunked arrow": lambda cells: pa.chunked_array([cells[:2], cells[2:]], type=pa.int64()),
    "arrow dictionary": lambda cells: pa.array(cells, type=pa.int64()).dictionary_encode(),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_missing_value_leaves_large_integers_apart(container):
    states = [1, BIG, BIG + 1]
    cells = [BIG, BIG + 1, 1, BIG, 1]
    for other, code in ((1, 0), (None, MISSING)):
        column = CONTAINERS[container]([*cells, other])
        codes, distinct = factorise(column)
        assert {type(value) for value in distinct} == {int}
        assert sorted(distinct) == states
        assert Categories(tuple(states)).encode_distinct(codes, distinct).tolist() == [
            1,
            2,
            0,
            1,
            0,
            code,
        ]


TEXTS = {
    "list": list,
    "object array": lambda cells: np.array(cells, dtype=object),
    "fixed width": lambda cells: np.array(["" if cell is None else cell for cell in cells]),
    "object series": lambda cells: pd.Series(cells, dtype=object),
    "python strings": lambda cells: pd.Series(cells, dtype=pd.StringDtype("python")),
}


@pytest.mark.parametrize("container", TEXTS)
def test_a_lone_surrogate_is_another_value_than_its_repr(container):
    lone = "\udc80"
    cells = [lone, repr(lone)[1:-1], repr(lone), "a", lone]
    for other in ("a", None, "\udc81"):
        codes, distinct = factorise(TEXTS[container]([*cells, other]))
        assert codes[:5].tolist() == [0, 1, 2, 3, 0]
        assert distinct[:4] == cells[:4]


def test_texts_have_the_same_codes_with_and_without_arrow(monkeypatch):
    cells = ["a", None, Text("b"), "a\0c", "", "a", np.nan, "ä", np.str_("b"), pd.NA, "a\0d"]
    columns = [cells, np.array(cells, dtype=object), pd.Series(cells, dtype=object)]
    columns += [pd.Series(map(plain_value, cells), dtype="string"), pl.Series(["b", None, "a\0c"])]
    with_arrow = [factorise(column) for column in columns]
    monkeypatch.setattr("skdirdp.schema.columns._numbered_texts", lambda cells: None)
    for column, (codes, distinct) in zip(columns, with_arrow, strict=True):
        without, others = factorise(column)
        assert without.tolist() == codes.tolist()
        assert [(type(value), value) for value in others] == [(str, value) for value in distinct]
    assert with_arrow[0][1] == ["a", "b", "a\0c", "", "ä", "a\0d"]


def test_one_odd_cell_changes_no_other_in_a_column_of_objects():
    cells = [True, False, 1, "a", "1", 0.5, BIG, BIG + 1, Decimal("0.1"), None]
    states = [True, False, "a", "1", 0.5, BIG, BIG + 1, Decimal("0.1")]
    expected = [0, 1, 0, 2, 3, 4, 5, 6, 7, MISSING]
    for odd in (10**30, 10**400, "\udc80", Hostile(), [1], Text("a"), np.nan, object(), 1j):
        codes, distinct = factorise([*cells, odd, *cells])
        found = Categories(tuple(states)).encode_distinct(codes, distinct)
        assert found[:10].tolist() == expected
        assert found[11:].tolist() == expected


@pytest.mark.parametrize("storage", ["python", "pyarrow"])
def test_categories_of_pandas_strings_are_encoded_like_their_cells(storage):
    texts = pd.Series(["b", None, "a", "b"], dtype=pd.StringDtype(storage)).astype("category")
    codes, distinct = distinct_cells(texts.cat.add_categories(["unused"]))
    assert [distinct[code] if code >= 0 else None for code in codes] == ["b", None, "a", "b"]
    assert {type(value) for value in distinct} == {str}


def test_categories_of_pandas_are_encoded_like_their_cells():
    red, unknown = Colour.RED, object()
    for cells in (["b", None, "a", "b"], [unknown, "a", None, red], [2, 1, None, 2]):
        objects = np.array(cells, dtype=object)
        categories = [cell for cell in dict.fromkeys(reversed(cells)) if cell is not None]
        column = pd.Series(pd.Categorical(objects, categories=categories))
        for found in (column, column.array, pd.Index(column)):
            codes, distinct = distinct_cells(found, (red,))
            expected, values = distinct_cells(objects, (red,))
            names = [distinct[code] if code >= 0 else code for code in codes.tolist()]
            assert names == [values[code] if code >= 0 else code for code in expected.tolist()]


def test_objects_that_cannot_be_rebuilt_are_found_among_declared_values_only():
    states = [Colour.RED, Colour.BLUE, "other"]
    codes, distinct = distinct_cells([Colour.BLUE, "other", Hostile(), [1]], states)
    assert Categories(tuple(states)).encode_distinct(codes, distinct).tolist() == [
        1,
        2,
        OUTSIDE,
        OUTSIDE,
    ]
    codes, distinct = factorise([Colour.BLUE, "other", Hostile(), [1]])
    assert codes.tolist() == [OUTSIDE, 0, OUTSIDE, OUTSIDE]
    assert distinct == ["other"]


def test_distinct_values_occur_in_the_rows_that_are_counted():
    column = pd.Series(pd.Categorical(["a", "b", "a", None, "c"], categories=[*"edcba"]))
    codes, distinct = factorise(column, rows=np.array([1, 3, 1]))
    assert (codes.tolist(), distinct) == ([0, MISSING, 0], ["b"])
    codes, distinct = factorise(pl.Series([5, None, 5]))
    assert (codes.tolist(), distinct) == ([0, MISSING, 0], [5])


def test_equal_values_of_several_types_have_one_name_in_any_order():
    ones = [True, 1, Decimal(1), np.int64(1), 1.0, Fraction(1)]
    for first in ones:
        codes, distinct = factorise([first, *ones, 2])
        assert len(distinct) == 6
        names = sort_values(distinct)
        assert [(type(name), name) for name in names] == [(int, 1), (int, 2)]
        assert set(Categories(tuple(names)).encode_distinct(codes, distinct)[:-1]) == {0}
    assert sort_values([True, False, "a"]) == [False, True, "a"]
    assert sort_values([pd.Period("2020", "Y"), pd.Period("2020-01", "M")])


def test_a_column_of_booleans_keeps_its_names():
    for column in (
        np.array([True, False]),
        pd.Series([True, False]),
        pd.Series([True, None, False], dtype="boolean"),
        pl.Series([True, None, False]),
        pa.array([True, None, False]),
        [True, None, False],
    ):
        assert [str(name) for name in sort_values(factorise(column)[1])] == ["False", "True"]


def test_times_of_all_containers_have_the_same_names():
    days = [dt.datetime(2020, 1, 1), None, dt.datetime(9998, 1, 1)]
    names = [pd.Timestamp("2020-01-01"), pd.Timestamp(dt.datetime(9998, 1, 1))]
    for column in (
        np.array(days, dtype="M8[us]"),
        pd.Series(np.array(days, dtype="M8[us]")),
        pl.Series(days),
        pa.array(days),
        pd.Series(days, dtype="timestamp[us][pyarrow]"),
    ):
        codes, distinct = factorise(column)
        assert codes[1] == MISSING
        assert sort_values(distinct) == names
    dates = [None if day is None else day.date() for day in days]
    for column in (pl.Series(dates), pa.array(dates), np.array(dates, dtype="M8[D]"), dates):
        codes, distinct = factorise(column)
        assert (codes.tolist(), distinct) == ([0, MISSING, 1], [dates[0], dates[2]])
    zoned = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("Asia/Tokyo"))
    for column in (zoned, pl.Series(zoned), pa.array(zoned), zoned.tolist()):
        assert factorise(column)[1] == zoned.tolist()


@pytest.mark.parametrize(
    "container",
    [
        lambda times: pd.Series(pd.DatetimeIndex(times, tz="UTC")),
        lambda times: pl.Series(times, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC"),
        lambda times: pa.array(times, pa.timestamp("us", tz="UTC")),
    ],
)
def test_a_missing_time_with_a_zone_is_missing(container):
    times = [dt.datetime(2020, 1, 1), None, dt.datetime(2021, 1, 1)]
    codes, distinct = factorise(container(times))
    assert codes.tolist() == [0, MISSING, 1]
    assert len(distinct) == 2


def test_a_date_in_milliseconds_becomes_its_day():
    dates = pa.array([-1, 0, 86_400_001, None], pa.int64()).view(pa.date64())
    codes, distinct = factorise(dates)
    assert codes.tolist() == [0, 1, 2, MISSING]
    assert distinct == [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 2)]


def test_a_decimal_with_many_zeros_is_rebuilt_in_linear_time():
    start = time.perf_counter()
    assert rebuild(Decimal("1" + "0" * 100_000)) == Decimal("1E+100000")
    assert time.perf_counter() - start < 2


def test_a_table_of_objects_with_a_missing_value_keeps_its_shape():
    for missing in (pd.NA, pd.NaT, None):
        numbers = as_numbers(np.array([[1, missing], [2, 3]], dtype=object))
        assert np.array_equal(numbers, [[1, np.nan], [2, 3]], equal_nan=True)


def test_a_missing_label_in_an_array_of_strings_is_no_class():
    y = np.array(["a", None, "b"], dtype=np.dtypes.StringDType(na_object=None))
    assert label_codes(as_labels(y), np.array(["a", "b"])).tolist() == [0, -1, 1]


def test_a_category_does_not_change_the_type_of_others():
    for odd in ("x", 10**400):
        categories = pd.Index([pd.Timestamp("2020"), odd], dtype=object)
        column = pd.Series(pd.Categorical.from_codes([0, 0, 1], categories=categories))
        alone = pd.Series(pd.Categorical.from_codes([0, 0], categories=categories[:1]))
        assert factorise(column)[0].tolist() == [0, 0, 1]
        assert column_numbers(column)[1][:2].tolist() == column_numbers(alone)[1].tolist()


def test_a_time_out_of_range_has_no_name():
    codes, distinct = factorise(np.array([0, 10**15], dtype="M8[D]"))
    assert (codes.tolist(), distinct) == ([0, OUTSIDE], [dt.date(1970, 1, 1)])


MIXED = [*"ab", "", "1", None, 1, 0, True, 1.0, 0.5, -0.0, BIG, BIG + 1, "\udc80", repr("\udc80")]
MIXED += ["a\0b", "a\0c", Decimal("0.1"), Fraction(1, 10), (1, "a"), (1.0, "a"), b"a", 1j]
MIXED += [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), pd.Timestamp("2020-01-01"), np.int64(1)]
ODD = [*MIXED, Text("a"), Text("new"), Hostile(), [1], {}, object(), 10**30, 10**400, Whole(1)]
ODD += [
    float("inf"),
    pd.NA,
    pd.NaT,
    np.ma.masked,
    Decimal("sNaN"),
    np.array([1, 2]),
    (1, [2]),
    set(),
]


def object_array(cells):
    array = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        array[row] = cell
    return array


def test_replacing_a_random_cell_changes_no_other():
    """Names, types, order and numbers of all other records, in columns of objects."""
    rng = random.Random(0)
    containers = (list, object_array, lambda cells: pd.Series(object_array(cells), dtype=object))
    for _ in range(1500):
        some = rng.sample(MIXED, rng.randint(1, 8))
        cells = rng.choices(some, k=rng.randint(2, 12))
        row = rng.randrange(len(cells))
        container, found = rng.choice(containers), []
        for replaced in (cells[row], rng.choice(ODD)):
            column = container([*cells[:row], replaced, *cells[row + 1 :]])
            codes, distinct = factorise(column)
            order = sort_values(distinct)
            names = [code if code < 0 else repr(distinct[code]) for code in codes.tolist()]
            states = Categories(tuple(MIXED)).encode_distinct(codes, distinct).tolist()
            numbers = column_numbers(column)[0].tolist()
            found.append([names, states, [repr(number) for number in numbers]])
            rng.shuffle(distinct)
            assert repr(sort_values(distinct)) == repr(order)
        for values in zip(*found, strict=True):
            first, second = ([*each[:row], *each[row + 1 :]] for each in values)
            assert first == second


# Numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [10**30, 10**400, None, "7", " 1e3 ", Decimal("0.1"), pd.NA, ""])
def test_one_odd_number_changes_no_other(odd):
    cells = [True, False, 3, 2.5, "4", np.int8(5), None]
    for container in (list, lambda values: pd.Series(values, dtype=object)):
        found, wrong = column_numbers(container([*cells, odd, *cells]))
        assert not wrong.any()
        for part in (found[:7], found[8:]):
            np.testing.assert_array_equal(part, [1, 0, 3, 2.5, 4, 5, np.nan])
    text = "nan" if odd is None or odd is pd.NA or odd == "" else str(odd)
    assert found[7] == float(text) or np.isnan(found[7]) == (text == "nan")


@pytest.mark.parametrize("container", CONTAINERS)
def test_numbers_of_all_containers_are_the_same(container):
    found, wrong = column_numbers(CONTAINERS[container]([1, None, BIG, 3]))
    assert not wrong.any()
    np.testing.assert_array_equal(found, [1, np.nan, BIG, 3])


def test_a_cell_that_is_no_number_is_marked():
    for odd in ("text", "1_000", 1j, Hostile(), [1], dt.date(2020, 1, 1)):
        numbers, wrong = column_numbers([1, odd, 2.0])
        assert wrong.tolist() == [False, True, False]
        assert numbers[[0, 2]].tolist() == [1, 2]
