"""Derive formulas for the traffic of one launch.

They are derived from its IR text, arguments and grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sympy import Expr

from ioaware.analysis.ir.accesses.access_log import Recorder, Touch
from ioaware.analysis.ir.accesses.kernel_traffic import (
    Argument,
    Descriptor,
    KernelTraffic,
    Pointer,
    Scalar,
)
from ioaware.analysis.ir.accesses.split_atomics import join_split_atomics
from ioaware.analysis.ir.accesses.values import Target, TensorDescriptor, Value
from ioaware.analysis.ir.algebra.poly import ZERO, Poly
from ioaware.analysis.ir.algebra.sympy_bridge import LongFormulaError, from_sympy
from ioaware.analysis.ir.interpreter import control_flow, inline_asm, memory_ops, pure_ops, ttg_ops
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter, function_parameters
from ioaware.analysis.ir.interpreter.unknown_names import name_unknowns
from ioaware.analysis.ir.kernel_totals import KernelTotals
from ioaware.analysis.ir.loops.access_totals import (
    Programs,
)
from ioaware.analysis.ir.loops.grid import Grid
from ioaware.analysis.ir.mlir.parser import Operation, parse
from ioaware.errors import UsageError

SAME_EVERYWHERE = "the formulas assume that each of these values is equal for all programs, iterations and lanes"
"""Assumption of a formula in a named unknown that may differ.

It may differ between programs, iterations or lanes.
"""

HANDLERS = {**pure_ops.HANDLERS, **inline_asm.HANDLERS, **memory_ops.HANDLERS, **control_flow.HANDLERS, **ttg_ops.HANDLERS}


def analyse(ir_text: str, arguments: Sequence[Argument], grid: Sequence[Expr | int]) -> KernelTraffic:
    """Return the traffic of all programs of the grid.

    It is in the symbols of `arguments` and `grid`.

    `ir_text` is TTIR as Triton prints it, or TTGIR of a Gluon kernel. `arguments` are those of its public function, in
    order,
    without constexprs. Symbols are integers; positive ones must be declared with `positive=True`.
    Raises `UsageError` for an operation or argument without a rule, `DataError` for text that is not IR.
    """
    name, walk, launched = interpret(ir_text, arguments, grid)
    totals = KernelTotals(walk, launched, {a.name: a for a in arguments})
    try:
        return totals.traffic(name)
    except LongFormulaError:
        return totals.without_formulas(name)


def touches(ir_text: str, arguments: Sequence[Argument], grid: Sequence[Expr | int]) -> tuple[list[Touch], Programs]:
    """Return the memory instructions of a launch and its grid.

    Raises as `analyse` does.
    """
    _, walk, launched = interpret(ir_text, arguments, grid)
    return walk.record.touches, launched.programs


def interpret(
    ir_text: str, arguments: Sequence[Argument], grid: Sequence[Expr | int], handlers: Mapping[str, Handler] = HANDLERS
) -> tuple[str, Interpreter, Grid]:
    """Return the kernel's name, its interpreted function, and the grid."""
    module = parse(ir_text)
    name, function = next((n, f) for n, f in module.functions.items() if "private" not in f.text.split("@")[0])
    launched = Grid.of(grid)
    given = _given(name, function, arguments, launched)
    taken = {str(symbol) for a in arguments for symbol in _symbols(a)} | launched.taken
    pointers = frozenset(target.argument for value in given for target in value.targets)
    sizes = _elements(arguments)
    walk = Interpreter(module, launched.programs.sizes, launched.here, handlers, set(taken), pointers=pointers, elements=sizes)
    walk.run_function(name, given)
    mutable = _written(walk, arguments)
    if not walk.loaded.isdisjoint(mutable):  # memory may have changed since an earlier read
        walk = replace(walk, names=set(taken), record=Recorder(), values={}, mutable=mutable)
        walk.run_function(name, given)
    walk.record.touches = join_split_atomics(walk.record.touches)
    name_unknowns(walk.record)
    return name, walk, launched


def _elements(arguments: Sequence[Argument]) -> dict[str, tuple[Poly, Poly]]:
    """Return where each pointer begins, in bytes, and the elements of its tensor."""
    return {
        a.name: (from_sympy(a.offset_bytes), from_sympy(a.elements))
        for a in arguments
        if isinstance(a, Pointer) and a.elements is not None
    }


def _written(walk: Interpreter, arguments: Sequence[Argument]) -> frozenset[str]:
    """Return the arguments that the kernel writes.

    It writes them directly or through another one that shares their memory.
    """
    written = {touch.target.argument for touch in walk.record.touches if touch.kind != "read"}
    if not written <= walk.pointers:  # through a pointer that is loaded from memory
        return walk.pointers
    shared = {a.memory for a in arguments if isinstance(a, Pointer | Descriptor) and a.name in written and a.memory}
    return frozenset(written | {a.name for a in arguments if isinstance(a, Pointer | Descriptor) and a.memory in shared})


def _symbols(argument: Argument) -> set[object]:
    values = [argument.value] if isinstance(argument, Scalar) else []
    if isinstance(argument, Descriptor):
        values = [*argument.shape, *argument.strides]
    return {symbol for value in values for symbol in getattr(value, "free_symbols", ())}


def _given(kernel: str, function: Operation, arguments: Sequence[Argument], grid: Grid) -> list[Value]:
    """Return a value for each parameter of the function.

    The sizes and strides of a host-made descriptor follow it as separate parameters.
    """
    parameters = function_parameters(function)
    values: list[Value] = []
    for argument in arguments:
        if len(values) >= len(parameters):
            break
        kind = parameters[len(values)][1]
        if isinstance(argument, Descriptor):
            shape = tuple(from_sympy(size) for size in argument.shape)
            strides = tuple(from_sympy(size) for size in argument.strides)
            target = Target(argument.name, ZERO)
            values.append(Value(kind, None, (target,), TensorDescriptor(target, shape, strides, kind)))
            behind = parameters[len(values) : len(values) + 2 * len(shape)]
            values += [Value(kind, size) for (_, kind), size in zip(behind, (*shape, *strides), strict=False)]
        elif isinstance(argument, Pointer):
            values.append(Value(kind, None, (Target(argument.name, from_sympy(argument.offset_bytes)),)))
        else:
            values.append(Value(kind, grid.named(_number(argument)) if kind.is_integer else None))
    if len(values) != len(parameters):
        raise UsageError(
            f"{kernel} has {len(parameters)} parameters in its IR ({', '.join(p.lstrip('%') for p, _ in parameters)}), "
            f"{len(values)} arguments were given",
            "Give one argument for each parameter that is not a constexpr.",
        )
    return values


def _number(argument: Scalar) -> Poly:
    value = argument.value
    if isinstance(value, float):
        raise UsageError(f"{argument.name} is an integer in the kernel's IR, not {value!r}", "Give an integer.")
    return from_sympy(int(value) if isinstance(value, bool) else value)
