"""Host code that asks torch.accelerator sees the same GPU as through torch.cuda."""

from __future__ import annotations

import torch

from ioaware.fakegpu.fake_cuda import cuda_on_cpu


def test_the_gpu_is_the_current_accelerator() -> None:
    """A persistent kernel sized by it would else be derived with the grid of a CPU."""
    before = torch.accelerator.current_accelerator
    with cuda_on_cpu():
        device = torch.accelerator.current_accelerator()
        assert device is not None
        assert device.type == "cuda"
        assert torch.accelerator.is_available()
        assert torch.accelerator.device_count() == torch.cuda.device_count()
        assert torch.accelerator.current_device_index() == torch.cuda.current_device()
        assert torch.accelerator.current_stream().device == torch.device("cuda", 0)  # torch.compile asks
        torch.accelerator.synchronize()
    assert torch.accelerator.current_accelerator is before
