"""Find which global random generators a call seeds.

A target that sets the seed knows the next random inputs of its evaluator. One that draws numbers, or restores the state as
`torch.random.fork_rng` does, changes nothing that a caller may rely on.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import numpy as np
import torch

from ioaware._monkeypatch import Patches

_torch: Any = torch
_cuda: Any = torch.cuda
SEED = 8_236_591
"""Seed before each call. Host code that sets a seed hardly takes this one."""
CUDA = ("manual_seed", "manual_seed_all", "seed", "seed_all")


class GlobalSeeds:
    """The generators of Python, NumPy and torch, which all calls share."""

    def __init__(self) -> None:
        self._seeded: set[str] = set()
        self._restored: set[str] = set()
        self._before: dict[str, Any] = {}
        self._taken: set[bytes] = set()

    def set(self) -> None:
        """Set every generator."""
        _torch.random.manual_seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)
        self._taken, self._restored = set(), set()
        self._seeded = set()
        self._before = {"random": random.getstate(), "numpy": repr(np.random.get_state())}

    def found(self) -> tuple[str, ...]:
        """Return the generators that host code has seeded since, and not restored."""
        now = {"random": random.getstate(), "numpy": repr(np.random.get_state())}
        names = {name for name in self._seeded if name not in now or now[name] != self._before[name]} | self._restored
        if _torch.initial_seed() != SEED:
            names.add("torch")
        return tuple(sorted(names))

    @contextmanager
    def noted(self) -> Generator[None]:
        """Note inside the block each seed of a generator that does not keep its seed."""
        with Patches() as patches:
            for owner, name, generator in (
                (random, "seed", "random"),
                (np.random, "seed", "numpy"),
                *((_cuda, each, "torch.cuda") for each in CUDA),
            ):
                patches.set(owner, name, self._noting(getattr(owner, name), generator))
            for owner, get, put, generator in (
                (random, "getstate", "setstate", "random"),
                (np.random, "get_state", "set_state", "numpy"),
                (_torch, "get_rng_state", "set_rng_state", "torch"),
                (_torch.random, "get_rng_state", "set_rng_state", "torch"),
            ):
                self._note_states(patches, owner, get, put, generator)
            yield

    def _note_states(self, patches: Patches, owner: Any, get: str, put: str, generator: str) -> None:
        """Note a state that is restored and was not taken in the same call."""
        plain_get, plain_put = getattr(owner, get), getattr(owner, put)

        def taken(*args: Any, **kwargs: Any) -> Any:
            state = plain_get(*args, **kwargs)
            self._taken.add(_content(state))
            return state

        def restored(state: Any, *args: Any, **kwargs: Any) -> Any:
            if _content(state) not in self._taken:
                self._restored.add(generator)
            return plain_put(state, *args, **kwargs)

        patches.set(owner, get, taken)
        patches.set(owner, put, restored)

    def _noting(self, plain: Callable[..., Any], generator: str) -> Callable[..., Any]:
        def seed(*args: Any, **kwargs: Any) -> Any:
            if not _is_of_torch(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
                self._seeded.add(generator)
            return plain(*args, **kwargs)

        return seed


def _content(state: Any) -> bytes:
    """Return a generator's state: a tensor of torch, a tuple of other libraries."""
    parts = cast("tuple[Any, ...]", state) if isinstance(state, tuple) else (state,)
    return b"".join(one.tobytes() if isinstance(one, np.ndarray) else _bytes(one) for one in parts)


def _bytes(part: Any) -> bytes:
    return part.numpy().tobytes() if isinstance(part, torch.Tensor) else repr(part).encode()


def _is_of_torch(frame: FrameType) -> bool:
    """Return whether `torch.manual_seed` asks, which seeds the generators of GPUs too."""
    return frame.f_code.co_filename == _torch.random.__file__
