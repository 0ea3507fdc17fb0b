"""Record-wise conversion of cells to values, codes and numbers, independently of other cells."""

from .arrays import (
    as_labels,
    as_numbers,
    as_table,
    column_names,
    is_row,
    label_codes,
    list_cells,
    missing_cells,
    plain_values,
    to_common_dtype,
    without_dictionaries,
)
from .columns import MISSING, OUTSIDE, column_numbers, factorise, has_float_dtype, state_codes
from .values import UNKNOWN, plain_value, rebuild, sort_values, type_and_value

__all__ = [
    "MISSING",
    "OUTSIDE",
    "UNKNOWN",
    "as_labels",
    "as_numbers",
    "as_table",
    "column_names",
    "column_numbers",
    "factorise",
    "has_float_dtype",
    "is_row",
    "label_codes",
    "list_cells",
    "missing_cells",
    "plain_value",
    "plain_values",
    "rebuild",
    "sort_values",
    "state_codes",
    "to_common_dtype",
    "type_and_value",
    "without_dictionaries",
]
