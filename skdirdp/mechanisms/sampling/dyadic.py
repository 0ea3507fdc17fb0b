"""Parameters and data as multiples of a power of two, so that shapes are known exactly.

Every double is such a multiple. What matters is how fine: a product ``r * x`` and a sum
with ``alpha`` are integers over a common power of two as long as they have 62 bits.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

#: Numerators of shapes stay below this.
MAX_NUMERATOR = 2**62
#: Shapes are multiples of ``2^-MAX_PLACES``, and at least one of them.
MAX_PLACES = 50
# Noise has at most this many grid cells per scale; more would not fit 64 bits.
_MAX_STEPS = 2.0**50


def places_for(value: float, bits: int) -> int:
    """Binary places at which a positive value has so many significant bits.

    Parameters
    ----------
    value : float
    bits : int

    Returns
    -------
    int
        May be negative.
    """
    return bits - math.frexp(value)[1]


def round_down(value: float, places: int) -> float:
    """The largest multiple of ``2^-places`` that is at most the value.

    Parameters
    ----------
    value : float
    places : int

    Returns
    -------
    float
        Exact: the multiple has no more bits than the value.
    """
    return math.ldexp(math.floor(Fraction(value) * Fraction(2) ** places), -places)


def round_up(value: float, places: int) -> float:
    """The smallest multiple of ``2^-places`` that is at least the value.

    Parameters
    ----------
    value : float
    places : int

    Returns
    -------
    float
        Exact: where the grid is finer than the value's last bit, it is the value itself.
    """
    return math.ldexp(math.ceil(Fraction(value) * Fraction(2) ** places), -places)


def truncate(values: ArrayLike, places: int) -> np.ndarray:
    """Values rounded towards 0 to multiples of ``2^-places``; for weights and scaled rows.

    Parameters
    ----------
    values : array of float
    places : int

    Returns
    -------
    ndarray of float
        Exact. Sums of them are exact too, as long as they are below ``2^(53 - places)``.
    """
    unit = 2.0**places
    return np.trunc(np.asarray(values, dtype=float) * unit) / unit


def gamma_shapes(
    counts: ArrayLike, r: float, alpha: float, count_places: int = 0
) -> tuple[np.ndarray, int]:
    """Shapes ``r * counts + alpha`` as integers over a power of two.

    Parameters
    ----------
    counts : array of int or float
        At least 0, multiples of ``2^-count_places``.
    r, alpha : float
        Positive; exactly these doubles. `round_down` and `round_up` make them short.
    count_places : int, default=0

    Returns
    -------
    numerators : ndarray of int64
    places : int
        The shapes are ``numerators / 2^places``.
    """
    counts = np.asarray(counts)
    whole = np.ldexp(counts.astype(float), count_places) if count_places else counts
    with np.errstate(invalid="ignore"):
        integers = whole.astype(np.int64)  # what does not fit is found not to be equal
    if not np.all(integers == whole):
        raise ValueError(f"counts must be multiples of 2^-{count_places}; some are not")
    (r_numerator, r_places), (alpha_numerator, alpha_places) = map(_parts, (r, alpha))
    places = max(r_places + count_places, alpha_places, 0)
    if places > MAX_PLACES:
        raise ValueError(
            f"r and alpha must be multiples of 2^-{MAX_PLACES} (over the counts' grid); "
            f"got r={r!r}, alpha={alpha!r}, count_places={count_places}: round them first"
        )
    factor = r_numerator << (places - r_places - count_places)
    shift = alpha_numerator << (places - alpha_places)
    largest = int(integers.max(initial=0))
    if largest * factor + shift >= MAX_NUMERATOR:
        raise ValueError(
            f"r * counts + alpha must have at most 62 bits on the grid of 2^-{places}; "
            "round r and alpha to fewer bits"
        )
    if integers.min(initial=0) < 0:
        raise ValueError("counts must be at least 0; some are not")
    return integers * (factor if largest else 0) + shift, places


def _parts(value: float) -> tuple[int, int]:
    """Numerator and binary places of a positive double."""
    if not 0 < value < math.inf:
        raise ValueError(f"r and alpha must be positive and finite; got {value!r}")
    numerator, denominator = float(value).as_integer_ratio()
    return numerator, denominator.bit_length() - 1


def noise_grid(scale: float, bits: int = 20, at_most: float = 1.0) -> float:
    """A public grid for additive noise: a power of two far below its scale.

    Parameters
    ----------
    scale : float
    bits : int, default=20
        The grid is at most ``scale / 2^bits``, and more than half of that.
    at_most : float, default=1.0
        A power of two that bounds it: the grid of what the noise is added to, so that the
        sum, rounded, is the sum of the rounded noise.

    Returns
    -------
    float
    """
    if not 0 < scale < math.inf:
        raise ValueError(f"scale must be positive and finite; got {scale!r}")
    return min(math.ldexp(1.0, math.frexp(scale)[1] - 1 - bits), at_most)


def check_noise(scale: float, grid: float) -> float:
    """Grid cells per scale, exactly.

    Parameters
    ----------
    scale, grid : float

    Returns
    -------
    float
    """
    if not 0 < scale < math.inf:
        raise ValueError(f"scale must be positive and finite; got {scale!r}")
    if not 0 < grid < math.inf or math.frexp(grid)[0] != 0.5:
        raise ValueError(f"grid must be a power of two; got {grid!r}")
    steps = scale / grid
    if not steps <= _MAX_STEPS or steps * grid != scale:
        raise ValueError(f"scale must be at most 2^50 times grid; got {scale!r} and {grid!r}")
    return steps
