"""Base class of experiments: tasks that are measured one by one, a figure, a table, verdicts."""

import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

#: Parameters of one task, and its measurements: numbers and strings by name.
Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How experiments are run.

    Attributes
    ----------
    quick : whether a small version is enough.
    data : the folder of the papers' data sets; None fetches them.
    """

    quick: bool = False
    data: Path | None = None


@dataclass(frozen=True)
class Claim:
    """Statement of a paper or of this library, with the measured result.

    Attributes
    ----------
    source : paper or library.
    statement : text of the statement.
    holds : whether the measurements confirm it.
    found : the numbers that decide.
    """

    source: str
    statement: str
    holds: bool
    found: str


class Experiment(ABC):
    """One question, answered by one tidy table.

    Tasks are independent of each other, so that they can be spread over processes and an
    interrupted run can go on where it stopped.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reproduces: ClassVar[str]
    #: Times are compared with each other only when nothing else runs.
    parallel: ClassVar[bool] = True

    @abstractmethod
    def tasks(self, settings: Settings) -> list[Row]:
        """The parameters of every task."""

    @abstractmethod
    def measure(self, task: Row, settings: Settings) -> list[Row]:
        """The rows that a task adds to the results."""

    @abstractmethod
    def figure(self, results: pd.DataFrame):
        """A matplotlib figure of the results."""

    @abstractmethod
    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """A short table of the results, its index included."""

    def remarks(self, results: pd.DataFrame) -> str:
        """Notes on the table, in Markdown."""
        return ""

    def claims(self, results: pd.DataFrame) -> list[Claim]:
        """Verdicts on statements of the papers and of the library."""
        return []


def seeded(*parts: Any) -> np.random.Generator:
    """Return a generator that depends only on the given names."""
    return np.random.default_rng(zlib.crc32("/".join(map(str, parts)).encode()))
