"""Fixtures that run the quick version of an experiment."""

import pandas as pd
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from benchmarks.__main__ import main
from benchmarks.data import default_folder


@pytest.fixture
def quick(tmp_path):
    """Function that runs an experiment by name and returns its results."""

    def run(name: str) -> pd.DataFrame:
        assert main(["run", name, "--quick", "--out", str(tmp_path), "--jobs", "1"]) == 0
        for suffix in ("csv", "json", "md", "png", "svg"):
            assert (tmp_path / f"{name}.{suffix}").stat().st_size > 0
        return pd.read_csv(tmp_path / f"{name}.csv")

    return run


@pytest.fixture
def paper_data():
    """Skip the test if the papers' data are missing: tests do not download."""
    folder = default_folder()
    if folder is None:
        pytest.skip("needs the papers' data sets beside the project")
    return folder
