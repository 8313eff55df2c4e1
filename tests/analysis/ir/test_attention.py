"""The attention kernels' derived counts equal the papers' and the traced counts.

The papers give formulas.
"""

from __future__ import annotations

import os

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Expr

from ioaware.analysis.ir import KernelTraffic
from ioaware.analysis.theory.counting import B, B_c, B_r, H, N, N_k, d, e
from ioaware.analysis.theory.counts import flash1, flash2, standard
from ioaware.kernels.attention.flash1 import flash1 as flash1_host
from ioaware.kernels.attention.flash2 import flash2 as flash2_host
from ioaware.kernels.attention.launching.on_chip_limits import padded
from ioaware.kernels.attention.references.inputs import attention_inputs
from ioaware.kernels.attention.standard import standard as standard_host
from ioaware.prediction import predict
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support.ir_zoo.attention import LAYOUTS, Kernels, strided
from tests.support.lasting_cache import lasting_cache

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
EXAMPLES = int(os.environ.get("IOAWARE_EXAMPLES", "25"))
"""Random configurations of each case; 100 of each in the exhaustive tests."""

CONFIGURATIONS = [  # head_dim, block_m, block_n, dtype
    (16, 16, 16, "float16"), (24, 16, 32, "float32"), (64, 32, 16, "bfloat16"), (40, 20, 48, "float16"),
]  # fmt: skip
LAID_OUT = [(chosen, LAYOUTS[(at + step) % 4]) for at, chosen in enumerate(CONFIGURATIONS) for step in (0, 1)]
"""Each configuration in two layouts, each layout in two configurations.

Every pair is derived separately.
"""
HOSTS = {"standard": standard_host, "flash1": flash1_host, "flash2": flash2_host}


@lasting_cache
def derive_launches(case: str, causal: bool, chosen: tuple[int, int, int, str], layout: str, chunk: int) -> list[KernelTraffic]:
    head_dim, block_m, block_n, dtype = chosen
    kernels = Kernels(causal=causal, head_dim=head_dim, block_m=block_m, block_n=block_n, dtype=DTYPES[dtype], layout=layout)
    return kernels.derive(case, chunk)


@pytest.mark.parametrize("case", HOSTS)
@settings(max_examples=EXAMPLES, derandomize=True, deadline=None)
@given(
    causal=st.booleans(),
    formula_lines=st.sampled_from(LAID_OUT),
    heads=st.sampled_from([(1, 1), (1, 2), (2, 1)]),
    seq_len=st.integers(1, 22),
    kv_len=st.integers(1, 34),
)
def test_derived_equals_predicted_and_traced(case, causal, formula_lines, heads, seq_len, kv_len) -> None:
    (head_dim, block_m, block_n, dtype), layout = formula_lines
    if case == "standard":  # one softmax, compiled for rows of up to 32
        kv_len = 17 + kv_len % 16
    params = {
        "batch": heads[0], "heads": heads[1], "seq_len": seq_len, "kv_len": kv_len, "head_dim": head_dim, "dtype": dtype,
        "causal": causal, "block_m": block_m, "block_n": block_n,
    }  # fmt: skip

    def run() -> torch.Tensor:
        q, k, v = attention_inputs(*heads, seq_len, kv_len, head_dim, dtype=DTYPES[dtype], device="cuda")
        q, k, v = (strided(x, layout) for x in (q, k, v))
        result = HOSTS[case](q, k, v, causal=causal, block_m=block_m, block_n=block_n)
        return result[0] if isinstance(result, tuple) else result

    launches = derive_launches(case, causal, *formula_lines, padded(kv_len) if case == "standard" else 0)
    predicted = predict(case, **params).requested
    traced = [launch for launch in trace(load_target(run), {}).launches if launch.origin == "triton"]
    values = {"N": seq_len, "N_k": kv_len, "B": heads[0], "H": heads[1]}
    assert predicted is not None
    total = [sum(getattr(launch, field).evaluate(values) for launch in launches) for field in ("read_bytes", "write_bytes")]
    assert total == [predicted.read_bytes, predicted.write_bytes]
    for launch, seen in zip(launches, traced, strict=True):
        found = {field: getattr(launch, field).evaluate(values) for field in ("read_bytes", "write_bytes", "flops")}
        assert found == {**{field: getattr(seen.requested, field) for field in found if field != "flops"}, "flops": seen.flops}
        if launch.sectors_exact:
            assert launch.read_sector_bytes.evaluate(values) == seen.requested.read_sector_bytes
            assert launch.write_sector_bytes.evaluate(values) == seen.requested.write_sector_bytes


n = sympy.Symbol("n", integer=True, positive=True)
steps = sympy.Symbol("steps", integer=True, nonnegative=True)


def at_whole_blocks(expr: Expr, block: int) -> Expr:
    """Return the expression at N = N_k = n blocks, with sums reversed.

    Why reversed: the remaining length is then visibly nonnegative, which sympy needs.
    """
    known = {
        N: n * block,
        N_k: n * block,
        d: 64,
        e: 2,
        B_r: block,
        B_c: block,
        sympy.Symbol("c", integer=True, positive=True): 1,
    }

    def reversed_sum(body: Expr, limits: sympy.Tuple) -> Expr:
        index, low, high = limits
        return sympy.Sum(body.subs(index, high - steps), (steps, 0, high - low)).doit()

    return sympy.expand(expr.subs(known).replace(sympy.Sum, reversed_sum))


@pytest.mark.parametrize(("case", "counts"), [("standard", standard), ("flash1", flash1), ("flash2", flash2)])
@pytest.mark.parametrize("causal", [False, True])
def test_derived_is_the_papers_closed_form(case, counts, causal) -> None:
    """Proven by sympy for every N that is a multiple of the blocks, not sampled."""
    block = 64
    kernels = Kernels(causal=causal, head_dim=64, block_m=block, block_n=block, dtype=torch.float16, kv_len=N)
    launches = kernels.derive(case, 4096)
    paper = counts.counts(causal)
    for derived_total, formula in (
        (sum(x.read_bytes.expr for x in launches), paper.reads.bytes),
        (sum(x.write_bytes.expr for x in launches), paper.writes.bytes),
    ):
        held = derived_total.subs(sympy.Min(4096, N), N)  # the softmax is compiled for rows of at most 4096
        assert sympy.simplify(at_whole_blocks(held - B * H * formula, block)) == 0


def test_formulas_read_like_the_theory() -> None:
    kernels = Kernels(causal=False, head_dim=64, block_m=64, block_n=64, dtype=torch.float16)
    (flash,) = kernels.derive("flash2")
    assert str(flash.read_bytes) == "128*B*H*N + 256*B*H*N_k*ceil(N/64)"
    assert str(flash.write_bytes) == "132*B*H*N"
    assert flash.read_bytes.closed
