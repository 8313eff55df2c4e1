"""The fake GPU's default generator has seed and offset.

Triton kernels draw from it.
"""

from __future__ import annotations

import torch

from ioaware.fakegpu.fake_cuda import cuda_on_cpu


def test_the_state_is_seed_and_offset() -> None:
    with cuda_on_cpu():
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        state = generator.get_state()
        seed, offset = state.view(torch.int64)
        offset += 4
        generator.set_state(state)
        assert generator.get_state().view(torch.int64).tolist() == [int(seed), 4]
