"""Noise that is the same in every run of the tests."""

import random

import pytest


@pytest.fixture(autouse=True)
def repeatable_keys(request, monkeypatch):
    """Give the secure generator keys that follow from the test's name.

    The noise comes from the same generator as a user's, and what a test concludes from
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
