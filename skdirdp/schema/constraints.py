"""Constraints between the columns of a record: a small language, parsed without `eval`.

A constraint compares columns with values or with other columns, such as ``start <= end`` or
``decile <= 3 implies score == 'Low'``. As in an SQL CHECK constraint, a comparison with a missing
value is unknown, and a record violates a constraint only if the constraint is false.
"""

import operator
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .columns import parse_time
from .kinds import Categories, Dates, Kind, Names, Numbers, raise_if_errors

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<column>`[^`]+`)"
    r"|(?P<word>[^\W\d][\w.]*)"
    r"|(?P<symbol><=|>=|==|!=|<|>|\(|\)|\[|\]|,))"
)
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_KEYWORDS = frozenset({"and", "or", "not", "implies", "in", "is", "missing", "True", "False"})
_BOOLEAN_LITERALS = {"True": True, "False": False, "true": True, "false": False}
_MAX_LENGTH, _MAX_DEPTH = 10_000, 50  # characters of a constraint, and nested parentheses


class _Truth(NamedTuple):
    """Masks of the records for which an expression is true, and for which it is false.

    Both are False for a record for which it is unknown.
    """

    true: np.ndarray
    false: np.ndarray


@dataclass(frozen=True)
class _Column:
    """Column of the record, given by its name."""

    name: str


@dataclass(frozen=True)
class _Value:
    """Literal value."""

    value: Any


_Operand = _Column | _Value


@dataclass(frozen=True)
class _Comparison:
    left: _Operand
    comparator: str
    right: _Operand

    def check(self, kinds: Mapping[Hashable, Kind]) -> None:
        """Raise an error if the operands cannot be compared."""
        types = [_comparison_type(each, kinds) for each in (self.left, self.right)]
        if isinstance(self.left, _Value) and isinstance(self.right, _Value):
            raise ValueError("a comparison must contain a column")
        if self.comparator in ("==", "!="):
            for one, other in ((self.left, self.right), (self.right, self.left)):
                if (
                    isinstance(one, _Column)
                    and isinstance(other, _Value)
                    and _check_category(one.name, kinds[one.name], other.value)
                ):
                    return
            if types[0] == types[1]:
                return
        if types[0] != types[1] or types[0] == "categories":
            raise ValueError(
                f"{self.comparator} must compare two numbers, two dates, or a column with one of "
                f"its categories; got {types[0]} and {types[1]}"
            )

    def evaluate(self, cells: "Cells") -> _Truth:
        both = self.left, self.right
        if self.comparator in ("==", "!=") and any(cells.is_categorical(each) for each in both):
            first, second = cells.common_codes(*both)
        else:
            first, second = (cells.quantities(each) for each in both)
        known = cells.is_known(self.left) & cells.is_known(self.right)
        holds = np.broadcast_to(_COMPARISONS[self.comparator](first, second), known.shape)
        return _Truth(known & holds, known & ~holds)

    def columns(self) -> Iterator[str]:
        return (each.name for each in (self.left, self.right) if isinstance(each, _Column))


@dataclass(frozen=True)
class _Missing:
    column: _Column

    def check(self, kinds: Mapping[Hashable, Kind]) -> None:
        """Raise an error if the column does not exist or cannot be used in a constraint."""
        _comparison_type(self.column, kinds)

    def evaluate(self, cells: "Cells") -> _Truth:
        known = cells.is_known(self.column)
        return _Truth(~known, known)

    def columns(self) -> Iterator[str]:
        return iter((self.column.name,))


@dataclass(frozen=True)
class _Not:
    term: Any

    def check(self, kinds: Mapping[Hashable, Kind]) -> None:
        """Check the term."""
        self.term.check(kinds)

    def evaluate(self, cells: "Cells") -> _Truth:
        true, false = self.term.evaluate(cells)
        return _Truth(false, true)

    def columns(self) -> Iterator[str]:
        return self.term.columns()


@dataclass(frozen=True)
class _All:
    terms: tuple[Any, ...]

    def check(self, kinds: Mapping[Hashable, Kind]) -> None:
        """Check all terms."""
        for term in self.terms:
            term.check(kinds)

    def evaluate(self, cells: "Cells") -> _Truth:
        truths = [term.evaluate(cells) for term in self.terms]
        true = np.logical_and.reduce([each.true for each in truths])
        return _Truth(true, np.logical_or.reduce([each.false for each in truths]))

    def columns(self) -> Iterator[str]:
        return (name for term in self.terms for name in term.columns())


def _any(terms: Sequence[Any]) -> Any:
    return terms[0] if len(terms) == 1 else _Not(_All(tuple(_Not(term) for term in terms)))


# Parsing ----------------------------------------------------------------------------------


class _Parser:
    """Recursive-descent parser.

    In order of increasing precedence: implies, or, and, not, comparisons.
    """

    def __init__(self, text: str):
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"it must have at most {_MAX_LENGTH} characters; got {len(text)}")
        self._tokens: list[tuple[str, str]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"unexpected character at position {position + 1}")
            self._tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
            position = match.end()
        self._index = 0
        self._depth = 0

    def parse(self) -> Any:
        """Return the expression of the whole text."""
        expression = self._implication()
        if self._index < len(self._tokens):
            raise ValueError(f"unexpected {self._tokens[self._index][1]!r}")
        return expression

    def _accept(self, *words: str) -> str | None:
        if self._index < len(self._tokens):
            kind, token = self._tokens[self._index]
            if kind in ("word", "symbol") and token in words:
                self._index += 1
                return token
        return None

    def _expect(self, word: str) -> None:
        if self._accept(word) is None:
            raise ValueError(f"expected {word!r}")

    def _implication(self) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"terms may be nested at most {_MAX_DEPTH} levels deep")
        left = self._disjunction()
        if self._accept("implies"):
            left = _any([_Not(left), self._implication()])
        self._depth -= 1
        return left

    def _disjunction(self) -> Any:
        terms = [self._conjunction()]
        while self._accept("or"):
            terms.append(self._conjunction())
        return _any(terms)

    def _conjunction(self) -> Any:
        terms = [self._negation()]
        while self._accept("and"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else _All(tuple(terms))

    def _negation(self) -> Any:
        is_negated = False
        while self._accept("not"):
            is_negated = not is_negated
        if self._accept("("):
            term = self._implication()
            self._expect(")")
        else:
            term = self._comparison()
        return _Not(term) if is_negated else term

    def _comparison(self) -> Any:
        left = self._operand()
        if self._accept("is"):
            is_negated = self._accept("not") is not None
            self._expect("missing")
            if not isinstance(left, _Column):
                raise ValueError("'is missing' must follow a column")
            return _Not(_Missing(left)) if is_negated else _Missing(left)
        is_negated = self._accept("not") is not None
        if self._accept("in"):
            term = self._membership(left)
            return _Not(term) if is_negated else term
        terms = []
        while not is_negated and (comparator := self._accept(*_COMPARISONS)):
            right = self._operand()
            terms.append(_Comparison(left, comparator, right))
            left = right
        if not terms:
            raise ValueError("expected a comparison such as x <= 3")
        return terms[0] if len(terms) == 1 else _All(tuple(terms))

    def _membership(self, left: _Operand) -> Any:
        self._expect("[")
        values = [self._operand()]
        while self._accept(","):
            values.append(self._operand())
        self._expect("]")
        return _any([_Comparison(left, "==", value) for value in values])

    def _operand(self) -> _Operand:
        if self._index == len(self._tokens):
            raise ValueError("expected a column or a value at the end")
        kind, token = self._tokens[self._index]
        self._index += 1
        if kind == "number":
            return _Value(float(token) if set(token) & set(".eE") else int(token))
        if kind == "text":
            return _Value(token[1:-1])
        if kind == "column":
            return _Column(token[1:-1])
        if token in _BOOLEAN_LITERALS:
            return _Value(_BOOLEAN_LITERALS[token])
        if kind == "symbol" or token in _KEYWORDS:
            raise ValueError(f"expected a column or a value before {token!r}")
        return _Column(token)


# Checks -----------------------------------------------------------------------------------


def _has_numeric_categories(kind: Kind) -> bool:
    """Return whether a column has categories, all of which are numbers."""
    if not isinstance(kind, Categories):
        return False
    return all(type(value) in (int, float) for value in kind.states)


def _comparison_type(operand: _Operand, kinds: Mapping[Hashable, Kind]) -> str:
    """Return the type used to compare an operand: numbers, dates or categories."""
    if isinstance(operand, _Value):
        value = operand.value
        if isinstance(value, str):
            return "dates" if parse_time(value) is not None else "categories"
        return "categories" if isinstance(value, bool) else "numbers"
    if operand.name not in kinds:
        raise ValueError(f"{operand.name!r} is not a column")
    kind = kinds[operand.name]
    if not kind.is_counted:
        raise ValueError(
            f"{operand.name!r} cannot be used in a constraint, because its values are not counted"
        )
    if isinstance(kind, Dates):
        return "dates"
    return "numbers" if isinstance(kind, Numbers) or _has_numeric_categories(kind) else "categories"


def _check_category(name: str, kind: Kind, value: Any) -> bool:
    """Check a value against the declared categories; return whether the column is categorical."""
    if isinstance(kind, Names):
        return True
    if isinstance(kind, Categories):
        if kind.find(value) < 0:
            raise ValueError(f"{value!r} is not a category of {name!r}")
        return True
    return False


# Evaluation -------------------------------------------------------------------------------


class Cells:
    """Cells of records: codes of categories, floats with NaN, or times with NaT."""

    def __init__(self, kinds: Mapping[Hashable, Kind], values: Mapping[Hashable, np.ndarray]):
        self._kinds, self._values = kinds, values

    def is_categorical(self, operand: _Operand) -> bool:
        """Return whether an operand is a column with declared categories."""
        return isinstance(operand, _Column) and isinstance(self._kinds[operand.name], Categories)

    def is_known(self, operand: _Operand) -> Any:
        """Return a mask of the records in which an operand is not missing."""
        if isinstance(operand, _Value):
            return np.True_
        kind: Any = self._kinds[operand.name]
        values = self._values[operand.name]
        if isinstance(kind, Categories):
            return (values >= 0) & (values < len(kind.states))
        return ~(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))

    def quantities(self, operand: _Operand) -> Any:
        """Return an operand as numbers or times."""
        if isinstance(operand, _Value):
            value = operand.value
            return np.datetime64(parse_time(value), "us") if isinstance(value, str) else value
        kind: Any = self._kinds[operand.name]
        values = self._values[operand.name]
        if isinstance(kind, Categories):
            states = [each if type(each) in (int, float) else np.nan for each in kind.states]
            return np.array([*states, np.nan])[np.where(self.is_known(operand), values, -1)]
        return values

    def common_codes(self, left: _Operand, right: _Operand) -> tuple[Any, Any]:
        """Return codes for two operands, which are equal where the operands are equal."""
        states = [
            list(getattr(self._kinds[each.name], "states", ()))
            for each in (left, right)
            if isinstance(each, _Column)
        ]
        if len(states) == 2:
            if all(map(self.is_categorical, (left, right))):
                code = {state: i for i, state in enumerate(dict.fromkeys(states[0] + states[1]))}
                first, second = (
                    np.array([*(code[state] for state in each), -1]) for each in states
                )
                codes = [
                    np.where(self.is_known(each), self._values[each.name], -1)
                    for each in (left, right)
                    if isinstance(each, _Column)
                ]
                return first[codes[0]], second[codes[1]]
            return self.quantities(left), self.quantities(right)
        column, value = (left, right) if isinstance(left, _Column) else (right, left)
        assert isinstance(column, _Column)
        assert isinstance(value, _Value)
        kind: Any = self._kinds[column.name]
        # A name that is not found matches no record: its code is smaller than all others.
        return self._values[column.name], kind.find(value.value)


@dataclass(frozen=True)
class Constraint:
    """Parsed constraint, with its text."""

    text: str
    _expression: Any

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns in the constraint."""
        return frozenset(self._expression.columns())

    def violated(self, cells: Cells) -> np.ndarray:
        """Return a mask of the records that violate the constraint."""
        return self._expression.evaluate(cells).false


def parse_constraints(texts: Any, kinds: Mapping[Hashable, Kind]) -> tuple[Constraint, ...]:
    """Parse constraints and check them against the kinds of the columns."""
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Sequence):
        raise TypeError(f"constraints must be a list of strings; got {type(texts).__name__}")
    found, errors = [], {}
    for text in texts:
        try:
            if not isinstance(text, str):
                raise ValueError("it is not a string")
            expression = _Parser(text).parse()
            expression.check(kinds)
            found.append(Constraint(text, expression))
        except ValueError as error:
            errors[text if isinstance(text, str) else repr(text)] = str(error)
    raise_if_errors("constraints must be comparisons of columns", errors)
    return tuple(found)


def plain_cells(values: Any) -> np.ndarray:
    """Return a column of numbers or times as floats with NaN, or as times with NaT."""
    if values.dtype.kind == "M":
        return values.to_numpy("M8[us]")
    return values.to_numpy(np.float64, na_value=np.nan)


def satisfied(constraints: Sequence[Constraint], cells: Cells, n_records: int) -> np.ndarray:
    """Return a mask of the records that violate no constraint."""
    kept = np.ones(n_records, dtype=bool)
    for constraint in constraints:
        kept &= ~constraint.violated(cells)
    return kept
