"""Give host code a fake GPU and the same random numbers in each run of one seed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any

import torch

from ioaware.capture.data_reads.read_values import DataReads
from ioaware.capture.fake_tensors import DropGenerators
from ioaware.capture.printed_tensors import PRINTS, seeded_printed_tensors
from ioaware.fakegpu.cuda_stand_in import StandIn
from ioaware.fakegpu.fake_cuda import cuda_on_cpu
from ioaware.fakegpu.host_clock import seeded_host_clock
from ioaware.fakegpu.host_process import seeded_host_process
from ioaware.fakegpu.host_random import seeded_host_random
from ioaware.fakegpu.host_tensors import HostTensors
from ioaware.fakegpu.replaced_names import one_look
from ioaware.fakegpu.torch_seeds import seeded_torch_seeds
from ioaware.fakegpu.torch_settings import torch_settings_restored
from ioaware.torchcompile.compile_hooks import torch_compile_on_fake_gpu

_random: Any = torch.random


@contextmanager
def host_environment(
    seed: int, host_tensors: HostTensors | None, stand_in: StandIn, reads: DataReads, *, eager: bool
) -> Generator[Callable[[], str]]:
    """Run host code inside the block as on a GPU, and restore the state afterwards.

    Its prints go to stderr, and the random state is restored. The value says what differs from run to run and was used;
    `reads` is what this run replays.
    """
    with ExitStack() as stack:
        enter = stack.enter_context
        with one_look():
            enter(redirect_stdout(sys.stderr))
            enter(_random.fork_rng(devices=[]))
            host_random = enter(seeded_host_random(seed))
            clock = enter(seeded_host_clock(seed))
            process = enter(seeded_host_process(seed))
            printed = enter(seeded_printed_tensors(seed))
            enter(cuda_on_cpu(host_tensors, stand_in))
            enter(torch_settings_restored())
            torch.default_generator.manual_seed(seed)  # no other generator is drawn from
            torch_seeds = enter(seeded_torch_seeds(seed))
            enter(DropGenerators())
            enter(torch_compile_on_fake_gpu(stand_in, eager=eager))
        yield lambda: " and ".join(
            ("draws random numbers",) * (host_random.used or torch_seeds.used or reads.random)
            + ("reads the clock",) * clock.used
            + ("uses hash(), id() or the number of its process",) * process.used
            + (PRINTS,) * printed.used
        )
