"""Define the points of the benches over several GPUs and of their links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args

from ioaware.analysis.theory.counts.gpu_transfers import Method, Pass, Problem, moved
from ioaware.bench.multi_gpu.link_record import Ends
from ioaware.errors import UsageError
from ioaware.params import ELEMENT_BYTES

PASSES: tuple[Pass, ...] = get_args(Pass)
METHODS: tuple[Method, ...] = get_args(Method)
"""This project's entries."""
SEQ_LENS = (32768, 65536, 131072, 262144, 524288)
SIZES = (2**13, 2**20, 2**24, 2**27, 2**30)
"""Bytes of a transfer.

The first is one that NCCL sends with its low-latency protocol, the last fills the links.
"""


@dataclass(frozen=True, slots=True)
class ExchangePoint:
    """Attention of one shape over several GPUs, with as many keys as queries.

    q is [batch, heads, seq_len, head_dim].
    """

    direction: Pass
    gpus: int
    batch: int
    heads: int
    kv_heads: int
    seq_len: int
    head_dim: int
    causal: bool
    dtype: str

    @property
    def flops(self) -> int:
        """FLOPs of the matmuls of all GPUs, as papers count them.

        They are 4 N^2 d per head, half where causal, 2.5 times that backward.
        """
        full = 4 * self.batch * self.heads * self.seq_len**2 * self.head_dim
        return (full // 2 if self.causal else full) * (5 if self.direction == "backward" else 2) // 2

    @property
    def label(self) -> str:
        """Name of the point."""
        heads = f"{self.heads} heads on {self.kv_heads}" if self.kv_heads < self.heads else f"{self.heads} heads"
        mask = ", causal" if self.causal else ""
        return f"{self.direction} N={self.seq_len} d={self.head_dim}, {heads}{mask}"

    @property
    def square_grid(self) -> tuple[int, int]:
        """Rows and columns of the square, the squarest there is.

        One row where that has one column, which would be an all-gather.
        """
        columns = next(c for c in range(math.isqrt(self.gpus), 0, -1) if self.gpus % c == 0)
        return (self.gpus // columns, columns) if columns > 1 else (1, self.gpus)

    def to_dict(self) -> dict[str, Any]:
        """Return the point as in records, with the direction under the name `pass`."""
        data = asdict(self)
        return {"pass": data.pop("direction"), **data}

    @staticmethod
    def of(data: dict[str, Any]) -> ExchangePoint:
        """Return the point of a `to_dict`."""
        fields = dict(data)
        return ExchangePoint(direction=fields.pop("pass"), **fields)

    def problem(self, name: str) -> Problem:
        """Return the problem of an entry of this project."""
        grid = self.square_grid if name == "square" else (self.gpus, 1)
        return Problem(self.batch, self.heads, self.kv_heads, self.seq_len, self.seq_len, self.head_dim, self.gpus, grid)

    def ends(self, name: str) -> tuple[Ends, ...]:
        """Return what each GPU receives and sends in one call of an entry.

        There is no closed form for torch's entries.
        """
        if name not in METHODS:
            return ()
        element, problem = ELEMENT_BYTES[self.dtype], self.problem(name)
        counts = [moved(name, self.direction, problem, gpu) for gpu in range(self.gpus)]
        return tuple(Ends(one.received_bytes(element), one.sent_bytes(element)) for one in counts)


def exchange_grid(
    gpus: int,
    passes: Sequence[str],
    seq_lens: Sequence[int],
    heads: int,
    kv_heads: int,
    head_dim: int,
    dtype: str,
    *,
    causal: bool,
) -> list[ExchangePoint]:
    """Return the points, short sequences first.

    Raises `UsageError` for values that no point can have.
    """
    if heads % kv_heads:
        raise UsageError(f"{heads} heads cannot share {kv_heads} key heads evenly", "--kv-heads must divide --heads.")
    if dtype not in ("float16", "bfloat16"):
        raise UsageError(
            f"--dtype {dtype}: attention over several GPUs is measured in float16 or bfloat16", "Give one of these."
        )
    for name in passes:
        if name not in PASSES:
            raise UsageError(f"--pass {name}: there is no such pass", f"Passes: {', '.join(PASSES)}.")
    return [
        ExchangePoint(cast("Pass", direction), gpus, 1, heads, kv_heads, seq_len, head_dim, causal, dtype)
        for seq_len in sorted(set(seq_lens or SEQ_LENS))
        for direction in passes or PASSES
    ]
