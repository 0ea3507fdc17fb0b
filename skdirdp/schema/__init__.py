"""Public descriptions of tables, and the record-wise encoding of cells by them.

No other module converts records. A cell is converted independently of other cells, by public
declarations and the dtype of its container alone.
"""

from .arrays import (
    Records,
    as_labels,
    as_numbers,
    as_records,
    as_table,
    column_names,
    is_row,
    label_codes,
    label_numbers,
    list_cells,
    may_hold_nulls,
    missing_cells,
    plain_values,
    record_wise,
    to_common_dtype,
    without_dictionaries,
)
from .blocks import (
    ARROW_TYPES,
    BLOCK_ROWS,
    DASK_TYPES,
    FRAME_TYPES,
    block_frame,
    collected_frame,
    empty_frame,
    has_type,
    table_blocks,
    text_objects,
)
from .columns import (
    MISSING,
    OUTSIDE,
    column_numbers,
    distinct_cells,
    factorise,
    has_float_dtype,
)
from .files import to_toml
from .keys import NO_PERSON, convert_ids
from .kinds import MISSING_STATE, Categories, Dates, Kind, Names, Numbers, raise_faults
from .schema import Schema, SchemaEncoder, declared_labels, labels_or_none, read_labels
from .values import UNKNOWN, plain_value, rebuild, sort_values, type_and_value

__all__ = [
    "ARROW_TYPES",
    "BLOCK_ROWS",
    "DASK_TYPES",
    "FRAME_TYPES",
    "MISSING",
    "MISSING_STATE",
    "NO_PERSON",
    "OUTSIDE",
    "UNKNOWN",
    "Categories",
    "Dates",
    "Kind",
    "Names",
    "Numbers",
    "Records",
    "Schema",
    "SchemaEncoder",
    "as_labels",
    "as_numbers",
    "as_records",
    "as_table",
    "block_frame",
    "collected_frame",
    "column_names",
    "column_numbers",
    "convert_ids",
    "declared_labels",
    "distinct_cells",
    "empty_frame",
    "factorise",
    "has_float_dtype",
    "has_type",
    "is_row",
    "label_codes",
    "label_numbers",
    "labels_or_none",
    "list_cells",
    "may_hold_nulls",
    "missing_cells",
    "plain_value",
    "plain_values",
    "raise_faults",
    "read_labels",
    "rebuild",
    "record_wise",
    "sort_values",
    "table_blocks",
    "text_objects",
    "to_common_dtype",
    "to_toml",
    "type_and_value",
    "without_dictionaries",
]
