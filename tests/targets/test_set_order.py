"""Code that runs is collected, also beside torch.compile."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ioaware.targets.set_order import executed_code, lines_in_set_order


class Heads(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        query, key = x.chunk(2, dim=-1)
        return query.unflatten(-1, (2, -1)) + key.unflatten(-1, (2, -1))


def is_library(file: str) -> bool:
    """As the one of host code: torch.compile cannot put it into a graph."""
    torch._dynamo.graph_break()
    return file != __file__


@pytest.mark.parametrize("compiled", [False, True])
def test_a_module_runs_while_code_is_collected(compiled: bool) -> None:
    run = torch.compile(Heads(), fullgraph=True, backend="eager") if compiled else Heads()
    with executed_code(is_library) as codes:
        assert run(torch.ones(4, 8)).shape == (4, 2, 2)
    assert not lines_in_set_order(codes)
