"""`attention` in a model of DistributedDataParallel: ranks hold the mean gradient."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.kernels.attention.pytorch.data_parallel_step import gradients, layer_and_batch
from tests.support.ranks import on_ranks

PROGRAM = "tests.kernels.attention.pytorch.data_parallel_step:step"


@pytest.mark.slow
def test_two_ranks_hold_the_gradients_of_the_whole_batch(tmp_path: Path) -> None:
    first, second = on_ranks(PROGRAM, 2, tmp_path)
    assert first == second
    torch.testing.assert_close(torch.tensor(first), torch.tensor(gradients(*layer_and_batch())), rtol=1e-4, atol=1e-6)
