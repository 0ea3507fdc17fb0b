"""Where the private estimators of a pipeline are, and which of them are fed by others."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from ..base import PrivateEstimator
from .knowledge import ADAPTIVE, KEEP_ROWS, SIDE_BY_SIDE, is_known


def private_estimators(step: Any) -> list[PrivateEstimator]:
    """The private estimators that fitting a step would fit."""
    return [*_walk(step)]


def _walk(step: Any) -> Iterator[PrivateEstimator]:
    if isinstance(step, PrivateEstimator):
        yield step
    elif isinstance(step, FrozenEstimator):
        return
    elif isinstance(step, BaseEstimator) or hasattr(step, "get_params"):
        for value in step.get_params(deep=False).values():
            yield from _walk(value)
    elif isinstance(step, (list, tuple)):
        for value in step:
            yield from _walk(value)


def reachable(estimator: Any) -> list[Any]:
    """An estimator and all estimators that it holds, fitted ones too."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    waiting = [estimator]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, BaseEstimator):
            found[id(each)] = each
            waiting += vars(each).values()
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
    return list(found.values())


class ForbiddenAccountant:
    """Accountant that refuses every charge.

    A pipeline charges for its steps. An estimator that charges this accountant was fitted
    outside of the pipeline's context, in another thread for example.
    """

    def __init__(self) -> None:
        self.charged_by: list[str] = []

    def charge(self, mechanism: Any, releases: int = 1, label: str = "", unit: Any = None) -> None:
        self.charged_by.append(label)
        self.refuse()

    def refuse(self) -> None:
        """Raise an error if it was charged, for that of a thread may be lost."""
        if self.charged_by:
            raise RuntimeError(
                f"the private estimator {self.charged_by[0]!r} was fitted in another thread or "
                "process, which knows nothing of the budget of the PrivatePipeline. Nothing was "
                "charged"
            ) from None

    def __deepcopy__(self, memo: Any) -> "ForbiddenAccountant":
        # It is one for all clones, as every accountant is.
        return self


def mark(pipe: Pipeline, given: Pipeline, accountant: ForbiddenAccountant) -> None:
    """Call each private estimator by where it is, in the names of `set_params`.

    The label is a parameter, and so is the accountant: they are known also of the clones
    that steps make, and only of these. What a copy shares with the pipeline that was given
    is left alone.
    """
    shared = {id(part) for _, part in _parts(given)}
    for path, estimator in _parts(pipe):
        if isinstance(estimator, PrivateEstimator) and id(estimator) not in shared:
            estimator.label, estimator.accountant = path, accountant


def adaptive_part(pipe: Pipeline) -> tuple[str, Any] | None:
    """An estimator, and its path, that fits private ones as often as results suggest."""
    for path, part in _parts(pipe):
        if type(part).__name__ in ADAPTIVE and is_known(part) and private_estimators(part):
            return path, part
    return None


def moves_rows(pipe: Pipeline) -> tuple[str, Any] | None:
    """An estimator, and its path, that may fit private ones to other rows than it is given."""
    for path, part in _parts(pipe):
        keeps = type(part).__name__ in KEEP_ROWS and is_known(part)
        keeps = keeps and getattr(part, "cv", None) is None
        if private_estimators(part) and not (keeps or isinstance(part, PrivateEstimator)):
            return path, part
    return None


def _parts(pipe: Pipeline) -> list[tuple[str, Any]]:
    """All estimators that a fit would fit, by the names of `set_params`.

    Private ones in a list that gives them no names have that of the list; where there is a
    better name it comes later.
    """
    parameters = pipe.get_params(deep=True)
    unnamed = [
        (path, estimator)
        for path, value in parameters.items()
        if isinstance(value, (list, tuple))
        for estimator in _walk(value)
    ]
    named = [
        (path, value)
        for path, value in parameters.items()
        if hasattr(value, "get_params") and not isinstance(value, type)
    ]
    frozen = [f"{path}__" for path, part in named if isinstance(part, FrozenEstimator)]
    return unnamed + [part for part in named if not part[0].startswith(tuple(frozen))]


def feeds(pipe: Pipeline, earlier: str, later: str) -> bool:
    """Whether what one estimator releases may decide on the data of one fitted after it.

    Parameters
    ----------
    pipe : Pipeline
        That both are in.
    earlier, later : str
        Their paths, which are one where an estimator is fitted several times.
    """
    container: Any = pipe
    for one, other in zip_longest(earlier.split("__"), later.split("__")):
        in_sequence = isinstance(container, Pipeline)
        if not in_sequence and not _fits_side_by_side(container):
            return True
        inside = container.get_params(deep=True)
        if one not in inside or other not in inside:
            return True
        if one != other:
            order = [name for name, _ in container.steps] if in_sequence else []
            return in_sequence and order.index(one) < order.index(other)
        container = inside[one]
        if isinstance(container, PrivateEstimator):
            return False
    return True


def _fits_side_by_side(container: Any) -> bool:
    if not is_known(container):
        return False
    rule = SIDE_BY_SIDE.get(type(container).__name__, False)
    return rule(container) if callable(rule) else rule
