"""What a network counts of a table that is not in memory."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from .._persons import CountedRows, select_rows
from ..engines import Part, TableCounts
from .columns import as_records, encode
from .tables import Family


@dataclass(frozen=True)
class FamilyCounter:
    """Counts of the tables of a network whose states are declared.

    Attributes
    ----------
    families : the tables.
    states : the states of each node.
    columns : names of the columns of an array, or None.
    max_rows : how many records of a person are counted, at most.
    """

    families: dict[Hashable, Family]
    states: dict[Hashable, list]
    columns: Sequence[Hashable] | None
    max_rows: int

    def count_part(self, part: Part, before: CountedRows | None) -> TableCounts:
        records = as_records(part.X, self.columns)
        counted = select_rows(part.groups, records.n_records, self.max_rows, before)
        codes = {
            node: encode(records, node, states, counted.rows)
            for node, states in self.states.items()
        }
        tables = [family.count(codes) for family in self.families.values()]
        return TableCounts(CountedRows(counted.unit, counted.n_rows), tables)

    def count_frame(self, frame: Any) -> TableCounts:
        tables = []
        for family in frame.with_progress(list(self.families.values())):
            found = frame.group([family.node, *family.parents], family.n_cells, self._encode)
            tables.append(family.count(found.codes, found.weights))
        return TableCounts(frame.counted(found.n_rows, self.max_rows), tables)

    def _encode(self, found: Any) -> dict[Hashable, Any]:
        records = as_records(found, None)
        return {node: encode(records, node, self.states[node]) for node in records.names}
