"""Loads can be one only where their pointers come from one value."""

from __future__ import annotations

import pytest

from ioaware.analysis.ir.mlir.load_roots import may_merge

TWO_TENSORS = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32, %out: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant 0.0 : f32
    %px = tt.addptr %x, %n : !tt.ptr<f32>, i32
    %py = tt.addptr %y, %n : !tt.ptr<f32>, i32
    %in = arith.cmpi slt, %c0, %n : i32
BODY
    tt.store %out, %zero, %in : !tt.ptr<f32>
    tt.return
  }
}
"""
BOTH = """%a = tt.load %px, %in, %zero : !tt.ptr<f32>
    %b = tt.load %py, %in, %zero : !tt.ptr<f32>"""
SAME = BOTH.replace("%py", "%px")
IN_LOOP = """%a = tt.load %px : !tt.ptr<f32>
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %a, %p = START) -> (f32, !tt.ptr<f32>) : i32 {
      %b = tt.load %p : !tt.ptr<f32>
      %next = tt.addptr NEXT, %c1 : !tt.ptr<f32>, i32
      %s = arith.addf %sum, %b : f32
      scf.yield %s, %next : f32, !tt.ptr<f32>
    }"""
BY_BRANCH = """%p = scf.if %in -> (!tt.ptr<f32>) {
      scf.yield %px : !tt.ptr<f32>
    } else {
      scf.yield %py : !tt.ptr<f32>
    }
    %a = tt.load %p : !tt.ptr<f32>
    %b = tt.load %py : !tt.ptr<f32>"""
SELECTED = """%p = arith.select %in, %px, %py : !tt.ptr<f32>
    %a = tt.load %p : !tt.ptr<f32>
    %b = tt.load %py : !tt.ptr<f32>"""
JUMP = BOTH.replace("%b =", "cf.br ^bb1(%px : !tt.ptr<f32>)\n    ^bb1(%q: !tt.ptr<f32>):\n    %b =")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BOTH, False),
        (SAME, True),
        (IN_LOOP.replace("START", "%py").replace("NEXT", "%p"), False),
        (IN_LOOP.replace("START", "%px").replace("NEXT", "%p"), True),
        (IN_LOOP.replace("START", "%py").replace("NEXT", "%px"), True),
        (BY_BRANCH, True),
        (SELECTED, True),
        (JUMP, True),
        (SAME.partition("\n")[0], False),
    ],
)
def test_loads_may_merge_where_their_pointers_share_a_root(body: str, expected: bool) -> None:
    assert may_merge(TWO_TENSORS.replace("BODY", "    " + body)) is expected
