"""Small attention calls under compute-sanitizer.

Run as `compute-sanitizer python sanitized.py BACKEND`.

Forward and both backward passes. decode runs the cases with few queries only.
"""

# torch's autograd has no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import sys

import torch

from ioaware.kernels.attention.dispatch import BackendName, attention

CASES = [  # batch, heads, kv_heads, seq_len, kv_len, head_dim
    (1, 2, 1, 200, 333, 64),
    (1, 1, 1, 130, 130, 72),
    (2, 2, 2, 65, 200, 128),
    (1, 2, 2, 150, 70, 256),
    (1, 4, 2, 1, 700, 128),
    (1, 1, 1, 3, 1, 40),
]


def random_tensor(batch: int, heads: int, rows: int, head_dim: int, heads_last: bool) -> torch.Tensor:
    """Return a tensor [batch, heads, rows, head_dim].

    It is stored in that order, or with heads after rows.
    """
    shape = (batch, rows, heads, head_dim) if heads_last else (batch, heads, rows, head_dim)
    tensor = torch.randn(shape, dtype=torch.float16, device="cuda")
    return (tensor.transpose(1, 2) if heads_last else tensor).requires_grad_()


def main(backend: BackendName) -> None:
    """Run forward and backward of every case that the backend supports.

    Cases run in both layouts, causal and not.
    """
    torch.manual_seed(0)
    for batch, heads, kv_heads, seq_len, kv_len, head_dim in CASES:
        if backend == "decode" and seq_len > 16:
            continue
        for heads_last in (False, True):
            q = random_tensor(batch, heads, seq_len, head_dim, heads_last)
            k, v = (random_tensor(batch, kv_heads, kv_len, head_dim, heads_last) for _ in range(2))
            for causal in (False, True):
                for deterministic in (False, True):
                    output = attention(q, k, v, causal, backend=backend, deterministic=deterministic)
                    output.backward(torch.randn_like(output))
                with torch.no_grad():  # the cached launch, which bypasses Triton
                    attention(q, k, v, causal, backend=backend)
    torch.cuda.synchronize()
    print("all launched")


if __name__ == "__main__":
    backends: dict[str, BackendName] = {"hopper": "hopper", "triton": "triton", "decode": "decode"}
    main(backends[sys.argv[1]])
