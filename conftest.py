"""What tests and the examples in docstrings share: figures that nobody sees."""

import os
import sys
from importlib.util import find_spec

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

# Their examples need Flower.
collect_ignore = ["skdirdp/federated/flower.py", "skdirdp/federated/example.py"]
if find_spec("flwr"):
    collect_ignore = []


@pytest.fixture(autouse=True)
def figures_are_closed():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
