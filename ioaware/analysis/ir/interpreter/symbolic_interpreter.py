"""Interpret a kernel symbolically, once for all programs and iterations.

Values become expressions, memory accesses become log entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256

from ioaware.analysis.ir.accesses.access_log import Condition, Loop, Recorder
from ioaware.analysis.ir.accesses.values import Target, Value, index_symbols, lanes, select
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import disjoint_or, negation
from ioaware.analysis.ir.mlir.address_slice import address_operations
from ioaware.analysis.ir.mlir.liveness import dead_operations
from ioaware.analysis.ir.mlir.locations import frames
from ioaware.analysis.ir.mlir.parser import Block, Module, Operation, arguments, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type
from ioaware.errors import UsageError

WIDTHS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
"""Integers of a kernel, which wrap around."""
TOO_LONG = "it is a long expression"
LONGEST, LONGEST_OF_DATA = 2_000_000, 3000
"""Most characters of an expression, and of one of loaded values.

Steps of an unrolled search double theirs. Why so many: work items of persistent kernels have formulas with 0.6 million.
"""
Handler = Callable[["Interpreter", Operation], None]


@dataclass
class Interpreter:
    """State of one walk.

    `handlers` maps an operation's name, or its dialect and a dot, to its rule.
    """

    module: Module
    grid: tuple[Poly, Poly, Poly]
    program: tuple[Poly, Poly, Poly]
    handlers: Mapping[str, Handler]
    names: set[str]
    record: Recorder = field(default_factory=Recorder)
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    captured: list[Value] = field(default_factory=list[Value])  # operands of warp partitions
    depth: int = 0
    calls: tuple[str, ...] = ()  # the call stack of the running function
    mutable: frozenset[str] = frozenset()  # arguments that the kernel writes, directly or through an alias
    loaded: set[str] = field(default_factory=set[str])  # arguments that integers are loaded from
    pointers: frozenset[str] = frozenset()  # arguments of the kernel that point to memory
    elements: Mapping[str, tuple[Poly, Poly]] = field(default_factory=dict[str, tuple[Poly, Poly]])  # their start and size
    addressing: frozenset[int] = frozenset()  # operations of the running function on which addresses may depend
    unused: frozenset[int] = frozenset()  # operations of the running function on which no access depends

    def value(self, name: str) -> Value:
        """Return the value of an operand."""
        found = self.values.get(name)
        if found is None and "#" not in name:
            found = self.values.get(f"{name}#0")
        if found is None:
            raise KeyError(f"{name} has no value")
        return found

    def operands(self, operation: Operation) -> list[Value]:
        return [self.value(name) for name in operation.operands]

    def bind(self, names: Sequence[str], values: Sequence[Value]) -> None:
        self.values.update(zip(names, values, strict=True))

    def frames(self, operation: Operation) -> tuple[str, ...]:
        return frames(operation.location, self.module.aliases)

    def where(self, operation: Operation) -> str:
        """Return the operation's line, for a sentence."""
        found = self.frames(operation)
        return found[0] if found else "a line without a location"

    def unsupported(self, operation: Operation, why: str = "") -> UsageError:
        return UsageError(
            f"{operation.name} at {self.where(operation)} cannot be counted{': ' + why if why else ''}",
            "trace counts any kernel by running it; please report this operation.",
        )

    def fresh(self, name: str, lower: Poly | None = None, upper: Poly | None = None) -> Symbol:
        """Return an index with an unused name."""
        base = "".join(c for c in name.lstrip("%") if c.isalnum() or c == "_") or "i"
        base = f"i_{base}" if base[0].isdigit() else base if base.strip("_") else "i"
        candidate, count = base, 1
        while candidate in self.names:
            count += 1
            candidate = f"{base}_{count}"
        self.names.add(candidate)
        return Symbol(candidate, lower, upper)

    def unknown(
        self, operation: Operation, kind: Type, why: str, over: Sequence[Value] = (), *, across_lanes: bool = False
    ) -> Value:
        """Return a value without a rule; an integer keeps a name for formulas.

        It varies with the indices of its operands `over`, and with all surrounding indices if one of those is unknown itself.
        `across_lanes`: a lane of the result depends on other lanes of the operands.
        """
        if not kind.is_integer and not kind.is_pointer:
            return Value(kind)
        if over and all(value.number is not None or value.targets for value in over):
            found = index_symbols(over)
            lanes_of_operands = any(symbol.name.startswith("lane") for symbol in found)
            args = [poly(symbol) for symbol in found if not (across_lanes and symbol.name.startswith("lane"))]
            args += self.lanes(kind) if across_lanes and (lanes_of_operands or kind.shape) else []
        else:
            args = [*self.surroundings(), *self.lanes(kind)]
        name = operation.results[0].lstrip("%") if operation.results else ""
        if not name or name[0].isdigit():  # a number given by the compiler
            name = operation.name.rpartition(".")[2]
        atom = Unknown(f"{name}@{short(self.where(operation))}", why, args, kind.element == "i1", self.identity(operation))
        if kind.is_pointer:
            return Value(kind, None, (Target("", poly(atom)),))
        return Value(kind, poly(atom))

    def requires_width(self, operation: Operation, *values: Value) -> None:
        """Record that an address depends on these integers.

        They must therefore not have wrapped around.
        """
        if self.record.rehearsing or id(operation) not in self.addressing:
            return
        for value in values:
            bits = 8 * value.type.element_bytes if value.type.element in WIDTHS else 0
            if not bits or value.number is None:
                continue
            constant = value.number.constant
            if constant is None or not -(2 ** (bits - 1)) <= constant < 2 ** (bits - 1):
                self.record.widths.setdefault((value.number, bits), self.where(operation))

    def surroundings(self) -> list[Poly]:
        """Return the indices of programs and of the loops around."""
        loops = [poly(scope.index) for scope in self.record.scopes if isinstance(scope, Loop)]
        return [*(place for place in self.program if place.terms), *loops]

    @staticmethod
    def lanes(kind: Type) -> list[Poly]:
        """Return the lane indices of a type that has several lanes."""
        return [index for index in lanes(kind.shape) if index.terms]

    def identity(self, operation: Operation) -> str:
        """Return a text that is unique to this operation in this call."""
        return " ".join((*self.calls, *operation.results[:1], operation.location))

    def run_function(self, name: str, given: Sequence[Value]) -> list[Value]:
        """Call a function of the module."""
        function = self.module.functions.get(name)
        if function is None:
            raise UsageError(
                f"the kernel calls {name}, which its IR does not contain", "Compile it without external functions."
            )
        if self.depth > 64:
            raise UsageError(f"{name} calls itself without end", "Triton kernels cannot recurse.")
        parameters = [p for p, _ in function_parameters(function)]
        outer, self.values = (self.values, self.unused, self.addressing), dict(zip(parameters, given, strict=True))
        self.unused, self.addressing = dead_operations(function), address_operations(function)
        self.depth += 1
        try:
            return self.run_blocks(function.regions[0])
        finally:
            self.depth -= 1
            self.values, self.unused, self.addressing = outer

    def run_blocks(self, blocks: Sequence[Block]) -> list[Value]:
        """Run acyclic blocks; return the values of their terminators.

        The values are selected by the path taken.
        """
        reached: dict[str, Poly] = {blocks[0].label: ONE}
        incoming: dict[str, list[Value]] = {}
        returned: list[Value] = []
        for block in self._in_order(blocks):
            condition = reached.pop(block.label, ZERO)
            if condition == ZERO:
                continue
            if block.arguments and block.label in incoming:
                self.bind([name for name, _ in block.arguments], incoming[block.label])
            with self.record.inside(Condition(condition)) if condition != ONE else nullcontext():
                exits = self._run_block(block)
            for label, taken, passed in exits:
                if label is None:
                    returned = _merged(taken * condition, passed, returned)
                else:
                    reached[label] = disjoint_or(reached.get(label, ZERO), taken * condition)
                    incoming[label] = _merged(taken * condition, passed, incoming.get(label, []))
        return returned

    def _in_order(self, blocks: Sequence[Block]) -> list[Block]:
        """Sort blocks topologically: every block after its predecessors."""
        if len(blocks) == 1:
            return list(blocks)
        waiting, done = list(blocks), list[Block]()
        while waiting:
            targets = {label for block in waiting for label in _successors(block)}
            free = [block for block in waiting if block.label not in targets]
            if not free:
                raise self.unsupported(waiting[0].operations[-1], "branches that form a cycle")
            done += free
            waiting = [block for block in waiting if block not in free]
        return done

    def _run_block(self, block: Block) -> list[tuple[str | None, Poly, list[Value]]]:
        """Run a block; return (label, condition, values) for each exit.

        The label is None for leaving the region.
        """
        for operation in block.operations:
            if operation.name == "cf.br":
                label, passed = self._edge(operation.head)
                return [(label, ONE, passed)]
            if operation.name == "cf.cond_br":
                truth, *edges = split_top(operation.text)
                condition = self.value(truth).number
                if condition is None:
                    raise self.unsupported(operation, "a condition that is no truth value")
                conditions = (condition, negation(condition))
                pairs = zip(map(self._edge, edges), conditions, strict=True)
                return [(label, taken, passed) for (label, passed), taken in pairs]
            if operation.name in TERMINATORS:
                return [(None, ONE, self.operands(operation))]
            if id(operation) not in self.unused:
                self.step(operation)
        return [(None, ONE, [])]

    def _edge(self, text: str) -> tuple[str, list[Value]]:
        """Parse `^bb3(%a, %b : i32, i32)`."""
        label, _, rest = text.strip().lstrip("^").partition("(")
        names = [part.strip() for part in rest.split(":")[0].split(",") if part.strip().startswith("%")]
        return label.strip(), [self.value(name) for name in names]

    def step(self, operation: Operation) -> None:
        """Run one operation."""
        name = operation.name
        dialect, unnumbered = name.split(".")[0] + ".", name.rstrip("0123456789")
        handler = self.handlers.get(name) or self.handlers.get(dialect) or self.handlers.get(unnumbered)
        if handler is None:
            raise self.unsupported(operation)
        handler(self, operation)
        for result in operation.results:
            self._shorten(operation, result)

    def _shorten(self, operation: Operation, result: str) -> None:
        """Give a long expression a name of its own."""
        value = self.values.get(result)
        number = None if value is None else value.number
        if value is None or number is None or len(number.key) <= LONGEST_OF_DATA:
            return
        if len(number.key) <= LONGEST and not any("@" in key for key in number.free):
            return
        single = replace(operation, results=[result])
        named = self.unknown(single, value.type, TOO_LONG, [value])
        atom = None if named.number is None else named.number.atom
        if isinstance(atom, Unknown):
            source = f"expression {sha256(number.key.encode()).hexdigest()}"
            self.values[result] = replace(named, number=poly(Unknown(atom.name, atom.why, atom.args, atom.idempotent, source)))

    def run_region(self, operation: Operation, region: int) -> list[Value]:
        """Run a region of an operation and return the values it yields."""
        return self.run_blocks(operation.regions[region]) if region < len(operation.regions) else []


TERMINATORS = {
    "scf.yield",
    "scf.condition",
    "tt.return",
    "tt.reduce.return",
    "tt.scan.return",
    "ttg.warp_yield",
    "ttg.warp_return",
}


def _successors(block: Block) -> list[str]:
    last = block.operations[-1] if block.operations else None
    return re.findall(r"\^([\w.$-]+)", last.text) if last is not None and last.name.startswith("cf.") else []


def _merged(condition: Poly, then: list[Value], other: list[Value]) -> list[Value]:
    return [select(condition, a, b) for a, b in zip(then, other, strict=True)] if other else then


def short(place: str) -> str:
    """Return `file:line` without the folders."""
    return place.rsplit("/", 1)[-1]


def function_parameters(function: Operation) -> list[tuple[str, Type]]:
    """Return names and types of a function's parameters."""
    text = function.text
    name = re.search(r"@([\w.$-]+|\"[^\"]*\")", text)  # quoted, it may hold brackets
    start = text.index("(", name.end() if name else 0)
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return [(name, parse_type(kind)) for name, kind in arguments(text[start + 1 : end])]
    return []


__all__ = ["Handler", "Interpreter", "function_parameters", "short"]
