"""Random generators for noise."""

import os
from numbers import Integral
from typing import Any

import numpy as np
from randomgen import AESCounter

from ._messages import warn
from .exceptions import PrivacyLeakWarning


def noise_generator(random_state: Any = None) -> np.random.Generator:
    """The generator that noise is drawn from.

    None gives AES-128 in counter mode under a fresh key from the operating system:
    its output cannot be predicted from what was released. (The key is set directly;
    a `seed` would be stretched by a generator that is not cryptographic.) Anything
    else is reproducible, hence removable by whoever knows it, and warns.
    """
    if random_state is None:
        return np.random.Generator(AESCounter(key=_fresh_key()))
    generator = sampling_generator(random_state)
    warn(
        "random_state is given: whoever knows it can remove the noise. "
        "Leave it None for a release that is meant to be private.",
        PrivacyLeakWarning,
    )
    return generator


def sampling_generator(random_state: Any = None) -> np.random.Generator:
    """The generator for what is drawn from a release: a known seed gives nothing away."""
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
    """A key of 128 bits from the operating system."""
    return int.from_bytes(os.urandom(16), "little")
