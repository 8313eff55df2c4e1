"""Code that runs is collected, also beside torch.compile."""

from __future__ import annotations

import weakref

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


def test_variables_of_exec_are_not_kept() -> None:
    """A tensor that something else holds is copied by autograd, a launch more."""

    class Held:
        pass

    held = Held()
    alive = weakref.ref(held)
    with executed_code(lambda _: False) as codes:
        exec("n + 1", {"n": 1, "held": held})  # noqa: S102
        (lambda: None)()
        del held
        assert alive() is None
    assert "<lambda>" in {code.co_name for code in codes}
