"""A schema encodes each record by that record and public declarations alone."""

import copy
import csv
import datetime as dt
import pickle
import random
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skdirdp import Schema
from skdirdp.schema import NO_PERSON
from skdirdp.schema import columns as record_columns
from skdirdp.schema import kinds as record_kinds

BIG = 2**53


class Text(str):
    """A string that is equal to everything."""

    document = "private"

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class Hostile:
    """An object all of whose methods fail with an error that shows data."""

    def _fail(self, *args):
        raise RuntimeError("private")

    __hash__ = __eq__ = __lt__ = __float__ = __int__ = __index__ = __repr__ = __str__ = _fail
    __class__ = property(_fail)


class HostileType(type):
    def __hash__(cls):
        raise RuntimeError("private")

    __eq__ = __hash__


class OfHostileType(metaclass=HostileType):
    pass


class Disguised:
    """An object that claims to be a text."""

    __class__ = property(lambda self: str)


class HostileTime(pd.Timestamp):
    @property
    def asm8(self):
        raise RuntimeError("private")


class Equal:
    """An object that is equal to everything, with the hash of a category."""

    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        return True


class Colour(Enum):
    RED = 1


TOKYO = dt.timezone(dt.timedelta(hours=9))
KINDS = {
    "texts": ["a", "1", "00123", "250.00", "\udc80"],
    "codes": Schema.categories([0, 1, BIG, BIG + 1], other="other"),
    "truth": bool,
    "mixed": [1, "x", 0.5, dt.date(2020, 1, 1), (1, 2), b"a", Colour.RED],
    "whole": (0, 1000),
    "large": (-BIG, BIG),
    "numbers": (-1.5, 1e6),
    "no missing": Schema.numbers(0, 9, missing=False),
    "dates": ("1600-01-01", "2400-12-31"),
    "times": Schema.dates("2020-01-01", "2021-01-01", resolution="microsecond"),
    "formatted": Schema.dates("01/02/2000", "01/02/2030", format="%d/%m/%Y", resolution="month"),
}
ORDINARY = {
    "texts": ["a", "1", "00123", None, "z"],
    "codes": [0, 1, BIG, BIG + 1, None],
    "truth": [True, False, None],
    "mixed": [1, "x", 0.5, dt.date(2020, 1, 1), None],
    "whole": [0, 7, 1000, None],
    "large": [0, BIG - 1, 1 - BIG, 2**52 + 1, None],
    "numbers": [0.1, -1.5, 250, None],
    "no missing": [0, 5, 9],
    "dates": [dt.date(2020, 2, 29), dt.date(1969, 12, 31), None],
    "times": [dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 5, 5, 5, 5, 5, 5), None],
    "formatted": ["03/04/2005", "2005-03-04", "2005-03-04 00:00:00", dt.date(2005, 3, 4), None],
}
ODD = [None, np.nan, pd.NA, pd.NaT, np.ma.masked, np.datetime64("NaT"), True, np.bool_(False)]
ODD += [1, "1", 1.0, -0.0, 0.5, np.int8(1), np.float32(0.1), BIG + 1, 10**30, -(10**400), 10**5000]
ODD += [float("inf"), -np.inf, Decimal("1.50"), Decimal("1E+999999"), Decimal("sNaN"), 1j]
ODD += [Fraction(1, 3), Fraction(10**400), Text("a"), Hostile(), OfHostileType(), Disguised()]
ODD += [Equal(), HostileTime("2020-01-01"), object(), [1], {}, set(), np.array([1, 2])]
ODD += [(1, 2), (10**5000,), (1, Hostile()), Colour.RED, b"a", bytearray(b"a"), "\udc80", "\ufeffa"]
ODD += ["a\0b", "x" * 100_000, "9" * 5000, "00123", "250.00", " 1 ", "", "1_000", "nan", "٣"]
ODD += ["2020-06-30T23:59:60Z", "2016-12-31 23:59:60", "2020-02-30", "0000-00-00", "9999-12-31"]
ODD += ["2020-01-01T00:00:00+14:00", "0001-01-01T00:00+05", "31/12/1999", dt.date(1, 1, 1)]
ODD += [dt.date(9999, 12, 31), dt.datetime(1677, 1, 1), dt.datetime(2263, 1, 1, tzinfo=TOKYO)]
ODD += [pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), pd.Timestamp(2**33, unit="s"), dt.time(1)]
ODD += [np.datetime64("20000-01-01"), np.datetime64(-(10**14), "D"), np.timedelta64(1, "s")]
ODD += [pd.Period("2020-01", "M"), pd.Interval(0, 1), np.str_("a"), np.longdouble(1) / 3]


def object_array(cells):
    array = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        array[row] = cell
    return array


#: Containers of any cell.
OBJECTS = {
    "list": list,
    "tuple": tuple,
    "array": object_array,
    "series": lambda cells: pd.Series(object_array(cells), dtype=object),
}


def codes_of(kind, column, **options):
    found = Schema({"c": KINDS[kind]}, **options).encode_column("c", column)
    return [repr(code) for code in found.tolist()]


def range_of(kind):
    """The smallest and the largest code."""
    declared = Schema({"c": KINDS[kind]})["c"]
    if kind == "numbers":
        return declared.low, declared.high
    first, last = getattr(declared, "_range", (0, declared.n_cells - 1 - declared.missing))
    return first, last + declared.missing


@pytest.mark.parametrize("container", OBJECTS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_cell_changes_no_other(kind, container):
    cells = ORDINARY[kind] * 2
    expected = [codes_of(kind, OBJECTS[container]([cell]))[0] for cell in cells]
    low, high = range_of(kind)
    for position, odd in enumerate(ODD):
        place = position % len(cells)
        column = OBJECTS[container]([*cells[:place], odd, *cells[place:]])
        found = codes_of(kind, column)
        own = float(found.pop(place))
        assert found == expected
        assert low <= own <= high or np.isnan(own)
        alone = codes_of(kind, OBJECTS[container]([odd]))
        assert float(alone[0]) == own or np.isnan(own)


@pytest.mark.parametrize("kind", KINDS)
def test_random_columns_are_encoded_cell_by_cell(kind):
    """Replacement, insertion, deletion, permutation and blocks are covered by single cells."""
    rng = random.Random(sum(kind.encode()))
    pool = [*ORDINARY[kind] * 8, *ODD]
    alone = [codes_of(kind, [cell])[0] for cell in pool]
    for _ in range(60):
        chosen = rng.choices(range(len(pool)), k=rng.randint(1, 12))
        container = OBJECTS[rng.choice(list(OBJECTS))]
        with patch.object(record_columns, "_BLOCK_ROWS", rng.choice([1, 2, 3, 7, 100])):
            found = codes_of(kind, container([pool[place] for place in chosen]))
        assert found == [alone[place] for place in chosen]


#: Containers with a dtype, and the odd cells that each can hold.
TYPED = {
    "int64": (lambda c: np.array(c, np.int64), [-1, 2**62, -(2**63)], 0),
    "uint8": (lambda c: np.array(c, np.uint8), [255], 0),
    "float64": (lambda c: np.array(c, float), [np.nan, -0.0, np.inf, 1e300], 0.5),
    "masked": (lambda c: np.ma.array([0 if x is None else x for x in c],
                                     mask=[x is None for x in c]), [None], 1),
    "Int64": (lambda c: pd.Series(c, dtype="Int64"), [None, 2**62], BIG + 1),
    "Float32": (lambda c: pd.Series(c, dtype="Float32"), [None, 1e30], 0.5),
    "string": (lambda c: pd.Series(c, dtype="string"), [None, "9" * 5000, "\ufeff1"], "1"),
    "categorical": (lambda c: pd.Series(pd.Categorical(c, categories=[1, BIG + 1, "x"])),
                    [None, "x"], BIG + 1),
    "arrow series": (lambda c: pd.Series(c, dtype="int64[pyarrow]"), [None, 2**62], BIG + 1),
    "polars": (lambda c: pl.Series(c, dtype=pl.Int64), [None, 2**62], BIG + 1),
    "polars text": (lambda c: pl.Series(c, dtype=pl.String), [None, "", "x" * 10**5], "00123"),
    "arrow": (lambda c: pa.array(c, pa.int64()), [None, 2**62], BIG + 1),
    "dictionary": (lambda c: pa.array(c, pa.string()).dictionary_encode(), [None, "1"], "a"),
    "M8[ns]": (lambda c: np.array(c, "M8[ns]"), ["NaT", "1678-01-01", "2262-01-01"], "2020-05-05"),
    "M8[D]": (lambda c: np.array(c, "M8[D]"), ["NaT", "20000-01-01", "-0005-01-01"], "1969-12-31"),
    "zoned": (lambda c: pd.Series(pd.DatetimeIndex(c, tz="Asia/Tokyo")), [None], "2020-05-05"),
}  # fmt: skip


@pytest.mark.parametrize("container", TYPED)
@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_cell_of_a_dtype_changes_no_other(kind, container):
    make, odd, ordinary = TYPED[container]
    low, high = range_of(kind)
    (expected,) = codes_of(kind, make([ordinary]))
    for cell in odd:
        first, own, last = codes_of(kind, make([ordinary, cell, ordinary]))
        assert first == last == expected
        assert low <= float(own) <= high or np.isnan(float(own))


# Containers ---------------------------------------------------------------------------

ROWS = [
    ["a", 1, True, 0.25, dt.date(2020, 2, 29), dt.datetime(2020, 5, 5, 5, 5, 5)],
    ["00123", 0, False, -1.5, dt.date(1969, 12, 31), dt.datetime(2020, 1, 1)],
    ["1", BIG + 1, None, 1e6, dt.date(1650, 1, 1), None],
    [None, None, True, None, None, dt.datetime(2020, 12, 31, 23, 59, 59)],
    ["z", 5, True, 7.0, dt.date(2400, 12, 31), dt.datetime(2019, 1, 1)],
]
NAMES = ["texts", "codes", "truth", "numbers", "dates", "times"]
ARROW_TYPES = [pa.string(), pa.int64(), pa.bool_(), pa.float64(), pa.date32(), pa.timestamp("us")]
TABLE = Schema({name: KINDS[name] for name in NAMES})


def arrow_table():
    columns = zip(zip(*ROWS, strict=True), ARROW_TYPES, strict=True)
    return pa.table([pa.array(cells, kind) for cells, kind in columns], names=NAMES)


def dictionaries():
    table = arrow_table()
    return pa.table([column.dictionary_encode() for column in table.columns], names=NAMES)


TABLES = {
    "rows": lambda: ROWS,
    "array": lambda: np.array([object_array(row) for row in ROWS]),
    "pandas objects": lambda: pd.DataFrame(ROWS, columns=NAMES, dtype=object),
    "pandas inferred": lambda: pd.DataFrame(ROWS, columns=NAMES).assign(
        codes=pd.array([row[1] for row in ROWS], dtype="Int64")
    ),
    "pandas nullable": lambda: arrow_table().to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get
    ),
    "pandas arrow": lambda: arrow_table().to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categorical": lambda: pd.DataFrame(ROWS, columns=NAMES, dtype=object).astype(
        dict.fromkeys(NAMES[:3], "category")
    ),
    "polars": lambda: pl.from_arrow(arrow_table()),
    "arrow": arrow_table,
    "arrow dictionaries": dictionaries,
}
EXPECTED = {
    "texts": [0, 2, 1, 5, 5],
    "codes": [1, 0, 3, 5, 4],
    "truth": [1, 0, 2, 1, 1],
    "numbers": [0.25, -1.5, 1e6, np.nan, 7.0],
}


@pytest.mark.parametrize("container", TABLES)
def test_all_containers_give_the_same_codes(container):
    codes = TABLE.encode(TABLES[container]())
    for name, expected in EXPECTED.items():
        np.testing.assert_array_equal(codes[name], expected)
    pd.testing.assert_frame_equal(codes, TABLE.encode(ROWS))


def test_text_of_a_csv_file_gives_the_same_codes(tmp_path):
    path = tmp_path / "table.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        written = csv.writer(file)
        written.writerows([NAMES, *ROWS])
    found = TABLE.encode(TABLE.read_csv(path))
    expected = TABLE.encode(ROWS)
    pd.testing.assert_frame_equal(found, expected)


def test_a_faulty_line_of_a_csv_file_changes_no_other(tmp_path):
    schema = Schema({"a": (0, 10), "b": ["x", "y"]})
    path = tmp_path / "table.csv"
    for odd in (
        b"1",
        b"1,2,3",
        b'"',
        b"\xff,\xfe",
        b"\0,\0",
        b"9" * 9000 + b",x",
        b"\xef\xbb\xbf1,x",
    ):
        if odd == b'"':
            odd = b'"",""""'
        path.write_bytes(b"a,b\n3,y\n" + odd + b"\n4,x\n")
        found = schema.encode(schema.read_csv(path))
        assert found.iloc[[0, 2]].to_numpy().tolist() == [[3, 1], [4, 0]]


@pytest.mark.parametrize("value", ["2020", 2020, 2020.0, np.int16(2020), "2020-01-01"])
def test_a_year_is_a_date_in_every_type(value):
    years = Schema({"c": Schema.dates("2000", "2030", resolution="year")})
    assert years.encode([[value]])["c"].tolist() == [20]
    assert years.encode_column("c", np.array([value])).tolist() == [20]


@pytest.mark.parametrize("declared", [-9, "-9"])
@pytest.mark.parametrize("cell", [-9, "-9", -9.0, Decimal(-9)])
def test_a_missing_value_is_missing_in_every_type(declared, cell):
    schema = Schema(
        {"a": Schema.categories(["x"], other="o"), "b": (-99, 9), "k": Schema.key()},
        person="k",
        missing_values=[declared],
    )
    assert schema.encode([[cell, cell, cell]]).to_numpy().tolist() == [[2, 109]]
    ids = schema.person_ids(schema.records([[cell, cell, cell], ["x", 1, "7"]]))
    assert [str(each) for each in ids] == ["_Marker.NO_PERSON", "7"]


def test_ids_of_databases_are_those_of_their_texts():
    schema = Schema({"k": Schema.key(), "a": (0, 1)}, person="k")
    number = UUID(int=5)
    ids = schema.key_ids([number, str(number), Decimal("12.0"), 12, "12", Decimal("1E+999999")])
    assert ids[0] == ids[1] == str(number)
    assert ids[2] == ids[3] == ids[4] == 12
    assert ids[5] is NO_PERSON


NEW_YEAR = [dt.date(1900, 1, 1), dt.datetime(1900, 1, 1), "1900-01-01", "1900-01-01T00:00:00"]
NEW_YEAR += [pd.Timestamp("1900-01-01"), np.datetime64("1900-01-01")]
COLUMNS_OF_TIMES = [
    object_array,
    lambda cells: np.array(cells, "M8[ns]"),
    lambda cells: np.array(cells, "M8[D]"),
    lambda cells: pd.Series(pd.DatetimeIndex(cells, tz="UTC")),
    lambda cells: pl.Series([pd.Timestamp(cell).to_pydatetime() for cell in cells]),
    lambda cells: pa.array([pd.Timestamp(cell).date() for cell in cells]),
]


@pytest.mark.parametrize("declared", NEW_YEAR, ids=repr)
@pytest.mark.parametrize("bounds", [("1900-01-01", "2030-12-31"), ("1950-01-01", "2030-12-31")])
def test_a_date_that_means_a_missing_value_is_missing_in_every_type(declared, bounds):
    schema = Schema({"c": bounds}, missing_values=[declared, "?"])
    missing = schema["c"]._range[1] + 1
    assert schema.encode([[cell] for cell in [*NEW_YEAR, "?"]])["c"].tolist() == [missing] * 7
    for container in COLUMNS_OF_TIMES:
        first, second = schema.encode_column("c", container(["1900-01-01", "1951-01-01"])).tolist()
        assert (first, second < missing) == (missing, True)


@pytest.mark.parametrize("declared", [-9, "-9"])
@pytest.mark.parametrize("cell", [-9, "-9", -9.0, np.int8(-9)])
def test_a_name_that_means_a_missing_value_is_missing_in_every_type(declared, cell):
    absent = frozenset(Schema({"c": (0, 1)}, missing_values=[declared]).missing_values)
    codes, distinct = Schema.names().factorise("c", ["x", cell], missing_values=absent)
    assert (codes.tolist(), distinct) == ([0, record_columns.MISSING], ["x"])


BOUNDED = [kind for kind in KINDS if hasattr(Schema({"c": KINDS[kind]})["c"], "bins")]


@pytest.mark.parametrize("kind", BOUNDED)
def test_the_value_of_a_code_has_that_code_beside_missing_values_within_the_bounds(kind):
    """A number or time that is rounded or clipped to a missing value is missing, too."""
    absent = [0, 9, 1000, -1.5, 1e6, BIG, -BIG, "1600-01-01", "2400-12-31", "2020-01-01"]
    schema = Schema({"c": KINDS[kind]}, missing_values=[*absent, "2021-01-01", "2000-02-01"])
    cells = [*ODD, *ORDINARY[kind], 999.6, 8.6, "2020-01-01T00:00:00.000000", "17/02/2000", 10**6]
    codes = schema.encode([[cell] for cell in cells])
    pd.testing.assert_frame_equal(schema.encode(schema.decode(codes)), codes)


# Values -------------------------------------------------------------------------------

ADMISSIBLE = {
    "texts": ["a", "1", "00123", "250.00", "\udc80", None],
    "codes": [0, 1, BIG, BIG + 1, "other", None],
    "truth": [False, True, None],
    "mixed": [*KINDS["mixed"], None],
    "whole": [*range(1001), None],
    "large": [-BIG, 1 - BIG, -(2**52) - 1, 0, 2**52 + 1, BIG - 1, BIG, None],
    "numbers": [-1.5, 0.1, 1e6, None],
    "dates": [pd.Timestamp(1600, 1, 1), pd.Timestamp(1969, 12, 31), pd.Timestamp(2400, 12, 31)],
    "times": [pd.Timestamp("2020-01-01 00:00:00.000001"), pd.Timestamp("2021-01-01"), None],
}


@pytest.mark.parametrize("kind", ADMISSIBLE)
def test_decoding_returns_admissible_values(kind):
    values = ADMISSIBLE[kind]
    schema = Schema({"c": KINDS[kind]})
    codes = schema.encode([[value] for value in values])
    decoded = schema.decode(codes)
    assert [None if pd.isna(v) is True else v for v in decoded["c"]] == values
    pd.testing.assert_frame_equal(schema.encode(decoded), codes)


def test_decoded_columns_have_declared_types():
    decoded = TABLE.decode(TABLE.encode(ROWS))
    assert decoded["truth"].dtype == "boolean"
    assert decoded["numbers"].dtype == np.float64
    assert decoded["dates"].dtype.kind == decoded["times"].dtype.kind == "M"
    whole = Schema({"c": (0, 5)})
    assert whole.decode(whole.encode([[1], [2]]))["c"].dtype == np.int64
    assert whole.decode(whole.encode([[1], [None]]))["c"].dtype == "Int64"


def test_decoded_values_are_no_objects_of_a_record():
    for odd in (Text("a"), Equal()):
        schema = Schema({"c": ["a"]})
        (found,) = schema.decode(schema.encode([[odd]]))["c"]
        assert type(found) is str or pd.isna(found)


@pytest.mark.parametrize("resolution", ["year", "month", "day", "hour", "second", "microsecond"])
def test_times_are_rounded_down_and_clipped(resolution):
    schema = Schema({"c": Schema.dates("1960-01-01", "2100-01-01", resolution=resolution)})
    before = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1)]
    for unit in ("us", "ns"):
        low, high = schema.encode_column("c", np.array(before, f"M8[{unit}]")).tolist()
        assert high - low == 1
    assert schema.encode([[time] for time in before])["c"].tolist() == [low, high]
    far = schema.encode([[dt.date(1, 1, 1)], [dt.date(9999, 12, 31)]])["c"].tolist()
    assert far == [0, schema["c"]._range[1]]


@pytest.mark.parametrize("bounds", [("1000-01-01", "2100-01-01"), ("1900-01-01", "9999-12-31")])
def test_bounds_beyond_nanoseconds_do_not_overflow(bounds):
    schema = Schema({"c": bounds})
    times = np.array(["2020-02-29T12", "1969-12-31"], "M8[ns]")
    found = schema.encode_column("c", times)
    assert found.tolist() == schema.encode([["2020-02-29"], ["1969-12-31"]])["c"].tolist()


def test_whole_numbers_are_rounded_exactly():
    schema = Schema({"c": (-BIG, BIG)})
    cells = [2**52 + 1, BIG - 1, 0.49999999999999994, 0.5, -0.5, 2.5, -(2**52) - 1]
    found = [code - BIG for code in schema.encode([[cell] for cell in cells])["c"]]
    assert found == [2**52 + 1, BIG - 1, 0, 1, 0, 3, -(2**52) - 1]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Schema.numbers(0, 10, bins=[2.2, 2.7]),
        lambda: Schema.numbers(0, 10, bins=[5, 3]),
        lambda: Schema.numbers(0, 10, bins=[0]),
        lambda: Schema.dates("2020-01-01", "2020-12-31", resolution="month", bins=["2020-01-05"]),
        lambda: Schema.dates("2020", "2021", resolution="month", bins=["2020-03-01", "2020-03-05"]),
    ],
)
def test_every_bin_has_values(declare):
    with pytest.raises(ValueError, match="bins must be increasing"):
        declare()


@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_bins_agree(kind):
    declared = Schema({"c": KINDS[kind]})["c"]
    labels = declared.labels()
    assert len(set(map(repr, labels))) == len(labels) == declared.n_cells
    if kind in ("whole", "no missing", "dates", "formatted"):
        codes = np.arange(int(declared._range[1]) + 1)
        for value, place in zip(declared.decode(codes), declared.bin(codes), strict=True):
            label = labels[place]
            assert value in label if isinstance(label, pd.Interval) else value == label


# Schema as a value --------------------------------------------------------------------

WHOLE = Schema(
    {
        "age": Schema.numbers(0, 110, bins=[18, 65], missing=False),
        "x": Schema.numbers(0.0, 2.5, bins=4),
        "w": Schema.numbers(0.0, 5.0, whole=True),
        "sex": ["f", "m", 'a "quote" \\ \x7f'],
        "code": Schema.categories([1, 2], other=9),
        "flag": bool,
        "day": ("2015-01-01", "2025-12-31"),
        "time": Schema.dates("2015-01-01T01:00:00", "2016-01-01", resolution="hour", bins=3),
        "text day": Schema.dates("31.12.1999", "01.01.2020", format="%d.%m.%Y"),
        "zip": Schema.names(missing=False),
        "id": Schema.key(),
        "note": Schema.ignore(),
    },
    person="id",
    max_rows=3,
    missing_values=["", "NA", -9],
    strict=True,
)


def test_a_schema_is_an_immutable_value(tmp_path):
    path = tmp_path / "schema.toml"
    WHOLE.save(path)
    copies = [pickle.loads(pickle.dumps(WHOLE)), copy.deepcopy(WHOLE), copy.copy(WHOLE)]
    copies += [clone(WHOLE.encoder()).schema, WHOLE.replace(), WHOLE.select(list(WHOLE))]
    copies += [eval(repr(WHOLE), {"Schema": Schema}), Schema.load(path)]
    for made in copies:
        assert made == WHOLE
        assert hash(made) == hash(WHOLE)
        assert repr(made) == repr(WHOLE)
    assert WHOLE.replace(strict=False) != WHOLE
    with pytest.raises(AttributeError):
        WHOLE.strict = False
    with pytest.raises(AttributeError):
        del WHOLE.person
    with pytest.raises(TypeError):
        WHOLE.columns["age"] = bool


def test_the_html_table_escapes_names_and_values():
    schema = Schema({"<b>": ["<script>"], "k&": Schema.key()}, person="k&")
    html = schema._repr_html_()
    assert "<b>" not in html
    assert "<script>" not in html
    assert "k&amp;" in html


def test_an_error_names_all_faulty_columns():
    with pytest.raises(ValueError, match=r"(?s)'a'.*'b'.*'c'") as error:
        Schema({"a": "text", "b": (1, 0), "c": [1, 1], "d": [1]})
    assert "'d'" not in str(error.value)
    schema = Schema({"a": [1], "b": [1]})
    with pytest.raises(ValueError, match=r"(?s)'c'.*'d'"):
        schema.encode(pd.DataFrame({"c": [1], "d": [1]}))


@pytest.mark.parametrize(
    "odd",
    ["private", (10**5000,), "private" * 1000, Hostile],
    ids=["text", "tuple", "long text", "hostile"],
)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "codes"])
def test_a_strict_schema_names_the_column_and_not_the_cell(kind, odd):
    odd = odd() if odd is Hostile else odd
    with pytest.raises(ValueError, match="column 'c'") as error:
        codes_of(kind, [odd], strict=True)
    assert "private" not in str(error.value)
    assert error.value.__context__ is None
    assert error.value.__cause__ is None


def test_tables_without_rows_have_codes():
    columns = {name: [] for name in NAMES}
    for table in (pd.DataFrame(columns), pl.DataFrame(columns), np.empty((0, len(NAMES))), []):
        assert TABLE.decode(TABLE.encode(table)).shape == (0, len(NAMES))


def test_duplicate_names_are_refused_and_other_names_need_no_text():
    with pytest.raises(ValueError, match="distinct column names"):
        Schema({"a": (0, 1)}).encode(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    for rows in ([{"a": 1}], [{1}], ["a"], [1]):
        with pytest.raises(ValueError, match="not sequences of cells"):
            Schema({"a": (0, 1)}).encode(rows)
    schema = Schema({1: (0, 5), ("t", 2): ["x"]})
    table = pd.DataFrame([[3, "x"]], columns=pd.Index([1, ("t", 2)], tupleize_cols=False))
    assert schema.encode(table).to_numpy().tolist() == [[3, 0]]
    with pytest.raises(ValueError, match="cannot be saved"):
        schema.save("unused.toml")


# Defects that the comparison must find -------------------------------------------------


def list_as_array(values):
    return record_columns._numpy_cells(np.asarray(values))


def inferred_numbers(values, missing_values):
    try:
        numbers = pd.to_numeric(pd.Series(values)).to_numpy(float)
    except ValueError:
        numbers = np.full(len(values), np.nan)
    return numbers, np.zeros(len(numbers), dtype=bool)


def pandas_codes(cells, declared):
    codes, distinct = pd.factorize(object_array(cells))
    return codes, distinct.tolist()


def inferred_times(values, format, missing_values):
    times = pd.to_datetime(pd.Series(values), errors="coerce").to_numpy()
    return times, np.zeros(len(times), dtype=bool)


def inferred_polars(values):
    return record_columns._numpy_cells(values.to_numpy())


DEFECTS = {
    "np.asarray of a list": (
        (record_columns, "_cells_of_column", list_as_array),
        (["1", 1], list, [1, "1", "x"]),
    ),
    "pd.to_numeric": (
        (record_columns, "_numbers", inferred_numbers),
        ((0, 9), list, [1, 2, "x"]),
    ),
    "pd.factorize of objects": (
        (record_columns, "_numbered_cells", pandas_codes),
        (["True", "1"], list, [1, True, "x"]),
    ),
    "floats beside a null": (
        (record_columns, "_polars_cells", inferred_polars),
        ([BIG, BIG + 1], lambda cells: pl.Series(cells, dtype=pl.Int64), [BIG, BIG + 1, None]),
    ),
    "one format for all times": (
        (record_kinds, "column_times", inferred_times),
        (
            ("2000-01-01", "2030-01-01"),
            list,
            ["2020-01-02", "2020-01-02T03:00:00", "2020"],
        ),
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_comparison_finds_a_defect(defect):
    target, (declared, container, cells) = DEFECTS[defect]
    schema = Schema({"c": declared})

    def is_record_wise():
        alone = [schema.encode_column("c", container([cell])).tolist()[0] for cell in cells]
        orders = [cells, cells[::-1], cells[1:], cells[::2]]
        codes = [alone, alone[::-1], alone[1:], alone[::2]]
        found = [schema.encode_column("c", container(order)).tolist() for order in orders]
        return found == codes

    assert is_record_wise()
    with patch.object(*target):
        assert not is_record_wise()
