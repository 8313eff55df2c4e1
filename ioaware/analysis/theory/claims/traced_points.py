"""Traced points of both theorems of the FlashAttention paper.

They are a grid of shapes, and series in N, d, M.

The series run in float32, where every element has four bytes: traced bytes are the papers' elements times four.
Their M sets both blocks as the paper does (B_c = ceil(M/4d), B_r = min(B_c, d)), and every block divides N.
"""

from __future__ import annotations

from collections.abc import Mapping

from ioaware.analysis.theory.claims.evidence import Need, need
from ioaware.result import ParamValue

FLASH = ("flash1", "flash2")
ATTENTION = ("standard", *FLASH)

_GRID: tuple[Mapping[str, ParamValue], ...] = (
    {"seq_len": 48, "head_dim": 16, "dtype": "float32", "block_m": 16, "block_n": 16},
    {"seq_len": 61, "head_dim": 24, "dtype": "float32", "block_m": 16, "block_n": 16},
    {"seq_len": 40, "kv_len": 70, "head_dim": 16, "dtype": "float32", "block_m": 32, "block_n": 16},
    {"seq_len": 70, "kv_len": 40, "head_dim": 16, "dtype": "float32", "block_m": 16, "block_n": 32, "causal": True},
    {"seq_len": 40, "kv_len": 70, "head_dim": 16, "dtype": "float16", "block_m": 16, "block_n": 16, "causal": True},
    {"seq_len": 64, "head_dim": 32, "dtype": "float16", "block_m": 32, "block_n": 16, "causal": True},
    {"seq_len": 50, "head_dim": 64, "dtype": "bfloat16", "block_m": 12, "block_n": 20},
    {"seq_len": 64, "head_dim": 128, "dtype": "float16", "block_m": 64, "block_n": 64},
    {"seq_len": 33, "head_dim": 16, "dtype": "float16", "block_m": 16, "block_n": 16, "batch": 2, "heads": 2},
    {"seq_len": 1, "kv_len": 64, "head_dim": 64, "dtype": "bfloat16", "block_m": 16, "block_n": 32},
)
_CAUSAL: tuple[Mapping[str, ParamValue], ...] = (
    {"seq_len": 64, "head_dim": 16, "dtype": "float32", "block_m": 16, "block_n": 16, "causal": True},
    {"seq_len": 128, "head_dim": 32, "dtype": "float32", "block_m": 32, "block_n": 16, "causal": True},
    {"seq_len": 64, "kv_len": 128, "head_dim": 16, "dtype": "float32", "block_m": 16, "block_n": 32, "causal": True},
)


def grid(target: str) -> tuple[Need, ...]:
    """Return points of every dtype.

    They have ragged and odd blocks, N_k above and below N, causal masks and several heads.
    """
    return tuple(need("trace", target, **params) for params in _GRID)


def causal_series(target: str) -> tuple[Need, ...]:
    """Return causal points whose blocks divide, where block-granular FLOPs are exact."""
    return tuple(need("trace", target, **params) for params in _CAUSAL)


def _sized(target: str, *, seq_len: int, head_dim: int, memory: int) -> Need:
    return need("trace", target, seq_len=seq_len, head_dim=head_dim, dtype="float32", sram_elements=memory)


def series(target: str) -> Mapping[str, tuple[Need, ...]]:
    """Return points of one case with N, d or M varying alone.

    FlashAttention's within d <= M <= N d.

    Standard attention has no M: its leading term is S and P, whatever the blocks.
    """
    if target not in FLASH:
        tiles: Mapping[str, ParamValue] = {"dtype": "float32", "block_m": 16, "block_n": 16}
        return {
            "N": tuple(need("trace", target, seq_len=n, head_dim=16, **tiles) for n in (32, 48, 64)),
            "d": tuple(need("trace", target, seq_len=48, head_dim=d, **tiles) for d in (16, 24, 32)),
        }
    return {
        "N": tuple(_sized(target, seq_len=n, head_dim=16, memory=1024) for n in (64, 96, 128)),
        "d": tuple(_sized(target, seq_len=96, head_dim=d, memory=1536) for d in (16, 24, 32)),
        "M": tuple(_sized(target, seq_len=96, head_dim=16, memory=m) for m in (768, 1024, 1536)),
    }


def flops_series(target: str) -> Mapping[str, tuple[Need, ...]]:
    """Return points whose blocks and head_dim are powers of two that divide.

    N or d varies alone.
    """
    return {
        "N": series(target)["N"],
        "d": tuple(
            need("trace", target, seq_len=64, head_dim=d, dtype="float32", block_m=32, block_n=32) for d in (16, 32, 64, 128)
        ),
    }


def every_need(targets: tuple[str, ...] = ATTENTION) -> tuple[Need, ...]:
    """Return all points for these cases, each once.

    FLOPs only for FlashAttention, the theorem's subject.
    """
    needs: list[Need] = []
    for target in targets:
        needs += grid(target)
        needs += [p for each in series(target).values() for p in each]
        if target in FLASH:
            needs += causal_series(target)
            needs += [p for each in flops_series(target).values() for p in each]
    return tuple(dict.fromkeys(needs))
