"""Compute integers and shapes of lanes at given values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ioaware.analysis.ir.concrete.integers import BINARY, COMPARISONS, DIVISIONS, cast
from ioaware.analysis.ir.concrete.interpreter_state import Handler, Opaque, Run, integer_type
from ioaware.analysis.ir.concrete.tally import Array, UnsupportedOperationError
from ioaware.analysis.ir.mlir.parser import Operation
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types


def _constant(run: Run, operation: Operation) -> None:
    text = operation.head.split("{")[0].strip() if not operation.types else operation.head
    kind = parse_type(operation.types) if operation.types else Type((), "i1")
    number = integer_type(kind)
    literal = re.fullmatch(r"(?:dense<)?(true|false|-?\d+)>?", text)
    if number is None or literal is None:
        run.set(operation, Opaque(kind.shape))
        return
    value = {"true": 1, "false": 0}.get(literal[1])
    run.set(operation, np.full(kind.shape, int(literal[1]) if value is None else value).astype(number))


def _arith(run: Run, operation: Operation) -> None:
    kind = result_types(operation.types)[0]
    number, operands, name = integer_type(kind), run.operands(operation), operation.name.split(".")[1]
    known = [value for value in operands if isinstance(value, np.ndarray)]
    if number is None or len(known) < len(operands) or len(operation.results) != 1:
        run.opaque(operation)
    elif operation.name == "math.absi":
        run.set(operation, np.abs(known[0]))
    elif name in DIVISIONS and not known[1].any():
        run.opaque(operation)
    elif name in BINARY:
        run.set(operation, BINARY[name](*known))
    elif len(known) == 1 and operation.name.startswith("arith."):
        run.set(operation, cast(name, known[0], number))
    else:
        raise UnsupportedOperationError(operation.name)


def _compare(run: Run, operation: Operation) -> None:
    a, b = run.operands(operation)
    known = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    rule = COMPARISONS[operation.head.split(",")[0].strip()]
    run.set(operation, rule(a, b) if known else Opaque(getattr(a, "shape", ())))  # type: ignore[arg-type]


def _compare_floats(run: Run, operation: Operation) -> None:
    run.set(operation, Opaque(getattr(run.operands(operation)[0], "shape", ())))


def _select(run: Run, operation: Operation) -> None:
    condition, then, other = run.operands(operation)
    if isinstance(condition, np.ndarray) and condition.ndim == 0:
        run.set(operation, then if condition else other)
    elif isinstance(condition, np.ndarray) and isinstance(then, np.ndarray) and isinstance(other, np.ndarray):
        run.set(operation, np.where(condition, then, other))
    else:
        run.set(operation, Opaque(getattr(then, "shape", ())))


def attribute(operation: Operation, name: str) -> int:
    """Return an integer attribute, 0 where it is not given."""
    found = re.search(rf"\b{name} = (-?\d+)", operation.text)
    return int(found[1]) if found else 0


def _reshaped(change: Callable[[Array, Operation, Type], Array]) -> Handler:
    def run_it(run: Run, operation: Operation) -> None:
        (value,), kind = run.operands(operation), result_types(operation.types)[0]
        run.set(operation, change(value, operation, kind) if isinstance(value, np.ndarray) else Opaque(kind.shape))

    return run_it


def _order(operation: Operation) -> list[int]:
    found = re.search(r"order = (?:array<i32: |\[)([\d, ]+)", operation.text)
    return [int(text) for text in found[1].split(",")] if found else []


def _join(run: Run, operation: Operation) -> None:
    a, b = run.operands(operation)
    known = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    run.set(operation, np.stack((a, b), -1) if known else Opaque(result_types(operation.types)[0].shape))  # type: ignore[arg-type]


def _split(run: Run, operation: Operation) -> None:
    (value,) = run.operands(operation)
    shape = getattr(value, "shape", ())[:-1]
    halves = (value[..., 0], value[..., 1]) if isinstance(value, np.ndarray) else (Opaque(shape), Opaque(shape))
    run.set(operation, *halves)


def _cat(run: Run, operation: Operation) -> None:
    a, b = run.operands(operation)
    known = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    run.set(operation, np.concatenate((a, b)) if known else Opaque(result_types(operation.types)[0].shape))  # type: ignore[arg-type]


def _gather(run: Run, operation: Operation) -> None:
    value, places = run.operands(operation)
    if isinstance(value, np.ndarray) and isinstance(places, np.ndarray):
        run.set(operation, np.take_along_axis(value, places, attribute(operation, "axis")))
    else:
        run.opaque(operation)


def _high_product(run: Run, operation: Operation) -> None:
    a, b = (run.array(value, operation) for value in run.operands(operation))
    if a.dtype.itemsize != 4:
        raise UnsupportedOperationError(operation.name)
    wide = a.view(np.uint32).astype(np.uint64) * b.view(np.uint32).astype(np.uint64)
    run.set(operation, (wide >> np.uint64(32)).astype(np.uint32).view(np.int32))


def _range(run: Run, operation: Operation) -> None:
    run.set(operation, np.arange(attribute(operation, "start"), attribute(operation, "end"), dtype=np.int32))


def _same_bits(value: Array, operation: Operation, kind: Type) -> Array:  # noqa: ARG001
    return value


def _scalar(value: Array, operation: Operation, kind: Type) -> Array:  # noqa: ARG001
    return value.reshape(())


def _histogram(run: Run, operation: Operation) -> None:
    value, kind = run.operands(operation)[0], result_types(operation.types)[0]
    if isinstance(value, np.ndarray) and len(operation.operands) == 1:
        bins = kind.shape[0]
        run.set(operation, np.bincount(value, minlength=bins)[:bins].astype(np.int32))
    else:
        run.opaque(operation)


def _index(of: Callable[[Run], Sequence[int]]) -> Handler:
    def run_it(run: Run, operation: Operation) -> None:
        run.set(operation, np.array(of(run)["xyz".index(operation.head.strip()[0])], np.int32))

    return run_it


HANDLERS: Mapping[str, Handler] = {
    "arith.constant": _constant, "arith.cmpi": _compare, "arith.cmpf": _compare_floats, "arith.select": _select,
    "arith.": _arith, "math.": _arith, "tt.mulhiui": _high_product, "tt.histogram": _histogram,
    "tt.get_program_id": _index(lambda run: run.program), "tt.get_num_programs": _index(lambda run: run.grid),
    "tt.make_range": _range,
    "tt.splat": _reshaped(lambda value, _, kind: np.broadcast_to(value, kind.shape)),
    "tt.unsplat": _reshaped(_scalar),
    "tt.broadcast": _reshaped(lambda value, _, kind: np.broadcast_to(value, kind.shape)),
    "tt.expand_dims": _reshaped(lambda value, operation, _: np.expand_dims(value, attribute(operation, "axis"))),
    "tt.trans": _reshaped(lambda value, operation, _: value.transpose(_order(operation))),
    "tt.reshape": _reshaped(lambda value, _, kind: value.reshape(kind.shape)),
    **dict.fromkeys(("tt.bitcast", "ttg.convert_layout", "tt.ptr_to_int"), _reshaped(_same_bits)),
    "tt.join": _join, "tt.split": _split, "tt.cat": _cat, "tt.gather": _gather,
}  # fmt: skip
