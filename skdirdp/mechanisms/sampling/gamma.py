"""Gamma variables: the first bits of each, and their exponent.

Shapes above 1 by the method of Marsaglia and Tsang, shape 1 by inversion, and shapes below
1 as a gamma variable of shape + 1 times the power of a uniform (`halvings`).
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .bits import BitStream, as_stream
from .cells import cells_of_interval
from .cubes import Cubes
from .dyadic import MAX_NUMERATOR, MAX_PLACES
from .exact import decide, leading_bits
from .exponential import unit_shape_cells
from .halvings import Fractions, Halvings
from .margins import MARGIN, check_platform
from .rejection import BLOCK, fill

BITS = 20


def gamma_cells(
    numerators: ArrayLike,
    places: int,
    generator: np.random.Generator | BitStream,
    *,
    _bits: int = BITS,
    _margin: float = MARGIN,
) -> tuple[np.ndarray, np.ndarray]:
    """Standard gamma variables, rounded down to their first 20 bits.

    Parameters
    ----------
    numerators : array of int
        Shapes are ``numerators / 2^places``; from 1 to below 2^62.
    places : int
        From 0 to 50. `gamma_shapes` makes both.
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    mantissa, exponent : ndarray of int64
        The variable lies in ``[mantissa, mantissa + 1) * 2^exponent``, with the mantissa in
        ``[2^19, 2^20)``. Every such pair is possible for every shape.
    """
    check_platform()
    numerators = np.asarray(numerators)
    if not np.issubdtype(numerators.dtype, np.integer):
        raise TypeError(f"numerators must be integers; got {numerators.dtype}")
    if not 0 <= places <= MAX_PLACES:
        raise ValueError(f"places must be from 0 to {MAX_PLACES}; got {places}")
    least, most = (int(numerators.min()), int(numerators.max())) if numerators.size else (1, 1)
    if not 1 <= least <= most < MAX_NUMERATOR:
        raise ValueError("numerators must be from 1 to below 2^62; some are not")
    flat, one = numerators.astype(np.int64, copy=False).reshape(-1), 1 << places
    mantissa, exponent = np.empty((2, flat.size), np.int64)
    settings = _Settings(as_stream(generator), places, _bits, _margin)
    tiny = max(one >> Fractions.LEAST_SHAPE, 1)
    kinds = (
        (one + 1, most, _fill_large),
        (one, one, _fill_unit),
        (tiny, one - 1, partial(_fill_small, Fractions)),
        (1, tiny - 1, partial(_fill_small, Halvings)),
    )
    for low, high, sample in kinds:
        if low <= least and most <= high:
            sample(flat, settings, mantissa, exponent)
        elif least <= high and low <= most:
            chosen = (flat >= low) & (flat <= high)
            part = np.empty((2, np.count_nonzero(chosen)), np.int64)
            sample(flat[chosen], settings, *part)
            mantissa[chosen], exponent[chosen] = part
    return mantissa.reshape(numerators.shape), exponent.reshape(numerators.shape)


def gamma_cells_of_all(
    shapes: Sequence[tuple[np.ndarray, int]], generator: np.random.Generator | BitStream
) -> tuple[np.ndarray, np.ndarray]:
    """`gamma_cells` of several arrays that each have places of their own, one after another.

    They are drawn in one call where all shapes are such numerators over one power of two.

    Parameters
    ----------
    shapes : sequence of (numerators, places)
        One-dimensional, as for `gamma_cells`.
    generator : numpy.random.Generator or BitStream

    Returns
    -------
    mantissa, exponent : ndarray of int64
    """
    if len(shapes) == 1:
        return gamma_cells(*shapes[0], generator)
    finest = max(places for _, places in shapes)
    if all(
        int(numerators.max(initial=1)) << (finest - places) < MAX_NUMERATOR
        for numerators, places in shapes
    ):
        return gamma_cells(
            np.concatenate([numerators << (finest - places) for numerators, places in shapes]),
            finest,
            generator,
        )
    mantissas, exponents = zip(
        *(gamma_cells(numerators, places, generator) for numerators, places in shapes), strict=True
    )
    return np.concatenate(mantissas), np.concatenate(exponents)


class _Settings(NamedTuple):
    stream: BitStream
    places: int
    bits: int
    margin: float


def _fill_unit(numerators, settings, mantissa, exponent):
    for start in range(0, mantissa.size, BLOCK):
        part = slice(start, min(start + BLOCK, mantissa.size))
        mantissa[part], exponent[part] = unit_shape_cells(
            part.stop - start, settings.stream, settings.bits, settings.margin
        )


def _fill_large(numerators, settings, mantissa, exponent):
    fill(numerators.size, partial(_propose_large, numerators, settings), mantissa, exponent)


def _fill_small(powers, numerators, settings, mantissa, exponent):
    propose = partial(_propose_small, powers, numerators, settings)
    fill(numerators.size, propose, mantissa, exponent)


def _propose_large(numerators, settings, cells):
    with np.errstate(all="ignore"):
        cubes = Cubes(numerators[cells], settings.places, settings.stream, settings.margin)
        mantissa, exponent, open_ = cells_of_interval(cubes.low, cubes.high, settings.bits)
    accepted = cubes.accepted
    open_ &= accepted
    open_ |= cubes.open
    for i in np.flatnonzero(open_).tolist():
        accepted[i], value, uniforms = cubes.exact(i)
        if accepted[i]:
            question = partial(_cell, settings.bits, value)
            mantissa[i], exponent[i] = decide(question, *uniforms)
    settings.stream.undecided += int(np.count_nonzero(open_))
    return accepted, (mantissa, exponent)


def _cell(bits, value, *balls):
    return leading_bits(value(*balls), bits)


def _propose_small(powers, numerators, settings, cells):
    numerators = numerators[cells]
    with np.errstate(all="ignore"):
        cubes = Cubes(
            numerators + (1 << settings.places), settings.places, settings.stream, settings.margin
        )
        power = powers(numerators, settings.places, settings.stream, settings.margin)
        low, high = cubes.low, cubes.high
        low *= power.low
        high *= power.high
        mantissa, exponent, open_ = cells_of_interval(low, high, settings.bits)
    accepted = cubes.accepted & power.accepted
    open_ &= accepted
    # A proposal that one of the two refuses is refused, whatever the other leaves open.
    open_ |= cubes.open & (power.accepted | power.open)
    open_ |= power.open & (cubes.accepted | cubes.open)
    exponent -= power.halvings
    for i in np.flatnonzero(open_).tolist():
        accepted[i], value, uniforms = cubes.exact(i)
        if not accepted[i]:
            continue
        accepted[i], halvings, factor, others = power.exact(i)
        if accepted[i]:
            question = partial(_product_cell, settings.bits, value, factor)
            mantissa[i], exponent[i] = decide(question, *uniforms, *others)
            exponent[i] -= halvings
    settings.stream.undecided += int(np.count_nonzero(open_))
    return accepted, (mantissa, exponent)


def _product_cell(bits, value, factor, u, w, other):
    return leading_bits(value(u, w) * factor(other), bits)
