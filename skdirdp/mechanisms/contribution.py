"""Bounds on what one record contributes to a table."""

import math
from dataclasses import dataclass
from fractions import Fraction

from .._validation import LARGEST, store_real
from ..accounting.worst_case import replaces
from ..numerics.conservative import product_up

# Beyond this no float tells one cell more from none.
_MOST_CELLS = 2.0**53

# Contributions that are not whole numbers keep this many bits below their bound.
_GRID_BITS = 20


@dataclass(frozen=True)
class ContributionBound:
    """Public bounds on a record's entries in a table.

    `max_count` bounds each entry. Without `max_total` a record touches one cell;
    with it, a record may touch any number of cells with that total at most.

    Entries are multiples of `grid`, a power of two of at most 1 that by default is far
    below the bounds. What is on a grid is added without rounding, in whatever order, as
    long as the sum is below 2**53 times it: what a record contributed is what the sum
    would lack without it, to the last bit. Whole numbers are on every grid.
    """

    max_count: float = 1.0
    max_total: float | None = None
    grid: float = 0.0

    def __post_init__(self):
        # Squares of the bounds are to be floats too.
        limits = {"above": 0, "at_least": 1 / LARGEST, "at_most": LARGEST}
        store_real(self, "max_count", **limits)
        if self.max_total is not None:
            store_real(self, "max_total", **limits)
            if self.max_total / self.max_count > _MOST_CELLS:
                raise ValueError(
                    f"max_total must be at most {_MOST_CELLS:g} times max_count; "
                    f"got max_total={self.max_total} and max_count={self.max_count}"
                )
        if self.grid == 0:
            default = math.ldexp(1.0, math.frexp(self.largest)[1] - 1 - _GRID_BITS)
            object.__setattr__(self, "grid", min(1.0, default))

    def __or__(self, other: "ContributionBound") -> "ContributionBound":
        """The bound of records that keep to one or the other."""
        if (self.max_total is None) != (other.max_total is None):
            raise ValueError("max_total must be given in both bounds, or in neither")
        total = None if self.max_total is None else max(self.max_total, other.max_total or 0.0)
        grid = min(self.grid, other.grid)
        return ContributionBound(max(self.max_count, other.max_count), total, grid)

    def of_rows(self, max_rows: int) -> "ContributionBound":
        """The bound of so many records together, of which each keeps to this one.

        Sums of the records' entries: each cell and the total may be so many times as large.
        They lie on the records' own grid. Records of one cell each may lie in several.
        """
        if max_rows == 1:
            return self
        count = product_up(self.max_count, max_rows)
        total = product_up(self.max_count if self.max_total is None else self.max_total, max_rows)
        if max(count, total) > LARGEST:
            raise ValueError(f"max_rows times max_count and max_total must be at most {LARGEST:g}")
        return ContributionBound(count, total, self.grid)

    @property
    def largest(self) -> float:
        """The largest possible entry."""
        return self.max_count if self.max_total is None else min(self.max_count, self.max_total)

    @property
    def full_cells(self) -> int:
        """The number of entries that can be at their largest at once."""
        if self.max_total is None:
            return 1
        return int(Fraction(self.max_total) // Fraction(self.largest))

    @property
    def remainder(self) -> float:
        """The largest further entry beside those."""
        if self.max_total is None:
            return 0.0
        # A remainder of floats is a float, and with fractions nothing is rounded before it.
        return float(Fraction(self.max_total) % Fraction(self.largest))

    @property
    def entries(self) -> tuple[tuple[float, int], ...]:
        """The worst record: entries and how often each occurs."""
        full = ((self.largest, self.full_cells),)
        return full + ((self.remainder, 1),) if self.remainder > 0 else full

    def squared_norm(self, adjacency: str) -> float:
        """The largest squared l2 distance between the tables of neighbours."""
        one = sum(count * entry**2 for entry, count in self.entries)
        return _records(adjacency) * one

    def total(self, adjacency: str) -> float:
        """The largest l1 distance between the tables of neighbours."""
        one = self.largest if self.max_total is None else self.max_total
        return _records(adjacency) * one


def _records(adjacency: str) -> int:
    """The number of records whose entries differ between neighbours."""
    return 2 if replaces(adjacency) else 1
