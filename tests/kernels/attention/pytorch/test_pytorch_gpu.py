"""`attention` in PyTorch on a GPU.

It is compiled, captured, transformed, run under autocast, and in Hugging Face's GPT-2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from ioaware.bench.gpu_timing import without_gc
from ioaware.kernels.attention import attention
from ioaware.kernels.attention.pytorch.huggingface import register_with_transformers
from ioaware.targets.output_check import relative_error

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),  # Inductor's advice at each compilation
]
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 2e-2}
Tensors = tuple[torch.Tensor, ...]


def draw(dtype: torch.dtype = torch.float16, seq_len: int = 384, head_dim: int = 64, seed: int = 0) -> Tensors:
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (2, 4, seq_len, head_dim)
    return tuple(torch.randn(shape, generator=generator, device="cuda", dtype=dtype).requires_grad_() for _ in range(3))


def results(function: Callable[..., torch.Tensor], inputs: Tensors) -> Tensors:
    """Return O and the gradients of its sum of squares."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    o = function(*leaves)
    return (o.detach(), *torch.autograd.grad(o.float().square().sum(), leaves))


def reference(inputs: Tensors, *, causal: bool = True) -> Tensors:
    return results(lambda q, k, v: sdpa(q, k, v, is_causal=causal), tuple(tensor.double() for tensor in inputs))


def assert_close(found: Tensors, expected: Tensors, dtype: torch.dtype) -> None:
    for one, other in zip(found, expected, strict=True):
        assert relative_error(one, other) < TOLERANCE[dtype]


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q, k, v, causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_compiled_whole_forward_and_backward(dtype: torch.dtype, head_dim: int) -> None:
    torch.compiler.reset()
    inputs = draw(dtype, head_dim=head_dim)
    compiled = torch.compile(lambda q, k, v: 2 * causal_attention(q, k, v), fullgraph=True)
    expected = results(lambda q, k, v: 2 * sdpa(q, k, v, is_causal=True), tuple(tensor.double() for tensor in inputs))
    assert_close(results(compiled, inputs), expected, dtype)


def test_compiled_once_for_every_length() -> None:
    torch.compiler.reset()
    compiled = torch.compile(causal_attention, fullgraph=True, dynamic=True)
    for seq_len in (256, 384, 1000):
        inputs = draw(seq_len=seq_len)
        assert_close(results(compiled, inputs), reference(inputs), torch.float16)


def test_captured_in_a_cuda_graph_and_replayed_on_new_data() -> None:
    """Forward and backward in one graph."""
    static = draw()

    def work() -> Tensors:
        o = causal_attention(*static)
        return (o, *torch.autograd.grad(o.float().square().sum(), static))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with without_gc(), torch.cuda.graph(graph):
        outputs = work()
    for seed in (1, 2):
        fresh = draw(seed=seed)
        with torch.no_grad():
            for place, tensor in zip(static, fresh, strict=True):
                place.copy_(tensor)
        for output in outputs:
            output.detach().fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_close(tuple(output.detach() for output in outputs), reference(fresh), torch.float16)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # torch captures an empty one itself, for its memory pool
def test_reduce_overhead_uses_cuda_graphs() -> None:
    torch.compiler.reset()
    compiled = torch.compile(causal_attention, fullgraph=True, mode="reduce-overhead")
    for seed in range(4):
        inputs = draw(seed=seed)
        torch.compiler.cudagraph_mark_step_begin()
        assert_close(tuple(one.clone() for one in results(compiled, inputs)), reference(inputs), torch.float16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_converts_as_for_torchs_own_attention(dtype: torch.dtype) -> None:
    inputs = tuple(tensor.detach().float().requires_grad_() for tensor in draw(dtype))
    with torch.autocast("cuda", dtype):
        ours, torchs = causal_attention(*inputs), sdpa(*inputs, is_causal=True)
        found = results(causal_attention, inputs)
    assert ours.dtype == torchs.dtype == dtype
    assert found[1].dtype == torch.float32
    assert_close(found, reference(inputs), dtype)


def test_torch_func_differentiates_and_batches() -> None:
    q, k, v = (tensor.detach() for tensor in draw())
    queries = torch.stack((q, q.flip(2)))

    def summed(x: torch.Tensor) -> torch.Tensor:
        return causal_attention(x, k, v).float().square().sum()

    outputs = torch.func.vmap(lambda x: causal_attention(x, k, v))(queries)
    gradients = torch.func.vmap(torch.func.grad(summed))(queries)
    for one, o, gradient in zip(queries, outputs, gradients, strict=True):
        expected = reference((one, k, v))
        assert_close((o, gradient), expected[:2], torch.float16)


def gpt2(implementation: str) -> Any:
    """Return a small GPT-2 with the same random weights for every attention."""
    transformers = pytest.importorskip("transformers")
    register_with_transformers()
    config = transformers.GPT2Config(n_layer=3, n_head=4, n_embd=256, n_positions=512, vocab_size=300)
    config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = 0.0
    torch.manual_seed(0)
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
    return made.to("cuda", torch.float16)


def test_gpt2_has_sdpas_logits_gradients_and_tokens() -> None:
    """Only the first token is compared: later ones may hang on a rounding."""
    tokens = torch.randint(300, (2, 200), generator=torch.Generator().manual_seed(0)).cuda()
    found: dict[str, tuple[Any, Any, Any]] = {}
    for name in ("sdpa", "ioaware"):
        made = gpt2(name)
        outcome = made(tokens, labels=tokens)
        outcome.loss.backward()
        gradient = made.transformer.h[0].attn.c_attn.weight.grad
        generated = made.generate(tokens[:, :50], max_new_tokens=20, do_sample=False, pad_token_id=0)
        found[name] = (outcome.logits.detach(), gradient, generated)
    (logits, gradient, generated), (our_logits, our_gradient, ours) = found["sdpa"], found["ioaware"]
    assert relative_error(our_logits, logits.double()) < 4e-3
    assert relative_error(our_gradient, gradient.double()) < 2e-2
    assert generated.shape == ours.shape
    assert torch.equal(generated[:, :51], ours[:, :51])


def test_compiled_gpt2_is_one_graph() -> None:
    """It gets a mask of ones: a traced model cannot rule packed sequences out."""
    torch.compiler.reset()
    tokens = torch.randint(300, (2, 200), generator=torch.Generator().manual_seed(0)).cuda()
    made = gpt2("ioaware").eval()
    compiled = torch.compile(made, fullgraph=True)
    with torch.no_grad():
        plain = made(tokens, use_cache=False).logits
        found = compiled(tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits
        assert relative_error(found, plain.double()) < 4e-3
