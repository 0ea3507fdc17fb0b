"""Loading of data sets, and errors for invalid ones."""

import io
import zipfile
from types import SimpleNamespace

import pandas as pd
import pytest

from benchmarks import data


@pytest.fixture(autouse=True)
def empty_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    data.load.cache_clear()
    yield
    data.load.cache_clear()


def test_a_local_folder_is_used_before_a_download(paper_data):
    assert data.load("german_credit", paper_data).shape == (1000, 21)


def test_a_table_of_another_shape_is_refused(tmp_path):
    pd.DataFrame({"a": [1, 2], "y": [0, 1]}).to_csv(tmp_path / "spam.csv.gz", index=False)
    with pytest.raises(ValueError, match=r"spam must have .4601, 57, 2. rows"):
        data.load("spam", tmp_path)


def test_without_a_folder_data_are_downloaded_from_openml_once(paper_data, monkeypatch):
    local = data.load("adult", paper_data)
    asked = []

    def fetch_openml(data_id, **_):
        asked.append(data_id)
        served = local.rename(columns={"income": "class"}).assign(fnlwgt=0)
        return SimpleNamespace(frame=served)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    fetched = data.load("adult", None)
    pd.testing.assert_frame_equal(fetched, local)
    data.load.cache_clear()
    data.load("adult", None)
    assert asked == [1590]


def test_without_a_folder_a_nested_archive_is_extracted(paper_data, monkeypatch):
    local = data.load("bank", paper_data)
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        text = local.to_csv(sep=";", index=False)
        archive.writestr("bank-additional/bank-additional-full.csv", text)
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("bank-additional.zip", inner.getvalue())
    monkeypatch.setattr(data, "urlopen", lambda *_, **__: io.BytesIO(outer.getvalue()))
    pd.testing.assert_frame_equal(data.load("bank", None), local)


def test_numbers_are_binned_at_deciles_unless_they_have_few_values():
    many, few = pd.Series(range(1000)), pd.Series([1, 2, 3] * 5)
    assert data.binned(many).value_counts().tolist() == [100] * 10
    assert data.binned(few) is few
    assert data.binned(pd.Series([0] * 990 + list(range(1, 21)))).nunique() == 2
