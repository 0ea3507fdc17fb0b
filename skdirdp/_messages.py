"""Errors that show no data, warnings at the user's line, and the wording of reports."""

import re
import sys
import warnings
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dis import opmap
from numbers import Integral
from types import FrameType
from typing import Any

import numpy as np

# Packages whose frames may stand between a user's line and a warning.
_INTERMEDIATE = frozenset({"skdirdp", "sklearn", "joblib", "contextlib"})

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if it has a single feature or "
    "array.reshape(1, -1) if it is a single sample."
)
_ENCODE = (
    "numbers are needed; got text. Encode categories first, with those that are publicly "
    "known: OrdinalEncoder(categories=[...]), for example"
)
_FILL = (
    "Fill in a public constant, SimpleImputer(strategy='constant', fill_value=0, "
    "keep_empty_features=True) for example, or make 'missing' a category of its own; a mean "
    "or a median of the data is not private"
)
_SHAPE = r"\([\d, ]*\)"

# Messages of scikit-learn and numpy that are passed on, and what is passed on of them.
# A pattern matches the whole message, and the groups that are kept hold numbers of rows
# and columns, and names of columns, types, parameters and estimators, which are public.
_PASSED_ON = tuple(
    (re.compile(pattern, re.DOTALL), kept)
    for pattern, kept in (
        (r"(Expected 2D array, got (?:1D|scalar) array instead):.*", rf"\1. {_RESHAPE}"),
        (rf"(Expected 2D input, got input with shape {_SHAPE}\.)\n.*", rf"\1 {_RESHAPE}"),
        (
            r"(Expected a 2-dimensional container but got <class '[\w.]+'> instead\.).*",
            r"\1 Pass a DataFrame of one column, or of one row",
        ),
        (r"(Found array with dim \d+, while dim <= 2 is required(?: by \w+)?\.)", r"\1"),
        (r"(Found array with dim \d+\. \w+ expected <= 2\.)", r"\1"),
        (
            rf"(Found array with 0 (?:sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of "
            r"\d+ is required(?: by \w+)?\.)",
            r"\1",
        ),
        (r"(Found input variables with inconsistent numbers of samples: \[[\d, ]*\])", r"\1"),
        (r"(X has \d+ features, but \w+ is expecting \d+ features as input\.?)", r"\1"),
        (r"(The feature names should match those that were passed during fit\.\n.*)", r"\1"),
        (
            r"(Feature names are only supported if all input features have string names, but your "
            r"input has \[[\w', .]*\] as feature name / column name types\.).*",
            r"\1",
        ),
        (rf"(y should be a 1d array, got an array of shape {_SHAPE} instead\.)", r"\1"),
        (
            r"((?:This )?\w+(?: estimator)? requires y to be passed, but the target y is None\.?)",
            r"\1",
        ),
        (
            r"(Unknown label type: [\w-]+)\. Maybe .*",
            r"\1. A classifier expects discrete classes, not a regression target with continuous "
            "values",
        ),
        (
            r"(Classification metrics can't handle a mix of [\w-]+ and [\w-]+ targets)",
            r"\1; the first is y, the second is what was predicted",
        ),
        (r"(Sample weights must be 1D array or scalar, got \d+D array\.) .*", r"\1"),
        (rf"(sample_weight\.shape == {_SHAPE}, expected {_SHAPE}!)", r"\1"),
        (r"(Sample weights must contain at least one non-zero number\.)", r"\1"),
        (r"(Negative values in data passed to [\w` ()]+\.?)", r"\1"),
        (r"(Input(?: \w+)? contains NaN)\b.*", rf"\1. {_FILL}"),
        (
            r"cannot convert (?:NA|float NaN) to integer|int\(\) argument must be .* not "
            r"'(?:NoneType|NAType|NaTType)'",
            f"Input contains NaN. {_FILL}",
        ),
        (r"(Input(?: \w+)? contains infinity or a value too large for dtype\('\w+'\)\.)", r"\1"),
        (r"(Complex data not supported)\b.*", r"\1; numbers must be real"),
        (
            r"(Found unknown categories) .* (in column \d+ during (?:fit|transform))\.?",
            r"\1 \2; categories must name all that may occur",
        ),
        # The names are those that a ColumnTransformer was given.
        (r"((?:A given column is not a|Some column names are not) columns? of .*)", r"\1"),
        (r"(Specifying the columns using strings is only supported for .*)", r"\1"),
        (r"(Sparse data was passed(?: for \w+)?, but dense data is required\.) .*", r"\1"),
        (r"(np\.matrix is not supported\.) .*", r"\1 Convert it by np.asarray"),
        (r"((?:float|int)\(\) argument must be a string[\w ,-]* number, not '[\w.]+')", r"\1"),
        (
            r"setting an array element with a sequence\..*",
            "rows must have one length, and entries must be single values",
        ),
        (
            r"(?:could not convert string to float|invalid literal for int\(\)|dtype='numeric' is "
            r"not compatible with arrays of bytes/strings).*",
            _ENCODE,
        ),
    )
)


@contextmanager
def errors_without_data(**given: Any) -> Iterator[None]:
    """Gate for errors that are raised while data are looked at.

    An error of this package passes, since its words are its own. One of scikit-learn or
    numpy passes if it is known, less what it shows of the data. Anything else becomes a
    ValueError or a TypeError that says no more than what kind of object was given. None
    is chained to the error it stands for.

    Parameters
    ----------
    **given : object
        What is looked at, by the name of the parameter.
    """
    try:
        yield
    except Warning:
        raise
    except BaseException as error:
        if not is_error(error):
            raise
        refusal = error if is_own_error(error) else _refusal(error, given)
        try:
            raise refusal from None
        finally:
            # `from None` only keeps the original from being printed.
            refusal.__context__ = None


def is_error(error: BaseException) -> bool:
    """Whether it is an error, as a panic of a library in Rust is, and no interrupt."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def is_own_error(error: BaseException) -> bool:
    """Whether a raise statement of this package made the error."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or _package(traceback.tb_frame) != __package__:
        return False
    # A call into numpy that fails has its frame here as well.
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == opmap["RAISE_VARARGS"]


def _refusal(error: BaseException, given: dict[str, Any]) -> Exception:
    """The error to raise instead of one of another library."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    message = known_message(error)
    if message is not None:
        return kind(message)
    found = "; ".join(f"{name} is {describe(value)}" for name, value in given.items())
    return kind(
        f"{' or '.join(given) or 'the data'} cannot be read{': ' * bool(found)}{found}. "
        f"The reason, a {type(error).__name__}, is not shown because it may hold data"
    )


def known_message(error: BaseException) -> str | None:
    """What may be shown of an error of another library; None if it is not known."""
    message = ""
    with suppress(Exception):
        message = str(error)
    for pattern, kept in _PASSED_ON:
        known = pattern.fullmatch(message)
        if known:
            return known.expand(kept)
    return None


def describe(value: Any) -> str:
    """Type, shape and dtype of an object, and none of its contents."""
    kind = type(value).__name__
    with suppress(Exception):  # a shape or a length that cannot be had is left out
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, tuple) and all(isinstance(size, Integral) for size in shape):
            # Other dtypes than numpy's, such as a categorical's, may list values.
            named = f" and dtype {dtype.name}" if isinstance(dtype, np.dtype) else ""
            return f"{kind} of shape {shape}{named}"
        if isinstance(value, Sized):
            return f"{kind} of length {len(value)}"
    return kind


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the line of the user's code that led to it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame) in _INTERMEDIATE:
        frame, level = frame.f_back, level + 1
    token = _IN_PRIVATE_FIT.set(False)
    try:
        warnings.warn(message, category, stacklevel=level)
    finally:
        _IN_PRIVATE_FIT.reset(token)


#: Whether a private fit is under way in this thread.
_IN_PRIVATE_FIT: ContextVar[bool] = ContextVar("_IN_PRIVATE_FIT", default=False)


class _OfOtherLibraries:
    """Stands for the pattern of a message in a filter of warnings.

    It matches by where a warning is issued and not by its words.
    """

    #: scikit-learn copies filters by their patterns; the copy matches nothing.
    pattern = "(?!)"

    def match(self, message: str) -> bool:
        # The shape of y is public, and scikit-learn's checks ask for that warning.
        return _IN_PRIVATE_FIT.get() and not message.startswith("A column-vector y was passed")


_FILTER = ("ignore", _OfOtherLibraries(), Warning, None, 0)


@contextmanager
def suppress_other_warnings(enabled: bool = True) -> Iterator[None]:
    """Drop warnings of other libraries, which may depend on a single record.

    What this package warns of with `warn` depends on public facts, and passes. Neither the
    filters of the user nor those of other threads are changed.
    """
    if not enabled:
        yield
        return
    # From Python 3.14 on, threads may have filters of their own.
    current = getattr(warnings, "_get_filters", lambda: warnings.filters)
    filters: Any = current()
    filters.insert(0, _FILTER)
    token = _IN_PRIVATE_FIT.set(True)
    try:
        yield
    finally:
        _IN_PRIVATE_FIT.reset(token)
        with suppress(ValueError):  # filters that were reset meanwhile
            filters.remove(_FILTER)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def describe_not_covered(not_covered: Sequence[str]) -> str:
    """Exceptions to a guarantee, as the end of the sentence that states it."""
    exceptions = ""
    from_data = [name for name in not_covered if name != "random_state"]
    if from_data:
        exceptions += f"; not covered: {', '.join(from_data)}, taken from the data"
    if "random_state" in not_covered:
        exceptions += "; random_state was given, and whoever knows it can remove the noise"
    return exceptions


def plural(number: int, noun: str) -> str:
    """A number with its noun, which takes an s unless there is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_exact(claimed: float) -> str:
    """A claim in as many digits as it has: rounded, it might say less than is true."""
    short = f"{claimed:g}"
    return short if float(short) == claimed else repr(float(claimed))


def format_short(value: Any) -> str:
    """A noise level in few digits, for readers; a claim is never shortened so."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
