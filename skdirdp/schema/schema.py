"""Public description of the columns of a table."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from html import escape
from numbers import Integral
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._messages import errors_without_data, warn
from . import files
from .arrays import Records, as_records, key_ids
from .blocks import check_row_order, collect_columns, empty_table, is_in_memory, table_blocks
from .constraints import Cells, Constraint, parse_constraints, plain_cells, satisfied
from .kinds import (
    DEFAULT_FORM,
    Categories,
    Dates,
    Ignored,
    Key,
    Kind,
    Names,
    Numbers,
    as_kind,
    raise_if_errors,
)
from .values import check_missing_values


class Schema:
    """Public knowledge about the columns of a table, and who is protected.

    A schema is written without looking at the records: from a code book, or from the header of a
    file. The encoding of a record depends on that record and on the schema alone, whatever the
    container. A schema cannot be changed.

    Parameters
    ----------
    columns : dict
        Declaration of each column, by name:

        - a list of values: categories. A string matches the number, date or truth value that it
          spells, and a number matches its decimal string; codes such as "00123" stay strings;
        - ``bool``: truth values;
        - a pair of numbers: numbers within these bounds, whole ones if both are integers. Values
          outside the bounds are clipped to them;
        - a pair of dates or of ISO 8601 strings: dates or times within these bounds;
        - ``Schema.categories``, ``Schema.numbers`` and ``Schema.dates``: the same with options;
        - ``Schema.names()``: categories that cannot be listed, and are found privately;
        - ``Schema.key()``: identifiers, which are never counted;
        - ``Schema.ignore()``: a column that is not used.
    person : column, default=None
        Key of the person that each record belongs to. All records of a person are protected
        together, and at most `max_rows` of them are counted. Records without a key are not counted.
    max_rows : int, default=1
        Largest number of counted records of a person.
    missing_values : sequence of values, default=("",)
        Values that mean a missing value in every column and every type, in addition to None, NaN
        and NaT.
    strict : bool, default=False
        If False, a cell that does not fit its column is "other" or missing, for that record alone.
        If True, it raises an error that names the column. Such an error is itself an output that
        depends on one record, and the privacy guarantee does not cover it.
    constraints : list of str, default=()
        Comparisons between columns and values that hold in every record, such as "start <= end" or
        "decile <= 3 implies score == 'Low'". `PrivateBayesNet.sample` draws only records that
        satisfy them. A comparison with a missing value is never violated.

    Examples
    --------
    >>> from skdirdp import Schema
    >>> schema = Schema(
    ...     {
    ...         "age": (0, 110),
    ...         "sex": ["f", "m"],
    ...         "admitted": ("2015-01-01", "2025-12-31"),
    ...         "patient": Schema.key(),
    ...     },
    ...     person="patient",
    ...     max_rows=3,
    ... )
    >>> schema["age"].describe()
    'whole numbers from 0 to 110'
    >>> schema.features
    ['age', 'sex', 'admitted']
    """

    __slots__ = ("_columns", "_constraints", "max_rows", "missing_values", "person", "strict")

    _columns: dict[Hashable, Kind]
    _constraints: tuple[Constraint, ...]
    person: Hashable | None
    max_rows: int
    missing_values: tuple[Any, ...]
    strict: bool

    def __init__(
        self,
        columns: Mapping[Any, Any],
        *,
        person: Hashable | None = None,
        max_rows: int = 1,
        missing_values: Sequence[Any] = ("",),
        strict: bool = False,
        constraints: Sequence[str] = (),
    ):
        if not isinstance(columns, Mapping) or not columns:
            raise ValueError("columns must be a dict with a declaration of each column")
        absent = check_missing_values(missing_values)
        kinds = _check_columns(columns, person, absent)
        if isinstance(max_rows, bool) or not isinstance(max_rows, Integral) or max_rows < 1:
            raise ValueError(f"max_rows must be a whole number of at least 1; got {max_rows!r}")
        if person is None and max_rows != 1:
            raise ValueError(f"max_rows={max_rows} needs person, the name of the person key")
        parsed = parse_constraints(constraints, kinds)
        fields = (kinds, parsed, int(max_rows), tuple(absent), person, bool(strict))
        for field, value in zip(self.__slots__, fields, strict=True):
            object.__setattr__(self, field, value)
        for name, kind in kinds.items():
            if isinstance(kind, Categories) and not kind.values:
                means = "missing" if kind.other is None else repr(kind.other)
                warn(f"column {name!r}: no categories are declared, so every value is {means}")

    # Declarations -------------------------------------------------------------------------

    @staticmethod
    def categories(values: Any, *, other: Hashable | None = None, missing: bool = True) -> Kind:
        """Declare a column of categories.

        Parameters
        ----------
        values : list
            Values in any order; codes follow it.
        other : value, default=None
            Label of all other values. If None, other values are missing.
        missing : bool, default=True
            Whether missing values have a code of their own. If False, there are none, and a cell
            without a value counts as the first one.

        Returns
        -------
        Kind
        """
        return Categories.from_values(values, other=other, missing=missing)

    @staticmethod
    def numbers(
        low: float,
        high: float,
        *,
        whole: bool | None = None,
        bins: int | Sequence[float] | None = None,
        missing: bool = True,
    ) -> Kind:
        """Declare a column of numbers within public bounds.

        Parameters
        ----------
        low, high : float
            Bounds. Numbers outside them are clipped to them.
        whole : bool, default=None
            Whether the numbers are whole. If None, they are if both bounds are integers.
        bins : int or list of float, default=None
            Number of bins of equal width, or the edges between bins, for estimators that count
            categories. An edge belongs to the bin above it. If None, 10.
        missing : bool, default=True
            Whether missing values have a code of their own.

        Returns
        -------
        Kind
        """
        return Numbers.from_bounds(low, high, whole=whole, bins=bins, missing=missing)

    @staticmethod
    def dates(
        low: Any,
        high: Any,
        *,
        resolution: str = "day",
        format: str | None = None,
        bins: int | Sequence[Any] | None = None,
        missing: bool = True,
    ) -> Kind:
        """Declare a column of dates or times within public bounds.

        Times with a zone are converted to UTC.

        Parameters
        ----------
        low, high : date, datetime or str
            Bounds. Dates outside them are clipped to them. Strings are ISO 8601, or have the given
            format.
        resolution : str, default="day"
            Unit to which times are rounded down: "year", "month", "day", "hour", "minute",
            "second", "millisecond" or "microsecond".
        format : str, default=None
            Format of strings, as in `datetime.strptime`. Other strings are read as ISO 8601.
        bins : int or list of dates, default=None
            As for `numbers`.
        missing : bool, default=True
            Whether missing values have a code of their own.

        Returns
        -------
        Kind
        """
        return Dates.from_bounds(
            low, high, resolution=resolution, format=format, bins=bins, missing=missing
        )

    @staticmethod
    def names(*, missing: bool = True) -> Kind:
        """Declare a column of categories that cannot be listed, and are found privately.

        Parameters
        ----------
        missing : bool, default=True
            Whether missing values have a code of their own.

        Returns
        -------
        Kind
        """
        return Names(missing=bool(missing))

    @staticmethod
    def key(*, form: str = DEFAULT_FORM) -> Kind:
        """Declare a column of identifiers, which are never counted.

        Parameters
        ----------
        form : str, default="synthetic-{}"
            Format of the keys of synthetic records, which are numbered from 1, such as "P{:06d}".

        Returns
        -------
        Kind
        """
        return Key.from_form(form)

    @staticmethod
    def ignore() -> Kind:
        """Declare a column that is not used.

        Returns
        -------
        Kind
        """
        return Ignored()

    # Contents -----------------------------------------------------------------------------

    @property
    def columns(self) -> Mapping[Hashable, Kind]:
        """Kind of each column, by name."""
        return MappingProxyType(self._columns)

    @property
    def features(self) -> list[Hashable]:
        """Columns whose values are counted."""
        return [name for name, kind in self._columns.items() if kind.is_counted]

    @property
    def constraints(self) -> tuple[str, ...]:
        """Constraints that hold in every record."""
        return tuple(each.text for each in self._constraints)

    def __getitem__(self, name: Hashable) -> Kind:
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def select(self, *columns: Any) -> "Schema":
        """Return a schema of some columns, in the given order, and of the person key.

        Constraints on other columns are left out.

        Parameters
        ----------
        *columns : columns, or one list of columns

        Returns
        -------
        Schema
        """
        names = list(columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns)
        unknown = {name: "is not declared" for name in names if name not in self}
        raise_if_errors("columns must be columns of the schema", unknown)
        if self.person is not None and self.person not in names:
            names.append(self.person)
        kept = [each.text for each in self._constraints if each.columns <= set(names)]
        columns_ = {name: self._columns[name] for name in names}
        return self.replace(columns=columns_, constraints=kept)

    def replace(self, **changes: Any) -> "Schema":
        """Return a schema with other parameters.

        Parameters
        ----------
        **changes
            Parameters of `Schema`.

        Returns
        -------
        Schema
        """
        return Schema(**{**self._parameters(), **changes})

    def _parameters(self) -> dict[str, Any]:
        others = {field: getattr(self, field) for field in self.__slots__[2:]}
        return {"columns": self._columns, "constraints": self.constraints, **others}

    # Records ------------------------------------------------------------------------------

    def records(self, table: Any, optional: Any = ()) -> Records:
        """Return the declared columns of a table.

        Parameters
        ----------
        table : DataFrame, Arrow table, array or list of rows, or table that is not in memory
            The columns of an array are in the order of the schema. Tables that are not in memory
            are read block by block, and returned as values of the declared types.
        optional : columns, or True, default=()
            Columns that the table may lack; True for all.

        Returns
        -------
        Records
        """
        if not is_in_memory(table):
            check_row_order(self.person, table)
            with errors_without_data(X=table):
                blocks = (self.records(block, optional).columns for block in table_blocks(table))
                columns = collect_columns(self, blocks)
            return Records(columns, max(map(len, columns.values()), default=0))
        records = as_records(table, list(self._columns))
        errors = {
            name: "is not declared in the schema" for name in records.names if name not in self
        }
        what = "the columns of X must be those of the schema"
        if errors:
            what += "; pass X[list(schema)], or declare the others, for example as Schema.ignore()"
        lacking = [n for n in self._columns if n not in records.columns and self[n].is_counted]
        if optional is not True:
            errors |= {name: "is not in the table" for name in lacking if name not in optional}
        raise_if_errors(what, errors)
        return records

    def encode_column(
        self, name: Hashable, values: Any, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the code of each cell of a column.

        Parameters
        ----------
        name : column
        values : array-like
            Cells of the column.
        rows : ndarray of int, default=None
            Positions of the cells to encode. If None, all.

        Returns
        -------
        ndarray
            Positions among the categories, whole numbers from the lower bound, units of time from
            the lower bound, or numbers; missing values have the last code, or NaN.
        """
        absent = frozenset(self.missing_values)
        return self[name].encode(name, values, rows, missing_values=absent, strict=self.strict)

    def encode_columns(
        self, records: Records, rows: np.ndarray | None = None
    ) -> dict[Hashable, np.ndarray]:
        """Return the codes of the columns that have public values.

        Parameters
        ----------
        records : Records
            Columns of a table, as returned by `records`.
        rows : ndarray of int, default=None
            Positions of the records to encode. If None, all.

        Returns
        -------
        dict of ndarray
            As `encode_column`, by name.
        """
        return {
            name: self.encode_column(name, values, rows)
            for name, values in records.columns.items()
            if self[name].is_counted and not self._is_open(name)
        }

    def encode(self, table: Any) -> pd.DataFrame:
        """Return the codes of all columns that have public values.

        Parameters
        ----------
        table : table in memory, Dask collection, PyArrow dataset or stream, or lazy frame
            Tables that are not in memory are encoded block by block.

        Returns
        -------
        DataFrame
            As `encode_column`. Keys, ignored columns and names are left out.
        """
        with errors_without_data(X=table):
            blocks = [self._encode_block(block) for block in table_blocks(table)]
        return blocks[0] if len(blocks) == 1 else pd.concat(blocks, ignore_index=True)

    def _encode_block(self, table: Any) -> pd.DataFrame:
        codes = self.encode_columns(self.records(table, optional=True))
        return pd.DataFrame({name: codes[name] for name in self.features if name in codes})

    def decode(self, codes: pd.DataFrame) -> pd.DataFrame:
        """Return the values of codes, in their declared types.

        Parameters
        ----------
        codes : DataFrame
            As returned by `encode`.

        Returns
        -------
        DataFrame
        """
        return pd.DataFrame(
            {name: self[name].decode(codes[name].to_numpy()) for name in codes.columns}
        )

    def satisfies(self, table: Any) -> np.ndarray:
        """Return a mask of the records that violate no constraint.

        Parameters
        ----------
        table : table in memory
            Cells are encoded as by `encode`.

        Returns
        -------
        ndarray of bool
        """
        records = self.records(table, optional=True)
        needed = frozenset().union(*(each.columns for each in self._constraints))
        values: dict[Hashable, np.ndarray] = {}
        for name in needed:
            codes, kind = self.encode_column(name, records.columns[name]), self[name]
            is_code = isinstance(kind, Categories)
            values[name] = codes if is_code else plain_cells(kind.decode(codes))
        return satisfied(self._constraints, Cells(self.columns, values), records.n_records)

    def encoder(self) -> "SchemaEncoder":
        """Return a transformer that encodes the columns as categories, and learns nothing.

        Returns
        -------
        SchemaEncoder
        """
        return SchemaEncoder(self)

    def person_ids(self, records: Records) -> np.ndarray | None:
        """Return the id of the person of each record; None if records are protected.

        Parameters
        ----------
        records : Records
            Columns of a table, as returned by `records`.

        Returns
        -------
        ndarray of object or None
            Records without an id have `NO_PERSON`.
        """
        if self.person is None:
            return None
        if self.person not in records.columns:
            raise ValueError(f"X must have the column {self.person!r}, the person key")
        return self.key_ids(records.columns[self.person])

    def key_ids(self, values: Any) -> np.ndarray:
        """Return the person ids in the key column.

        Parameters
        ----------
        values : array-like
            Cells of the column.

        Returns
        -------
        ndarray of object
            Cells without an id have `NO_PERSON`.
        """
        return key_ids(self.person, values, frozenset(self.missing_values))

    def _is_open(self, name: Hashable) -> bool:
        return isinstance(self[name], Names)

    # Files --------------------------------------------------------------------------------

    def save(self, path: "str | PathLike[str]") -> None:
        """Write the schema as a TOML file.

        Parameters
        ----------
        path : str or path-like
        """
        files.write_text(path, files.to_toml(self))

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "Schema":
        """Read a schema from a TOML file.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        Schema
        """
        return cls(**files.read_toml(path))

    @staticmethod
    def draft(header: Any) -> str:
        """Return a TOML file with a blank for each column, to fill in.

        Parameters
        ----------
        header : path of a CSV file, DataFrame, or list of column names
            Of a file, only the first line is read; of a DataFrame, only the names.

        Returns
        -------
        str
        """
        return files.draft(header)

    @classmethod
    def from_codebook(cls, path: "str | PathLike[str]") -> "Schema":
        """Read a schema from a public code book.

        Parameters
        ----------
        path : str or path-like
            CSV file with the columns "column" and "value", and optionally "low", "high" and "kind".
            A column has a row for each of its values, or one row with bounds or a kind.

        Returns
        -------
        Schema
        """
        return cls(files.read_codebook(path))

    def read_csv(self, path: "str | PathLike[str]") -> pd.DataFrame:
        """Read the declared columns of a CSV file as values of their declared types.

        Every cell is read as a string, and converted by its declaration alone. A row with too few
        or too many fields is a record without any values.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        DataFrame
        """
        blocks = files.csv_blocks(path, self)
        absent = self.missing_values

        def to_series(cells: list[str | None]) -> pd.Series:
            return files.text_column([None if cell in absent else cell for cell in cells])

        return pd.DataFrame(collect_columns(self, blocks, to_series), copy=False)

    # Protocols ----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Schema cannot be changed; use replace() for a changed copy")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Schema cannot be changed; use replace() for a changed copy")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._parameters() == other._parameters()

    def __hash__(self) -> int:
        return hash((tuple(self._columns), self.person, self.max_rows))

    def __copy__(self) -> "Schema":
        return self

    def __deepcopy__(self, memo: Any) -> "Schema":
        return self

    def __reduce__(self) -> Any:
        return _rebuild, (self._parameters(),)

    def __repr__(self) -> str:
        lines = [
            f"    {name!r}: {files.declaration(kind)},\n" for name, kind in self._columns.items()
        ]
        others = {
            "person": None,
            "max_rows": 1,
            "missing_values": ("",),
            "strict": False,
            "constraints": (),
        }
        given = [
            f", {field}={getattr(self, field)!r}"
            for field, default in others.items()
            if getattr(self, field) != default
        ]
        return f"Schema({{\n{''.join(lines)}}}{''.join(given)})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(str(name))}</td><td>{kind.title}</td>"
            f"<td>{escape(kind.describe())}</td>"
            f"<td>{('yes' if kind.missing else 'no') if kind.is_counted else ''}</td></tr>"
            for name, kind in self._columns.items()
        )
        person = ""
        if self.person is not None:
            person = (
                f"<caption>at most {self.max_rows} rows per {escape(str(self.person))}</caption>"
            )
        head = "<tr><th>column</th><th>kind</th><th>values</th><th>missing</th></tr>"
        return f"<table>{person}<thead>{head}</thead><tbody>{rows}</tbody></table>"


def _check_columns(
    columns: Mapping[Any, Any], person: Hashable | None, absent: Mapping[Hashable, None]
) -> dict[Hashable, Kind]:
    """Return the kind of each column, or name all faulty columns."""
    kinds: dict[Hashable, Kind] = {}
    errors: dict[Hashable, str] = {}
    for name, declared in columns.items():
        try:
            kind = kinds[name] = as_kind(declared)
            if isinstance(kind, Categories) and any(kind.find(value) >= 0 for value in absent):
                errors[name] = "a category must not be in missing_values too, nor the text for it"
        except (TypeError, ValueError, OverflowError) as error:
            errors[name] = str(error)
    if person is not None and person not in errors:
        if person not in columns:
            errors[person] = "the person key must be a column; declare it as Schema.key()"
        elif not isinstance(kinds[person], Key):
            errors[person] = "the person key must be declared as Schema.key()"
    raise_if_errors("columns must be declared", errors)
    return kinds


def _rebuild(parameters: dict[str, Any]) -> Schema:
    return Schema(**parameters)


class SchemaEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as categories, by their schema alone.

    Each column becomes a column of whole numbers from 0: positions among the declared values, or
    bins of numbers and dates, with the last number for missing values. Keys and ignored columns
    are left out. Nothing is learnt from the records.

    As the first step of a `PrivatePipeline`, it declares the numbers of categories, the classes and
    the person ids to the private steps. Elsewhere, person ids are not used.

    Parameters
    ----------
    schema : Schema
        Public description of the columns.

    Attributes
    ----------
    n_categories_ : ndarray of shape (n_features_out,)
        Number of categories of each encoded column.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns seen during fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdirdp import Schema
    >>> schema = Schema({"age": Schema.numbers(0, 110, bins=[18, 65]), "sex": ["f", "m"]})
    >>> encoder = schema.encoder()
    >>> encoder.fit_transform(pd.DataFrame({"age": [17, 70, None], "sex": ["m", "f", "x"]}))
    array([[0, 1],
           [2, 0],
           [3, 2]])
    """

    def __init__(self, schema: Schema):
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> "SchemaEncoder":
        """Check the names of the columns.

        Parameters
        ----------
        X : DataFrame, Arrow table, or array of shape (n_samples, n_columns)
            Declared columns that X lacks are not encoded.
        y : Ignored

        Returns
        -------
        self
        """
        # A stream can be read only once.
        sample = X if is_in_memory(X) else empty_table(X)
        names = self.schema.records(sample, optional=True).names
        listed = ", ".join(repr(name) for name in names if isinstance(self.schema[name], Names))
        if listed:
            raise ValueError(
                f"columns must have public values to be encoded; there are none of {listed}. List "
                "them, or leave the columns out with Schema.ignore()"
            )
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the categories of all counted columns.

        Parameters
        ----------
        X : DataFrame, Arrow table, or array of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
        """
        names = self._encoded()
        records = self.schema.records(X, optional=True)
        lacking = [name for name in names if name not in records.columns]
        if lacking:
            raise ValueError(f"X must have the columns that were fitted; it lacks {lacking}")
        encoded = np.empty((records.n_records, len(names)), dtype=np.int64)
        absent = frozenset(self.schema.missing_values)
        for place, name in enumerate(names):
            kind, start = self.schema[name], 0
            for codes in kind.encode_blocks(
                name, records.columns[name], missing_values=absent, strict=self.schema.strict
            ):
                encoded[start : start + len(codes), place] = kind.bin(codes)
                start += len(codes)
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : Ignored

        Returns
        -------
        ndarray of str
        """
        return np.array(self._encoded(), dtype=object)

    @property
    def n_categories_(self) -> np.ndarray:
        """Number of categories of each encoded column."""
        return np.array([self.schema[name].n_cells for name in self._encoded()])

    def _encoded(self) -> list[Any]:
        """Return the columns that are encoded, in the order of the schema."""
        check_is_fitted(self)
        seen = set(self.feature_names_in_)
        return [name for name in self.schema.features if name in seen]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.requires_fit = True
        return tags
