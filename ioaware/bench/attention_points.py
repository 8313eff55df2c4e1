"""Define the points of the attention race.

The grid of points that the goals use is defined too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from ioaware.errors import UsageError

Pass = Literal["forward", "backward", "decode"]
PASSES: tuple[Pass, ...] = get_args(Pass)

TOKENS = 16384
HIDDEN = 2048
"""heads * head_dim of the forward and backward points.

With TOKENS, these are the shapes of FlashAttention-3's figures 5 and 6.
"""

KV_HIDDEN = 1024
KV_BYTES = 2**28
"""Least bytes of K and V of a decode point: several times any L2.

Every call therefore reads them from HBM.
"""

HEAD_DIMS = (64, 128, 256)
SEQ_LENS = (512, 1024, 2048, 4096, 8192, 16384)
KV_LENS = (8192, 16384, 32768, 65536, 131072)
DECODE_SHAPES = ((1, 1), (1, 8), (4, 4))
"""Query rows, and heads that share a key head.

They are plain, grouped, and a few rows as speculative decoding has them.
"""

ELEMENT_BYTES = {"float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class Point:
    """One shape of q, k and v.

    q is [batch, heads, seq_len, head_dim], and k and v are [batch, kv_heads, kv_len, head_dim].
    """

    what: Pass
    batch: int
    heads: int
    kv_heads: int
    seq_len: int
    kv_len: int
    head_dim: int
    causal: bool
    dtype: str

    @property
    def flops(self) -> int:
        """FLOPs of the matmuls, as papers count them.

        They are 4 N N_k d per head, half where causal, 2.5 times that backward.

        Dao 2023, arXiv 2307.08691, section 4.1.
        """
        full = 4 * self.batch * self.heads * self.seq_len * self.kv_len * self.head_dim
        seen = full // 2 if self.causal else full
        return seen * 5 // 2 if self.what == "backward" else seen

    @property
    def compulsory_bytes(self) -> int:
        """Bytes of Q, K, V read once and O written once.

        Backward also dO and O read, dQ, dK and dV written.
        """
        rows = 2 * self.batch * (self.heads * self.seq_len + self.kv_heads * self.kv_len)
        return rows * self.head_dim * ELEMENT_BYTES[self.dtype] * (2 if self.what == "backward" else 1)

    @property
    def bound_by_bytes(self) -> bool:
        """Whether HBM bandwidth limits the speed, and not arithmetic."""
        return self.what == "decode"

    @property
    def label(self) -> str:
        """Name of the point, such as `forward d=128 causal N=4096`."""
        mask = " causal" if self.causal else ""
        if self.what == "decode":
            rows = f"{self.seq_len} row{'s' if self.seq_len > 1 else ''}"
            return f"decode d={self.head_dim} {rows} x {self.heads // self.kv_heads} heads N_k={self.kv_len}{mask}"
        return f"{self.what} d={self.head_dim}{mask} N={self.seq_len}"

    def to_dict(self) -> dict[str, Any]:
        """Return the point as in records, with `what` under the name `pass`."""
        data = asdict(self)
        return {"pass": data.pop("what"), **data}

    @staticmethod
    def of(data: dict[str, Any]) -> Point:
        """Return the point of a `to_dict`.

        Raises ValueError or TypeError for anything else.
        """
        fields = dict(data)
        point = Point(what=fields.pop("pass"), **fields)
        integers = (point.batch, point.heads, point.kv_heads, point.seq_len, point.kv_len, point.head_dim)
        if any(type(value) is not int or value < 1 for value in integers) or type(point.causal) is not bool:
            raise ValueError("a point has sizes from 1 and a mask")
        if point.what not in PASSES or point.dtype not in ELEMENT_BYTES or point.heads % point.kv_heads:
            raise ValueError("no such pass, dtype or grouping of heads")
        return point


def grid(
    passes: Sequence[str] = (),
    head_dims: Sequence[int] = (),
    seq_lens: Sequence[int] = (),
    kv_lens: Sequence[int] = (),
    causal: bool | None = None,
    dtype: str = "bfloat16",
) -> list[Point]:
    """Return the points of these passes, of all three if none is given.

    An empty list means its default.

    causal None: both. Raises `UsageError` for values that no point can have.
    """
    if dtype not in ELEMENT_BYTES:
        raise UsageError(f"--dtype {dtype}: attention is raced in {' or '.join(ELEMENT_BYTES)}", "Give one of these.")
    for name, values, most in (
        ("--head-dim", head_dims, KV_HIDDEN),
        ("--seq-len", seq_lens, 2**20),
        ("--kv-len", kv_lens, 2**22),
    ):
        for value in values:
            if not 1 <= value <= most:
                raise UsageError(f"{name} {value} cannot work", f"Give an integer from 1 to {most}.")
    points: list[Point] = []
    for what in passes or PASSES:
        if what not in PASSES:
            raise UsageError(f"--pass {what}: there is no such pass", f"Passes: {', '.join(PASSES)}.")
        for head_dim in head_dims or HEAD_DIMS:
            if what == "decode":
                points += _decode(head_dim, kv_lens or KV_LENS, dtype) if not causal else ()
            else:
                masks = (False, True) if causal is None else (causal,)
                points += _square(cast("Pass", what), head_dim, seq_lens or SEQ_LENS, masks, dtype)
    if not points:
        raise UsageError("these options leave no point", "Decode points have no mask: leave out --causal for them.")
    return points


def _square(what: Pass, head_dim: int, seq_lens: Sequence[int], masks: Sequence[bool], dtype: str) -> Iterator[Point]:
    """Yield points with as many keys as queries, TOKENS rows in all."""
    heads = max(1, HIDDEN // head_dim)
    for causal in masks:
        for seq_len in seq_lens:
            yield Point(what, max(1, TOKENS // seq_len), heads, heads, seq_len, seq_len, head_dim, causal, dtype)


def _decode(head_dim: int, kv_lens: Sequence[int], dtype: str) -> Iterator[Point]:
    """Yield points of a few query rows against a long cache.

    The batch makes K and V at least KV_BYTES.
    """
    kv_heads = max(1, KV_HIDDEN // head_dim)
    for kv_len in kv_lens:
        one = 2 * kv_heads * kv_len * head_dim * ELEMENT_BYTES[dtype]
        for seq_len, group in DECODE_SHAPES:
            batch = -(-KV_BYTES // one)
            yield Point("decode", batch, kv_heads * group, kv_heads, seq_len, kv_len, head_dim, False, dtype)
