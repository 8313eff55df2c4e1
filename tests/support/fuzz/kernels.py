"""Random Triton kernels from a small grammar.

They have loops, branches and calls around accesses.

No access is repeated literally and every loaded value is used, so that the compiler removes none.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from random import Random

from tests.support.fuzz.accesses import Accesses
from tests.support.fuzz.expressions import Scope


class Kernel:
    """Writer of one kernel. `lines` is its text."""

    def __init__(self, rng: Random, name: str, *, data: bool, small: bool, library: bool = False) -> None:
        self.rng, self.name, self.data, self.library = rng, name, data, library
        self.axes = rng.choice((1, 1, 1, 2, 2, 3))
        self.lines: list[str] = []
        self.indent = 1
        self.scope = Scope(rng, ["n", "m", "k"] if rng.random() < 0.7 else ["n", "m", "k", "s"])
        self.accesses = Accesses(rng, self.scope, self.line, data=data, library=library)
        self.most_depth = 2 if small else 3
        self.left = rng.randint(1, 2) if small else rng.randint(2, 7)
        """Number of statements still to write."""
        self.write()

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, header: str, *names: str, moving: str = "") -> Generator[None]:
        """Write an indented block in which these names are integers.

        It is never left empty.
        """
        self.line(header)
        before = len(self.lines)
        self.indent += 1
        with self.scope.inside(names, moving):
            yield
            if len(self.lines) == before:
                self.accesses.any()
        self.indent -= 1

    def write(self) -> None:
        for axis, name in zip(range(self.axes), ("pid", "row", "col"), strict=False):
            self.line(f"{name} = tl.program_id({axis})")
            self.scope.names.append(name)
        self.scope.programs = self.scope.names[-self.axes :]
        self.line("lanes = tl.arange(0, B)")
        self.line("acc = 0.0")
        if self.data:
            self.line(f"d0 = tl.load(idx + {self.scope.integer(1)})")
            self.line("tl.store(out + pid * 3 + 1, d0)")
            self.scope.names += ["d0", "d0"]
        if self.rng.random() < 0.3:
            self.renamed()
        while self.left > 0:
            self.statement(0)
        self.line("tl.store(out + pid * 3, acc)")

    def renamed(self) -> None:
        """Write another order of the programs, as for groups of tiles."""
        if self.rng.random() < 0.3:
            self.grouped()
            return
        form = self.rng.choice(("pid // C", "pid % C", "pid // n", "pid % m", "tl.num_programs(0) - 1 - pid", "(pid * C) % n"))
        self.line(f"tile = {form}")
        self.scope.names.append("tile")

    def grouped(self) -> None:
        """Write tiles in groups of rows, as matrix products order them."""
        tiles, group = self.rng.choice(("tl.cdiv(m, C)", "m", "4")), self.rng.choice(("2", "3", "C"))
        self.line(f"group = pid // ({group} * {tiles})")
        self.line(f"size = max(min(tl.cdiv(n, B) - group * {group}, {group}), 1)")
        self.line(f"tile = group * {group} + pid % ({group} * {tiles}) % size")
        self.line(f"across = pid % ({group} * {tiles}) // size")
        self.scope.names += ["tile", "across"]

    def statement(self, depth: int) -> None:
        self.left -= 1
        kinds = [(self.accesses.any, 5), (self.assignment, 1.5)]
        if depth == 0:
            kinds += [(self.early_return, 0.3)]
        plain = self.rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        if depth >= self.most_depth or self.rng.random() < 0.45:
            plain()
            return
        carried = (self.carried, self.flagged, self.carried_pair)
        kind = self.rng.choices(
            (self.loop, self.branch, self.while_loop, self.static_loop, self.persistent, self.walk, *carried),
            (5, 4, 1.5, 0.5, 1, 1.5, 1, 0.3, 0.4),
        )[0]
        kind(depth + 1)

    def body(self, depth: int) -> None:
        for _ in range(self.rng.choice((1, 1, 2))):
            self.statement(depth)

    def assignment(self) -> None:
        name = self.scope.fresh("t")
        self.line(f"{name} = {self.scope.computed(2)}")
        self.scope.names.append(name)
        if self.rng.random() < 0.2:
            one, other = self.scope.fresh("t"), self.scope.fresh("t")
            self.line(f"{one}, {other} = digits({name}, {self.rng.choice(('B', 'C'))})")
            self.scope.names += [one, other]

    def early_return(self) -> None:
        with self.block(f"if {self.scope.condition()}:"):
            self.line("tl.store(out + pid * 3 + 2, acc)")
            self.line("return")

    def loop(self, depth: int) -> None:
        name = self.scope.fresh("i")
        with self.block(f"for {name} in {self.scope.range()}:", name, moving=name):
            self.body(depth)

    def static_loop(self, depth: int) -> None:
        name = self.scope.fresh("s")
        with self.block(
            f"for {name} in tl.static_range({self.rng.choice(('2', '3', 'C', '1, 4', '0, 5, 2'))}):", name, moving=name
        ):
            self.body(depth)

    def persistent(self, depth: int) -> None:
        name = self.scope.fresh("tile")
        tiles = self.rng.choice(("n", "tl.cdiv(n, B)", "tl.cdiv(n, C) * m", "tl.cdiv(n, C) * tl.cdiv(m, C)", "n * m"))
        step = self.rng.choice(("tl.num_programs(0)", "tl.num_programs(0)", "C", "k"))
        with self.block(f"for {name} in range({self.rng.choice(self.scope.programs)}, {tiles}, {step}):", name, moving=name):
            if self.rng.random() < 0.6:
                by = self.rng.choice(("m", "C", "tl.cdiv(m, C)"))
                one, other = self.scope.fresh("t"), self.scope.fresh("t")
                self.line(f"{one} = {name} // {by}")
                self.line(f"{other} = {name} % {by}")
                self.scope.names += [one, other]
            self.body(depth)

    def while_loop(self, depth: int) -> None:
        name, rng = self.scope.fresh("w"), self.rng
        step = rng.choice(("1", "2", "3", "C", "m"))
        up = rng.random() < 0.75
        self.line(f"{name} = {self.scope.computed(1) if up else self.scope.integer(2)}")
        test = f"{name} < {self.scope.integer(2)}" if up else f"{name} > {rng.choice(('0', '1', 'k', self.scope.integer(1)))}"
        if rng.random() < 0.2:
            test = f"({test}) & ({name} {'<' if up else '>'} {self.scope.integer(1)})"
        step = rng.choice((f"{name} // 2", f"{name} - {step}", f"{name} - {step}")) if not up else f"{name} + {step}"
        with self.block(f"while {test}:", name, moving=name):
            self.body(depth)
            self.line(f"{name} = {step}")
        if rng.random() < 0.3:
            self.scope.names.append(name)

    def branch(self, depth: int) -> None:
        """Write a branch with stores, and sometimes a value that it defines."""
        name = self.scope.fresh("v") if self.rng.random() < 0.35 else ""
        if name:
            self.line(f"{name} = {self.scope.computed(1)}")
        for header in self.headers():
            with self.block(header):
                self.body(depth)
                if name and self.rng.random() < 0.8:
                    self.line(f"{name} = {self.rng.choice((self.scope.computed(1), f'{name} + {self.scope.integer(1)}'))}")
        if name:
            self.scope.names.append(name)

    def headers(self) -> Sequence[str]:
        extra = [f"elif {self.scope.condition()}:"] if self.rng.random() < 0.25 else []
        return (f"if {self.scope.condition()}:", *extra, *(["else:"] if self.rng.random() < 0.5 else []))

    def carried(self, depth: int) -> None:
        """Write a number carried around a loop, used in the loop and after it."""
        name, index = self.scope.fresh("c"), self.scope.fresh("i")
        self.line(f"{name} = {self.scope.computed(1)}")
        with self.block(f"for {index} in {self.scope.range()}:", index, name, moving=index):
            self.body(depth)
            with self.block(f"if {self.scope.condition()}:") if self.rng.random() < 0.3 else self.scope.inside((), index):
                by = (self.scope.constant(), "k", index, self.scope.integer(1))
                self.line(f"{name} = {self.rng.choice((*(f'{name} + {each}' for each in by), f'{index} + 1', f'{name} - 1'))}")
        self.scope.names.append(name)

    def flagged(self, depth: int) -> None:
        """Write a while loop whose condition is carried as a flag."""
        name, flag, end = self.scope.fresh("w"), self.scope.fresh("f"), self.scope.integer(1)
        self.line(f"{name} = {self.scope.computed(1)}")
        self.line(f"{flag} = {name} < {end}")
        with self.block(f"while {flag}:", name, moving=name):
            self.body(depth)
            self.line(f"{name} += {self.rng.choice(('1', '2', 'C'))}")
            self.line(f"{flag} = {name} < {end}")

    def carried_pair(self, depth: int) -> None:
        """Write two numbers carried around a loop, one computed from the other."""
        one, other, index = self.scope.fresh("c"), self.scope.fresh("c"), self.scope.fresh("i")
        self.line(f"{one} = {self.scope.computed(1)}")
        self.line(f"{other} = {self.scope.computed(1)}")
        with self.block(f"for {index} in {self.scope.range()}:", index, one, other, moving=index):
            self.body(depth)
            self.line(f"{one} = {self.rng.choice((other, f'{one} + {other}', f'{one} + {index}'))}")
            self.line(f"{other} = {self.rng.choice((f'{other} + 1', f'{other} + {index}', f'{other} + k', index))}")
        self.scope.names += [one, other]

    def walk(self, depth: int) -> None:
        """Write a pointer that advances in a loop."""
        name, index, x = self.scope.fresh("p"), self.scope.fresh("i"), self.accesses.tensor()
        shape = self.rng.choice(("lanes", "lanes * k", "lanes[:, None] * n + tl.arange(0, 8)[None, :]"))
        self.line(f"{name} = {x} + {self.scope.integer(1)} * B + {shape}")
        with self.block(f"for {index} in {self.scope.range()}:", index, moving=index):
            self.accesses.through(name, two="[" in shape)
            if self.rng.random() < 0.3:
                self.body(depth)
            self.line(f"{name} += {self.rng.choice(('B', '1', 'n', 'C * k', '-B'))}")
        if self.rng.random() < 0.3:
            self.accesses.through(name, two="[" in shape)
