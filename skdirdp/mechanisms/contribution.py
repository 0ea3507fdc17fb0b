"""Bounds on one record's part in a table of counts."""

from dataclasses import dataclass

from .._validation import LARGEST, store_real

# Beyond this no float tells one cell more from none.
_MOST_CELLS = 2.0**53


@dataclass(frozen=True)
class ContributionBound:
    """Public bounds on a record's entries in a table.

    `max_count` bounds each entry. Without `max_total` a record touches one cell;
    with it, a record may touch any number of cells with that total at most.
    """

    max_count: float = 1.0
    max_total: float | None = None

    def __post_init__(self):
        # Squares of the bounds are to be floats too.
        limits = {"above": 0, "at_least": 1 / LARGEST, "at_most": LARGEST}
        store_real(self, "max_count", **limits)
        if self.max_total is None:
            return
        store_real(self, "max_total", **limits)
        if self.max_total / self.max_count > _MOST_CELLS:
            raise ValueError(
                f"max_total must be at most {_MOST_CELLS:g} times max_count; "
                f"got max_total={self.max_total} and max_count={self.max_count}"
            )

    @property
    def largest(self) -> float:
        """The largest possible entry."""
        return self.max_count if self.max_total is None else min(self.max_count, self.max_total)

    @property
    def full_cells(self) -> int:
        """The number of entries that can be at their largest at once."""
        return 1 if self.max_total is None else int(self.max_total // self.largest)

    @property
    def remainder(self) -> float:
        """The largest further entry beside those."""
        if self.max_total is None:
            return 0.0
        return max(self.max_total - self.full_cells * self.largest, 0.0)

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
    return 2 if adjacency == "replace" else 1
