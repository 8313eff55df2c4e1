"""Interpret operations without side effects.

They are shapes, indices and integer arithmetic.

Floats have no expression: no count depends on them except through an unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ioaware.analysis.ir.accesses.access_log import Loop
from ioaware.analysis.ir.accesses.values import UNDEFINED, Target, Value, lane, lane_symbol, lanes, relabel, reshape, select
from ioaware.analysis.ir.algebra.constructors import greatest, mod, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Choice, Poly, Test, poly
from ioaware.analysis.ir.algebra.predicates import at_least_zero, choice, is_zero, negation
from ioaware.analysis.ir.algebra.prover import positive
from ioaware.analysis.ir.interpreter.arith import BINARY, LOGICAL, compare, high_product, truncate, zero_extend
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter
from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types

FROM_FLOATS = "it is computed from floating-point numbers"
MODULAR = ("addi", "subi", "muli", "shli", "trunci")
"""Operations with a result that is right modulo 2^bits.

It is right even if an operand has wrapped around.
"""
DIVISIONS = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
BY_ZERO = "it is divided by zero"
NO_RULE = "it is computed by an operation that has no formula"


def define_unknown(walk: Interpreter, operation: Operation, why: str = NO_RULE, *, across_lanes: bool = False) -> None:
    """Bind the results as unknowns: functions of the operands.

    They are functions by lane or across lanes.
    """
    inputs = [walk.values[name] for name in operation.operands if name in walk.values]
    inputs = inputs if len(inputs) == len(operation.operands) else []
    kinds = result_types(operation.types)
    for name, kind in zip(operation.results, kinds, strict=True):
        single = replace(operation, results=[name])
        walk.values[name] = walk.unknown(single, kind, why, inputs, across_lanes=across_lanes)


def _mixes_lanes(walk: Interpreter, operation: Operation) -> None:
    define_unknown(walk, operation, across_lanes=True)


def _constant(walk: Interpreter, operation: Operation) -> None:
    text = operation.head.split("{")[0].strip() if not operation.types else operation.head
    kind = parse_type(operation.types) if operation.types else Type((), "i1")
    literal = re.fullmatch(r"(?:dense<)?(true|false|-?\d+)>?", text)
    if not kind.is_integer:
        walk.values[operation.results[0]] = Value(kind)
    elif literal:
        number = {"true": 1, "false": 0}.get(literal[1])
        walk.values[operation.results[0]] = Value(kind, poly(int(literal[1]) if number is None else number))
    else:
        walk.values[operation.results[0]] = walk.unknown(operation, kind, "it is a table of constants")


def _arith(walk: Interpreter, operation: Operation) -> None:
    """Interpret `arith` and `math` by rule where all operands are known.

    Else bind an unknown.
    """
    name = operation.name.split(".")[1]
    kinds = result_types(operation.types)
    kind = kinds[0]
    if operation.name == "math.absi" and (number := walk.operands(operation)[0].number) is not None:
        walk.bind(operation.results, [Value(kind, greatest(number, -number))])
        return
    if not (kind.is_integer and operation.name.startswith("arith.")):
        walk.bind(operation.results, [Value(k) for k in kinds])
        return
    operands = walk.operands(operation)
    numbers = [value.number for value in operands]
    if len(operation.results) != 1 or any(number is None for number in numbers):
        define_unknown(walk, operation, FROM_FLOATS)
        return
    a, b = [*(n for n in numbers if n is not None), ZERO][:2]
    truth = kind.element == "i1"
    if name in ("shrsi", "shrui") and _counts_rounds(walk, a, b):
        walk.record.assume(f"takes the rounds of loops that are counted at {walk.where(operation)} for fewer than 2^30")
        walk.values[operation.results[0]] = Value(kind, ZERO)
        return
    if name not in MODULAR and not (name == "andi" and (a.constant or 0) + (b.constant or 0) > 0):
        walk.requires_width(operation, *operands)
    if b == ZERO and name in DIVISIONS:
        define_unknown(walk, operation, BY_ZERO)
        return
    if name in DIVISIONS and _may_vanish(b):
        walk.record.assume(f"takes the divisor at {walk.where(operation)} for other than 0 where a program divides by it")
        b = b + is_zero(b)
    rule = (LOGICAL if truth else BINARY).get(name)
    result = rule(a, b) if rule else _cast(name, a, operands[0].type, kind)
    if result is None:
        define_unknown(walk, operation)
    else:
        walk.values[operation.results[0]] = Value(kind, result)


def _may_vanish(divisor: Poly) -> bool:
    """Return whether a divisor may be 0 on a path that does not divide.

    An example is a number of workers that is 0 where a branch has none. A quotient by 0 is undefined, so any value is right.
    """
    return any(isinstance(atom, (Test, Choice)) for atom in divisor.atoms) and not positive(divisor) and not positive(-divisor)


def _counts_rounds(walk: Interpreter, a: Poly, b: Poly) -> bool:
    """Return whether these are bits from 2^30 on of a loop counter.

    Kernels make an opaque 0 with them.
    """
    around = {scope.index.key for scope in walk.record.scopes if isinstance(scope, Loop)}
    return b.constant == 30 and bool(a.free & around)


def _cast(name: str, a: Poly, source: Type, kind: Type) -> Poly | None:
    if name == "extsi":
        return -a if source.element == "i1" else a
    if name == "trunci" and kind.element == "i1":
        return is_zero(mod(a, poly(2)) - 1)
    if name == "trunci":
        return truncate(a, 8 * kind.element_bytes)
    if name == "extui" and source.element != "i1":
        return zero_extend(a, 8 * source.element_bytes)
    return a if name in ("extui", "index_cast", "index_castui", "bitcast") else None


def _compare(walk: Interpreter, operation: Operation) -> None:
    predicate = operation.head.split(",")[0].strip()
    a, b = walk.operands(operation)
    kind = Type(a.type.shape, "i1")
    walk.requires_width(operation, a, b)
    result = None if a.number is None or b.number is None else compare(predicate, a.number, b.number)
    if predicate in ("ne", "eq") and b.number == ZERO and len(a.targets) == 1:
        result = _is_given(walk, a.targets[0], is_given=predicate == "ne")
    if result is None:
        walk.values[operation.results[0]] = walk.unknown(operation, kind, NO_RULE, (a, b))
    else:
        walk.values[operation.results[0]] = Value(kind, result)


def _is_given(walk: Interpreter, target: Target, *, is_given: bool) -> Poly | None:
    """Return the predicate of `if pointer:` on an argument.

    It is true for a tensor with elements.
    """
    start, elements = walk.elements.get(target.argument, (None, ZERO))
    if start is None or target.offset != start or target.condition != ONE:
        return None
    has_elements = at_least_zero(elements - 1)
    return has_elements if is_given else negation(has_elements)


def _address(walk: Interpreter, operation: Operation) -> None:
    """Bind an address as an unknown number that keeps its target."""
    (pointer,) = walk.operands(operation)
    define_unknown(walk, operation)
    name = operation.results[0]
    walk.values[name] = replace(walk.values[name], targets=pointer.targets)


def _compare_floats(walk: Interpreter, operation: Operation) -> None:
    a, b = walk.operands(operation)
    walk.values[operation.results[0]] = walk.unknown(operation, Type(a.type.shape, "i1"), FROM_FLOATS, (a, b))


def _select(walk: Interpreter, operation: Operation) -> None:
    condition, then, other = walk.operands(operation)
    if condition.number is None or (then.number is None and not then.targets):
        walk.values[operation.results[0]] = Value(then.type)
    elif then.type.element == "i1" and then.number is not None and other.number is not None:
        c = condition.number
        result = c * then.number if other.number == ZERO else choice(c, then.number, other.number)
        if then.number == ONE:
            result = negation(negation(c) * negation(other.number))
        walk.values[operation.results[0]] = Value(then.type, result)
    else:
        walk.values[operation.results[0]] = select(condition.number, then, other)


def _program_id(walk: Interpreter, operation: Operation) -> None:
    axis = "xyz".index(operation.head.strip()[0])
    walk.values[operation.results[0]] = Value(Type((), "i32"), walk.program[axis])


def _num_programs(walk: Interpreter, operation: Operation) -> None:
    axis = "xyz".index(operation.head.strip()[0])
    walk.values[operation.results[0]] = Value(Type((), "i32"), walk.grid[axis])


def _attribute(operation: Operation, name: str) -> int:
    found = re.search(rf"\b{name} = (-?\d+)", operation.text)
    if not found:
        raise ValueError(f"{operation.name} has no {name}")
    return int(found[1])


def _range(walk: Interpreter, operation: Operation) -> None:
    kind = result_types(operation.types)[0]
    walk.values[operation.results[0]] = Value(kind, _attribute(operation, "start") + lane(0, kind.shape[0]))


def _same_elements(walk: Interpreter, operation: Operation) -> None:
    """Interpret `splat`, `broadcast`, `bitcast` and layout conversions.

    They keep the expression.
    """
    (value,) = walk.operands(operation)
    kind = result_types(operation.types)[0]
    if kind.is_pointer or kind.is_integer == value.type.is_integer:
        walk.values[operation.results[0]] = value.mapped(kind, lambda e: e)
    else:
        define_unknown(walk, operation, FROM_FLOATS)


def _expand_dims(walk: Interpreter, operation: Operation) -> None:
    (value,) = walk.operands(operation)
    kind = result_types(operation.types)[0]
    axis = _attribute(operation, "axis")
    indices = [index for at, index in enumerate(lanes(kind.shape)) if at != axis]
    walk.values[operation.results[0]] = relabel(value, kind, indices)


def _transpose(walk: Interpreter, operation: Operation) -> None:
    (value,) = walk.operands(operation)
    kind = result_types(operation.types)[0]
    order = re.search(r"order = (?:array<i32: |\[)([\d, ]+)", operation.text)
    if order is None:
        raise walk.unsupported(operation, "its order")
    places = [int(text) for text in order[1].split(",")]
    new = lanes(kind.shape)
    walk.values[operation.results[0]] = relabel(value, kind, [new[places.index(d)] for d in range(len(places))])


def _reshape(walk: Interpreter, operation: Operation) -> None:
    (value,) = walk.operands(operation)
    kind = result_types(operation.types)[0]
    followed = value.number is not None or value.targets
    if followed and "allow_reorder" in operation.text and prod(kind.shape) > 1 and _varies(value):
        define_unknown(walk, operation, "the order of its lanes is undefined", across_lanes=True)
        return
    walk.values[operation.results[0]] = reshape(value, kind) if followed else Value(kind)


def _varies(value: Value) -> bool:
    keys = {lane_symbol(d, size).key for d, size in enumerate(value.type.shape)}
    return any(e.free & keys for e in [value.number or ZERO, *(t.offset for t in value.targets)])


def _join(walk: Interpreter, operation: Operation) -> None:
    a, b = walk.operands(operation)
    kind = result_types(operation.types)[0]
    first = is_zero(lane(len(kind.shape) - 1, 2))
    walk.values[operation.results[0]] = select(first, a.mapped(kind, lambda e: e), b.mapped(kind, lambda e: e))


def _split(walk: Interpreter, operation: Operation) -> None:
    (value,) = walk.operands(operation)
    kind = value.type.of(value.type.element)
    half = Type(kind.shape[:-1], kind.element)
    for at, name in enumerate(operation.results):
        walk.values[name] = relabel(value, half, [*lanes(half.shape), poly(at)])


def _cat(walk: Interpreter, operation: Operation) -> None:
    a, b = walk.operands(operation)
    kind = result_types(operation.types)[0]
    size = a.type.shape[0]
    index = lane(0, kind.shape[0])
    by = {lane_symbol(0, size).key: index} if size > 1 else {}
    second = {lane_symbol(0, size).key: index - size} if size > 1 else {}
    walk.values[operation.results[0]] = select(
        at_least_zero(size - 1 - index),
        a.mapped(kind, lambda e: substitute(e, by)),
        b.mapped(kind, lambda e: substitute(e, second)),
    )


def _addptr(walk: Interpreter, operation: Operation) -> None:
    pointer, offset = walk.operands(operation)
    kind = result_types(split_top(operation.types)[0])[0]
    width = kind.element_bytes
    if offset.type.element_bytes < 8:  # an address wraps around with 64 bits
        walk.requires_width(operation, offset)
    step = offset.number
    if step is None:
        step = walk.unknown(operation, offset.type, FROM_FLOATS).number or ZERO
    targets = tuple(replace(t, offset=t.offset + step * width) for t in pointer.targets)
    walk.values[operation.results[0]] = Value(kind, None, targets)


def _high_product(walk: Interpreter, operation: Operation) -> None:
    a, b = (value.number for value in walk.operands(operation))
    kind = result_types(operation.types)[0]
    result = high_product(a, b) if a is not None and b is not None and kind.element == "i32" else None
    if result is None:
        define_unknown(walk, operation)
    else:
        walk.values[operation.results[0]] = Value(kind, result)


def _reduce(walk: Interpreter, operation: Operation) -> None:
    """Reduce along an axis; a minimum or maximum of equal lanes keeps the value."""
    operands = walk.operands(operation)
    kinds = result_types(operation.types)
    inner = [op.name for op in operation.regions[0][0].operations]
    for name, kind, value in zip(operation.results, kinds, operands, strict=True):
        plain = len(operands) == 1 and value.number is not None and not _varies(value)
        keeps = plain and inner[0] in ("arith.maxsi", "arith.minsi", "arith.ori", "arith.andi", "arith.maxui", "arith.minui")
        single = replace(operation, results=[name])
        walk.values[name] = (
            Value(kind, value.number) if keeps else walk.unknown(single, kind, NO_RULE, (value,), across_lanes=True)
        )


def _nothing(walk: Interpreter, operation: Operation) -> None:
    """Ignore assertions, barriers and hints."""


def _print(walk: Interpreter, operation: Operation) -> None:
    """Note that printing writes to a buffer in memory."""
    if not walk.record.unreachable:
        walk.record.note(
            f"device_print at {walk.where(operation)} writes to a buffer, and its bytes are not counted: not exact"
        )


def _poison(walk: Interpreter, operation: Operation) -> None:
    """Bind values that nothing defines, such as a loop's index after its loop."""
    for name, kind in zip(operation.results, result_types(operation.types), strict=True):
        walk.values[name] = walk.unknown(replace(operation, results=["%undefined"]), kind, UNDEFINED)


COMPUTED = (
    "tt.fp_to_fp", "tt.clampf", "tt.precise_sqrt", "tt.precise_divf", "tt.extern_elementwise", "tt.map_elementwise",
    "tt.int_to_ptr", "ttg.fp4_to_fp",
)  # fmt: skip
MIXES_LANES = ("tt.histogram", "tt.gather", "tt.scan")

HANDLERS: Mapping[str, Handler] = {
    "arith.constant": _constant,
    "arith.cmpi": _compare,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.": _arith,
    "math.": _arith,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.make_range": _range,
    "tt.splat": _same_elements,
    "tt.unsplat": _same_elements,
    "tt.broadcast": _same_elements,
    "tt.bitcast": _same_elements,
    "ttg.convert_layout": _same_elements,
    "tt.expand_dims": _expand_dims,
    "tt.trans": _transpose,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.split": _split,
    "tt.cat": _cat,
    "tt.addptr": _addptr,
    "tt.mulhiui": _high_product,
    "tt.ptr_to_int": _address,
    "tt.reduce": _reduce,
    "tt.print": _print,
    "tt.assert": _nothing,
    "gpu.barrier": _nothing,
    "ttg.barrier": _nothing,
    "tt.grid_dependency_wait": _nothing,
    "tt.grid_dependency_launch_dependents": _nothing,
    "llvm.intr.assume": _nothing,
    "nvvm.": _nothing,
    "ub.poison": _poison,
    **dict.fromkeys(COMPUTED, define_unknown),
    **dict.fromkeys(MIXES_LANES, _mixes_lanes),
}
