"""Execute the part of a kernel's Triton IR that determines its accesses.

It runs in numpy for many programs at once, and the accesses are to memory.

Integers, masks and pointers have values. Floats have them while they are loaded, chosen and compared, as a temperature of 0 is.
Loads from tensors with known contents, such as block tables and sequence lengths, return them. The result is the bytes of
each memory instruction, counted access by access. It is exact where it exists, and independent of the formulas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from ioaware.analysis.ir.mlir.address_slice import address_values
from ioaware.analysis.ir.mlir.parser import Block, Operation, parse, split_top
from ioaware.analysis.ir.mlir.types import Type, result_types
from ioaware.compilation.execution.executed_accesses import ExecutedAccesses
from ioaware.compilation.execution.folds import FOLDS, RETURNS, fold, reduced_in_any_order
from ioaware.compilation.execution.integer_arithmetic import Array, binary
from ioaware.compilation.execution.memory_access import MEMORY, access
from ioaware.compilation.execution.program_values import (
    ChosenPointer,
    Moved,
    Pointer,
    UndeterminedError,
    Value,
    is_array,
    merge,
)
from ioaware.compilation.execution.rules import RULES, split
from ioaware.compilation.execution.run_state import RunState

MAX_LANES = 2**20
"""Most lanes of one array: programs times elements of the largest tile."""
MAX_OPERATIONS = 300_000
"""Most operations of one launch, each for many programs.

A longer launch is not executed.
"""
UNSUPPORTED = ("tt.descriptor", "tt.make_tensor_ptr", "tt.advance", "ttng.", "ttg.", "tt.experimental")
PASS_ON = ("scf.yield", "scf.condition", *RETURNS)
WAITS = ("gpu.barrier", "ttg.barrier", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents")
PASSES_VALUES = ("scf.", "cf.", "tt.call", *RETURNS)
"""Operations that hand their operands on as they are."""
NO_EFFECT = (*WAITS, "tt.assert", "tt.print", "llvm.intr.assume", "scf.yield", "tt.return", "cf.assert")
PURE_REGIONS = (*FOLDS, "tt.map_elementwise")
_ASM_MEMORY = re.compile(r'^ ?"[^"]*\b(?:ld|st|atom|red|cp)\.')
_FOR = re.compile(r"(%[\w.$-]+) = (\S+) to (\S+) step (\S+?)(?: iter_args\((.*?)\) ->.*)?\s*(?::.*)?$", re.DOTALL)
_TARGET = re.compile(r"\^([\w.$-]+)(?:\(([^)]*)\))?")
_CALLEE = re.compile(r"@([\w.$-]+|\"[^\"]*\")")
_WHILE = re.compile(r"\((.*?)\) : ", re.DOTALL)


def execute(
    ir_text: str,
    arguments: Sequence[tuple[str, int | Pointer | None]],
    grid: Sequence[int],
    data: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
    accesses: ExecutedAccesses | None = None,
) -> Moved:
    """Return the bytes that all programs of a launch move.

    `data` are the known contents of storages, and `sizes` their bytes where accesses outside are counted, by argument.
    `accesses` records where they are, instead of counting sectors.

    Raises `UndeterminedError` where an access depends on anything else.
    """
    module, grid = parse(ir_text), (*grid, 1, 1)[:3]
    function = next(function for function in module.functions.values() if "private" not in function.text.split("@")[0])
    lanes = max((prod(kind.shape) for kind in _types(function)), default=1)
    step = max(1, MAX_LANES // max(lanes, 1))
    moved = Moved()
    programs = prod(grid)
    functions = [one for one in module.functions.values() if one.regions]
    needed = frozenset[str]().union(*map(address_values, functions))
    unordered = frozenset[str]().union(*(reduced_in_any_order(_operations(one.regions[0])) for one in functions))
    for first in range(0, programs, step):
        numbers = np.arange(first, min(first + step, programs), dtype=np.int64)
        run = _Run(module, grid, numbers, dict(data), moved)
        run.sizes, run.needed, run.unordered, run.accesses = sizes or {}, needed, unordered, accesses
        values = [np.asarray([value]) if isinstance(value, (int, bool)) else value for _, value in arguments]
        run.call(function, values, np.ones(len(numbers), bool))
    return moved


def _types(function: Operation) -> Iterator[Type]:
    for operation in _operations(function.regions[0]):
        if operation.results:
            yield from result_types(operation.types)


def _operations(blocks: Sequence[Block]) -> Iterator[Operation]:
    for block in blocks:
        for operation in block.operations:
            yield operation
            for region in operation.regions:
                yield from _operations(region)


def _sorted(blocks: Sequence[Block]) -> list[Block]:
    """Return the reachable blocks in reverse postorder.

    Each block comes after those that branch to it, unless a branch closes a cycle.

    The text has them in another order: several early returns share one block, which follows the first of them.
    """
    by_label = {block.label: block for block in blocks}
    done: list[Block] = []
    seen: set[str] = set()

    def visit(block: Block) -> None:
        seen.add(block.label)
        last = block.operations[-1] if block.operations else None
        for label, _ in _TARGET.findall(last.text) if last is not None and last.name.startswith("cf.") else ():
            if label in by_label and label not in seen:
                visit(by_label[label])
        done.append(block)

    visit(blocks[0])
    return done[::-1]


class _Run(RunState):
    """One execution of some programs: calls, branches and loops."""

    def call(self, function: Operation, arguments: Sequence[Value], active: Array) -> list[Value]:
        """Run a function for the active programs; return its results."""
        outer, self.names = self.names, {}
        text = function.text[function.text.index("(") :]
        labels = re.findall(r"(%[\w.$-]+): ", text)
        self.names = dict(zip(labels, arguments, strict=False))
        results = self._blocks(function.regions[0], active)
        self.names = outer
        return results

    def _blocks(self, blocks: Sequence[Block], active: Array) -> list[Value]:
        """Run the blocks of a function, each once, after all that branch to it.

        A block runs for the programs that branch to it.
        """
        blocks = _sorted(blocks)
        entry = {blocks[0].label: active}
        results: list[Value] | None = None
        for block in blocks:
            here = entry.pop(block.label, None)
            if here is None or not here.any():
                continue
            with self.only(here):
                for operation in block.operations:
                    self._run(operation)
            last = block.operations[-1] if block.operations else None
            if last is None or last.name == "tt.return":
                values = [self.value(name) for name in last.operands] if last else []
                results = values if results is None else [merge(here, a, b) for a, b in zip(values, results, strict=True)]
                continue
            for mask, label, given in self.targets(last, here):
                target = next((other for other in blocks if other.label == label), None)
                if target is None or blocks.index(target) <= blocks.index(block):
                    raise UndeterminedError("a branch goes backwards")
                entry[label] = entry.get(label, np.zeros(self.count, bool)) | mask
                for (argument, _), value in zip(target.arguments, given, strict=False):
                    self.names[argument] = merge(mask, value, self.names.get(argument, value))
        if entry:
            raise UndeterminedError("a branch goes backwards")
        return results or []

    def targets(self, branch: Operation, here: Array) -> Iterator[tuple[Array, str, list[Value]]]:
        """Yield each branch target, its programs and its block arguments."""
        targets = [(label, self.arguments(text)) for label, text in _TARGET.findall(branch.text)]
        if branch.name == "cf.br":
            yield here, *targets[0]
            return
        if branch.name != "cf.cond_br":
            raise UndeterminedError(f"no rule for {branch.name}")
        condition = self.condition(self.value(branch.operands[0]), "a branch")
        yield here & condition, *targets[0]
        yield here & ~condition, *targets[1]

    def _run(self, operation: Operation) -> None:
        name = operation.name
        chosen = next((one for one in operation.operands if isinstance(self.value(one), ChosenPointer)), None)
        if chosen is not None and not operation.regions and not name.startswith(PASSES_VALUES):
            self._run_for_each_tensor(operation, chosen)
            return
        self.moved.operations += 1
        if self.moved.operations > MAX_OPERATIONS:
            raise UndeterminedError("the launch is too long to execute")
        if name in MEMORY:
            access(self, operation)
        elif name.startswith(UNSUPPORTED) and name not in WAITS:
            raise UndeterminedError(f"no rule for {name}")
        elif name in ("scf.for", "scf.if", "scf.while", "tt.call"):
            control = {"scf.for": self._for, "scf.if": self._if, "scf.while": self._while, "tt.call": self._call}[name]
            self.names.update(zip(operation.results, control(operation), strict=True))
        elif not name.startswith(("cf.", *NO_EFFECT)):
            self.names.update(zip(operation.results, self._computed(operation), strict=True))

    def _run_for_each_tensor(self, operation: Operation, name: str) -> None:
        """Run an operation for the programs of each tensor that a pointer points into."""
        pointer, results = self.names[name], None
        for programs, part in pointer.parts:
            self.names[name] = part
            with self.only(self.active & programs):
                self._run(operation)
            found = [self.value(result) for result in operation.results]
            results = found if results is None else [merge(programs, new, old) for new, old in zip(found, results, strict=True)]
        self.names[name] = pointer
        self.names.update(zip(operation.results, results or (), strict=True))

    def _computed(self, operation: Operation) -> list[Value]:
        """Return the results of an operation without effects.

        None where they have no rule.
        """
        if (operation.regions and operation.name not in PURE_REGIONS) or _ASM_MEMORY.search(operation.text):
            raise UndeterminedError(f"no rule for {operation.name}")
        rule = RULES.get(operation.name)
        if operation.name in FOLDS:
            values = [self.value(operand) for operand in operation.operands]
            return fold(operation, values, partial(self.region, operation, 0))
        if not operation.results:
            return []
        if rule is not None and len(operation.results) == 1:
            return [rule(self, operation)]
        if operation.name == "tt.split":
            return split(self, operation)
        if operation.name in ("tt.dot", "tt.dot_scaled"):
            self._product(operation)
        prefix, _, name = operation.name.partition(".")
        kind = result_types(operation.types)[0]
        values = [self.value(operand) for operand in operation.operands]
        if prefix == "arith" and kind.is_integer and len(values) == 2 and all(is_array(v) for v in values):
            return [binary(name, values[0], values[1], kind.element)]
        return [None] * len(operation.results)

    def _product(self, operation: Operation) -> None:
        """Count 2 m n k FLOPs for each program; 4-bit operands pack two of k into a byte."""
        left = re.search(r"tensor<((?:\d+x)+)", operation.types)
        if left is None:
            raise UndeterminedError(f"{operation.name} is not understood")
        packed = 2 if "lhs = e2m1" in operation.text and "lhs_k_pack = false" not in operation.text else 1
        inner = int(left[1].rstrip("x").rpartition("x")[2]) * packed
        self.moved.flops += 2 * prod(result_types(operation.types)[0].shape) * inner * int(np.count_nonzero(self.active))

    def region(self, operation: Operation, at: int, arguments: Sequence[Value]) -> list[Value]:
        """Run a region of one block; return the values that it passes on."""
        (block,) = operation.regions[at]
        self.names.update((name, value) for (name, _), value in zip(block.arguments, arguments, strict=False))
        for inner in block.operations:
            self._run(inner)
        last = block.operations[-1] if block.operations else None
        passed = last.operands if last is not None and last.name in PASS_ON else []
        return [self.value(name) for name in passed]

    def _for(self, operation: Operation) -> list[Value]:
        header = _FOR.match(operation.text)
        if not header:
            raise UndeterminedError("the header of a loop is not understood")
        index, low, high, step = header[1], *(self.number(header[at], "a loop bound") for at in (2, 3, 4))
        pairs = [part.split(" = ") for part in split_top(header[5] or "")]
        names, carried = [name.strip() for name, _ in pairs], [self.value(value.strip()) for _, value in pairs]
        at = low.copy()
        while (going := self.active & (at < high)).any():
            with self.only(going):
                self.names[index] = at
                self.names.update(zip(names, carried, strict=True))
                values = self.region(operation, 0, ())
            carried = [merge(going, new, old) for new, old in zip(values, carried, strict=True)]
            at = at + step
        return carried

    def _if(self, operation: Operation) -> list[Value]:
        if not is_array(self.value(operation.operands[0])) and all(self._is_free(region) for region in operation.regions):
            return [None] * len(operation.results)
        condition = self.condition(self.value(operation.operands[0]), "a branch")
        results: list[list[Value]] = []
        for at, taken in enumerate((condition, ~condition)):
            if at < len(operation.regions):
                with self.only(self.active & taken):
                    results.append(self.region(operation, at, ()))
        if not operation.results:
            return []
        return [merge(condition, then, other) for then, other in zip(*results, strict=True)]

    def _while(self, operation: Operation) -> list[Value]:
        header = _WHILE.match(operation.text)
        pairs = [part.split(" = ") for part in split_top(header[1])] if header else []
        names, carried = [name.strip() for name, _ in pairs], [self.value(value.strip()) for _, value in pairs]
        going, results = self.active, None
        while going.any():
            with self.only(going):
                self.names.update(zip(names, carried, strict=True))
                test, *values = self.region(operation, 0, ())
                again = going & self.condition(test, "a loop")
            results = values if results is None else [merge(going, new, old) for new, old in zip(values, results, strict=True)]
            if again.any():
                with self.only(again):
                    after = self.region(operation, 1, values)
                carried = [merge(again, new, old) for new, old in zip(after, carried, strict=True)]
            going = again
        return results if results is not None else [None] * len(operation.results)

    def _call(self, operation: Operation) -> list[Value]:
        found = _CALLEE.match(operation.text.strip())
        if not found or found[1] not in self.module.functions:
            return [None] * len(operation.results)
        arguments = [self.value(name) for name in operation.operands]
        results = self.call(self.module.functions[found[1]], arguments, self.active)
        return results or [None] * len(operation.results)

    def _is_free(self, blocks: Sequence[Block]) -> bool:
        """Return whether nothing in these blocks is counted.

        It then does not matter whether they run.
        """
        for inner in _operations(blocks):
            if inner.name in WAITS:
                continue
            if (
                inner.name in MEMORY
                or inner.name.startswith((*UNSUPPORTED, "tt.dot", "scf.while"))
                or _ASM_MEMORY.search(inner.text)
            ):
                return False
            callee = _CALLEE.match(inner.text.strip()) if inner.name == "tt.call" else None
            if callee and not all(self._is_free(region) for region in self.module.functions[callee[1]].regions):
                return False
        return True
