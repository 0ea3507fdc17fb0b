"""Uniform random bits, and rejection sampling in blocks of cells.

A uniform real number is stored as its first 64-bit word. Further words are drawn only when
a decision needs them, which is rare.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb
from randomgen import AESCounter

WORD = 64
#: Number of cells sampled at once. The arrays of one block fit into the processor's cache.
BLOCK = 1 << 14

# Bit generators whose raw output is a 64-bit word. Others may return 32 bits.
_GENERATORS_OF_64_BITS = (
    AESCounter,
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
)
# Below this number of cells the overhead of numpy calls dominates. Each cell then gets several
# proposals at once and keeps the first accepted one, as if they were made one by one.
_SMALL_BATCH = 1 << 10
_MAX_REPEATS = 4

#: Maps cells (a slice or indices) to a mask of accepted proposals and the proposed values.
Propose = Callable[[slice | np.ndarray], tuple[np.ndarray, tuple[np.ndarray, ...]]]


class BitStream:
    """Stream of uniform random words.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of independent, fair bits. Private releases need a cryptographically secure
        generator.

    Attributes
    ----------
    undecided : int
        Number of proposals so far that needed exact arithmetic.
    """

    def __init__(self, generator: np.random.Generator):
        self._generator = generator
        self._position = 0
        self.undecided = 0

    def draw(self, size: int) -> "Uniforms":
        """Draw the first words of new uniforms.

        Parameters
        ----------
        size : int
            Number of uniforms.

        Returns
        -------
        Uniforms
        """
        first = self._position
        self._position += size
        return Uniforms(self, self._words(size), first)

    def _words(self, size: int) -> np.ndarray:
        source = self._generator.bit_generator
        if isinstance(source, _GENERATORS_OF_64_BITS):
            return source.random_raw(size)
        return self._generator.integers(0, 1 << WORD, size, dtype=np.uint64)

    def next_word(self, index: int, n_words: int) -> int:
        """Draw the next word of a uniform.

        Parameters
        ----------
        index : int
            Index of the uniform in the stream.
        n_words : int
            Number of its words drawn so far. A generator ignores both arguments;
            `ScriptedStream` needs them.

        Returns
        -------
        int
        """
        return int(self._words(1)[0])


class ScriptedStream(BitStream):
    """Reproducible stream for tests, in which a uniform's bits depend only on seed and index.

    Two runs with different error margins see the same uniforms, even if they draw different
    numbers of further words. Not suitable for private releases.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int):
        super().__init__(np.random.default_rng(seed))
        self._seed = seed

    def next_word(self, index: int, n_words: int) -> int:
        text = f"{self._seed}/{index}/{n_words}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


class Uniforms:
    """Uniforms with their first words, one for each cell of a block.

    Parameters
    ----------
    stream : BitStream
    words : ndarray of uint64
    first : int
        Index of the first uniform in the stream.
    """

    def __init__(self, stream: BitStream, words: np.ndarray, first: int):
        self._stream = stream
        self._first = first
        self._reals: dict[int, Uniform] = {}
        self.words = words

    def unit_floats(self, cells: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return doubles u with U in [u - 2^-53 u, u + 2^-53 u + 2^-64)."""
        units = self.words[cells].astype(float)
        units *= 2.0**-WORD
        return units

    def symmetric_floats(self) -> np.ndarray:
        """Return doubles w with 2U - 1 in [w - 2^-53 |w|, w + 2^-53 |w| + 2^-63).

        Words are interpreted in two's complement to avoid cancellation near 0.
        """
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
    """One uniform real number in [head, head + 1) / 2^bits.

    Parameters
    ----------
    head, bits : int
    stream : BitStream
    index : int
        Index of the uniform in the stream.
    """

    def __init__(self, head: int, bits: int, stream: BitStream, index: int):
        self._head, self._bits = head, bits
        self._stream, self._index, self._n_words = stream, index, 1

    def ball(self) -> Any:
        """Return the interval that contains the number."""
        return arb(2 * self._head + 1, 1) * arb(2) ** -(self._bits + 1)

    def extend(self) -> None:
        """Draw the next word."""
        word = self._stream.next_word(self._index, self._n_words)
        self._head = (self._head << WORD) | word
        self._bits += WORD
        self._n_words += 1


def as_stream(source: np.random.Generator | BitStream) -> BitStream:
    """Convert a generator to a stream; return a stream unchanged.

    Parameters
    ----------
    source : numpy.random.Generator or BitStream

    Returns
    -------
    BitStream
    """
    if isinstance(source, BitStream):
        return source
    if isinstance(source, np.random.Generator):
        return BitStream(source)
    raise TypeError(f"generator must be a numpy Generator or a BitStream; got {source!r}")


def fill(size: int, propose: Propose, *outputs: np.ndarray) -> None:
    """Fill arrays with the first accepted proposal for every cell.

    Parameters
    ----------
    size : int
        Number of cells.
    propose : callable
        Called with cells; returns a mask of accepted proposals and one array of proposed
        values per output. Values of rejected proposals are ignored.
    *outputs : ndarray of shape (size,)
        Filled in place.
    """
    small = 2 * size <= _SMALL_BATCH
    left = np.arange(size) if small else _fill_blocks(size, propose, outputs)
    while left.size:
        cells, rest = left[:BLOCK], left[BLOCK:]
        repeats = min(max(_SMALL_BATCH // cells.size, 1), _MAX_REPEATS)
        accepted, drawn = propose(np.tile(cells, repeats))
        accepted = accepted.reshape(repeats, cells.size)
        first = accepted.argmax(axis=0)
        found = accepted.any(axis=0)
        position = (first * cells.size + np.arange(cells.size))[found]
        for output, values in zip(outputs, drawn, strict=True):
            output[cells[found]] = values[position]
        left = np.concatenate([rest, cells[~found]])


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
