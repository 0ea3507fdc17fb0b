"""Helpers of several tests: recording accountant and mechanisms, encodings of counts."""

import struct
from collections import Counter
from contextlib import contextmanager
from fractions import Fraction
from unittest.mock import patch

import numpy as np

from skdirdp.mechanisms import Mechanism


class Recorder:
    """Accountant that records all charges; clones share it."""

    def __init__(self):
        self.charges = []

    def __deepcopy__(self, memo):
        return self

    def charge(self, mechanism, releases=1, label=None, unit=None):
        self.charges.append((mechanism, releases, label))


def encodings(count):
    """Return byte strings that represent an exact count."""
    return [
        struct.pack("<d", count),
        struct.pack("<q", count),
        struct.pack("<i", count),
        str(count).encode(),
    ]


@contextmanager
def drawn_tables():
    """Collect each released table with its mechanism."""
    tables = []
    draw_all = Mechanism.draw_all

    def listening(requests, generator):
        tables.extend((mechanism, np.array(counts)) for mechanism, counts, *_ in requests)
        return draw_all(requests, generator)

    with patch.object(Mechanism, "draw_all", listening):
        yield tables


def charged_releases(charges):
    """Mechanisms that were charged for, and how often, whether alone or jointly."""
    releases = Counter()
    for mechanism, times, _ in charges:
        for part, count in getattr(mechanism, "parts", ((mechanism, 1),)):
            releases[part] += times * count
    return releases


def outside_bounds(change, mechanism, rounding=0.0):
    """Describe a violation of the bounds by one record's contribution, or return None.

    Sums are exact. `rounding` is the largest rounding error of the sum of other records in a cell.
    """
    changed = [Fraction(float(cell)) for cell in np.ravel(change) if abs(cell) > rounding]
    if not np.all(np.isfinite(change)):
        return "a cell is not finite"
    slack = Fraction(float(rounding))
    if min(changed, default=0) < -slack:
        return f"a cell fell by {float(-min(changed))}"
    if max(changed, default=0) > Fraction(mechanism.max_count) + slack:
        return f"a cell grew by {float(max(changed))!r}, max_count is {mechanism.max_count!r}"
    if mechanism.max_total is None:
        return f"{len(changed)} cells grew instead of one" if len(changed) > 1 else None
    if sum(changed) > Fraction(mechanism.max_total) + len(changed) * slack:
        return f"the table grew by {float(sum(changed))!r}, max_total is {mechanism.max_total!r}"
    return None
