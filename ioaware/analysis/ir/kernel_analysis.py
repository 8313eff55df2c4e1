"""`analyse`: the traffic of one launch as formulas, from the text of its kernel's IR, its arguments and its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sympy import Expr

from ioaware.analysis.ir.accesses.access_log import Condition, Scope, Touch
from ioaware.analysis.ir.accesses.kernel_traffic import (
    Access,
    AccessKind,
    Argument,
    Count,
    Descriptor,
    KernelTraffic,
    Pointer,
    Scalar,
)
from ioaware.analysis.ir.accesses.values import Target, TensorDescriptor, Value
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import decided
from ioaware.analysis.ir.algebra.sympy_bridge import from_sympy, to_sympy
from ioaware.analysis.ir.caveats import Doubt, said
from ioaware.analysis.ir.interpreter import control_flow, inline_asm, memory_ops, pure_ops, ttg_ops
from ioaware.analysis.ir.interpreter.interpreter import Interpreter, function_parameters
from ioaware.analysis.ir.loops.access_totals import Counted, Programs, active_lanes, at_most, over_all, repeated, unknowns
from ioaware.analysis.ir.loops.grid import Grid
from ioaware.analysis.ir.loops.index_set_splitting import put_together
from ioaware.analysis.ir.loops.persistent_loops import placed
from ioaware.analysis.ir.loops.substitution import Placed
from ioaware.analysis.ir.mlir.parser import Operation, parse
from ioaware.analysis.ir.sectors.enumeration import repetitions, totals
from ioaware.analysis.ir.sectors.sector_totals import SectorTotal, sector_total, sectors_together
from ioaware.errors import UsageError
from ioaware.machine.model import SECTOR_BYTES

EVERYWHERE = ", taken to be the same wherever it is"
"""What a formula in a name makes of what may change from program to program."""

HANDLERS = {**pure_ops.HANDLERS, **inline_asm.HANDLERS, **memory_ops.HANDLERS, **control_flow.HANDLERS, **ttg_ops.HANDLERS}


def analyse(ir_text: str, arguments: Sequence[Argument], grid: Sequence[Expr | int]) -> KernelTraffic:
    """What the kernel requests over all programs of the grid, in the symbols of `arguments` and `grid`.

    `ir_text` is TTIR as Triton prints it, or TTGIR of a Gluon kernel; `arguments` are those of its public function, in order,
    constexprs left out. Symbols are integers and must say `positive=True` where they are. Raises `UsageError` for an operation
    or an argument that cannot be counted, `DataError` for text that is not IR.
    """
    name, walk, launched = _walked(ir_text, arguments, grid)
    return _Counting(walk, launched, {a.name: a for a in arguments}).traffic(name)


def touches(ir_text: str, arguments: Sequence[Argument], grid: Sequence[Expr | int]) -> tuple[list[Touch], Programs]:
    """The instructions that touch memory, with the grid they run in, as `analyse` counts them. Raises as it does."""
    _, walk, launched = _walked(ir_text, arguments, grid)
    return walk.record.touches, launched.programs


def _walked(ir_text: str, arguments: Sequence[Argument], grid: Sequence[Expr | int]) -> tuple[str, Interpreter, Grid]:
    module = parse(ir_text)
    name, function = next((n, f) for n, f in module.functions.items() if "private" not in f.text.split("@")[0])
    launched = Grid.of(grid)
    given = _given(name, function, arguments, launched)
    taken = {str(symbol) for a in arguments for symbol in _symbols(a)} | launched.taken
    walk = Interpreter(module, launched.programs.sizes, launched.here, HANDLERS, taken)
    walk.run_function(name, given)
    return name, walk, launched


def _symbols(argument: Argument) -> set[object]:
    values = [argument.value] if isinstance(argument, Scalar) else []
    if isinstance(argument, Descriptor):
        values = [*argument.shape, *argument.strides]
    return {symbol for value in values for symbol in getattr(value, "free_symbols", ())}


def _given(kernel: str, function: Operation, arguments: Sequence[Argument], grid: Grid) -> list[Value]:
    """A value for each parameter of the function; a descriptor made on the host has its sizes as parameters behind it."""
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
        raise UsageError(f"{argument.name} is an integer in the kernel's IR, not {value!r}")
    return from_sympy(int(value) if isinstance(value, bool) else value)


class _Counting:
    """Turns the records of one walk into formulas."""

    def __init__(self, walk: Interpreter, grid: Grid, arguments: dict[str, Argument]) -> None:
        self.walk, self.grid, self.arguments = walk, grid, arguments
        self.notes = dict(walk.record.notes)
        self.exact = not self.notes

    def traffic(self, kernel: str) -> KernelTraffic:
        accesses: list[Access] = []
        doubts: list[Doubt] = []
        counted: dict[AccessKind, list[Counted]] = {"read": [], "write": [], "atomic": []}
        sectors: dict[AccessKind, list[SectorTotal | None]] = {"read": [], "write": [], "atomic": []}
        for touch in self.walk.record.touches:
            scopes, undecided = self.scopes(touch.scopes)
            mask, data = at_most(decided(touch.mask))
            lanes: list[Counted] = []
            executions: list[Counted] = []
            touched: list[SectorTotal | None] = []
            known = None if undecided or data else totals(replace(touch, mask=mask, scopes=tuple(scopes)), self.grid.programs)
            if known is not None:
                lanes, executions = [self.once(known.lanes)], [self.once(known.executions)]
                counted[touch.kind].append(self.once(known.lanes * touch.element_bytes))
                touched = [] if touch.kind == "atomic" else [SectorTotal(poly(known.sectors), poly(known.sectors), {}, ())]
            for where in self.placed((mask,), scopes) if known is None else ():
                active = active_lanes(where.values[0], touch.shape)
                lanes.append((repeated(active, where.scopes), (), where.programs))
                executions.append((ONE, where.scopes, where.programs))
                counted[touch.kind].append((active * touch.element_bytes, where.scopes, where.programs))
            asked = known is None and touch.kind != "atomic"
            for where in self.placed((mask, touch.target.offset), scopes) if asked else ():
                swept = replace(touch, mask=where.values[0], target=replace(touch.target, offset=where.values[1]))
                touched.append(sector_total(swept, where.scopes, where.programs))
            of_lanes = self.doubts(touch, [*undecided, *data], [u for each, _, _ in lanes for u in unknowns(each)])
            of_sectors = self.sector_doubts(touch, touched)
            accesses.append(self.access(touch, lanes, executions, touched, of_lanes, of_sectors))
            doubts += (*of_lanes, *of_sectors)
            sectors[touch.kind] += touched
        products: list[Counted] = []
        for product in self.walk.record.products:
            scopes, undecided = self.scopes(product.scopes)
            times = None if undecided else repetitions(scopes, self.grid.programs)
            if times is not None:
                products.append(self.once(product.flops * times))
            for where in self.placed((poly(product.flops),), scopes) if times is None else ():
                products.append((where.values[0], where.scopes, where.programs))
        reads, writes = (_counted(sectors_together(sectors[kind], SECTOR_BYTES)) for kind in ("read", "write"))
        exact, assumed = self.exact and all(access.exact for access in accesses), self.walk.record.assumptions
        return KernelTraffic(
            kernel,
            tuple(accesses),
            over_grid(counted["read"]),
            over_grid(counted["write"]),
            over_grid(counted["atomic"]),
            reads,
            writes,
            over_grid(products),
            exact=exact,
            sectors_exact=exact and reads is not None and writes is not None and all(a.sectors_exact for a in accesses),
            notes=tuple(dict.fromkeys([*assumed, *self.notes, *said(doubts)])),
        )

    def once(self, count: int) -> Counted:
        """So much over all programs."""
        return poly(count), (), Programs(self.grid.programs.indices, (ONE, ONE, ONE))

    def placed(self, values: Sequence[Poly], scopes: Sequence[Scope]) -> tuple[Placed, ...]:
        """What is summed over which loops and programs, in the parameters alone."""
        return put_together(placed(values, scopes, self.grid.programs).rewritten(self.grid.sizes))

    def access(
        self,
        touch: Touch,
        lanes: Sequence[Counted],
        executions: Sequence[Counted],
        touched: Sequence[SectorTotal | None],
        of_lanes: Sequence[Doubt],
        of_sectors: Sequence[Doubt],
    ) -> Access:
        """The access with its totals over all programs."""
        argument = self.arguments.get(touch.target.argument)
        return Access(
            kind=touch.kind,
            operation=touch.operation,
            tensor=touch.target.argument if argument is None else (getattr(argument, "tensor", "") or argument.name),
            elements=over_grid(lanes),
            element_bytes=touch.element_bytes,
            executions=over_grid(executions),
            sectors=None if touch.kind == "atomic" else _counted(sectors_together(touched)),
            frames=touch.frames,
            exact=not of_lanes,
            sectors_exact=not of_lanes and not of_sectors,
            notes=tuple(map(str, (*of_lanes, *of_sectors))),
        )

    def scopes(self, scopes: Sequence[Scope]) -> tuple[list[Scope], list[Unknown]]:
        """With conditions that data decide taken as met."""
        kept: list[Scope] = []
        data: list[Unknown] = []
        for scope in scopes:
            if isinstance(scope, Condition):
                truth, found = at_most(decided(scope.truth))
                data += found
                kept.append(Condition(truth))
            else:
                kept.append(scope)
        return kept, data

    @staticmethod
    def doubts(touch: Touch, dropped: Sequence[Unknown], named: Sequence[Unknown]) -> tuple[Doubt, ...]:
        """One for each unknown that keeps a count from being exact."""

        def doubt(rest: str) -> Doubt:
            return Doubt(touch.operation, _line(touch), "counts", "count", rest)

        found = [doubt(f"at most: {u.name} decides the lanes and {u.why}") for u in dropped]
        found += [doubt(f"in terms of {u.name}: {u.why}{EVERYWHERE if u.over else ''}") for u in named]
        return tuple(dict.fromkeys(found))

    @staticmethod
    def sector_doubts(touch: Touch, touched: Sequence[SectorTotal | None]) -> tuple[Doubt, ...]:
        """What keeps the sectors of an access from being known."""
        of, line = "sectors of ", _line(touch)
        if None in touched:
            unknown = "not known: their addresses are not affine in the lanes"
            return (Doubt(touch.operation, line, "are", "are", unknown, of),)
        found = dict.fromkeys(doubt for sector in touched if sector for doubt in sector.doubts)
        return tuple(Doubt(touch.operation, line, "at most:", "at most:", doubt, of) for doubt in found)


def _line(touch: Touch) -> str:
    return touch.frames[0] if touch.frames else "an unnamed line"


def _counted(formula: Expr | None) -> Count | None:
    return None if formula is None else Count(formula)


def over_grid(counted: Sequence[Counted]) -> Count:
    """The sum over all programs."""
    return Count(to_sympy(over_all(counted)))
