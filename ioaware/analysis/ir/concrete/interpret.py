"""Interpret TTIR plainly at given values.

Every program and iteration runs, on numpy arrays of lanes.

It counts independently of the symbolic engine and shares only the parser with it. Integers have their width and wrap around.
Floats are not computed: an address, mask or bound that depends on one is undecided.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from ioaware.analysis.ir.concrete import gluon_ops
from ioaware.analysis.ir.concrete.descriptor_ops import counting, descriptor_block, descriptor_rows, make_descriptor
from ioaware.analysis.ir.concrete.integers import BINARY, COMPARISONS, DIVISIONS, cast
from ioaware.analysis.ir.concrete.interpreter_state import Handler, Opaque, Run, Value, integer_type
from ioaware.analysis.ir.concrete.tally import Array, Memory, Tally, UndecidedError, UnsupportedOperationError
from ioaware.analysis.ir.mlir.parser import Block, Module, Operation, parse, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types

MAX_STEPS = 400_000
"""Most operations of one launch."""


def interpret(text: str, given: Sequence[Value], grid: Sequence[int], memory: Memory, max_steps: int = MAX_STEPS) -> Tally:
    """Return the requests of a launch.

    `given` holds a value for each parameter of its function.

    Raises `UndecidedError` where the result depends on unknown data, `TooLongError`, and `UnsupportedOperationError`.
    """
    module = parse(text)
    name, _ = public_function(module)
    sizes = (*grid, 1, 1, 1)[:3]
    run = Run(module, memory, sizes, max_steps, HANDLERS)
    with np.errstate(all="ignore"):
        for program in itertools.product(*map(range, sizes)):
            run.program = program
            run.call(name, given)
    return run.tally


def public_function(module: Module) -> tuple[str, Operation]:
    """Return the kernel among the functions of a module."""
    return next((n, f) for n, f in module.functions.items() if "private" not in f.text.split("@")[0])


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


def _attribute(operation: Operation, name: str) -> int:
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


def _addptr(run: Run, operation: Operation) -> None:
    pointer, offset = run.operands(operation)
    kind = result_types(split_top(operation.types)[0])[0]
    known = isinstance(pointer, np.ndarray) and isinstance(offset, np.ndarray)
    run.set(operation, pointer + offset.astype(np.int64) * kind.element_bytes if known else Opaque(kind.shape))  # type: ignore[operator, union-attr]


def _high_product(run: Run, operation: Operation) -> None:
    a, b = (run.array(value, operation) for value in run.operands(operation))
    if a.dtype.itemsize != 4:
        raise UnsupportedOperationError(operation.name)
    wide = a.view(np.uint32).astype(np.uint64) * b.view(np.uint32).astype(np.uint64)
    run.set(operation, (wide >> np.uint64(32)).astype(np.uint32).view(np.int32))


def _load(run: Run, operation: Operation) -> None:
    pointer, *rest = run.operands(operation)
    mask, kind = _mask(run, operation, rest[:1]), _pointee(operation)
    if not isinstance(pointer, np.ndarray):
        run.access_somewhere("read", mask, kind.element_bytes)
        run.opaque(operation)
        return
    run.access("read", pointer, mask, kind.element_bytes, operation)
    number = integer_type(kind)
    found = None if number is None else run.memory.load(pointer, mask, number)
    if found is None:
        run.set(operation, Opaque(pointer.shape))
    elif len(rest) > 1:
        other = rest[1]
        run.set(operation, np.where(mask, found, other) if isinstance(other, np.ndarray) else Opaque(pointer.shape))
    else:
        run.set(operation, found)


def _mask(run: Run, operation: Operation, given: Sequence[Value]) -> Array:
    """Return the active lanes of an access through pointers."""
    return np.broadcast_to(run.array(given[0], operation) if given else np.array(True), _pointee(operation).shape)


def _pointee(operation: Operation) -> Type:
    kind = parse_type(split_top(operation.types)[0])
    return Type(kind.shape, kind.pointee)


def _store(run: Run, operation: Operation) -> None:
    pointer, value, *rest = run.operands(operation)
    mask, kind = _mask(run, operation, rest[:1]), _pointee(operation)
    if not isinstance(pointer, np.ndarray):
        run.access_somewhere("write", mask, kind.element_bytes)
        return
    run.access("write", pointer, mask, kind.element_bytes, operation)
    number = integer_type(kind)
    known = number is not None and isinstance(value, np.ndarray)
    run.memory.store(pointer, mask, value.astype(number) if known else None, number)  # type: ignore[union-attr]


UPDATES: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "max": max, "min": min, "exch": lambda _, b: b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "umax": max, "umin": min,
}  # fmt: skip


def _atomic(run: Run, operation: Operation) -> None:
    pointer, *rest = run.operands(operation)
    masked = [value for value in rest[1:] if isinstance(value, np.ndarray) and value.dtype == bool]
    if len(rest) > 1 and not masked:
        raise UndecidedError(run.line(operation))
    shape: tuple[int, ...] = getattr(pointer, "shape", ())
    mask = np.broadcast_to(masked[-1] if masked else np.array(True), shape)
    kind = Type(shape, re.findall(r"!tt\.ptr<(\w+)", operation.types)[0])
    if not isinstance(pointer, np.ndarray):
        run.access_somewhere("atomic", mask, kind.element_bytes)
        run.set(operation, *[Opaque(shape)][: len(operation.results)])
        return
    addresses = pointer
    run.access("atomic", addresses, mask, kind.element_bytes, operation)
    number, how = integer_type(kind), re.match(r"\s*(\w+)", operation.text)
    update = UPDATES.get(how[1]) if how else None
    value = rest[0]
    old = None if number is None else np.zeros(addresses.shape, number)
    for place in map(tuple, np.argwhere(mask)):
        before = None if number is None else run.memory.load(addresses[place][None], np.array([True]), number)
        if number is None or old is None or before is None or update is None or not isinstance(value, np.ndarray):
            run.memory.forget(addresses[mask])
            old = None
            break
        old[place] = before[0]
        new = np.array([update(int(before[0]), int(np.broadcast_to(value, addresses.shape)[place]))]).astype(number)
        run.memory.store(addresses[place][None], np.array([True]), new, number)
    if operation.results:
        run.set(operation, Opaque(addresses.shape) if old is None else old)


def _compare_and_swap(run: Run, operation: Operation) -> None:
    pointer, expected, new = run.operands(operation)
    addresses = run.array(pointer, operation)
    kind = Type(addresses.shape, re.findall(r"!tt\.ptr<(\w+)", operation.types)[0])
    everywhere = np.ones(addresses.shape, bool)
    run.access("atomic", addresses, everywhere, kind.element_bytes, operation)
    number = integer_type(kind)
    found = None if number is None else run.memory.load(addresses, everywhere, number)
    if number is None or found is None or not isinstance(expected, np.ndarray) or not isinstance(new, np.ndarray):
        run.set(operation, Opaque(addresses.shape))
        return
    run.memory.store(addresses, found == expected, np.broadcast_to(new, addresses.shape), number)
    run.set(operation, found)


def _dot(run: Run, operation: Operation) -> None:
    result = result_types(operation.types)[0]
    shape: tuple[int, ...] = getattr(run.operands(operation)[0], "shape", ())
    inner = shape[-1] if shape else 1
    packed = 2 if "lhs = e2m1" in operation.text and "lhs_k_pack = false" not in operation.text else 1
    run.tally.flops += 2 * prod(result.shape) * inner * packed
    run.opaque(operation)


def _fold(run: Run, operation: Operation) -> None:
    """Reduce or scan along an axis, by its region, one element after the other."""
    operands = run.operands(operation)
    if not all(isinstance(value, np.ndarray) for value in operands):
        run.opaque(operation)
        return
    axis, block = _attribute(operation, "axis"), operation.regions[0][0]
    names = [name for name, _ in block.arguments]
    lines = [np.moveaxis(value, axis, 0) for value in operands if isinstance(value, np.ndarray)]
    order = range(len(lines[0]))[::-1] if "reverse = true" in operation.text else range(len(lines[0]))
    states: list[list[Value]] = []
    for at in order:
        here: list[Value] = [np.asarray(line[at]) for line in lines]
        if states:
            run.values.update(zip(names, (*states[-1], *here), strict=True))
            here = run.blocks(operation.regions[0])
        states.append(here)
    if not all(isinstance(value, np.ndarray) for value in states[-1]):
        run.opaque(operation)
    elif operation.name == "tt.reduce":
        run.set(operation, *states[-1])
    else:
        states = states[::-1] if "reverse = true" in operation.text else states
        run.set(operation, *(np.moveaxis(np.stack(list(column)), 0, axis) for column in zip(*states, strict=True)))  # type: ignore[arg-type]


_FOR = re.compile(r"(?:unsigned )?(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(?: iter_args\((.*?)\))?")


def _for(run: Run, operation: Operation) -> None:
    found = _FOR.match(operation.text)
    if not found:
        raise UnsupportedOperationError(operation.name)
    low, high, step = (run.integer(found[at], operation) for at in (2, 3, 4))
    kind = run.array(run.value(found[2]), operation).dtype
    pairs = [part.split(" = ") for part in split_top(found[5] or "")]
    carried = [run.value(value.strip()) for _, value in pairs]
    for at in range(low, high, step):
        run.values[found[1]] = np.array(at, kind)
        run.values.update(zip((name for name, _ in pairs), carried, strict=True))
        carried = run.blocks(operation.regions[0])
    run.set(operation, *carried)


_CALLEE = re.compile(r"@([\w.$-]+|\"[^\"]*\")")
_ACCESS = re.compile(r"\b(ld|st|red|atom)\.((?:[A-Za-z][\w:]*\.)*?)(?:v([248])\.)?[a-z]+(\d+)\b")
"""PTX's instructions on memory.

Each has a kind, state space and modifiers, the vector's width, and the bits of an element.
"""
COUNTED = ("tt.load", "tt.store", "tt.atomic", "tt.descriptor", "tt.dot", "scf.while", "ttng.", "ttg.async_copy", "ttg.warp_sp")
"""How the names of operations begin that are counted, or decide what is."""


def _is_free(run: Run, blocks: Sequence[Block]) -> bool:
    """Return whether nothing in these blocks is counted.

    It then does not matter whether they run.
    """

    def free(inner: Operation) -> bool:
        if inner.name == "tt.call":
            name = _CALLEE.search(inner.text)
            return name is not None and all(_is_free(run, body) for body in run.module.functions[name[1]].regions)
        if inner.name.startswith(COUNTED) or (inner.name == "tt.elementwise_inline_asm" and _ACCESS.search(inner.text)):
            return False
        return all(_is_free(run, region) for region in inner.regions)

    return all(free(inner) for block in blocks for inner in block.operations)


def _if(run: Run, operation: Operation) -> None:
    if isinstance(run.value(operation.operands[0]), Opaque) and all(_is_free(run, region) for region in operation.regions):
        skipped = run.blocks(operation.regions[0]) if operation.results else []
        run.set(operation, *(Opaque(getattr(value, "shape", ())) for value in skipped))
        return
    region = 0 if run.integer(operation.operands[0], operation) else 1
    run.set(operation, *(run.blocks(operation.regions[region]) if region < len(operation.regions) else []))


def _while(run: Run, operation: Operation) -> None:
    found = re.match(r"\((.*?)\) : ", operation.text)
    pairs = [part.split(" = ") for part in split_top(found[1])] if found else []
    carried = [run.value(value.strip()) for _, value in pairs]
    names = [name for name, _ in operation.regions[1][0].arguments]
    while True:
        run.values.update(zip((name for name, _ in pairs), carried, strict=True))
        truth, *passed = run.blocks(operation.regions[0])
        if not int(run.array(truth, operation)):
            break
        run.values.update(zip(names, passed, strict=True))
        carried = run.blocks(operation.regions[1])
    run.set(operation, *passed)


def _call(run: Run, operation: Operation) -> None:
    name = _CALLEE.search(operation.text)
    if name is None:
        raise UnsupportedOperationError(operation.name)
    run.set(operation, *run.call(name[1], run.operands(operation)))


def _program(of: Callable[[Run], Sequence[int]]) -> Handler:
    def run_it(run: Run, operation: Operation) -> None:
        run.set(operation, np.array(of(run)["xyz".index(operation.head.strip()[0])], np.int32))

    return run_it


def _range(run: Run, operation: Operation) -> None:
    run.set(operation, np.arange(_attribute(operation, "start"), _attribute(operation, "end"), dtype=np.int32))


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


def _nothing(run: Run, operation: Operation) -> None:
    """Skip printing, assertions, barriers and hints."""


def _assembly(run: Run, operation: Operation) -> None:
    """Count one PTX instruction on global memory, each lane's element for itself.

    Other assembly is not computed.
    """
    text = re.sub(r"\\[0-9A-Fa-f]{2}", " ", operation.text)  # a line's end is printed as \0A
    found = [match for match in _ACCESS.finditer(text) if "shared" not in match[2]]
    if len(found) > 1:
        raise UnsupportedOperationError(operation.name)
    for match in found:
        addresses = run.array(run.operands(operation)[0], operation)
        packed = re.search(r"packed_element = (\d+)", operation.text)
        if addresses.dtype != np.int64 or int(match[3] or 1) != int(packed[1] if packed else 1):
            raise UnsupportedOperationError(operation.name)
        kind = {"ld": "read", "st": "write"}.get(match[1], "atomic")
        run.access(kind, addresses, np.ones(addresses.shape, bool), int(match[4]) // 8, operation)
    types = operation.types or operation.text.rsplit("->", 1)[-1]
    run.set(operation, *(Opaque(kind.shape) for kind in result_types(types)[: len(operation.results)]))


HANDLERS: Mapping[str, Handler] = {
    "arith.constant": _constant, "arith.cmpi": _compare, "arith.cmpf": _compare_floats, "arith.select": _select,
    "arith.": _arith, "math.": _arith,
    "tt.get_program_id": _program(lambda run: run.program), "tt.get_num_programs": _program(lambda run: run.grid),
    "tt.make_range": _range,
    "tt.splat": _reshaped(lambda value, _, kind: np.broadcast_to(value, kind.shape)),
    "tt.unsplat": _reshaped(_scalar),
    "tt.broadcast": _reshaped(lambda value, _, kind: np.broadcast_to(value, kind.shape)),
    "tt.bitcast": _reshaped(_same_bits),
    "tt.expand_dims": _reshaped(lambda value, operation, _: np.expand_dims(value, _attribute(operation, "axis"))),
    "tt.trans": _reshaped(lambda value, operation, _: value.transpose(_order(operation))),
    "tt.reshape": _reshaped(lambda value, _, kind: value.reshape(kind.shape)),
    "tt.join": _join, "tt.split": _split, "tt.cat": _cat, "tt.addptr": _addptr, "tt.mulhiui": _high_product,
    "tt.load": _load, "tt.store": _store, "tt.atomic_rmw": _atomic, "tt.atomic_cas": _compare_and_swap,
    "tt.make_tensor_descriptor": make_descriptor, "tt.descriptor_load": counting(descriptor_block, "read"),
    "tt.descriptor_store": counting(descriptor_block, "write"), "tt.descriptor_reduce": counting(descriptor_block, "atomic"),
    "tt.descriptor_gather": counting(descriptor_rows, "read"), "tt.descriptor_scatter": counting(descriptor_rows, "write"),
    "tt.dot": _dot, "tt.dot_scaled": _dot, "tt.reduce": _fold, "tt.scan": _fold, "tt.call": _call, "tt.histogram": _histogram,
    "scf.for": _for, "scf.if": _if, "scf.while": _while,
    "tt.elementwise_inline_asm": _assembly,
    "ttg.convert_layout": _reshaped(_same_bits), "tt.ptr_to_int": _reshaped(_same_bits),
    **dict.fromkeys(("tt.print", "tt.assert", "gpu.barrier", "llvm.intr.assume", "tt.debug_barrier", "nvvm."), _nothing),
    **dict.fromkeys(("ttg.barrier", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"), _nothing),
    **dict.fromkeys(
        ("tt.fp_to_fp", "tt.clampf", "tt.precise_sqrt", "tt.precise_divf", "tt.extern_elementwise", "tt.gather", "ub.poison"),
        Run.opaque,
    ),
    **gluon_ops.HANDLERS,
}  # fmt: skip
