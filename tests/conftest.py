"""Fixtures for reproducible noise, and markers of slow tests."""

import random
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def repeatable_keys(request, monkeypatch):
    """Give the secure generator keys that follow from the test's name.

    The noise comes from the same generator as for users, and the result of a test based on
    it does not change from run to run. Worker processes draw their own keys.
    """
    keys = random.Random(request.node.nodeid)
    monkeypatch.setattr("skdirdp._random._fresh_key", lambda: keys.getrandbits(128))


@pytest.fixture(scope="session")
def postgres():
    """A server that all tests share; it starts when the first one asks for it."""
    from .postgres import running_server  # which needs the drivers

    with running_server() as server:
        yield server


#: Slow tests, by folder or file: experiments, attacks, many configurations, killed servers.
SLOW = (
    "benchmarks",
    "test_attacks.py",
    "test_command_postgres.py",
    "test_bounds.py",
    "test_engines_cluster.py",
    "test_filters.py",
    "test_ledger_damage.py",
    "test_ledger_postgres.py",
    "test_many.py",
    "test_meta_estimators.py",
    "test_model_selection.py",
    "test_persons.py",
    "test_selection.py",
    "test_synthesis_attack.py",
)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        path = item.path
        if path.is_relative_to(here) and path.relative_to(here).parts[0] in SLOW:
            item.add_marker(pytest.mark.slow)
