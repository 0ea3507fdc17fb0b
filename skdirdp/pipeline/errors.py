"""Errors of steps that other libraries raise, less what they may show of the data."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from .._messages import is_own_error, known_message
from ..base import Terms

# What these say is about the machine, not about records.
_HARMLESS = (Warning, ImportError, MemoryError)


class Pass(Protocol):
    """A pass over the steps of a pipeline."""

    terms: Terms
    step: str
    outcome: str

    @property
    def estimator(self) -> str: ...


@contextmanager
def errors_of_steps_without_data(stage: Pass) -> Iterator[None]:
    """Gate for errors of steps in a private fit.

    What this package raises passes, for its words are its own, and so does what is raised
    before the first step. Of the errors of other libraries those that are known pass, less
    what they show of the data; the others are told by their type. None is chained to the
    error that it stands for, whose message may be in a log for longer than the data may.
    """
    try:
        yield
    except _HARMLESS:
        raise
    except Exception as error:
        if np.isinf(stage.terms.epsilon) or not stage.step or is_own_error(error):
            raise
        refusal = _refusal(error, stage)
        try:
            raise refusal from None
        finally:
            # `from None` only keeps the original from being printed.
            refusal.__context__ = None


def _refusal(error: Exception, stage: Pass) -> Exception:
    kind = TypeError if isinstance(error, TypeError) else ValueError
    name = f"step {stage.step!r} ({stage.estimator})"
    message = known_message(error)
    if message is not None:
        return kind(f"{name}: {message}")
    return kind(
        f"{name} failed with {type(error).__name__}, whose message is not shown because it may "
        "hold records. Where it may be seen, a fit without privacy shows it: "
        f"set_params(epsilon=float('inf'), accountant=None). {stage.outcome}"
    )
