"""Executing the IR at given values equals the interpreter.

Unknown values are refused.
"""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.compilation.execution.ir_execution import execute
from ioaware.compilation.execution.program_values import Moved, Pointer, UndeterminedError
from tests.support.ir_zoo.compiled import Launched, Tensor, number
from tests.support.ir_zoo.zoo import ZOO

pytestmark = [
    pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]


def execute_launch(launched: Launched, values: dict[str, int]) -> Moved:
    """Execute the zoo's launch at these values.

    Integer tensors have the contents of the trace.
    """
    arguments: list[tuple[str, int | Pointer | None]] = []
    data: dict[str, np.ndarray] = {}
    for name, argument in zip(launched.names(), launched.arguments, strict=True):
        if isinstance(argument, Tensor):
            arguments.append((name, Pointer(name, np.zeros(1, np.int64))))
            if not argument.dtype.is_floating_point:
                size = number(argument.size, values)
                data[name] = (argument.fill(size) if argument.fill else np.zeros(size, np.int64)) + 0  # type: ignore[operator]
                data[name] = np.asarray(data[name])
        elif hasattr(argument, "make"):
            raise UndeterminedError("a descriptor")
        else:
            value = number(argument, values)
            arguments.append((name, value if isinstance(value, int) else None))
    return execute(launched.text(), arguments, [number(size, values) for size in launched.grid], data)


def test_executions_equal_traces() -> None:
    """Bytes and sectors of every zoo kernel at its smallest point.

    Kernels whose accesses depend on floats are left out.
    """
    compared = 0
    for name, launched in ZOO.items():
        values = dict(launched.points[0])
        try:
            moved = execute_launch(launched, values)
        except UndeterminedError:
            continue
        traced = launched.trace(values).requested
        assert traced is not None
        fields = ["read_bytes", "write_bytes", "atomic_bytes"]
        fields += ["read_sector_bytes", "write_sector_bytes"] if moved.has_sectors else []
        assert {field: getattr(moved, field) for field in fields} == {field: getattr(traced, field) for field in fields}, name
        compared += 1
    assert compared >= 0.9 * len(ZOO)


IR = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %n: !tt.ptr<i32>) {
    %c1 = arith.constant 1 : i32
    %c0 = arith.constant 0 : i32
    %p = tt.get_program_id x : i32
    %a = tt.addptr %n, %p : !tt.ptr<i32>, i32
    %end = tt.load %a : !tt.ptr<i32>
    BODY
    tt.return
  }
}"""
LOOP = """scf.for %i = %c0 to %end step %c1  : i32 {
      %b = tt.addptr %x, %i : !tt.ptr<f32>, i32
      %v = tt.load %b : !tt.ptr<f32>
    }"""
ARGUMENTS = [("x", Pointer("x", np.zeros(1, np.int64))), ("n", Pointer("n", np.zeros(1, np.int64)))]


def test_tensor_contents_bound_a_loop() -> None:
    moved = execute(IR.replace("BODY", LOOP), ARGUMENTS, (3, 1, 1), {"n": np.array([2, 0, 5], np.int32)})
    assert (moved.read_bytes, moved.read_sector_bytes) == (3 * 4 + 7 * 4, 3 * 32 + 7 * 32)
    assert moved.read_names == {"n"}


@pytest.mark.parametrize("wait", ["gpu.barrier", "ttg.barrier local", "tt.grid_dependency_wait"])
def test_a_barrier_moves_nothing(wait: str) -> None:
    counts = {"n": np.array([2, 0, 5], np.int32)}
    moved = execute(
        IR.replace("BODY", f"{wait}\n    {LOOP.replace('%v =', wait + chr(10) + '      %v =')}"), ARGUMENTS, (3, 1, 1), counts
    )
    assert moved.read_bytes == 3 * 4 + 7 * 4


FLOAT_IR = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %t: !tt.ptr<f32>) {
    %one = arith.constant 1.000000e+00 : f32
    %p = tt.get_program_id x : i32
    %a = tt.addptr %t, %p : !tt.ptr<f32>, i32
    %now = tt.load %a : !tt.ptr<f32>
    %is = arith.cmpf PREDICATE, %now, %one : f32
    scf.if %is {
      %v = tt.load %x : !tt.ptr<f32>
    }
    tt.return
  }
}"""
TEMPERATURES = np.array([0.5, 1.0, 2.0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("predicate", "taken"),
    [("oeq", 1), ("une", 3), ("one", 2), ("olt", 1), ("ult", 2), ("ole", 2), ("ogt", 1), ("oge", 2), ("uge", 3), ("ueq", 2)],
)
def test_known_floats_decide_a_branch(predicate: str, taken: int) -> None:
    arguments = [("x", Pointer("x", np.zeros(1, np.int64))), ("t", Pointer("t", np.zeros(1, np.int64)))]
    moved = execute(FLOAT_IR.replace("PREDICATE", predicate), arguments, (4, 1, 1), {"t": TEMPERATURES})
    assert moved.read_bytes == 4 * (4 + taken)
    with pytest.raises(UndeterminedError, match="a branch depends"):  # other bits than those of a float32
        execute(FLOAT_IR.replace("PREDICATE", predicate), arguments, (4, 1, 1), {"t": TEMPERATURES.view(np.int32)})


def test_computed_floats_decide_nothing() -> None:
    text = FLOAT_IR.replace("cmpf PREDICATE, %now", "cmpf oeq, %sum").replace(
        "%is =", "%sum = arith.addf %now, %one : f32\n    %is ="
    )
    arguments = [("x", Pointer("x", np.zeros(1, np.int64))), ("t", Pointer("t", np.zeros(1, np.int64)))]
    with pytest.raises(UndeterminedError, match="a branch depends"):
        execute(text, arguments, (4, 1, 1), {"t": TEMPERATURES})
    bits = text.replace("arith.addf %now, %one : f32", "arith.select %is0, %now, %one : f32")
    bits = bits.replace("%sum =", "%b = tt.bitcast %now : f32 -> i32\n    %is0 = arith.cmpi eq, %b, %p : i32\n    %sum =")
    with pytest.raises(UndeterminedError, match="a branch depends"):
        execute(bits, arguments, (4, 1, 1), {"t": TEMPERATURES})


def test_contents_of_another_width_are_unknown() -> None:
    with pytest.raises(UndeterminedError, match="a loop bound depends"):
        execute(IR.replace("BODY", LOOP), ARGUMENTS, (3, 1, 1), {"n": np.array([2, 0, 5], np.int64)})


ROUNDED = """%f = arith.sitofp %p : i32 to f32
    %at = arith.fptosi %f : f32 to i32
    %b = tt.addptr %x, %at : !tt.ptr<f32>, i32
    """


def test_an_unknown_address_has_bytes_and_no_sectors() -> None:
    counts = {"n": np.array([2, 0, 5], np.int32)}
    moved = execute(IR.replace("BODY", f"{ROUNDED}%v = tt.load %b : !tt.ptr<f32>"), ARGUMENTS, (3, 1, 1), counts)
    assert (moved.read_bytes, moved.has_sectors) == (3 * 4 + 3 * 4, False)
    either = f"{ROUNDED}%no = arith.cmpi eq, %p, %c1 : i32\n    %c = arith.select %no, %x, %b : !tt.ptr<f32>\n"
    moved = execute(IR.replace("BODY", f"{either}    %v = tt.load %c : !tt.ptr<f32>"), ARGUMENTS, (3, 1, 1), counts)
    assert moved.read_bytes == 3 * 4 + 3 * 4


def test_contents_are_unknown_after_a_store_at_an_unknown_address() -> None:
    body = ROUNDED.replace("%x", "%n").replace("f32>", "i32>") + "tt.store %b, %c0 : !tt.ptr<i32>\n"
    body += f"    %again = tt.load %a : !tt.ptr<i32>\n    {LOOP.replace('%end', '%again').replace('%b', '%d')}"
    with pytest.raises(UndeterminedError, match="a loop bound depends"):
        execute(IR.replace("BODY", body), ARGUMENTS, (3, 1, 1), {"n": np.array([2, 0, 5], np.int32)})


@pytest.mark.parametrize(("predicate", "read"), [("ne", 3 * 4 + 7 * 4), ("eq", 3 * 4)])
@pytest.mark.parametrize("operands", ["%at, %zero", "%zero, %at"])
def test_no_tensor_begins_at_address_zero(predicate: str, operands: str, read: int) -> None:
    """`if pointer:` in a kernel compares the address with zero."""
    body = "%zero = arith.constant 0 : i64\n    %at = tt.ptr_to_int %x : !tt.ptr<f32> -> i64\n"
    body += f"    %is = arith.cmpi {predicate}, {operands} : i64\n    scf.if %is {{\n    {LOOP}\n    }}"
    assert execute(IR.replace("BODY", body), ARGUMENTS, (3, 1, 1), {"n": np.array([2, 0, 5], np.int32)}).read_bytes == read


@pytest.mark.parametrize(
    ("body", "data", "why"),
    [
        (LOOP, {}, "a loop bound depends"),
        (LOOP, {"n": np.array([2, 0], np.int32)}, "beyond its storage"),
        (f"tt.store %a, %c0 : !tt.ptr<i32>\n    %again = tt.load %a : !tt.ptr<i32>\n    {LOOP.replace('%end', '%again')}",
         {"n": np.array([2, 0, 5], np.int32)}, "a loop bound depends"),
        ("%q = tt.int_to_ptr %p : i32 -> !tt.ptr<f32>\n    %v = tt.load %q : !tt.ptr<f32>", {}, "the address of tt.load"),
        ("%n1 = tt.ptr_to_int %x : !tt.ptr<f32> -> i32\n    %is = arith.cmpi ne, %n1, %c1 : i32\n"
         f"    scf.if %is {{\n    {LOOP}\n    }}", {"n": np.array([2, 0, 5], np.int32)}, "a branch depends"),
        ("ttg.unheard_of %p : i32", {}, "no rule for ttg.unheard_of"),
        ("scf.index_switch %p {\n      tt.store %a, %c0 : !tt.ptr<i32>\n    } : i32", {}, "no rule for scf.index_switch"),
    ],
)  # fmt: skip
def test_unknown_values_are_refused(body: str, data: dict[str, np.ndarray], why: str) -> None:
    with pytest.raises(UndeterminedError, match=why):
        execute(IR.replace("BODY", body), ARGUMENTS, (3, 1, 1), data)
