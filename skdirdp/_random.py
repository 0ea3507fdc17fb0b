"""Random number generators for noise."""

import os
from numbers import Integral
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ._messages import warn
from .exceptions import PrivacyLeakWarning

# Minimum number of blocks per call to the cipher, so that small draws share a call.
_MIN_BLOCKS = 512


class SecureGenerator:
    """Random number generator based on AES-128 in counter mode, keyed by the operating system.

    The random words are encrypted counter values 0, 1, ..., so they cannot be predicted from
    releases, and no two draws use the same counter value. A forked process draws its own key. A
    copy would repeat the words, so a generator cannot be copied or pickled.

    Only the methods of numpy's generators that are needed to draw noise are implemented.
    """

    def __init__(self) -> None:
        self._set_key()

    def _set_key(self) -> None:
        # Counter mode is ECB applied to successive counter values.
        key = algorithms.AES(_fresh_key().to_bytes(16, "little"))
        self._encryptor = Cipher(key, modes.ECB()).encryptor()
        self._n_blocks = 0
        self._unused = np.empty(0, np.uint64)
        # Another thread may have held the lock when the process was forked.
        self._lock = Lock()
        self._pid = os.getpid()

    def words(self, size: int) -> np.ndarray:
        """Draw independent, uniformly distributed 64-bit words."""
        if self._pid != os.getpid():
            self._set_key()
        with self._lock:
            if size > self._unused.size:
                self._encrypt(max((size - self._unused.size + 1) // 2, _MIN_BLOCKS))
            words, self._unused = self._unused[:size], self._unused[size:]
        return words

    def _encrypt(self, n_blocks: int) -> None:
        """Encrypt the next counter blocks and append the result to the unused words."""
        blocks = np.zeros((n_blocks, 2), np.uint64)
        blocks[:, 0] = np.arange(self._n_blocks, self._n_blocks + n_blocks)
        self._n_blocks += n_blocks
        start, end = self._unused.size, self._unused.size + 2 * n_blocks
        words = np.empty(end + 2, np.uint64)  # the cipher needs room for one more block
        words[:start] = self._unused
        self._encryptor.update_into(_as_bytes(blocks), _as_bytes(words[start:]))
        self._unused = words[:end]

    def integers(self, high: int) -> int:
        """Draw an integer from 0 to `high - 1`."""
        end = (1 << 64) // high * high
        while (word := int(self.words(1)[0])) >= end:
            pass
        return word % high

    def bytes(self, length: int) -> bytes:
        """Draw random bytes."""
        return self.words(-(-length // 8)).tobytes()[:length]

    def permutation(self, n: int) -> np.ndarray:
        """Draw a random permutation of the integers below n."""
        # The probability that any two words are equal is below n^2 / 2^65.
        return np.argsort(self.words(n), kind="stable")

    def __reduce__(self) -> Any:
        raise TypeError("a SecureGenerator cannot be copied or pickled")


#: Noise generator: a SecureGenerator if there is no seed, otherwise a numpy Generator.
NoiseGenerator: TypeAlias = np.random.Generator | SecureGenerator


def noise_generator(random_state: Any = None) -> NoiseGenerator:
    """Return the noise generator, and warn if the noise is reproducible."""
    if random_state is None:
        return SecureGenerator()
    generator = sampling_generator(random_state)
    warn(
        "random_state is given: anyone who knows it can remove the noise. "
        "Use random_state=None for a private release.",
        PrivacyLeakWarning,
    )
    return generator


def sampling_generator(random_state: Any = None) -> np.random.Generator:
    """Return a generator for draws that need not be secret, such as samples from a release."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(random_state._bit_generator)
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must be at least 0; got {random_state}")
        return np.random.default_rng(int(random_state))
    raise TypeError(
        "random_state must be None, an integer, a numpy Generator or a RandomState; "
        f"got {random_state!r}"
    )


def _fresh_key() -> int:
    """Return a 128-bit key from the operating system."""
    return int.from_bytes(os.urandom(16), "little")


def _as_bytes(words: np.ndarray) -> memoryview:
    return words.ravel().view(np.uint8).data
