"""Record-wise conversion: cells become values, codes and numbers without regard to other cells."""

from .columns import MISSING, OUTSIDE, column_numbers, factorise, has_float_dtype, state_codes
from .values import UNKNOWN, in_fixed_order, plain_value, rebuilt, type_and_value

__all__ = [
    "MISSING",
    "OUTSIDE",
    "UNKNOWN",
    "column_numbers",
    "factorise",
    "has_float_dtype",
    "in_fixed_order",
    "plain_value",
    "rebuilt",
    "state_codes",
    "type_and_value",
]
