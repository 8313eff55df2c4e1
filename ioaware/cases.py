"""List the cases. A new case is one entry of `CASES`."""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ioaware.case import Case, Work
from ioaware.errors import UsageError
from ioaware.kernels.attention.launching.on_chip_limits import ORDERS, ROW_ON_CHIP
from ioaware.params import ELEMENT_BYTES, STANDARD_PARAMS, Param
from ioaware.result import ParamValue

if TYPE_CHECKING:
    from ioaware.analysis.theory.counting import Counts

ATTENTION_PARAMS = tuple(
    STANDARD_PARAMS[name]
    for name in ("batch", "heads", "seq_len", "kv_len", "head_dim", "dtype", "causal", "block_m", "block_n", "sram_elements")
)

ORDER_PARAMS = (
    Param("order", "choice", None, "order of K and V's blocks; plain unless given", choices=ORDERS),
    Param("programs_at_once", "int", None, "programs of a wave for order=wave_sawtooth; by the compiled kernel unless given"),
)
SPARSE_PARAMS = (
    Param("window", "int", 1, "blocks on each side of the diagonal block", maximum=2**16),
    Param("global_blocks", "int", 1, "first column blocks, which every row sees", maximum=2**16),
)
UNMASKED_PARAMS = tuple(param for param in ATTENTION_PARAMS if param.name != "causal")
SQUARE_PARAMS = tuple(param for param in ATTENTION_PARAMS if param.name != "block_n")
DECODER_PARAMS = (
    *UNMASKED_PARAMS,
    Param("dropout_percent", "int", 10, "weights that dropout zeroes, in percent", minimum=0, maximum=99),
)
DECODER_BACKWARD_PARAMS = tuple(
    replace(param, minimum=16) if param.name == "head_dim" else param  # LayerNorm of a few elements has no gradient left
    for param in DECODER_PARAMS
)
ROWWISE_PARAMS = tuple(param for param in ATTENTION_PARAMS if param.name != "block_m")
Outer = Literal["q", "kv", "row", "square"]


def _attribute(path: str) -> Any:
    """Import `module:name`. Only string literals of this file are passed in."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def _attention_values(params: Mapping[str, ParamValue]) -> dict[str, int]:
    """Return the values of the attention formulas' symbols."""
    values = {name: value for name, value in params.items() if isinstance(value, int)}
    kv_len = values.get("kv_len", values["seq_len"])
    return {
        "B": values["batch"],
        "H": values["heads"],
        "N": values["seq_len"],
        "N_k": kv_len,
        "d": values["head_dim"],
        "B_r": values.get("block_m", 1),
        "B_c": values.get("block_n", values.get("block_m", 1)),
        "e": ELEMENT_BYTES[str(params["dtype"])],
        "c": 1 if kv_len <= ROW_ON_CHIP else 2,
        **{symbol: values[name] for symbol, name in (("w", "window"), ("g", "global_blocks")) if name in values},
    }


def _with_blocks(given: Mapping[str, ParamValue], outer: Outer) -> dict[str, ParamValue]:
    """Return the parameters with the blocks of M = `sram_elements`, if that is given.

    The blocks follow the paper: B_c = ceil(M/4d), B_r = min(B_c, d) (Algorithm 1, line 1). Where Q's loop is outside, as in
    FlashAttention-2, the blocks swap their roles too. One row has no B_r, and square tiles are of floor(sqrt(M/4)).
    """
    memory, head_dim = given.get("sram_elements"), given["head_dim"]
    if not isinstance(memory, int) or not isinstance(head_dim, int):
        return dict(given)
    large = -(-memory // (4 * head_dim))
    small = min(large, head_dim)
    blocks: Mapping[str, int] = {
        "q": {"block_m": large, "block_n": small},
        "kv": {"block_m": small, "block_n": large},
        "row": {"block_n": large},
        "square": {"block_m": math.isqrt(memory // 4)},
    }[outer]
    return {**given, **blocks}


def _attention(
    name: str,
    title: str,
    paper: str,
    *,
    outer: Outer,
    counts: str | None = None,
    work: str = "ioaware.kernels.attention.references.work:attention_work",
    family: str = "theorem 2",
    params: tuple[Param, ...] = ATTENTION_PARAMS,
) -> Case:
    """Return a case of attention.

    `outer` is the tensor of the outer loop, whose block M sets first, a "row" of Q, or "square" for equal blocks. `counts` is
    module:function in ioaware.analysis.theory.counts. `work` is called with the name and the parameters.
    """

    def build(*, device: str, **given: ParamValue) -> Work:
        return _attribute(work)(name, device=device, **_with_blocks(given, outer))

    def closed_form(causal: bool) -> Counts:
        return _attribute(f"ioaware.analysis.theory.counts.{counts or f'{name}:counts'}")(causal)

    def values(given: Mapping[str, ParamValue]) -> dict[str, int]:
        return _attention_values(_with_blocks(given, outer))

    return Case(name, title, paper, params, build, closed_form, values, family)


GROUPED_PARAMS = (
    *ATTENTION_PARAMS[:2],
    Param("kv_heads", "int", None, "key heads, which divide heads; heads unless given", maximum=2**16),
    *ATTENTION_PARAMS[2:],
)
SPLITS = Param("splits", "int", 8, "parts of the keys", minimum=2, maximum=1024)


def _grouped(name: str, title: str, paper: str, counts: str, *, family: str = "grouped heads") -> Case:
    """Return a case of attention with grouped query heads.

    Names with split take `splits`.
    """
    packed = name.endswith("packed")

    def resolved(given: Mapping[str, ParamValue]) -> dict[str, Any]:
        integers: dict[str, Any] = _with_blocks(given, "kv" if name.endswith("bwd") else "q")
        integers["kv_heads"] = integers["kv_heads"] or integers["heads"]
        integers["kv_len"] = integers["kv_len"] or integers["seq_len"]
        if integers["heads"] % integers["kv_heads"]:
            what = f"{name}: {integers['heads']} heads cannot share {integers['kv_heads']} key heads evenly"
            raise UsageError(what, "kv_heads must divide heads.")
        return integers

    def build(*, device: str, **given: ParamValue) -> Work:
        build_work = _attribute("ioaware.kernels.attention.references.grouped_work:grouped_work")
        return build_work(name, device=device, **resolved(given))

    def closed_form(causal: bool) -> Counts:
        return _attribute(f"ioaware.analysis.theory.counts.grouped:{counts}")(causal)

    def values(given: Mapping[str, ParamValue]) -> dict[str, int]:
        integers = resolved(given)
        group = integers["heads"] // integers["kv_heads"]
        in_tile = group if packed else 1
        instances = {"H": integers["heads"] // in_tile, "N": in_tile * integers["seq_len"], "G": group // in_tile}
        return {**_attention_values(integers), **instances, "S": integers.get("splits", 1)}

    params = (*GROUPED_PARAMS, SPLITS) if name.startswith("split") else GROUPED_PARAMS
    return Case(name, title, paper, params, build, closed_form, values, family)


SOFTMAX_PARAMS = (
    Param("rows", "int", 4096, "rows of the matrix R"),
    Param("cols", "int", 4096, "columns of the matrix C"),
    STANDARD_PARAMS["dtype"],
)
CHUNK = Param("block_n", "int", 1024, "columns of a row in a chunk", maximum=16384)
ONE_READ_COLS = Param("cols", "int", 4096, "columns of the matrix C", maximum=ROW_ON_CHIP)


def _softmax(name: str, title: str, counts: str) -> Case:
    """Return a case of softmax by rows; forms that keep a row on chip have no chunk."""
    one_read = name.endswith("one_read")
    rows, cols, dtype = SOFTMAX_PARAMS
    params = (rows, ONE_READ_COLS, dtype) if one_read else (rows, cols, dtype, CHUNK)

    def build(*, device: str, **given: ParamValue) -> Work:
        return _attribute("ioaware.kernels.softmax.work:softmax_work")(name, device=device, **given)

    def closed_form(causal: bool) -> Counts:
        return _attribute(f"ioaware.analysis.theory.counts.softmax:{counts}")(causal)

    def values(given: Mapping[str, ParamValue]) -> dict[str, int]:
        integers = {key: value for key, value in given.items() if isinstance(value, int)}
        return {"R": integers["rows"], "C": integers["cols"], "e": ELEMENT_BYTES[str(given["dtype"])]}

    paper = "Milakov and Gimelshein 2018, arXiv 1805.02867"
    return Case(name, title, paper, params, build, closed_form, values, family="softmax")


BACKWARD = "ioaware.kernels.attention.references.backward_work:backward_work"
GROUPED = "Ainslie et al. 2023, arXiv 2305.13245, in the order of Dao 2023, arXiv 2307.08691"
ROWWISE = "Ye 2023, From Online Softmax to FlashAttention"
SPLIT = "Dao et al. 2023, Flash-Decoding"
FA1, FA2 = "Dao et al. 2022, arXiv 2205.14135", "Dao 2023, arXiv 2307.08691"

CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        _attention("standard", "Standard attention: S and P in HBM", f"{FA1}, Algorithm 0", outer="q"),
        _attention("flash1", "FlashAttention: K/V outer loop, O, l, m in HBM", f"{FA1}, Algorithm 1", outer="kv"),
        _attention(
            "flash2",
            "FlashAttention-2: Q outer loop, O, l, m on chip",
            f"{FA2}, Algorithm 1",
            outer="q",
            params=(*ATTENTION_PARAMS, *ORDER_PARAMS),
        ),
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
        _attention(
            "flash_lse",
            "FlashAttention-2's order, with the log-sum-exp carried through the loop",
            "FlashAttention's Triton implementation",
            outer="q",
            family="variants",
        ),
        _grouped("gqa", "Grouped heads: K and V read for every query head", GROUPED, "counts"),
        _grouped("gqa_packed", "Grouped heads: the rows of a group share tiles, and K and V", GROUPED, "packed"),
        _grouped("gqa_bwd", "Grouped heads, backward: a kernel for dK and dV, one for dQ", GROUPED, "backward"),
        _grouped("split_kv", "Split-KV: local reducers over splits of the keys, then a combiner", SPLIT, "split"),
        _grouped("split_kv_packed", "Split-KV with the rows of a group in one tile", SPLIT, "split_packed"),
        _attention(
            "logsoftmax_attention",
            "Attention with log-softmax weights, in FlashAttention-2's order",
            "O = (S - lse 1^T) V; the state that needs no rescale is (m, l, S V, 1^T V)",
            outer="q",
            counts="logsoftmax:counts",
            family="logsoftmax",
            params=UNMASKED_PARAMS,
        ),
        _attention(
            "logsoftmax_linear",
            "Attention with log-softmax weights as Q (K^T V) - lse (1^T V)",
            "O = Q (K^T V) - lse (1^T V)",
            outer="q",
            counts="logsoftmax:linear",
            family="logsoftmax",
            params=UNMASKED_PARAMS,
        ),
        _attention(
            "square_tiling",
            "Attention in square tiles, for M < d^2: S and row sums in HBM",
            "Saha and Ye 2024, arXiv 2402.07443, Algorithm 1",
            outer="square",
            family="square tiles",
            params=SQUARE_PARAMS,
        ),
        _attention(
            "small_cache_bwd",
            "Attention, backward, in square tiles, for M < d^2: P and dS in HBM",
            "Li et al. 2024, arXiv 2410.09397",
            outer="square",
            counts="square_tiling:backward",
            work=BACKWARD,
            family="square tiles",
            params=tuple(param for param in SQUARE_PARAMS if param.name != "causal"),
        ),
        _attention(
            "block_sparse",
            "FlashAttention with a block mask: a band of blocks and the first columns",
            f"{FA1}, Algorithm 5",
            outer="kv",
            family="block sparse",
            params=(*ATTENTION_PARAMS, *SPARSE_PARAMS),
        ),
        _attention(
            "chunked",
            "Attention in query and key chunks, with a partial result per key chunk",
            "Rabe and Staats 2021, arXiv 2112.05682, section 3",
            outer="q",
            family="variants",
        ),
        _attention(
            "online_rowwise",
            "Attention of one row in two passes of online softmax, logits in HBM",
            ROWWISE,
            outer="row",
            counts="rowwise:online",
            family="rowwise",
            params=ROWWISE_PARAMS,
        ),
        _attention(
            "flash_rowwise",
            "Attention of one row in one pass over the keys",
            ROWWISE,
            outer="row",
            counts="rowwise:flash",
            family="rowwise",
            params=ROWWISE_PARAMS,
        ),
        *(
            _attention(
                f"decoder{order}{direction}",
                f"A decoder's attention with LayerNorm, causal mask and dropout{words}{', backward' if direction else ''}",
                paper,
                outer="kv" if direction else "q",
                counts=f"decoder:{'backward' if direction else 'counts'}",
                work="ioaware.kernels.decoder.work:decoder_work",
                family="decoder",
                params=DECODER_BACKWARD_PARAMS if direction else DECODER_PARAMS,
            )
            for order, words, paper in (
                ("", "", f"{FA1}, Algorithm 2, and a pre-LayerNorm decoder"),
                ("_notebook", ", normalised after dropout", "a pre-LayerNorm decoder that drops before it normalises"),
            )
            for direction in ("", "_bwd")
        ),
        _attention(
            "decoder_notebook_steps",
            "A decoder's attention, normalised after dropout, with every intermediate in HBM",
            f"a pre-LayerNorm decoder that drops before it normalises; {FA1}, Algorithm 0",
            outer="q",
            counts="decoder:steps",
            work="ioaware.kernels.decoder.work:decoder_work",
            family="decoder",
            params=DECODER_PARAMS,
        ),
        _attention(
            "decoder_notebook_bwd_steps",
            "A decoder's attention, normalised after dropout, backward, with every intermediate in HBM",
            f"a pre-LayerNorm decoder that drops before it normalises; {FA1}, Algorithm 3",
            outer="q",
            counts="decoder:backward_steps",
            work="ioaware.kernels.decoder.work:decoder_work",
            family="decoder",
            params=DECODER_BACKWARD_PARAMS,
        ),
        _softmax("softmax_eager", "Softmax as five kernels: 8 G accesses for G elements, and 4 a row", "eager"),
        _softmax("softmax_materialised", "Softmax with exponentials kept in HBM: 6 G", "materialised"),
        _softmax("softmax_cub", "Softmax with exponentials kept in HBM for their sum, and computed again: 6 G", "cub"),
        _softmax("softmax_safe", "Safe softmax in three passes: 4 G", "safe"),
        _softmax("softmax_online", "Online softmax in two passes: 3 G", "online"),
        _softmax("softmax_one_read", "Softmax of rows that stay on chip: 2 G", "one_read"),
        _softmax("softmax_lse", "Log-sum-exp of each row: G and one a row", "lse"),
        _softmax("softmax_bwd", "Softmax, backward, in two passes: 5 G", "backward"),
        _softmax("softmax_bwd_one_read", "Softmax, backward, of rows that stay on chip: 3 G", "backward_one_read"),
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
