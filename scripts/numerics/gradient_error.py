"""Measure the error of O and of dQ on a GPU.

It grows with an offset that all keys share, and with N.

    PYTHONPATH=. python scripts/numerics/gradient_error.py -o errors.jsonl [--short]

Each attention gets the same float16 inputs: normal numbers, V of mean 1 and K with the offset. The reference is float64 of the
same numbers. "centred" is the same with the mean key subtracted. One JSON line for each attention and point.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

from ioaware import strict_json
from ioaware.bench.gpu_setup import here
from ioaware.kernels.attention import attention
from ioaware.kernels.attention.references.backward_work import BACKWARDS
from ioaware.kernels.attention.references.reference import attention_backward_reference, attention_reference
from ioaware.kernels.attention.references.work import FORWARDS
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.targets.output_check import relative_error

HEADS, HEAD_DIM, BLOCK = 4, 64, 64
OFFSETS = (0, 4, 16, 64, 256, 1024)
LENGTHS = (256, 512, 2048, 4096)
BLOCKS = (16, 32, 128)
Outputs = tuple[torch.Tensor, torch.Tensor]
"""O and dQ."""
Attention = Callable[..., Outputs]


def by_autograd(forward: Callable[..., torch.Tensor], where: Callable[[], AbstractContextManager[Any]]) -> Attention:
    """O and dQ of an attention that torch differentiates."""

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> Outputs:
        leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
        with where():
            o = forward(*leaves)
            (dq, _, _) = torch.autograd.grad(o, leaves, do)
        return o.detach(), dq

    return run


def by_case(forward: str, backward: str, block_n: int = BLOCK) -> Attention:
    """O and dQ of two cases."""
    blocks = {"block_m": BLOCK, "block_n": block_n}

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> Outputs:
        o = FORWARDS[forward](q, k, v, **blocks)
        gradients: Any = BACKWARDS[backward](q, k, v, do, causal=False, **blocks)()
        return (o[0] if isinstance(o, tuple) else o), gradients[0]

    return run


def by_sdpa(backend: SDPBackend) -> Attention:
    """O and dQ of one back end of torch's."""
    return by_autograd(sdpa, lambda: sdpa_kernel(backend))


def no_context() -> AbstractContextManager[Any]:
    """Nothing to set."""
    return torch.enable_grad()


def own(backend: Any) -> Attention:
    """O and dQ of one back end of this package."""
    return by_autograd(lambda q, k, v: attention(q, k, v, backend=backend), no_context)


ATTENTIONS: Mapping[str, Attention] = {
    "standard": by_case("standard", "standard_bwd"),
    "flash1": by_case("flash1", "flash1_bwd"),
    "flash2": by_case("flash2", "flash2_bwd"),
    "flash2, atomics": by_case("flash2", "flash2_bwd_atomic"),
    "hopper": own("hopper"),
    "portable": own("triton"),
    "SDPA flash": by_sdpa(SDPBackend.FLASH_ATTENTION),
    "SDPA cuDNN": by_sdpa(SDPBackend.CUDNN_ATTENTION),
    "SDPA efficient": by_sdpa(SDPBackend.EFFICIENT_ATTENTION),
    "SDPA math": by_sdpa(SDPBackend.MATH),
}


def draw(seq_len: int, offset: float) -> list[torch.Tensor]:
    """Q, K, V and dO in float16 on the GPU."""
    generator = torch.Generator("cuda").manual_seed(0)
    shape = (1, HEADS, seq_len, HEAD_DIM)
    q, k, v, do = (torch.randn(shape, generator=generator, device="cuda") for _ in range(4))
    return [q.half(), (k + offset).half(), (v + 1).half(), do.half()]


def errors(names: Mapping[str, Attention], seq_len: int, offset: float) -> Iterator[dict[str, Any]]:
    """Relative errors of every attention, with K as it is and centred."""
    q, k, v, do = draw(seq_len, offset)
    exact_o, exact_dq = attention_reference(q, k, v), attention_backward_reference(q, k, v, do)[0]
    centred = (k.float() - k.float().mean(2, keepdim=True).half().float()).half()
    for name, run in names.items():
        for keys, repaired in ((k, False), (centred, True)):
            point: dict[str, Any] = {"attention": name, "seq_len": seq_len, "key_offset": offset, "centred": repaired}
            try:
                o, dq = run(q, keys, v, do)
            except Exception as error:
                yield point | {"status": "failed", "reason": f"{type(error).__name__}: {str(error)[:200]}"}
            else:
                found = {"o_error": relative_error(o, exact_o), "dq_error": relative_error(dq, exact_dq)}
                yield point | {"status": "ok"} | {key: float(value) for key, value in found.items()}


def rows(*, short: bool) -> Iterator[dict[str, Any]]:
    """Every point: offsets, lengths, and column blocks of FlashAttention-2."""
    for offset in OFFSETS[:2] if short else OFFSETS:
        yield from ({**row, "block_n": BLOCK} for row in errors(ATTENTIONS, 1024, offset))
    for seq_len in () if short else LENGTHS:
        yield from ({**row, "block_n": BLOCK} for row in errors(ATTENTIONS, seq_len, 16))
    for block in () if short else BLOCKS:
        yield from ({**row, "block_n": block} for row in errors({"flash2": by_case("flash2", "flash2_bwd", block)}, 1024, 16))


def main() -> None:
    """Write the lines, and print the errors of dQ by offset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--short", action="store_true", help="two offsets alone")
    given = parser.parse_args()
    environment = here(open_gpu(load_nvml()))
    head = {"schema": 1, "record": "gradient_error", "dtype": "float16", "heads": HEADS, "head_dim": HEAD_DIM}
    with given.output.open("w", encoding="utf-8") as file:
        for row in rows(short=given.short):
            file.write(strict_json.dumps(head | row | {"environment": environment}) + "\n")
            file.flush()
            if row["seq_len"] == 1024 and row["block_n"] == BLOCK:
                shown = row.get("reason") or f"O {row['o_error']:.1e}, dQ {row['dq_error']:.1e}"
                print(f"{row['attention']}, offset {row['key_offset']}{', centred' * row['centred']}: {shown}")


if __name__ == "__main__":
    main()
