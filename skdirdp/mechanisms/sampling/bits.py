"""Uniform random reals, as bits that are drawn when they are needed.

A real number is its first word of 64 bits, and words that follow it. Nearly every decision
is taken from the first word alone, so only that is drawn for all cells; what follows is
drawn by the decisions that ask for it.
"""

import hashlib
from typing import Any

import numpy as np
from flint import arb
from randomgen import AESCounter

WORD = 64

# Their raw output is a word; that of others may have 32 bits, which take longer to join.
_OF_64_BITS = (
    AESCounter,
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
)


class BitStream:
    """Uniform bits of a generator.

    Parameters
    ----------
    generator : numpy.random.Generator
        Any. Its bits are taken to be independent and fair: for releases it has to be one
        that cannot be predicted.

    Attributes
    ----------
    undecided : int
        Proposals whose decisions double precision has left to exact arithmetic so far.
    """

    def __init__(self, generator: np.random.Generator):
        self._generator = generator
        self._position = 0
        self.undecided = 0

    def draw(self, size: int) -> "Uniforms":
        """The first words of `size` new uniforms.

        Parameters
        ----------
        size : int

        Returns
        -------
        Uniforms
        """
        first = self._position
        self._position += size
        return Uniforms(self, self._words(size), first)

    def _words(self, size: int) -> np.ndarray:
        source = self._generator.bit_generator
        if isinstance(source, _OF_64_BITS):
            return source.random_raw(size)
        return self._generator.integers(0, 1 << WORD, size, dtype=np.uint64)

    def further_word(self, place: int, number: int) -> int:
        """The word that follows others of the uniform at this place of the stream.

        Parameters
        ----------
        place : int
            Uniforms that were drawn before this one.
        number : int
            Words that are known of it. Both are for streams that must know which
            uniform asks; a fresh word of the generator is right for any.

        Returns
        -------
        int
        """
        return int(self._words(1)[0])


class ScriptedStream(BitStream):
    """Bits that are a function of the seed and of the uniform's place, and of nothing else.

    Two runs with different margins then see the same uniforms, to any number of bits,
    although they ask for different numbers of them. For tests; not a source of noise.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int):
        super().__init__(np.random.default_rng(seed))
        self._seed = seed

    def further_word(self, place: int, number: int) -> int:
        text = f"{self._seed}/{place}/{number}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


class Uniforms:
    """Uniforms of which the first word is known, one per cell of a block.

    Parameters
    ----------
    stream : BitStream
    words : ndarray of uint64
    first : int
        Place of the first in the stream.
    """

    def __init__(self, stream: BitStream, words: np.ndarray, first: int):
        self._stream = stream
        self._first = first
        self._reals: dict[int, Uniform] = {}
        self.words = words

    def on_unit(self, cells: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Doubles u with U in [u - 2^-53 u, u + 2^-53 u + 2^-64), of all cells or of some."""
        units = self.words[cells].astype(float)
        units *= 2.0**-WORD
        return units

    def on_symmetric(self) -> np.ndarray:
        """Doubles w with 2U - 1 in [w - 2^-53 |w|, w + 2^-53 |w| + 2^-63).

        The word is read in two's complement, so that nothing cancels near 0.
        """
        numbers = self.words.view(np.int64).astype(float)
        numbers *= 2.0 ** (1 - WORD)
        return numbers

    def unit(self, i: int) -> "Uniform":
        """The i-th as a real on (0, 1)."""
        return self._real(i, int(self.words[i]), WORD)

    def magnitude(self, i: int) -> "Uniform":
        """The i-th without its first bit, as a real on (0, 1)."""
        return self._real(i, int(self.words[i]) & (2 ** (WORD - 1) - 1), WORD - 1)

    def symmetric(self, i: int) -> "Uniform":
        """The i-th as a real on (-1, 1)."""
        return self._real(i, int(self.words.view(np.int64)[i]), WORD - 1)

    def _real(self, i: int, head: int, bits: int) -> "Uniform":
        # Two cells may share a uniform: what one of them learns of it, the other must see.
        if i not in self._reals:
            self._reals[i] = Uniform(head, bits, self._stream, self._first + i)
        return self._reals[i]


class Uniform:
    """One uniform real: it lies in [head, head + 1) / 2^bits.

    Parameters
    ----------
    head, bits : int
    stream : BitStream
    place : int
        Which uniform of the stream it is.
    """

    def __init__(self, head: int, bits: int, stream: BitStream, place: int):
        self._head, self._bits = head, bits
        self._stream, self._place, self._words = stream, place, 1

    def ball(self) -> Any:
        """The interval it is known to lie in."""
        return arb(2 * self._head + 1, 1) * arb(2) ** -(self._bits + 1)

    def extend(self) -> None:
        """Learn the next word."""
        word = self._stream.further_word(self._place, self._words)
        self._head = (self._head << WORD) | word
        self._bits += WORD
        self._words += 1


def as_stream(source: np.random.Generator | BitStream) -> BitStream:
    """The stream of a generator, or the stream itself.

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
