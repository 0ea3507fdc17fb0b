"""Schemas and tables in files: round trips, drafts, code books and CSV."""

import csv
import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdirdp import Schema
from skdirdp.schema import files

ODD = [
    'a "quote"',
    "back\\slash",
    "tab\t",
    "line\nend\r",
    "\x00\x1b\x7f\x85",
    "é 日本 😀",
    "",
    " x ",
]
UTC = dt.timezone.utc


def round_trip(schema, path):
    schema.save(path)
    return Schema.load(path)


@pytest.mark.parametrize(
    "kind",
    [
        Schema.categories(["f", "m"]),
        Schema.categories(["f"], other="rest", missing=False),
        Schema.categories([1, 2, -(10**30)]),
        Schema.categories([0.5, 1e-7, 1e300, float("inf")]),
        Schema.categories([True, False]),
        Schema.categories([1, "1", 2.5, False], other=7),
        Schema.categories([dt.date(2020, 2, 29), dt.datetime(2020, 1, 1), dt.time(12, 30)]),
        Schema.categories([dt.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=UTC)]),
        Schema.categories([pd.Timestamp("2020-01-01 12:00")]),
        Schema.numbers(0, 110),
        Schema.numbers(0.0, 2.0),
        Schema.numbers(0, 1, whole=False),
        Schema.numbers(0.0, 9.0, whole=True, bins=3, missing=False),
        Schema.numbers(-1e-7, 1e22, bins=[0.5, 2]),
        Schema.dates("2015-01-01", "2025-12-31"),
        Schema.dates("2015-01-01", "2025-12-31", resolution="month", bins=4, missing=False),
        Schema.dates("2015-01-01T12:30", "2025-12-31T23:59:59.000001", resolution="microsecond"),
        Schema.dates("2015-01-01", "2025-12-31", format='%d."%m".%Y', bins=["2020-01-01"]),
        Schema.names(),
        Schema.names(missing=False),
        Schema.key(),
        Schema.ignore(),
    ],
    ids=repr,
)
def test_every_kind_is_the_same_after_a_round_trip(kind, tmp_path):
    schema = Schema({"a": kind, "b": bool})
    found = round_trip(schema, tmp_path / "schema.toml")
    assert found == schema
    assert repr(found["a"]) == repr(kind) or "Timestamp" in repr(kind)


def test_other_parameters_are_the_same_after_a_round_trip(tmp_path):
    schema = Schema(
        {"id": Schema.key(), "a": (0, 1)},
        person="id",
        max_rows=3,
        missing_values=["?", -9, 0.5, dt.date(1900, 1, 1)],
        strict=True,
    )
    assert round_trip(schema, tmp_path / "schema.toml") == schema
    none = schema.replace(missing_values=())
    assert round_trip(none, tmp_path / "schema.toml").missing_values == ()


def test_texts_are_escaped_in_names_and_values(tmp_path):
    columns = {f"{text}.": Schema.categories([text], other=f"{text}!") for text in ODD}
    schema = Schema({**columns, "": (0, 1)}, missing_values=())
    found = round_trip(schema, tmp_path / "schema.toml")
    assert found == schema
    assert list(found) == list(schema)


def test_values_that_toml_lacks_are_refused_in_all_columns_at_once(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text("before")
    odd_zone = dt.timezone(dt.timedelta(seconds=30))
    schema = Schema(
        {
            "decimal": [Decimal("1.5")],
            "pair": [(1, 2)],
            "bytes": [b"x"],
            "surrogate": ["\ud800"],
            "zone": [dt.datetime(2020, 1, 1, tzinfo=odd_zone)],
            "nanoseconds": [pd.Timestamp("2020-01-01 00:00:00.000000001")],
            "fine": ["x"],
            7: ["x"],
        },
        missing_values=[Decimal(1)],
    )
    with pytest.raises(ValueError, match="cannot be saved as TOML") as raised:
        schema.save(path)
    message = str(raised.value)
    wrong = ["decimal", "pair", "bytes", "surrogate", "zone", "nanoseconds", 7, "missing_values"]
    assert all(f"\n  {name!r}: " in message for name in wrong)
    assert "fine" not in message
    assert path.read_text() == "before"


# Files that are written by hand -------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns must be a table"),
        ("[columns]", "columns must be a table"),
        ("columns = 1", "columns must be a table"),
        ("[columns]\na = { names = true }\na = { key = true }", "schema.toml"),
        ("x = 1\n[columns]\na = { names = true }", "may only have the parts"),
        ("person = ['a']\n[columns]\na = { key = true }", "person must be a string"),
        ("max_rows = 2\n[columns]\na = { key = true }", "needs person"),
        ("max_rows = true\n[columns]\na = { key = true }", "max_rows must be a whole number"),
        ("missing_values = ''\n[columns]\na = { names = true }", "missing_values must be a list"),
        ("missing_values = [[1]]\n[columns]\na = { names = true }", "missing_values must contain"),
        ("strict = 'no'\n[columns]\na = { names = true }", "strict must be true or false"),
        ("[columns]\na = 1", "'a': must have exactly one"),
        ("[columns]\na = { numbers = [0, 1], bin = 3 }", "'a': numbers has no option bin"),
        ("[columns]\na = { numbers = [0, 1], whole = 1 }", "'a': whole must be true or false"),
        ("[columns]\na = { names = true, missing = 0 }", "'a': missing must be true or false"),
        ("[columns]\na = { numbers = [0, 1%s] }" % ("0" * 400), "'a': "),
        ("[columns]\na = { categories = [[1]] }", "'a': "),
        ("[columns]\na = { categories = ['x', 'x'] }", "'a': values must be distinct"),
        ("[columns]\na = { dates = [2020-01-02, 2020-01-01] }", "'a': bounds must be"),
        ("[columns]\na = { dates = ['x', 'y'] }", "'a': bounds must be"),
    ],
)
def test_faults_of_a_file_are_named(text, message, tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError)) as raised:
        Schema.load(path)
    assert message in str(raised.value)


def test_all_faulty_columns_of_a_file_are_named_at_once(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text("[columns]\na = {}\nb = { numbers = 3 }\nc = { key = true }\nd = {}\n")
    with pytest.raises(ValueError, match="columns must be declared by one of") as raised:
        Schema.load(path)
    _, *lines = str(raised.value).splitlines()
    assert lines == [
        "  'a': is a blank to fill in;",
        "  'b': numbers must be two bounds, [low, high];",
        "  'd': is a blank to fill in",
    ]


def test_names_that_occur_twice_in_json_are_refused(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"columns": {"a": {"key": true}, "a": {"names": true}}}')
    with pytest.raises(ValueError, match="names must be distinct"):
        Schema.load(path)


def test_json_has_dates_as_texts(tmp_path):
    path = tmp_path / "schema.JSON"
    dates = {"dates": ["2020-01-01", "2020-12-31"], "format": "%d.%m.%Y"}
    path.write_text(json.dumps({"columns": {"a": dates}}))
    expected = Schema.dates("2020-01-01", "2020-12-31", format="%d.%m.%Y")
    assert Schema.load(path) == Schema({"a": expected})


def test_a_byte_order_mark_is_no_part_of_a_schema(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text("[columns]\na = { names = true }\n", encoding="utf-8-sig")
    assert Schema.load(path) == Schema({"a": Schema.names()})


# Drafts -------------------------------------------------------------------------------


def test_every_declaration_in_the_comments_of_a_draft_is_valid(tmp_path):
    examples = [
        line.split("}")[0][1:] for line in Schema.draft(["a"]).splitlines() if "   { " in line
    ]
    columns = [f"c{i} = {text.strip()} }}" for i, text in enumerate(examples)]
    path = tmp_path / "schema.toml"
    path.write_text("[columns]\n" + "\n".join(columns))
    schema = Schema.load(path)
    day = list(schema.encode_column("c7", ["31/12/2025", "2025-12-31"]))
    assert day == [(dt.date(2025, 12, 31) - dt.date(2015, 1, 1)).days] * 2
    titles = [kind.title for kind in schema.columns.values()]
    several = ["categories"] * 4 + ["numbers"] * 2 + ["dates"] * 2
    assert titles == [*several, "names", "key", "ignore"]


def test_a_draft_has_a_blank_for_each_name_and_can_be_filled_in(tmp_path):
    with open(tmp_path / "t.csv", "w", newline="", encoding="utf-8-sig") as file:
        for row in (ODD, ["secret"] * len(ODD)):  # csv.writer of Python 3.10 refuses "\0"
            file.write(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\r\n")
    text = Schema.draft(tmp_path / "t.csv")
    assert "secret" not in text
    assert text == Schema.draft([name.replace("\0", "\ufffd") for name in ODD])
    assert text == Schema.draft(
        pd.DataFrame(columns=[name.replace("\0", "\ufffd") for name in ODD])
    )
    for table in (pl.DataFrame, pa.table):
        assert Schema.draft(table({"a": ["secret"], "b": [1]})) == Schema.draft(["a", "b"])
    path = tmp_path / "schema.toml"
    path.write_text(text.replace("= {}", "= { names = true }"), encoding="utf-8", newline="")
    assert list(Schema.load(path)) == [name.replace("\0", "\ufffd") for name in ODD]


@pytest.mark.parametrize("header", [[], ["a", "a"], ["a", 1]])
def test_headers_without_distinct_names_are_refused(header):
    with pytest.raises(ValueError, match="header must "):
        Schema.draft(header)


def test_a_draft_of_an_empty_file_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(ValueError, match="header must contain column names"):
        Schema.draft(tmp_path / "t.csv")


# Code books ---------------------------------------------------------------------------


def book(tmp_path, text):
    (tmp_path / "book.csv").write_text(text, encoding="utf-8-sig")
    return Schema.from_codebook(tmp_path / "book.csv")


def test_a_code_book_declares_every_kind(tmp_path):
    schema = book(
        tmp_path,
        " Column ,VALUE,low,high,kind,label\n"
        "zip, 00123 ,,,,\nzip,123,,,,again\nzip,123,,,,twice\n"
        "\n,,,,,\n"
        "age,,0,110,,\nheight,,0.5,2.5,numbers,\n"
        "day,,2020-01-01,2020-12-31,,\nyear,,2015,2025,dates\n"
        "city,,,,,\ntown,,,,names,\nid,,,,KEY,\nremark,,,,ignore,\nagain,,,,truth,\n",
    )
    assert schema == Schema(
        {
            "zip": ["00123", "123"],
            "age": (0, 110),
            "height": (0.5, 2.5),
            "day": ("2020-01-01", "2020-12-31"),
            "year": Schema.dates("2015-01-01", "2025-01-01"),
            "city": Schema.names(),
            "town": Schema.names(),
            "id": Schema.key(),
            "remark": Schema.ignore(),
            "again": bool,
        }
    )


def test_all_faulty_columns_of_a_code_book_are_named_at_once(tmp_path):
    with pytest.raises(ValueError, match="must have values, bounds or a kind") as raised:
        book(
            tmp_path,
            "column,value,low,high,kind\n"
            "a,,0,,\nb,,0,1,\nb,,0,2,\nc,x,,,numbers\nd,,,,numbers\ne,,,,moon\nf,x,,,key\n"
            "g,,0,1,categories\nh,,x,y,\ni,,2020-01-01,5,numbers\nj,,1,0,\nk,,0,inf,\n"
            "fine,x,,,categories\n",
        )
    message = str(raised.value)
    assert [line.split(":")[0].strip(" '") for line in message.splitlines()[1:]] == list(
        "abcdefghijk"
    )


def test_a_row_of_a_code_book_needs_its_column(tmp_path):
    with pytest.raises(ValueError, match="an entry in 'column'"):
        book(tmp_path, "column,value\na,x\n,y\n")


# Tables -------------------------------------------------------------------------------

COLUMNS = {"n": (0, 9), "code": ["x", "y"], "first name": Schema.names(), "id": Schema.key()}


def read(tmp_path, content, columns=COLUMNS, **more):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = Schema(columns, **more).read_csv(path)
    return {name: [None if pd.isna(cell) else cell for cell in table[name]] for name in table}


def test_cells_are_parsed_by_their_declarations(tmp_path):
    content = b'\xef\xbb\xbfcode,n,"first name",id\r\nx,1,"a, ""b""\nc",007\ry,\x002,\xff,8\n,,,\n'
    assert read(tmp_path, content) == {
        "code": ["x", "y", None],
        "n": [1, None, None],
        "first name": ['a, "b"\nc', "\ufffd", None],
        "id": ["007", "8", None],
    }


def test_a_file_with_a_header_alone_has_no_records(tmp_path):
    for end in ("", "\n", "\n\n"):
        assert read(tmp_path, f"n,code,first name,id{end}") == {name: [] for name in COLUMNS}


def test_ragged_rows_have_no_values_and_change_no_others(tmp_path):
    rows = ["1,x,a,p", "1,x,a", "1,x,a,p,", '"1,x,a,p"', "2,y,b,q"]
    found = read(tmp_path, "n,code,first name,id\n" + "\n".join(rows))
    assert found["n"] == [1, None, None, None, 2]
    assert found["id"] == ["p", None, None, None, "q"]


def test_very_long_fields_and_rows_are_read(tmp_path):
    long = "z" * 1_000_000
    found = read(tmp_path, f"n,code,first name,id\n{long},{long},{long},{long}\n1,x,a,p\n")
    assert (found["n"], found["code"]) == ([None, 1], [None, "x"])
    assert [len(cell) for cell in found["first name"]] == [1_000_000, 1]


def test_the_limit_for_fields_of_other_readers_is_kept(tmp_path):
    before = csv.field_size_limit()
    with pytest.raises(ValueError, match="must be a CSV file"):
        read(tmp_path, 'n,code,first name,id\n"1')
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("content", ["", "\n", "secret\n", "71,secret,a,b\n", "n,n,secret,code\n"])
def test_wrong_headers_are_refused_without_showing_them(content, tmp_path):
    with pytest.raises(ValueError, match="'id': is not in the header") as raised:
        read(tmp_path, content)
    message = str(raised.value).replace(str(tmp_path), "")
    assert not any(cell in message for cell in ("secret", "71"))


def test_ignored_columns_may_be_absent_or_present_but_not_twice(tmp_path):
    columns = {"n": (0, 9), "old": Schema.ignore()}
    assert read(tmp_path, "n\n1\n", columns) == {"n": [1]}
    assert read(tmp_path, "old,n\nsecret,1\n", columns) == {"n": [1]}
    with pytest.raises(ValueError, match="'old': occurs more than once"):
        read(tmp_path, "old,n,old\n1,1,1\n", columns)


def test_blocks_do_not_change_the_cells(tmp_path, monkeypatch):
    rows = [f"{i % 10},{'xyz'[i % 3]},{i},{i}" for i in range(10)]
    rows[4] = ""
    rows[5] = ",,,"
    content = "n,code,first name,id\n" + "\n".join(rows)
    whole = read(tmp_path, content)
    for size in (1, 2, 3, 9):
        monkeypatch.setattr(files, "_BLOCK_ROWS", size)
        assert read(tmp_path, content) == whole


def test_a_strict_schema_names_the_column_and_never_the_cell(tmp_path):
    with pytest.raises(ValueError, match="column 'code' has others") as raised:
        read(tmp_path, "n,code,first name,id\n1,secret,a,p\n", strict=True)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("values", [["x", "?"], ["", "y"], [-9, 1], ["-9.0", "-9"], bool])
def test_a_category_is_not_a_missing_value_too(values):
    with pytest.raises(ValueError, match="'a': a category must not be in missing_values too"):
        Schema({"a": values, "b": (0, 1)}, missing_values=["", "?", "-9", "no"])


def test_values_that_are_always_missing_need_no_declaration(tmp_path):
    schema = Schema({"a": (0, 1)}, missing_values=[None, np.nan, pd.NaT, np.int64(-9), -9])
    assert schema.missing_values == (-9,)
    assert round_trip(schema, tmp_path / "schema.toml") == schema


@pytest.mark.parametrize(
    ("resolution", "text"),
    [
        ("year", "2020"),
        ("month", "2020-03"),
        ("day", "2020-03-04"),
        ("hour", "2020-03-04T05:00"),
        ("minute", "2020-03-04T05:06"),
        ("second", "2020-03-04T05:06:07"),
        ("millisecond", "2020-03-04T05:06:07.123"),
        ("microsecond", "2020-03-04T05:06:07.123456"),
    ],
)
def test_times_are_written_at_their_resolution_and_read_again(resolution, text, tmp_path):
    kind = Schema.dates("2019-01-01", "2021-01-01", resolution=resolution)
    schema = Schema({"a": kind, "b": (0, 1)}, missing_values=["?"])
    table = pd.DataFrame({"a": ["2020-03-04T05:06:07.123456", None], "b": [None, 1]})
    records = schema.decode(schema.encode(table))
    written = files.csv_text(records, schema)
    assert written == f"a,b\n{text},?\n?,1\n"
    (tmp_path / "t.csv").write_text(written)
    pd.testing.assert_frame_equal(schema.read_csv(tmp_path / "t.csv"), records)


def test_texts_with_line_ends_are_quoted(tmp_path):
    values = ["a\rb", "a\nb", 'a"b', "a,b", "a"]
    schema = Schema({"a": values, "n": (0, 9)})
    records = pd.DataFrame({"a": values, "n": range(5)})
    (tmp_path / "t.csv").write_text(files.csv_text(records, schema), newline="")
    assert schema.read_csv(tmp_path / "t.csv")["a"].tolist() == values


@pytest.mark.parametrize(
    ("format", "resolution"),
    [(None, "day"), ("%b-%Y", "month"), ("%d/%m/%Y", "day"), ("%d.%m.%y %H:%M", "minute")],
)
def test_records_that_pandas_writes_are_read_again_with_their_dates(format, resolution, tmp_path):
    kind = Schema.dates("2018-01-01", "2018-12-31", resolution=resolution, format=format)
    schema = Schema({"day": kind, "n": (0, 9)})
    codes = kind.encode("day", ["2018-01-01", "2018-05-01", None, "2018-12-31"])
    records = pd.DataFrame({"day": kind.decode(codes), "n": [1, 2, 3, 4]})
    records.to_csv(tmp_path / "synthetic.csv", index=False)
    again = schema.read_csv(tmp_path / "synthetic.csv")
    assert again["day"].notna().sum() == 3
    pd.testing.assert_series_equal(again["day"], records["day"], check_dtype=False)


def test_the_format_of_dates_comes_before_iso_8601():
    kind = Schema.dates("2018-01-01", "2018-12-31", format="%Y-%d-%m")
    days = kind.decode(kind.encode("day", ["2018-02-03", "2018-02-13", "2018-13-02"]))
    assert [day.isoformat()[:10] for day in days] == ["2018-03-02", "2018-02-13", "2018-02-13"]
