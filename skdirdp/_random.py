"""Random generators for noise."""

import os
from numbers import Integral
from typing import Any

import numpy as np
from randomgen import AESCounter

from ._messages import warn
from .exceptions import PrivacyLeakWarning


def noise_generator(random_state: Any = None) -> np.random.Generator:
    """Return the generator of the noise; warn if it is reproducible.

    By default it is AES-128 in counter mode with a fresh key from the operating system, so its
    output cannot be predicted from releases. The key is set directly: a `seed` would be expanded
    by a generator that is not cryptographic.
    """
    if random_state is None:
        return np.random.Generator(AESCounter(key=_fresh_key()))
    generator = sampling_generator(random_state)
    warn(
        "random_state is given: anyone who knows it can remove the noise. "
        "Use random_state=None for a private release.",
        PrivacyLeakWarning,
    )
    return generator


def sampling_generator(random_state: Any = None) -> np.random.Generator:
    """Return a generator for draws that need no secrecy, such as samples from a release."""
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
    """Return a key of 128 bits from the operating system."""
    return int.from_bytes(os.urandom(16), "little")
