"""Derive formulas for the traffic of one launch.

They are derived from its IR text, arguments and grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sympy import Expr

from ioaware.analysis.ir.accesses.access_log import Condition, Recorder, Scope, Touch
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
from ioaware.analysis.ir.accesses.split_atomics import join_split_atomics
from ioaware.analysis.ir.accesses.values import Target, TensorDescriptor, Value, lane_symbol
from ioaware.analysis.ir.algebra.constructors import substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import resolve_tests
from ioaware.analysis.ir.algebra.sympy_bridge import from_sympy, to_sympy
from ioaware.analysis.ir.caveats import Caveat, sentences
from ioaware.analysis.ir.integer_widths import width_limits
from ioaware.analysis.ir.interpreter import control_flow, inline_asm, memory_ops, pure_ops, ttg_ops
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter, function_parameters
from ioaware.analysis.ir.interpreter.unknown_names import name_unknowns, varies
from ioaware.analysis.ir.loops.access_totals import (
    Counted,
    Programs,
    active_lanes,
    repeat_in_scopes,
    total_count,
    unknowns,
    upper_bound,
)
from ioaware.analysis.ir.loops.grid import Grid
from ioaware.analysis.ir.loops.index_set_splitting import split_and_merge
from ioaware.analysis.ir.loops.persistent_loops import merge_persistent_loop
from ioaware.analysis.ir.loops.substitution import Placed
from ioaware.analysis.ir.memory_bounds import when_beyond
from ioaware.analysis.ir.mlir.parser import Operation, parse
from ioaware.analysis.ir.sectors.enumeration import repetitions, totals
from ioaware.analysis.ir.sectors.sector_totals import SectorTotal, combined_sectors, sector_total
from ioaware.analysis.ir.sums.closed_forms import linear
from ioaware.errors import UsageError
from ioaware.machine.model import SECTOR_BYTES

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
    return Counting(walk, launched, {a.name: a for a in arguments}).traffic(name)


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


class Counting:
    """Compute formulas from the log of one interpreted kernel."""

    def __init__(self, walk: Interpreter, grid: Grid, arguments: dict[str, Argument]) -> None:
        self.walk, self.grid, self.arguments = walk, grid, arguments
        self.notes = dict(walk.record.notes)
        self.exact = not self.notes

    def traffic(self, kernel: str) -> KernelTraffic:
        accesses: list[Access] = []
        caveats: list[Caveat] = []
        differing = False
        bounded: set[AccessKind] = set()
        counted: dict[AccessKind, list[Counted]] = {"read": [], "write": [], "atomic": []}
        sectors: dict[AccessKind, list[SectorTotal | None]] = {"read": [], "write": [], "atomic": []}
        for touch in self.walk.record.touches:
            scopes, undecided = self.scopes(touch.scopes)
            mask, data = upper_bound(resolve_tests(touch.mask))
            lanes: list[Counted] = []
            executions: list[Counted] = []
            touched: list[SectorTotal | None] = []
            known = None if undecided or data else totals(replace(touch, mask=mask, scopes=tuple(scopes)), self.grid.programs)
            if known is not None:
                lanes, executions = [self.once(known.lanes)], [self.once(known.executions)]
                counted[touch.kind].append(self.once(known.lanes * touch.element_bytes))
                touched = [] if touch.kind == "atomic" else [SectorTotal(poly(known.sectors), poly(known.sectors), {}, ())]
            for where in self.merged_loops((mask,), scopes) if known is None else ():
                active = active_lanes(where.values[0], touch.shape)
                lanes.append((repeat_in_scopes(active, where.scopes), (), where.programs))
                executions.append((ONE, where.scopes, where.programs))
                counted[touch.kind].append((active * touch.element_bytes, where.scopes, where.programs))
            asked = known is None and touch.kind != "atomic"
            for where in self.merged_loops((mask, touch.target.offset), scopes) if asked else ():
                swept = replace(touch, mask=where.values[0], target=replace(touch.target, offset=where.values[1]))
                touched.append(sector_total(swept, where.scopes, where.programs))
            named = [unknown for each, _, _ in lanes for unknown in unknowns(each)]
            differing |= any(map(varies, named))
            of_lanes = self.caveats(touch, [*undecided, *data], named)
            of_sectors = self.sector_caveats(touch, touched)
            beyond = self.beyond_memory(touch)
            access = self.access(touch, lanes, executions, touched, of_lanes, of_sectors)
            elements = replace(access.elements, at_most=bool(undecided or data))
            runs = replace(access.executions, at_most=bool(undecided))
            accesses.append(replace(access, beyond=beyond, elements=elements, executions=runs))
            caveats += (*of_lanes, *of_sectors, *_beyond(touch, beyond), *written_in_part(touch, self.stores(touch)))
            sectors[touch.kind] += touched
            bounded |= {touch.kind} if undecided or data else set()
        products: list[Counted] = []
        skipping = False
        for product in self.walk.record.products:
            repeated, undecided = self.repeated(product.flops, product.scopes)
            products += repeated
            skipping |= undecided
        reads, writes = (_counted(combined_sectors(sectors[side], SECTOR_BYTES), side in bounded) for side in ("read", "write"))
        exact, assumed = self.exact and all(access.exact for access in accesses), self.walk.record.assumptions
        return KernelTraffic(
            kernel,
            tuple(accesses),
            over_grid(counted["read"], "read" in bounded),
            over_grid(counted["write"], "write" in bounded),
            over_grid(counted["atomic"], "atomic" in bounded),
            reads,
            writes,
            over_grid(products, skipping),
            exact=exact,
            sectors_exact=exact and reads is not None and writes is not None and all(a.sectors_exact for a in accesses),
            notes=tuple(dict.fromkeys([*assumed, *self.notes, *sentences(caveats), *([SAME_EVERYWHERE] if differing else [])])),
            limits=width_limits(self.walk.record.widths, self.grid.sizes),
            matmul_types=tuple(sorted({product.element for product in self.walk.record.products})),
        )

    def repeated(self, amount: int, scopes: Sequence[Scope]) -> tuple[list[Counted], bool]:
        """Return an amount for each time that its scopes run it.

        And whether data decide how often that is.
        """
        kept, undecided = self.scopes(scopes)
        times = None if undecided else repetitions(kept, self.grid.programs)
        if times is not None:
            return [self.once(amount * times)], False
        placed = self.merged_loops((poly(amount),), kept)
        return [(where.values[0], where.scopes, where.programs) for where in placed], bool(undecided)

    def beyond_memory(self, touch: Touch) -> str:
        """Return the tensor that an access leaves, and when; empty for none.

        Its bytes are counted anyway.
        """
        argument = self.arguments.get(touch.target.argument)
        if not isinstance(argument, Pointer) or argument.size_bytes is None:
            return ""
        target = replace(touch.target, offset=substitute(touch.target.offset, self.grid.sizes))
        mask = substitute(touch.mask, self.grid.sizes)
        condition = when_beyond(replace(touch, target=target, mask=mask), from_sympy(argument.size_bytes))
        return "" if condition is None else f"{argument.tensor or argument.name} {condition}"

    def stores(self, touch: Touch) -> int:
        """Return how many stores of the kernel write to the tensor of an access."""
        return sum(each.kind == "write" and each.target.argument == touch.target.argument for each in self.walk.record.touches)

    def once(self, count: int) -> Counted:
        """Return a count that is already summed over all programs."""
        return poly(count), (), Programs(self.grid.programs.indices, (ONE, ONE, ONE))

    def merged_loops(self, values: Sequence[Poly], scopes: Sequence[Scope]) -> tuple[Placed, ...]:
        """Return the values with their loops and programs.

        Persistent loops are merged and grid names resolved.
        """
        return split_and_merge(merge_persistent_loop(values, scopes, self.grid.programs).rewritten(self.grid.sizes))

    def access(
        self,
        touch: Touch,
        lanes: Sequence[Counted],
        executions: Sequence[Counted],
        touched: Sequence[SectorTotal | None],
        of_lanes: Sequence[Caveat],
        of_sectors: Sequence[Caveat],
    ) -> Access:
        """Return the access with its totals over all programs."""
        argument = self.arguments.get(touch.target.argument)
        return Access(
            kind=touch.kind,
            operation=touch.operation,
            tensor=touch.target.argument if argument is None else (getattr(argument, "tensor", "") or argument.name),
            elements=over_grid(lanes),
            element_bytes=touch.element_bytes,
            executions=over_grid(executions),
            sectors=None if touch.kind == "atomic" else _counted(combined_sectors(touched)),
            frames=touch.frames,
            exact=not of_lanes,
            sectors_exact=not of_lanes and not of_sectors,
            notes=tuple(map(str, (*of_lanes, *of_sectors))),
        )

    def scopes(self, scopes: Sequence[Scope]) -> tuple[list[Scope], list[Unknown]]:
        """Return the scopes with data-dependent conditions taken as true.

        The unknowns are dropped.
        """
        kept: list[Scope] = []
        data: list[Unknown] = []
        for scope in scopes:
            if isinstance(scope, Condition):
                truth, found = upper_bound(resolve_tests(scope.truth))
                data += found
                kept.append(Condition(truth))
            else:
                kept.append(scope)
        return kept, data

    @staticmethod
    def caveats(touch: Touch, dropped: Sequence[Unknown], named: Sequence[Unknown]) -> tuple[Caveat, ...]:
        """Return a caveat for each unknown that makes a count inexact."""

        def caveat(rest: str) -> Caveat:
            return Caveat(touch.operation, _line(touch), "counts", "count", rest)

        found = [caveat(f"at most: {u.name} decides the lanes and {u.why}") for u in dropped]
        found += [caveat(f"in terms of {u.name}: {u.why}") for u in named]
        return tuple(dict.fromkeys(found))

    @staticmethod
    def sector_caveats(touch: Touch, touched: Sequence[SectorTotal | None]) -> tuple[Caveat, ...]:
        """Return the reasons why the sectors of an access are unknown."""
        of, line = "sectors of ", _line(touch)
        if None in touched:
            unknown = "not known: their addresses are not affine in the lanes"
            return (Caveat(touch.operation, line, "are", "are", unknown, of),)
        found = dict.fromkeys(caveat for sector in touched if sector for caveat in sector.caveats)
        return tuple(Caveat(touch.operation, line, "at most:", "at most:", caveat, of) for caveat in found)


def written_in_part(touch: Touch, stores: int) -> tuple[Caveat, ...]:
    """Return a remark on a store that leaves gaps in its sectors.

    Hardware counts such sectors differently.

    The counts are of each instruction by itself. The caches merge what several stores write to one sector, and split what one
    store writes in several requests. Lanes a sector or more apart matter only where several `stores` write to the tensor.
    """
    steps = [linear(touch.target.offset, lane_symbol(at, size)) for at, size in enumerate(touch.shape) if size > 1]
    constant = [abs(int(step[0].constant)) for step in steps if step is not None and step[0].constant]
    apart = min(constant, default=0)
    if touch.kind != "write" or apart <= touch.element_bytes or (apart >= SECTOR_BYTES and stores == 1):
        return ()
    rest = f"lanes lie {apart} bytes apart, and a counter that merges or splits such writes differs"
    return (Caveat(touch.operation, _line(touch), "are written in part:", "are written in part:", rest, "sectors of "),)


def _beyond(touch: Touch, where: str) -> tuple[Caveat, ...]:
    return (Caveat(touch.operation, _line(touch), "reaches", "reach", f"beyond {where}"),) if where else ()


def _line(touch: Touch) -> str:
    return touch.frames[0] if touch.frames else "an unnamed line"


def _counted(formula: Expr | None, at_most: bool = False) -> Count | None:
    return None if formula is None else Count(formula, at_most)


def over_grid(counted: Sequence[Counted], at_most: bool = False) -> Count:
    """Return the sum over all programs."""
    return Count(to_sympy(total_count(counted)), at_most)
