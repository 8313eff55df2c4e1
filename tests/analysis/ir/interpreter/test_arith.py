"""Integer operations that have a rule, and those that have none."""

from __future__ import annotations

from ioaware.analysis.ir.algebra.poly import Symbol, Unknown, poly
from ioaware.analysis.ir.interpreter.arith import BINARY


def test_a_mask_of_many_runs_of_bits_has_no_rule_for_loaded_values() -> None:
    """`value & 0x2AAAAAAA` would be a sum of 30 floors of the value."""
    loaded, program = poly(Unknown("key@file.py:3", "it is loaded from memory")), poly(Symbol("pid_0"))
    for name in ("andi", "ori", "xori"):
        assert BINARY[name](loaded, poly(0x2AAAAAAA)) is None
        assert BINARY[name](poly(0x2AAAAAAA), loaded) is None
        assert BINARY[name](loaded, poly(0xF0F0)) is not None
        assert BINARY[name](program, poly(0x2AAAAAAA)) is not None
