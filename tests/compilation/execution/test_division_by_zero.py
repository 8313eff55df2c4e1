"""Neither execution of the IR takes a number for a division by zero."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.analysis.ir.concrete.interpret import interpret
from ioaware.analysis.ir.concrete.tally import Memory
from ioaware.compilation.execution.ir_execution import execute
from ioaware.compilation.execution.program_values import Pointer

IR = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>) {
    %divisor = arith.constant 0 : i32
    %p = tt.get_program_id x : i32
    %q = arith.NAME %p, %divisor : i32
    %a = tt.addptr %x, %q : !tt.ptr<f32>, i32
    %v = tt.load %a : !tt.ptr<f32>
    tt.return
  }
}"""


@pytest.mark.parametrize("name", ["divsi", "remsi", "divui", "remui", "floordivsi", "ceildivsi"])
def test_a_division_by_zero_has_no_value(name: str) -> None:
    text = IR.replace("NAME", name)
    assert not execute(text, [("x", Pointer("x", np.zeros(1, np.int64)))], (3, 1, 1), {}).has_sectors
    tally = interpret(text, [np.asarray(Memory.start(0), np.int64)], (3, 1, 1), Memory([None], [64]))
    assert not tally.sectors_known  # its bytes are known, not where they lie
