"""`attention` in PyTorch's transforms.

It is captured without a break, differentiated, batched, and converted by autocast.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from ioaware.errors import UsageError
from ioaware.kernels.attention import attention
from ioaware.kernels.attention.pytorch.custom_op import attention_operator, forward_operator
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def draw(seq_len: int = 20, kv_len: int = 24, kv_heads: int = 1) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 2, seq_len, 16), (2, kv_heads, kv_len, 16), (2, kv_heads, kv_len, 16))
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q, k, v


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return causal attention, the last query at the last key, in float64."""
    q, k, v = q.double(), (k.repeat_interleave(q.shape[1] // k.shape[1], 1)).double(), v.double()
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    seen = torch.ones(s.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    return torch.softmax(s.masked_fill(~seen, -math.inf), -1) @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)


def close(output: torch.Tensor, expected: torch.Tensor) -> bool:
    return relative_error(output.detach(), expected.detach()) < 1e-5


def test_the_log_sum_exp_comes_with_the_output_and_the_gradients_stay() -> None:
    q, k, v = (tensor.requires_grad_() for tensor in draw())
    scores = q.double() @ k.double().transpose(-1, -2) * 0.3
    with interpret_kernels():
        o, lse = attention(q, k, v, scale=0.3, return_lse=True)
        plain = attention(q, k, v, scale=0.3)
        assert torch.equal(o, plain)
        assert close(lse, scores.logsumexp(-1))
        assert not lse.requires_grad
        o.square().sum().backward()
        gradients = [tensor.grad for tensor in (q, k, v)]
        for tensor in (q, k, v):
            tensor.grad = None
        plain.square().sum().backward()
    assert all(torch.equal(one, tensor.grad) for one, tensor in zip(gradients, (q, k, v), strict=True))  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
def test_torch_func_differentiates_and_batches() -> None:
    q, k, v = draw()
    queries = torch.stack((q, q.flip(2), 2 * q))

    def summed(function: Any) -> Any:
        return lambda x: function(x, k, v).square().sum()

    expected = [reference(each, k, v) for each in queries]
    with interpret_kernels():
        for call in (lambda x, y, z: attention(x, y, z, causal=True), lambda x, y, z: attention_operator(x, y, z, True)[0]):
            outputs = torch.func.vmap(lambda x, call=call: call(x, k, v))(queries)
            gradients = torch.func.vmap(torch.func.grad(summed(call)))(queries)
            assert all(close(one, each) for one, each in zip(outputs, expected, strict=True))
            exact = [torch.func.grad(summed(reference))(each.double()) for each in queries]
            assert all(close(one, each) for one, each in zip(gradients, exact, strict=True))


def test_autocast_converts_as_for_torchs_own_attention() -> None:
    q, k, v = draw()
    with interpret_kernels(), torch.autocast("cpu", torch.bfloat16):
        assert attention(q, k, v).dtype == attention_operator(q, k, v)[0].dtype == torch.bfloat16
        assert attention(q.half(), k.half(), v.half()).dtype == torch.float16
    with interpret_kernels():
        assert attention(q, k, v).dtype == torch.float32


def test_second_derivatives_are_refused() -> None:
    q, k, v = draw()
    with interpret_kernels(), pytest.raises((UsageError, RuntimeError)):
        torch.func.grad(lambda x: torch.func.grad(lambda y: attention(y, k, v).sum())(x).sum())(q)


@pytest.mark.slow
def test_the_graph_is_captured_whole_and_for_every_length() -> None:
    """The fake kernel stands in for the launch.

    Nothing of the wrapper breaks the graph.
    """
    torch.compiler.reset()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        del inputs
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda *x: attention(*x, causal=True).sin(), fullgraph=True, dynamic=True, backend=backend)
    with interpret_kernels():
        for seq_len in (20, 33):
            q, k, v = (tensor.requires_grad_() for tensor in draw(seq_len, seq_len))
            o = compiled(q, k, v)
            assert close(o, reference(q, k, v).sin())
            (gradient,) = torch.autograd.grad(o.sum(), q)
            (exact,) = torch.autograd.grad(reference(q, k, v).sin().sum(), q)
            assert close(gradient, exact)
    (graph,) = graphs
    assert sum("ioaware" in str(node.target) for node in graph.graph.nodes) == 1


def test_the_fake_kernel_refuses_what_the_kernels_do() -> None:
    q, k, v = draw()
    with pytest.raises(UsageError, match="head_dim 300 is not supported"):
        forward_operator(*(torch.empty(1, 1, 4, 300, device="meta") for _ in range(3)), False, 1.0, "", False)
    with interpret_kernels(), pytest.raises(UsageError, match="no backend 'cuda'"):
        forward_operator(q, k, v, False, 1.0, "cuda", False)


@pytest.mark.slow
def test_the_operator_keeps_pytorchs_contract() -> None:
    """torch.library's own checks of schema, fake kernel, autograd and tracing.

    There are strides of each kind.
    """
    q, k, v = (tensor.requires_grad_() for tensor in draw())
    transposed = torch.randn(2, 20, 2, 16).transpose(1, 2).detach().requires_grad_()
    with interpret_kernels():
        for each in (q, transposed):
            torch.library.opcheck(forward_operator, (each, k, v, True, 0.25, "", False))


@pytest.mark.slow
def test_forward_and_backward_are_captured_ahead_of_time() -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda *x: attention(*x, causal=True).sin(), fullgraph=True, backend="aot_eager")
    q, k, v = (tensor.requires_grad_() for tensor in draw())
    with interpret_kernels():
        gradients = torch.autograd.grad(compiled(q, k, v).sum(), (q, k, v))
    exact = torch.autograd.grad(reference(q, k, v).sin().sum(), (q, k, v))
    assert all(close(one, other) for one, other in zip(gradients, exact, strict=True))


class Causal(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attention(q, k, v, causal=True) * 2


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_program_holds_the_operator(strict: bool) -> None:
    q, k, v = draw()
    program = torch.export.export(Causal(), (q, k, v), strict=strict)
    assert forward_operator._opoverload in {node.target for node in program.graph.nodes}
    with interpret_kernels():
        assert close(program.module()(q, k, v), 2 * reference(q, k, v))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_recorded_graph_holds_the_operator(mode: Any) -> None:
    """Launches are invisible to the recorder: the graph would hold an empty output."""
    q, k, v = draw()
    with interpret_kernels():
        graph = make_fx(Causal(), tracing_mode=mode)(q, k, v)
        assert close(graph(q, k, v), 2 * reference(q, k, v))


def test_fake_tensors_of_a_gpu_need_none() -> None:
    """Grouped heads too: an index into a fake CUDA tensor starts CUDA."""
    with FakeTensorMode():
        q = torch.empty(2, 4, 64, 64, device="cuda", dtype=torch.float16)
        k = torch.empty(2, 2, 80, 64, device="cuda", dtype=torch.float16)
        o, lse = attention(q, k, k, return_lse=True)
        assert (attention(q, k, k).shape, o.dtype, o.device.type) == (q.shape, torch.float16, "cuda")
        assert (lse.shape, lse.dtype) == (q.shape[:3], torch.float32)
        with pytest.raises(UsageError, match="cannot share 3 key heads"):
            attention(q, k.new_empty(2, 3, 80, 64), k.new_empty(2, 3, 80, 64))
