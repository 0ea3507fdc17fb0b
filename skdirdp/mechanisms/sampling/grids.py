"""Public grids: binary fractions for parameters, powers of two for noise, cells for samples.

Every double is a multiple of a power of two. Shapes ``r * x + alpha`` are exact if they fit into
62 bits. The cell of a positive number consists of its leading bits and their exponent.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

#: Numerators of gamma shape parameters are smaller than this.
MAX_NUMERATOR = 2**62
#: Shapes are positive multiples of ``2^-MAX_PLACES``.
MAX_PLACES = 50
# The noise grid is finer than the noise scale by this many bits.
_NOISE_BITS = 20
# Largest number of grid cells per noise scale, so that samples fit into 64 bits.
_MAX_STEPS = 2.0**50

_MANTISSA_BITS = 52  # stored bits of a double's mantissa
_EXPONENT_BIAS = 1023
_MIN_NORMAL = 2.0**-1000  # well above the subnormal numbers


def places_for(value: float, bits: int) -> int:
    """Return the number of binary places (possibly negative) that keeps `bits` significant bits."""
    return bits - math.frexp(value)[1]


def round_down(value: float, places: int) -> float:
    """Round down to a multiple of ``2^-places``, exactly."""
    return math.ldexp(math.floor(Fraction(value) * Fraction(2) ** places), -places)


def round_up(value: float, places: int) -> float:
    """Round up to a multiple of ``2^-places``, exactly."""
    return math.ldexp(math.ceil(Fraction(value) * Fraction(2) ** places), -places)


def gamma_shapes(
    counts: ArrayLike, r: float, alpha: float, count_places: int = 0
) -> tuple[np.ndarray, int]:
    """Return the shapes ``r * counts + alpha`` exactly, as ``numerators / 2^places``.

    Counts are non-negative multiples of ``2^-count_places``.
    """
    counts = np.asarray(counts)
    scaled = np.ldexp(counts.astype(float), count_places) if count_places else counts
    with np.errstate(invalid="ignore"):
        integers = scaled.astype(np.int64)  # values that overflow int64 fail the comparison below
    if not np.all(integers == scaled):
        raise ValueError(f"counts must be multiples of 2^-{count_places}; some are not")
    (r_numerator, r_places), (alpha_numerator, alpha_places) = map(_as_fraction, (r, alpha))
    places = max(r_places + count_places, alpha_places, 0)
    if places > MAX_PLACES:
        raise ValueError(
            f"r and alpha must have at most {MAX_PLACES} binary places (for r, less count_places); "
            f"got r={r!r}, alpha={alpha!r}, count_places={count_places}: round them first"
        )
    factor = r_numerator << (places - r_places - count_places)
    shift = alpha_numerator << (places - alpha_places)
    largest = int(integers.max(initial=0))
    if largest * factor + shift >= MAX_NUMERATOR:
        raise ValueError(
            f"r * counts + alpha must have at most 62 bits in units of 2^-{places}; "
            "round r and alpha to fewer bits"
        )
    if integers.min(initial=0) < 0:
        raise ValueError("counts must be at least 0; some are not")
    return integers * (factor if largest else 0) + shift, places


def _as_fraction(value: float) -> tuple[int, int]:
    """Return the numerator and the number of binary places of a positive double."""
    if not 0 < value < math.inf:
        raise ValueError(f"r and alpha must be positive and finite; got {value!r}")
    numerator, denominator = float(value).as_integer_ratio()
    return numerator, denominator.bit_length() - 1


def noise_grid(scale: float, max_grid: float = 1.0) -> float:
    """Return the grid for additive noise: the largest power of two of at most ``scale / 2^20``.

    If `max_grid`, a power of two, is the grid of the values to which noise is added, rounding the
    noisy value is the same as rounding the noise.
    """
    if not 0 < scale < math.inf:
        raise ValueError(f"scale must be positive and finite; got {scale!r}")
    return min(math.ldexp(1.0, math.frexp(scale)[1] - 1 - _NOISE_BITS), max_grid)


def check_noise(scale: float, grid: float) -> float:
    """Validate the scale and the grid of additive noise, and return their exact ratio."""
    if not 0 < scale < math.inf:
        raise ValueError(f"scale must be positive and finite; got {scale!r}")
    if not 0 < grid < math.inf or math.frexp(grid)[0] != 0.5:
        raise ValueError(f"grid must be a power of two; got {grid!r}")
    steps = scale / grid
    if not steps <= _MAX_STEPS or steps * grid != scale:
        raise ValueError(f"scale must be at most 2^50 times grid; got {scale!r} and {grid!r}")
    return steps


def interval_cells(
    low: np.ndarray, high: np.ndarray, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cell of each interval, as (mantissa, exponent, undecided).

    `undecided` is True if the ends lie in different cells, or are not normal positive numbers.
    """
    # The bit pattern of a positive double, taken as an integer, increases with its value. A
    # right shift leaves the exponent and the leading mantissa bits, which form the cell.
    stored = bits - 1
    code = low.view(np.int64) >> (_MANTISSA_BITS - stored)
    decided = code == (high.view(np.int64) >> (_MANTISSA_BITS - stored))
    # Check all intervals together first. Both tests are false for nan.
    if not (low.min(initial=1.0) > _MIN_NORMAL and high.max(initial=1.0) < np.inf):
        decided &= low > _MIN_NORMAL
        decided &= high < np.inf
    exponent = code >> stored
    exponent -= _EXPONENT_BIAS + stored
    code &= (1 << stored) - 1
    code |= 1 << stored
    return code, exponent, ~decided


def relative_weights(mantissa: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Divide the numbers ``mantissa * 2^exponent`` by the largest one in their row.

    Floating-point arithmetic is safe here, because it only post-processes the cells.
    """
    # All mantissas have the same length, so the largest number has the largest exponent.
    shift = exponent - exponent.max(axis=-1, keepdims=True)
    # Subnormal weights are negligible next to the largest weight, and become 0.
    np.maximum(shift, -_EXPONENT_BIAS, out=shift)
    weights = mantissa.astype(float)
    weights *= _powers_of_two(shift)
    weights /= weights.max(axis=-1, keepdims=True)
    return weights


def midpoints(mantissa: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return ``(mantissa + 1/2) * 2^exponent``, exactly except for underflow and overflow."""
    values = mantissa + 0.5
    if exponent.min(initial=0) > -_EXPONENT_BIAS and exponent.max(initial=0) <= _EXPONENT_BIAS:
        values *= _powers_of_two(exponent)
        return values
    return np.ldexp(values, exponent, out=values)


def _powers_of_two(exponent: np.ndarray) -> np.ndarray:
    """Compute ``2^exponent`` from its bits, much faster than ldexp; the exponent -1023 gives 0."""
    bits = exponent + _EXPONENT_BIAS
    bits <<= _MANTISSA_BITS
    return bits.view(np.float64)
