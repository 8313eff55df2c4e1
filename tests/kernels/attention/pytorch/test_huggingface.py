"""`attn_implementation="ioaware"`: logits, gradients and tokens equal eager ones.

Masks are refused, never ignored.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from ioaware.errors import MachineError, UsageError
from ioaware.kernels.attention.pytorch.huggingface import attention_forward, register_with_transformers
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels


def model(implementation: str) -> Any:
    """Return a tiny Llama with grouped heads.

    It has the same weights for every implementation.
    """
    transformers = pytest.importorskip("transformers")
    register_with_transformers()
    sizes = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 64, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)


TOKENS = torch.arange(40).reshape(2, 20) % 64


def test_logits_gradients_and_tokens_are_the_eager_ones() -> None:
    results: dict[str, Any] = {}
    for name in ("eager", "ioaware"):
        made = model(name)
        with interpret_kernels():
            outcome = made(TOKENS, labels=TOKENS)
            outcome.loss.backward()
            tokens = made.generate(TOKENS[:1, :5], max_new_tokens=3, do_sample=False)
        results[name] = (outcome.logits.detach(), next(made.parameters()).grad, tokens)
    (logits, gradients, tokens), (ours, our_gradients, our_tokens) = results["eager"], results["ioaware"]
    assert relative_error(ours, logits.double()) < 1e-5
    assert relative_error(our_gradients, gradients.double()) < 1e-5
    assert torch.equal(tokens, our_tokens)


def test_padding_is_refused_and_a_mask_of_ones_is_not() -> None:
    made, mask = model("ioaware"), torch.ones_like(TOKENS)
    with interpret_kernels(), torch.no_grad():
        assert torch.equal(made(TOKENS, attention_mask=mask).logits, made(TOKENS).logits)
        mask[0, :3] = 0
        with pytest.raises(UsageError, match="takes no mask"):
            made(TOKENS, attention_mask=mask)


def test_queries_after_a_cache_see_it_and_a_longer_cache_is_refused() -> None:
    transformers = pytest.importorskip("transformers")
    made = model("ioaware")
    with interpret_kernels(), torch.no_grad():
        first = made(TOKENS[:, :12], use_cache=True)
        rest = made(TOKENS[:, 12:], past_key_values=first.past_key_values)
        assert relative_error(rest.logits, made(TOKENS).logits[:, 12:].double()) < 1e-5
        with pytest.raises(UsageError, match="takes no mask"):  # causal from the top left, which SDPA would take
            made(TOKENS, past_key_values=transformers.StaticCache(config=made.config, max_cache_len=40))


@pytest.mark.slow
def test_a_compiled_model_is_one_graph_and_asserts_that_nothing_is_padded() -> None:
    made, mask = model("ioaware"), torch.ones_like(TOKENS)
    torch.compiler.reset()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    with interpret_kernels(), torch.no_grad():
        logits = compiled(TOKENS, attention_mask=mask, use_cache=False).logits
        assert relative_error(logits, made(TOKENS).logits.double()) < 1e-5
        mask[0, :3] = 0
        with pytest.raises(RuntimeError, match="takes no padding"):
            compiled(TOKENS, attention_mask=mask, use_cache=False)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"dropout": 0.1}, r"no dropout, the model asks for 0\.1"), ({"softcap": 30.0}, "no softcap"), ({"s_aux": 1}, "no s_aux")],
)
def test_what_the_kernels_do_not_have_is_refused(options: dict[str, Any], says: str) -> None:
    q = torch.zeros(1, 1, 4, 16)
    with pytest.raises(UsageError, match=says):
        attention_forward(torch.nn.Module(), q, q, q, None, **options)
    with pytest.raises(UsageError, match="takes no mask"):
        attention_forward(torch.nn.Module(), q, q, q, torch.ones(4, 4))


def test_without_the_package_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MachineError, match="transformers is not installed"):
        register_with_transformers()
