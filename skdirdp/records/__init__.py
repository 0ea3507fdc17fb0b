"""Record-wise conversion: cells become values, codes and numbers without regard to other cells."""

from .arrays import (
    as_labels,
    as_numbers,
    as_table,
    cells_of,
    column_names,
    is_row,
    label_codes,
    missing_cells,
    of_one_kind,
    plain_values,
    without_dictionaries,
)
from .columns import MISSING, OUTSIDE, column_numbers, factorise, has_float_dtype, state_codes
from .values import UNKNOWN, in_fixed_order, plain_value, rebuilt, type_and_value

__all__ = [
    "MISSING",
    "OUTSIDE",
    "UNKNOWN",
    "as_labels",
    "as_numbers",
    "as_table",
    "cells_of",
    "column_names",
    "column_numbers",
    "factorise",
    "has_float_dtype",
    "in_fixed_order",
    "is_row",
    "label_codes",
    "missing_cells",
    "of_one_kind",
    "plain_value",
    "plain_values",
    "rebuilt",
    "state_codes",
    "type_and_value",
    "without_dictionaries",
]
