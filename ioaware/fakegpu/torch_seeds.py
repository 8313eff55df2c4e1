"""Let the seeds that torch draws or reports be others in each run of host code.

`torch.seed` draws one, and `initial_seed` reports one that host code did not set. They differ from process to process.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

from ioaware.fakegpu.cuda_functions import CudaGenerator, DefaultGenerator
from ioaware.fakegpu.replaced_names import replaced_names

_torch: Any = torch
_torch_random: Any = torch.random
_cuda: Any = torch.cuda
_plain: Any = torch.default_generator
_manual_seed: Any = _torch_random.manual_seed
SMALLEST_SEED = 2**38
"""The smallest drawn seed, of 39 bits.

It is as wide an argument as torch's of 53 or 64 bits, and too small for an address.
"""


class TorchSeeds:
    """Seeds of torch's generators.

    `used` says whether host code has one that it did not set.
    """

    def __init__(self, seed: int) -> None:
        self.used = False
        self._drawn = random.Random(seed)  # noqa: S311 - no secret
        self._set: dict[str, int] = {}
        """Seeds that host code set, by the device of the generator."""

    def draw(self, *_: Any) -> int:
        """Return a new seed."""
        self.used = True
        return self._drawn.randrange(SMALLEST_SEED, 2 * SMALLEST_SEED)

    def seed(self) -> int:
        """Seed the generators of torch with a new seed and return it."""
        drawn = self.draw()
        self.seed_all(drawn)
        return drawn

    def seed_all(self, value: Any) -> torch.Generator:
        """Seed the generators of torch as `torch.manual_seed` does."""
        self._set |= dict.fromkeys(("cpu", "cuda"), int(value))
        return _manual_seed(value)

    def seed_cuda(self, value: Any) -> None:
        """Seed the GPU's generator."""
        self._set["cuda"] = int(value)

    def initial(self, device: str) -> int:
        """Return the seed that a generator had first or was given."""
        if device not in self._set:
            self._set[device] = self.draw()
        return self._set[device]


@contextmanager
def seeded_torch_seeds(seed: int) -> Generator[TorchSeeds]:
    """Inside the block, answer host code that asks torch for a seed.

    Enter it where the GPU is a fake one.
    """
    seeds = TorchSeeds(seed)
    names: dict[Any, Any] = {
        _torch_random.seed: lambda: seeds.seed(),
        _torch_random.manual_seed: seeds.seed_all,
        _torch.manual_seed: seeds.seed_all,  # another function once torch's compiler is imported
        _torch_random.initial_seed: lambda: seeds.initial("cpu"),
    }
    with replaced_names(names, (torch, torch.random)) as patches:
        patches.set(torch, "default_generator", _generator(seeds))
        for name in ("seed", "seed_all"):
            patches.set(_cuda, name, lambda: seeds.seed_cuda(seeds.draw()))
        for name in ("manual_seed", "manual_seed_all"):
            patches.set(_cuda, name, seeds.seed_cuda)
        patches.set(_cuda, "initial_seed", lambda: seeds.initial("cuda"))
        patches.set(CudaGenerator, "seed", seeds.draw)
        patches.set(DefaultGenerator, "initial_seed", lambda _: seeds.initial("cuda"))  # pyright: ignore[reportUnknownLambdaType]
        patches.set(DefaultGenerator, "manual_seed", lambda _, seed: seeds.seed_cuda(seed))  # pyright: ignore[reportUnknownLambdaType]
        yield seeds


def _generator(seeds: TorchSeeds) -> torch.Generator:
    """Return torch's default generator as host code sees it."""

    class HostGenerator(torch.Generator):
        """The CPU's default generator, with the seeds of this run."""

        get_state, set_state = _plain.get_state, _plain.set_state

        def seed(self) -> int:
            return seeds.seed()

        def manual_seed(self, seed: int) -> torch.Generator:
            return seeds.seed_all(seed)

        def initial_seed(self) -> int:
            return seeds.initial("cpu")

    return HostGenerator()
