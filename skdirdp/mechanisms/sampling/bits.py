"""Uniform random bits, exact decisions about functions of them, and rejection sampling.

A uniform real number is stored as its first 64-bit word. A decision is taken in doubles if it
holds by a relative distance of `MARGIN`; the proofs (docs/sampling.md) need less than half of it.
All other decisions use ball arithmetic, with higher precision and further words as needed. A ball
is an interval that contains the true value, so a result that holds for the whole ball is true.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import numpy as np
from flint import arb, ctx

from ..._random import NoiseGenerator, SecureGenerator

WORD = 64
#: Number of cells sampled at once. The arrays of one block fit into the processor's cache.
BLOCK = 1 << 14
#: Relative error allowed for in decisions in doubles.
MARGIN = 2.0**-44
#: The relative difference between a uniform u and its first word is at most this divided by u.
LOST_BITS = 2.0**-62
#: Largest error of numpy's elementary functions, in units in the last place (2^-50, relative).
MAX_ULPS = 4

# Bit generators whose raw output is a 64-bit word. Others may return 32 bits.
_GENERATORS_OF_64_BITS = (
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
)
# Below this number of cells the overhead of numpy calls dominates. Each cell then gets several
# proposals at once and keeps the first accepted one, as if they were made one by one.
_SMALL_BATCH = 1 << 10
_MAX_REPEATS = 4
_N_POINTS = 307  # odd, so that vectorised loops have a scalar remainder
_MAX_PRECISION = 1 << 14

#: Maps cells (a slice or indices) to a mask of accepted proposals and the proposed values.
Propose = Callable[[slice | np.ndarray], tuple[np.ndarray, tuple[np.ndarray, ...]]]
Size = int | tuple[int, ...]
Result = TypeVar("Result")


class BitStream:
    """Stream of uniform random words from a generator of independent, fair bits.

    `undecided` is the number of proposals so far that needed exact arithmetic.
    """

    def __init__(self, generator: NoiseGenerator):
        self._generator = generator
        self._position = 0
        self.undecided = 0

    def draw(self, size: int) -> "Uniforms":
        """Draw the first words of new uniforms."""
        first = self._position
        self._position += size
        return Uniforms(self, self._words(size), first)

    def _words(self, size: int) -> np.ndarray:
        if isinstance(self._generator, SecureGenerator):
            return self._generator.words(size)
        source = self._generator.bit_generator
        if isinstance(source, _GENERATORS_OF_64_BITS):
            return source.random_raw(size)
        return self._generator.integers(0, 1 << WORD, size, dtype=np.uint64)

    def next_word(self, index: int, n_words: int) -> int:
        """Draw the next word of a uniform. Tests override this method for reproducible words."""
        return int(self._words(1)[0])


class Uniforms:
    """Uniforms with their first words, one for each cell of a block."""

    def __init__(self, stream: BitStream, words: np.ndarray, first: int):
        self._stream = stream
        self._first = first  # index of the first uniform in the stream
        self._reals: dict[int, Uniform] = {}
        self.words = words

    def unit_floats(self, cells: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return doubles u with U in [u - 2^-53 u, u + 2^-53 u + 2^-64)."""
        units = self.words[cells].astype(float)
        units *= 2.0**-WORD
        return units

    def symmetric_floats(self) -> np.ndarray:
        """Return doubles w with 2U - 1 in [w - 2^-53 |w|, w + 2^-53 |w| + 2^-63)."""
        # Two's complement avoids cancellation near 0.
        numbers = self.words.view(np.int64).astype(float)
        numbers *= 2.0 ** (1 - WORD)
        return numbers

    def unit(self, i: int) -> "Uniform":
        """Return uniform `i` as a real number on (0, 1)."""
        return self._real(i, int(self.words[i]), WORD)

    def magnitude(self, i: int) -> "Uniform":
        """Return uniform `i` without its first bit, as a real number on (0, 1)."""
        return self._real(i, int(self.words[i]) & (2 ** (WORD - 1) - 1), WORD - 1)

    def symmetric(self, i: int) -> "Uniform":
        """Return uniform `i` as a real number on (-1, 1)."""
        return self._real(i, int(self.words.view(np.int64)[i]), WORD - 1)

    def _real(self, i: int, head: int, bits: int) -> "Uniform":
        # Two cells may share a uniform, and must then see the same further words.
        if i not in self._reals:
            self._reals[i] = Uniform(head, bits, self._stream, self._first + i)
        return self._reals[i]


class Uniform:
    """One uniform real number in [head, head + 1) / 2^bits."""

    def __init__(self, head: int, bits: int, stream: BitStream, index: int):
        self._head, self._bits = head, bits
        self._stream, self._index, self._n_words = stream, index, 1

    def ball(self) -> Any:
        """Return the interval that contains the number."""
        return arb(2 * self._head + 1, 1) * arb(2) ** -(self._bits + 1)

    def extend(self) -> None:
        word = self._stream.next_word(self._index, self._n_words)
        self._head = (self._head << WORD) | word
        self._bits += WORD
        self._n_words += 1


#: Source of random bits.
Source = NoiseGenerator | BitStream


def as_stream(source: Source) -> BitStream:
    """Convert a generator to a stream; return a stream unchanged."""
    if isinstance(source, BitStream):
        return source
    if isinstance(source, NoiseGenerator):
        return BitStream(source)
    raise TypeError(f"generator must be a numpy Generator or a BitStream; got {source!r}")


def decide(function: Callable[..., Result | None], *uniforms: Uniform) -> Result:
    """Evaluate a function of uniforms at increasing precision until its result is certain.

    The function maps the balls of the uniforms to a result, or to None if the balls are too
    wide. Uniforms are extended in place, so that later decisions see the same real numbers.
    All other quantities must be exact and converted to balls at the current precision.

    The loop ends with probability one, because decisions are inequalities between continuous
    functions. More than 2^14 bits are needed with a probability of about 2^-8000.
    """
    # All threads share the context. A precision set by another thread makes balls wider or
    # narrower, but never wrong.
    before = ctx.prec
    precision = 2 * WORD
    try:
        while precision <= _MAX_PRECISION:
            ctx.prec = precision
            result = function(*(uniform.ball() for uniform in uniforms))
            if result is not None:
                return result
            for uniform in uniforms:
                uniform.extend()
            precision += 2 * WORD
    finally:
        ctx.prec = before
    raise RuntimeError(
        f"{_MAX_PRECISION} bits are not enough for a decision; a ball does not become narrower"
    )


def is_positive(ball: Any) -> bool | None:
    """Return whether a number is positive, or None if its ball contains both signs."""
    if ball > 0:
        return True
    return False if ball < 0 else None


def floor(ball: Any) -> int | None:
    """Return the floor of a number, or None if its ball has no unique floor."""
    integer = ball.floor().unique_fmpz()
    return None if integer is None else int(integer)


def leading_bits(ball: Any, bits: int) -> tuple[int, int] | None:
    """Return the leading bits of a positive number and their exponent.

    ``mantissa * 2^exponent`` is the number rounded down, with mantissa in
    ``[2^(bits - 1), 2^bits)``. The result is None if the ball overlaps several such cells.
    """
    if not ball > 0:
        return None
    mantissa, exponent = ball.mid().man_exp()
    exponent = int(exponent) + int(mantissa).bit_length() - bits
    # A ball that extends below the power of two under its midpoint has no unique floor.
    integer = floor(ball * arb(2) ** -exponent)
    return None if integer is None else (integer, exponent)


def _points() -> dict[str, np.ndarray]:
    """Return test arguments for each function, from the range that the samplers use."""
    rng = np.random.default_rng(20)
    fine = rng.random(_N_POINTS)
    near = 2.0 ** -rng.uniform(1, 52, _N_POINTS)
    return {
        "log": np.concatenate([fine, 2.0 ** -rng.uniform(0, 64, _N_POINTS), 1 - near]),
        "log1p": np.concatenate([-fine, 4 * fine, near, -near, near - 1]),
        "exp": -np.concatenate([fine, near]),
        "expm1": -np.concatenate([fine, near, 40 * fine]),
        "tan": np.pi / 2 * np.concatenate([2 * fine - 1, near, near - 1]),
    }


def _measured_error(name: str, function: Callable, points: np.ndarray) -> float:
    """Measure the largest error of a function of `arb`, in units in the last place."""
    # A single number takes numpy's scalar loop, several take the vectorised loop.
    values = np.concatenate([function(points[:1]), function(points[1:])])
    true_function, before = getattr(arb, name), ctx.prec
    # At this precision the balls are about 2^-40 ulps wide, so their midpoints suffice.
    ctx.prec = 96
    try:
        true = [true_function(arb(x)) for x in points.tolist()]
        errors = [float(arb(x) - y) for x, y in zip(values.tolist(), true, strict=True)]
    finally:
        ctx.prec = before
    _, sizes = np.frexp([float(y) for y in true])
    return float(np.max(np.abs(np.ldexp(errors, 53 - sizes))))


def check_functions(functions: Mapping[str, Callable]) -> None:
    """Raise an error if elementary functions are less precise than the proofs assume."""
    for name, points in _points().items():
        error = _measured_error(name, functions[name], points)
        if not error <= MAX_ULPS:
            raise RuntimeError(
                f"exact sampling needs {name} with an error of at most {MAX_ULPS} units in the "
                f"last place; numpy's error on this platform is {error:.3g}"
            )


@cache
def check_platform() -> None:
    """Raise an error if numpy is less precise on this platform than the proofs assume.

    It tests a fixed set of points, which does not prove that the error is small at every point.
    """
    check_functions(vars(np))


def fill(size: int, propose: Propose, *outputs: np.ndarray) -> None:
    """Fill arrays of length `size` with the first accepted proposal for each cell."""
    small = 2 * size <= _SMALL_BATCH
    remaining = np.arange(size) if small else _fill_blocks(size, propose, outputs)
    while remaining.size:
        cells, later = remaining[:BLOCK], remaining[BLOCK:]
        repeats = min(max(_SMALL_BATCH // cells.size, 1), _MAX_REPEATS)
        accepted, drawn = propose(np.tile(cells, repeats))
        accepted = accepted.reshape(repeats, cells.size)
        first = accepted.argmax(axis=0)
        is_accepted = accepted.any(axis=0)
        position = (first * cells.size + np.arange(cells.size))[is_accepted]
        for output, values in zip(outputs, drawn, strict=True):
            output[cells[is_accepted]] = values[position]
        remaining = np.concatenate([later, cells[~is_accepted]])


def _fill_blocks(size: int, propose: Propose, outputs: tuple[np.ndarray, ...]) -> np.ndarray:
    """Propose once for every cell; return the indices of rejected cells."""
    rejected = []
    length = -(-size // -(-size // BLOCK))  # blocks of nearly equal length
    for start in range(0, size, length):
        block = slice(start, min(start + length, size))
        accepted, drawn = propose(block)
        for output, values in zip(outputs, drawn, strict=True):
            output[block] = values
        rejected.append(np.flatnonzero(~accepted) + start)
    return np.concatenate(rejected)
