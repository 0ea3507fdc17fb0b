import numpy as np
import pytest

from benchmarks.peers import environment as peers


@pytest.fixture
def asked(monkeypatch):
    """Requests to a peer that needs 100 seconds for an answer."""
    questions = []

    def ask(folder, question, *, limit, **arrays):
        questions.append((question, limit))
        return None if limit < 100 else [{"sum": float(arrays["X"].sum())}]

    monkeypatch.setattr(peers, "ask", ask)
    return questions


def test_a_peer_result_is_cached(asked, tmp_path):
    folder = tmp_path / "dpmm"
    folder.mkdir()
    X = np.arange(3.0)
    for given in (X, X, X + 1):
        found = peers.ask_once(folder, "MST", limit=200, X=given)
        assert found == [{"sum": given.sum()}]
    assert len(asked) == 2


def test_a_timeout_is_retried_only_with_more_time(asked, tmp_path):
    folder = tmp_path / "dpmm"
    folder.mkdir()
    found = [peers.ask_once(folder, "AIM", limit=t, X=np.ones(2)) for t in (50, 40, 200, 50)]
    assert found == [None, None, [{"sum": 2.0}], [{"sum": 2.0}]]
    assert asked == [("AIM", 50), ("AIM", 200)]


def test_an_environment_that_cannot_be_installed_is_not_created(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    assert peers.environment(create=True, peer="private_pgm") is None
    assert not (tmp_path / "skdirdp").exists()
