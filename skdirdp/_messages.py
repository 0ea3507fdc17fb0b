"""Error messages without data, warnings that point to user code, and number formatting."""

import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dis import opmap
from numbers import Integral
from types import FrameType
from typing import Any

import numpy as np

# Packages whose frames are skipped to find the line of user code that caused a warning.
_INTERMEDIATE = frozenset({"skdirdp", "sklearn", "joblib", "contextlib"})

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if it has a single feature or "
    "array.reshape(1, -1) if it is a single sample."
)
_ENCODE = (
    "values must be numeric; got text. Encode categories first, using a publicly known list, for "
    "example with OrdinalEncoder(categories=[...])"
)
_FILL = (
    "Impute a public constant, for example with SimpleImputer(strategy='constant', fill_value=0, "
    "keep_empty_features=True), or make 'missing' a separate category; the mean or median of the "
    "data is not private"
)
_NAN = f"Input contains NaN. {_FILL}"
_SHAPE = r"\([\d, ]*\)"

# Messages of scikit-learn and numpy that are replaced. Patterns match whole messages; the groups
# that are kept contain only shapes, positions of columns, and names of types and parameters, but no
# values of the data.
_REPLACED = {
    r"(Expected 2D array, got (?:1D|scalar) array instead):.*": rf"\1. {_RESHAPE}",
    rf"(Expected 2D input, got input with shape {_SHAPE}\.)\n.*": rf"\1 {_RESHAPE}",
    r"(Expected a 2-dimensional container but got <class '[\w.]+'> instead\.).*": r"\1 Pass a "
    "DataFrame with one column or one row",
    r"(Unknown label type: [\w-]+)\. Maybe .*": r"\1. A classifier expects discrete classes, not a "
    "regression target with continuous values",
    r"(Classification metrics can't handle a mix of [\w-]+ and [\w-]+ targets)": r"\1; the first "
    "is y, the second is the prediction",
    r"(Input(?: \w+)? contains NaN)\b.*": rf"\1. {_FILL}",
    r"cannot convert (?:NA|float NaN) to integer": _NAN,
    r"int\(\) argument must be .* not '(?:NoneType|NAType|NaTType)'": _NAN,
    r"(Complex data not supported)\b.*": r"\1; numbers must be real",
    r"(Found unknown categories) .* (in column \d+ during (?:fit|transform))\.?": r"\1 \2; "
    "categories must contain all values that may occur",
    r"(np\.matrix is not supported\.) .*": r"\1 Convert it with np.asarray",
    r"setting an array element with a sequence\..*": "rows must have the same length, "
    "and entries must be scalars",
    r"could not convert string to float.*": _ENCODE,
    r"invalid literal for int\(\).*": _ENCODE,
    r"dtype='numeric' is not compatible with arrays of bytes/strings.*": _ENCODE,
}
# Messages of which only the first group is shown. The groups contain numbers of rows and columns,
# and names of columns, types, parameters and estimators, but no values of the data.
_SHOWN = (
    r"(Found array with dim \d+, while dim <= 2 is required(?: by \w+)?\.)",
    r"(Found array with dim \d+\. \w+ expected <= 2\.)",
    rf"(Found array with 0 (?:sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of \d+ is "
    r"required(?: by \w+)?\.)",
    r"(Found input variables with inconsistent numbers of samples: \[[\d, ]*\])",
    r"(X has \d+ features, but \w+ is expecting \d+ features as input\.?)",
    r"(The feature names should match those that were passed during fit\.\n.*)",
    r"(Feature names are only supported if all input features have string names, but your input "
    r"has \[[\w', .]*\] as feature name / column name types\.).*",
    rf"(y should be a 1d array, got an array of shape {_SHAPE} instead\.)",
    r"((?:This )?\w+(?: estimator)? requires y to be passed, but the target y is None\.?)",
    r"(Sample weights must be 1D array or scalar, got \d+D array\.) .*",
    rf"(sample_weight\.shape == {_SHAPE}, expected {_SHAPE}!)",
    r"(Sample weights must contain at least one non-zero number\.)",
    r"(Negative values in data passed to [\w` ()]+\.?)",
    r"(Input(?: \w+)? contains infinity or a value too large for dtype\('\w+'\)\.)",
    # These show only names that were passed to a ColumnTransformer.
    r"((?:A given column is not a|Some column names are not) columns? of .*)",
    r"(Specifying the columns using strings is only supported for .*)",
    r"(Sparse data was passed(?: for \w+)?, but dense data is required\.) .*",
    r"((?:float|int)\(\) argument must be a string[\w ,-]* number, not '[\w.]+')",
)
_KNOWN_MESSAGES = {
    re.compile(pattern, re.DOTALL): template
    for pattern, template in (_REPLACED | dict.fromkeys(_SHOWN, r"\1")).items()
}


@contextmanager
def errors_without_data(**given: Any) -> Iterator[None]:
    """Replace errors that may reveal data with errors that do not.

    Errors raised by this package are not changed. Known errors of scikit-learn and numpy keep the
    part of their message that shows no data. All other errors become a ValueError or TypeError that
    only describes the type and shape of the inputs in `given`. The original error is not chained.
    """
    try:
        yield
    except Warning:
        raise
    except BaseException as error:
        if not is_error(error):
            raise
        new_error = error if is_own_error(error) else _replacement(error, given)
        try:
            raise new_error from None
        finally:
            # `from None` only hides the original error; it would still be attached.
            new_error.__context__ = None


def is_error(error: BaseException) -> bool:
    """Return whether this is an error (including a Rust panic) and not an interrupt."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def is_own_error(error: BaseException) -> bool:
    """Return whether a raise statement of this package raised the error."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or package_of(traceback.tb_frame) != __package__:
        return False
    # If a call to a C function fails, the last Python frame is in this package, too.
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == opmap["RAISE_VARARGS"]


def _replacement(error: BaseException, given: dict[str, Any]) -> Exception:
    """Return the error to raise instead of an error from another library."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    message = known_message(error)
    if message is not None:
        return kind(message)
    inputs = "; ".join(f"{name} is {describe(value)}" for name, value in given.items())
    return kind(
        f"{' or '.join(given) or 'the data'} cannot be read{': ' * bool(inputs)}{inputs}. "
        f"The reason, a {type(error).__name__}, is not shown because it may contain data"
    )


def known_message(error: BaseException) -> str | None:
    """Return the part of a known message that shows no data; None for other messages."""
    message = ""
    with suppress(Exception):
        message = str(error)
    for pattern, template in _KNOWN_MESSAGES.items():
        known = pattern.fullmatch(message)
        if known:
            return known.expand(template)
    return None


def describe(value: Any) -> str:
    """Return the type, shape and dtype of an object, without its contents."""
    kind = type(value).__name__
    with suppress(Exception):  # properties of arbitrary objects may raise anything
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if isinstance(shape, tuple) and all(isinstance(size, Integral) for size in shape):
            # Dtypes of other libraries, such as categorical dtypes, may list values.
            named = f" and dtype {dtype.name}" if isinstance(dtype, np.dtype) else ""
            return f"{kind} of shape {shape}{named}"
        if isinstance(value, Sized):
            return f"{kind} of length {len(value)}"
    return kind


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the calling line in the user's code."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and package_of(frame) in _INTERMEDIATE:
        frame, level = frame.f_back, level + 1
    token = _IN_PRIVATE_FIT.set(False)
    try:
        warnings.warn(message, category, stacklevel=level)
    finally:
        _IN_PRIVATE_FIT.reset(token)


def warn_of_missing(shares: Mapping[Any, float]) -> None:
    """Warn of columns most of whose values are missing, by their released shares."""
    most = [f"{name!r} ({share:.0%})" for name, share in shares.items() if share > 0.5]
    if most:
        warn(
            f"most values are missing or not declared in {', '.join(most)}, according to the "
            "release. Compare the schema with the table: the values may be written differently, "
            "and codes such as 00123 must be read as text, for example by schema.read_csv"
        )


#: Whether a private fit is running in this thread.
_IN_PRIVATE_FIT: ContextVar[bool] = ContextVar("_IN_PRIVATE_FIT", default=False)


class _ExternalMessage:
    """Pattern of a warning filter that matches warnings from other libraries in a private fit."""

    #: scikit-learn copies filters by their pattern; this pattern matches nothing.
    pattern = "(?!)"

    def match(self, message: str) -> bool:
        # The shape of y is public, and scikit-learn's estimator checks expect this warning.
        return _IN_PRIVATE_FIT.get() and not message.startswith("A column-vector y was passed")


_FILTER = ("ignore", _ExternalMessage(), Warning, None, 0)


@contextmanager
def suppress_external_warnings(enabled: bool = True) -> Iterator[None]:
    """Suppress warnings from other libraries, which may depend on a single record.

    Warnings that this package issues with `warn` depend only on public facts and are still shown.
    The user's filters stay in place, and warnings in other threads are not affected.
    """
    if not enabled:
        yield
        return
    # Since Python 3.14, threads may have their own filters.
    current = getattr(warnings, "_get_filters", lambda: warnings.filters)
    filters: Any = current()
    filters.insert(0, _FILTER)
    token = _IN_PRIVATE_FIT.set(True)
    try:
        yield
    finally:
        _IN_PRIVATE_FIT.reset(token)
        with suppress(ValueError):  # the filters were reset in the meantime
            filters.remove(_FILTER)


def package_of(frame: FrameType) -> str:
    """Return the name of the package whose code a frame runs."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def describe_not_covered(not_covered: Sequence[str]) -> str:
    """Return text that states what a guarantee does not cover, to be appended to the guarantee."""
    text = ""
    from_data = [name for name in not_covered if name != "random_state"]
    if from_data:
        text += f"; not covered: {', '.join(from_data)}, taken from the data"
    if "random_state" in not_covered:
        text += "; random_state was given, and anyone who knows it can remove the noise"
    return text


def plural(number: int, noun: str) -> str:
    """Return a number followed by its noun in the singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_exact(claimed: float) -> str:
    """Format a claimed number with all its digits; rounding could understate it."""
    short = f"{claimed:g}"
    return short if float(short) == claimed else repr(float(claimed))


def format_short(value: Any) -> str:
    """Format a noise level with few digits; never used for claims."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
