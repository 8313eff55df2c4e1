"""The table of cases. A new case is one entry of `CASES`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ioaware.case import Case, Work
from ioaware.errors import UsageError
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP
from ioaware.params import ELEMENT_BYTES, STANDARD_PARAMS
from ioaware.result import ParamValue

if TYPE_CHECKING:
    from ioaware.analysis.theory.counting import Counts

ATTENTION_PARAMS = tuple(
    STANDARD_PARAMS[name]
    for name in ("batch", "heads", "seq_len", "kv_len", "head_dim", "dtype", "causal", "block_m", "block_n", "sram_elements")
)


def _attribute(path: str) -> Any:
    """Import `module:name`. Only string literals of this file are passed in."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def _attention_values(params: Mapping[str, ParamValue]) -> dict[str, int]:
    """Return the values of the attention formulas' symbols.

    With `sram_elements` M the blocks follow the paper: B_c = ceil(M/4d), B_r = min(B_c, d) (Algorithm 1, line 1).
    FlashAttention-2 swaps its loops, hence the roles of the two blocks.
    """
    values = {name: value for name, value in params.items() if isinstance(value, int)}
    kv_len = values.get("kv_len", values["seq_len"])
    return {
        "B": values["batch"],
        "H": values["heads"],
        "N": values["seq_len"],
        "N_k": kv_len,
        "d": values["head_dim"],
        "B_r": values["block_m"],
        "B_c": values["block_n"],
        "e": ELEMENT_BYTES[str(params["dtype"])],
        "c": 1 if kv_len <= ROW_ON_CHIP else 2,
    }


def _attention(
    name: str,
    title: str,
    paper: str,
    *,
    outer: Literal["q", "kv"],
    counts: str | None = None,
    work: str = "ioaware.kernels.attention.work:attention_work",
    family: str = "theorem 2",
) -> Case:
    """Return a case of attention: `outer` is the tensor of the outer loop, whose block M sets first.

    `counts` is module:function in ioaware.analysis.theory.counts; `work` is called with the name and the parameters.
    """

    def sized(params: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
        memory, head_dim = params["sram_elements"], params["head_dim"]
        if not isinstance(memory, int) or not isinstance(head_dim, int):
            return dict(params)
        large = -(-memory // (4 * head_dim))
        small = min(large, head_dim)
        block_m, block_n = (small, large) if outer == "kv" else (large, small)
        return {**params, "block_m": block_m, "block_n": block_n}

    def build(*, device: str, **params: ParamValue) -> Work:
        return _attribute(work)(name, device=device, **sized(params))

    def closed_form(causal: bool) -> Counts:
        return _attribute(f"ioaware.analysis.theory.counts.{counts or f'{name}:counts'}")(causal)

    def values(params: Mapping[str, ParamValue]) -> dict[str, int]:
        return _attention_values(sized(params))

    return Case(name, title, paper, ATTENTION_PARAMS, build, closed_form, values, family)


BACKWARD = "ioaware.kernels.attention.backward_work:backward_work"
FA1, FA2 = "Dao et al. 2022, arXiv 2205.14135", "Dao 2023, arXiv 2307.08691"

CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        _attention("standard", "Standard attention: S and P in HBM", f"{FA1}, Algorithm 0", outer="q"),
        _attention("flash1", "FlashAttention: K/V outer loop, O, l, m in HBM", f"{FA1}, Algorithm 1", outer="kv"),
        _attention("flash2", "FlashAttention-2: Q outer loop, O, l, m on chip", f"{FA2}, Algorithm 1", outer="q"),
        _attention(
            "standard_bwd",
            "Standard attention, backward: P, dP and dS in HBM",
            f"{FA1}, Algorithm 3",
            outer="q",
            counts="standard_backward:counts",
            work=BACKWARD,
            family="gradients",
        ),
        _attention(
            "flash1_bwd",
            "FlashAttention, backward: K/V outer loop, dQ in HBM",
            f"{FA1}, Algorithm 4",
            outer="kv",
            counts="flash1_backward:counts",
            work=BACKWARD,
            family="gradients",
        ),
        _attention(
            "flash2_bwd",
            "FlashAttention-2, backward: one kernel for dK and dV, one for dQ",
            f"{FA2}, Algorithm 2",
            outer="kv",
            counts="flash2_backward:counts",
            work=BACKWARD,
            family="gradients",
        ),
        _attention(
            "flash2_bwd_atomic",
            "FlashAttention-2, backward: one kernel for dK and dV, which adds to dQ by atomics",
            f"{FA2}, Algorithm 2",
            outer="kv",
            counts="flash2_backward:atomic",
            work=BACKWARD,
            family="gradients",
        ),
    )
}


def find_case(name: str) -> Case:
    """Return the case of that name. Raises `UsageError` that lists the valid names."""
    if name not in CASES:
        close = difflib.get_close_matches(name.lower(), CASES, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        known = f"Cases: {', '.join(CASES)}. A kernel of your own: file.py:function."
        raise UsageError(f"there is no case {name!r}", hint + known)
    return CASES[name]
