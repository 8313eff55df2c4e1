"""Seed the random numbers that host code draws from Python and NumPy.

Every run of the host function then draws the same ones. Generators without a seed are seeded too, and bytes of the operating
system, as `secrets` and `uuid` take them, come from a seeded generator.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.random import bit_generator

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.host_caller import calling_code, is_library, other_threads

_numpy: Any = np.random
_random: Any = random
DRAWING = frozenset({random.__file__, secrets.__file__, uuid.__file__})
"""Files whose functions draw bytes of the operating system for their caller."""


class HostRandom:
    """Record whether host code drew a number, or seeded a generator."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made_generator = False
        self._others = other_threads()
        self._system = random.Random(seed)  # noqa: S311 - no secret
        random.seed(seed)
        _numpy.seed(seed)
        self._states = _states()

    @property
    def used(self) -> bool:
        """Whether a generator was used since the seeding."""
        return self._made_generator or _states() != self._states

    def entropy(self, bits: int) -> int:
        """Return bits for a generator that has no seed."""
        self._made_generator = True
        return random.Random(self._seed).getrandbits(bits)  # noqa: S311 - no secret

    def system_bytes(self, plain: Callable[[int], bytes], count: int) -> bytes:
        """Return bytes of a seeded generator to host code, those of `plain` to libraries.

        Libraries name temporary files by random bytes.
        """
        if threading.get_ident() in self._others or is_library(calling_code(DRAWING).co_filename):
            return plain(count)
        self._made_generator = True
        return self._system.randbytes(count)


@contextmanager
def seeded_host_random(seed: int) -> Generator[HostRandom]:
    """Seed Python's and NumPy's generators inside the block.

    They are restored when it ends.
    """
    before, numpy_before = random.getstate(), _numpy.get_state()
    plain_seed: Any = random.Random.seed
    try:
        drawn = HostRandom(seed)

        def seed_generator(generator: random.Random, value: Any = None, version: int = 2) -> None:
            plain_seed(generator, drawn.entropy(64) if value is None else value, version)

        with Patches() as patches:
            patches.set(random.Random, "seed", seed_generator)
            patches.set(bit_generator, "randbits", drawn.entropy)
            plain_bytes: Any = os.urandom

            def system_bytes(count: int) -> bytes:
                return drawn.system_bytes(plain_bytes, count)

            for owner, name in ((os, "urandom"), (_random, "_urandom")):
                patches.set(owner, name, system_bytes)
            yield drawn
    finally:
        random.setstate(before)
        _numpy.set_state(numpy_before)


def _states() -> tuple[Any, str]:
    """Return the states of the two global generators, to be compared."""
    kind, keys, *rest = _numpy.get_state()
    return random.getstate(), repr((kind, keys.tobytes(), rest))
