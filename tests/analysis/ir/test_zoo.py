"""Exact derived counts of every kernel of the IR zoo equal traced ones.

Inexact counts have a note.
"""

from __future__ import annotations

import pytest

from ioaware.analysis.ir import KernelTraffic
from tests.support.ir_zoo.compiled import Launched
from tests.support.ir_zoo.zoo import ZOO

pytestmark = [
    pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

NOT_AFFINE = {"band", "chosen_pointer", "either", "either_or", "every_third", "host_descriptors", "joined", "matmul"}
"""Kernels without a sector rule.

Their addresses or masks mix dimensions, wrap around or come from memory.
"""
AT_MOST = {
    "gather": "the starts of rows are loaded from memory",
    "halves": "rows may share sectors",
    "toward_zero": "lanes of two branches may share sectors",
}


@pytest.mark.parametrize("name", ZOO)
def test_derived_equals_traced(name: str) -> None:
    launched = ZOO[name]
    derived = launched.derive()
    assert derived.exact, derived.notes
    exact_sectors = name not in NOT_AFFINE and name not in AT_MOST
    assert derived.sectors_exact == exact_sectors, derived.notes
    for values in launched.points:
        traced = launched.trace(values)
        assert traced.requested is not None
        fields = ["read_bytes", "write_bytes", "atomic_bytes"]
        fields += ["read_sector_bytes", "write_sector_bytes"] if exact_sectors else []
        found = {field: getattr(derived, field).evaluate(values) for field in fields}
        assert found == {field: getattr(traced.requested, field) for field in fields}, values
        assert derived.flops.evaluate(values) == (traced.flops or 0)


@pytest.mark.parametrize("name", sorted(NOT_AFFINE | AT_MOST.keys()))
def test_sectors_without_a_rule_are_unknown_or_a_bound(name: str) -> None:
    if name not in ZOO:
        pytest.skip("this Triton has no such construct")
    launched = ZOO[name]
    derived = launched.derive()
    assert any("sectors" in note and "zoo" in note for note in derived.notes)
    for values in launched.points:
        requested = launched.trace(values).requested
        for field in ("read_sector_bytes", "write_sector_bytes"):
            count = getattr(derived, field)
            assert count is None or count.evaluate(values) >= getattr(requested, field)


def derive_kernel(name: str) -> KernelTraffic:
    launched: Launched = ZOO[name]
    return launched.derive()


@pytest.mark.parametrize(
    ("name", "field", "formula"),
    [
        ("masked_add", "read_bytes", "8*N"),
        ("tile", "write_bytes", "4*M*N"),
        ("matmul", "read_bytes", "64*K*ceil(M/16)*ceil(N/16)"),
        ("matmul", "write_bytes", "2*M*N"),
        ("matmul", "flops", "8192*ceil(K/16)*ceil(M/16)*ceil(N/16)"),
        ("triangular", "read_bytes", "4*N + 64*ceil(N/32)**2 - 64*ceil(N/32)"),
        ("early_return", "read_bytes", "32*min(G, N)"),
        ("while_both", "read_bytes", "4*min(M, ceil(N/2))"),
        ("gather", "read_bytes", "4*G*min(16, N) + 4*G"),
        ("cube", "write_bytes", "4*K*M*N"),
        ("layer_norm", "read_bytes", "16*M*N"),
        ("masked_add", "read_sector_bytes", "64*ceil(N/8)"),
        ("serpentine", "write_bytes", "4*N"),
        ("serpentine_longest_first", "write_bytes", "4*M*N*ceil(N/16) + 32*M*ceil(N/16) - 32*M*ceil(N/16)**2"),
        ("whole_rounds_and_remainder", "read_bytes", "4*N"),
        ("spread_out", "read_bytes", "4*min(128*G, N)"),
        ("until_flag", "write_bytes", "32*ceil(N/3)"),
        ("upper_half", "write_bytes", "16*G**2 + 16*G"),
        ("pointer_down", "read_bytes", "4*N"),
        ("grouped", "read_bytes", "4*M*N"),
        ("joined", "read_bytes", "4*min(16, N) + 4*min(16, 2*N)"),
        ("decoded", "read_bytes", "4*M*sum(min(32, 4*pid_0_rest + 4, N) for pid_0_rest in range(K))"),
    ],
)  # fmt: skip
def test_formulas_are_closed_and_short(name: str, field: str, formula: str) -> None:
    """The text is the same under every Triton.

    So the formulas of 3.6, 3.7 and 3.9 are equal.
    """
    assert str(getattr(derive_kernel(name), field)) == formula
