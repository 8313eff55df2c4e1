"""Random loads, stores and atomics: scalars, rows and tiles.

They are under masks of many shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.fuzz.composed_idioms import ComposedIdioms
from tests.support.fuzz.expressions import Scope
from tests.support.fuzz.library_idioms import LibraryIdioms


class Accesses:
    """Writer of accesses as lines of a kernel. No two have the same address."""

    def __init__(self, rng: Random, scope: Scope, line: Callable[[str], None], *, data: bool, library: bool = False) -> None:
        self.rng, self.scope, self.line, self.data = rng, scope, line, data
        kinds = (LibraryIdioms, ComposedIdioms) if library else ()
        self.idioms = [kind(rng, scope, line, self.access, self.place) for kind in kinds]
        self._count = 0

    def tensor(self) -> str:
        return self.rng.choice(("x", "x", "y"))

    def any(self) -> None:
        """Write one access of a random kind."""
        if self.idioms and self.rng.random() < 0.4:
            self.rng.choice(self.idioms).any()
            return
        kinds = (
            self.row,
            self.tile,
            self.scalar,
            self.called,
            self.one_lane,
            self.block,
            self.descriptor,
            self.chosen_pointer,
            self.product,
            self.cube,
            self.call,
            self.exchange,
            self.data_dependent if self.data else self.row,
        )
        self.rng.choices(kinds, (6, 4, 1.2, 0.5, 0.4, 0.7, 0.4, 0.3, 0.3, 0.4, 0.3, 0.2, 2))[0]()

    def place(self, depth: int = 1) -> str:
        """Return a tile's start: a unique constant, and a loop index.

        The index prevents hoisting.
        """
        self._count += 1
        start = self.scope.integer(depth)
        if self.rng.random() < 0.08:
            start = f"{self.rng.choice(self.scope.programs)}.to(tl.int64) * {self.rng.choice(('n', 'm', '4'))} + {start}"
        if self.scope.moving:
            start += f" + {self.scope.moving[-1]}{self.rng.choice(('', ' * B', ' * 3', ' * n'))}"
        return f"{start} + {self._count * self.rng.choice((1, 8, 64)) + 1000 * self._count}"

    def access(self, pointer: str, mask: str) -> None:
        masked = f", mask={mask}" if mask else ""
        may_add = pointer.startswith(("x +", "y +"))
        kind = self.rng.choices(("load", "store", "add" if may_add else "load"), (5, 4, 1))[0]
        if kind == "load":
            self.line(f"acc += tl.sum(tl.load({pointer}{masked}).to(tl.float32))")
        elif kind == "store":
            self.line(f"tl.store({pointer}, 1.0{masked})")
        else:
            self.line(f"tl.atomic_add({f'out{pointer[1:]}'}, 1.0{masked})")

    def row(self) -> None:
        stride = self.rng.choice(("", "", "", "", " * 2", " * 3", " * k", " * -1", " * n"))
        spread = self.rng.choice(("lanes", "lanes", "lanes", "lanes", "lanes // 2", "lanes % C", "(lanes + pid) % m"))
        self._count += 1
        at = f"at{self._count}"
        self.line(f"{at} = {self.scope.integer(1)} {self.rng.choice(('* B', '* B', ''))} + {spread}")
        self.access(f"{self.tensor()} + {self.place()} + {at}{stride}", self.mask(at, "lanes"))

    def mask(self, at: str, lanes: str) -> str:
        """Return a mask over one dimension, or "" for none."""
        if self.rng.random() < 0.2:
            return ""

        def test() -> str:
            value = self.rng.choice((at, at, lanes))
            form = self.rng.choices(
                ("{v} < {e}", "{v} >= {e}", "{v} % {c} == {r}", "{v} == {e}", "{v} != {e}",
                    "{v} * 3 + 1 < {e}", "{s} & ({v} < {e})", "{e} > {v} * k",
                ),
                (8, 3, 1, 0.5, 0.5, 0.7, 1, 0.5),
            )[0]  # fmt: skip
            end = self.scope.integer(1) if self.rng.random() < 0.6 else self.rng.choice(("n", "m", "n * m", "n"))
            return form.format(
                v=value, e=end, c=self.rng.choice((2, 3, 4)), r=self.rng.choice((0, 1)), s=f"({self.scope.test()})"
            )

        return self.joined(test)

    def joined(self, test: Callable[[], str]) -> str:
        form = self.rng.choices(
            ("{}", "({}) & ({})", "({}) | ({})", "~({})", "({}) & ~({})", "({}) & ({}) & ({})"), (7, 3, 1, 0.7, 0.5, 0.5)
        )[0]
        return form.format(*(test() for _ in range(form.count("{}"))))

    def tile(self) -> None:
        self._count += 1
        rows, columns = f"r{self._count}", f"q{self._count}"
        height, width = self.rng.choice((4, 8)), self.rng.choice((8, 16))
        self.line(
            f"{rows} = ({self.scope.integer(1)} * {self.rng.choice(('B', 'C', '1', str(height)))} "
            f"+ tl.arange(0, {height}))[:, None]"
        )
        self.line(
            f"{columns} = ({self.scope.integer(1)} * {self.rng.choice(('B', 'C', '1', '0'))} + tl.arange(0, {width}))[None, :]"
        )
        pitch = self.rng.choice(("n", "m", "B", "C", "64", "k", "1", "m * 8"))
        offsets = self.rng.choice(
            (f"{rows} * {pitch} + {columns}", f"{rows} * {pitch} + {columns}", f"{rows} + {columns} * {pitch}")
        )

        def test() -> str:
            end = self.rng.choice(("n", "m", "k", self.scope.integer(1)))
            form = self.rng.choices(
                ("({r} < {e}) & ({q} < {e2})", "{r} < {e}", "{q} < {e}", "{q} <= {r}", "{r} - {q} < {e}",
                    "({r} >= {q}) & ({r} - {q} < {e})",
                 "{r} + {q} < {e}", "({r} + {q}) % 2 == 0", "{r} * {p} + {q} < {e2}", "{r} == {q}"),
                (6, 2, 2, 2, 1, 1, 1, 0.4, 0.7, 0.3),
            )[0]  # fmt: skip
            return form.format(r=rows, q=columns, e=end, e2=self.rng.choice(("n", "m", self.scope.integer(1))), p=pitch)

        mask = self.joined(test) if self.rng.random() < 0.85 else ""
        self.access(f"{self.tensor()} + {self.place()} + {offsets}", mask)

    def through(self, pointer: str, *, two: bool) -> None:
        """Write an access through a pointer that is carried around a loop."""
        mask = "" if self.rng.random() < 0.3 else f"lanes{'[:, None]' if two else ''} < {self.scope.integer(1)}"
        if self.scope.moving and self.rng.random() < 0.3 and mask:
            mask = f"lanes{'[:, None]' if two else ''} < n - {self.scope.moving[-1]} * B"
        self._count += 1
        self.access(f"{pointer} + {1000 * self._count}", mask)

    def scalar(self) -> None:
        self.access_scalar(f"{self.tensor()} + {self.place()}", self.scope.test() if self.rng.random() < 0.3 else "")

    def access_scalar(self, pointer: str, mask: str) -> None:
        masked = f", mask={mask}" if mask else ""
        kind = self.rng.choice((f"acc += tl.load({pointer}{masked}).to(tl.float32)", f"tl.store({pointer}, 1.0{masked})"))
        self.line(kind)

    def one_lane(self) -> None:
        self.line(f"tl.store(out + {self.place()} + lanes, 1.0, mask=lanes == {self.rng.choice(('0', self.scope.integer(1)))})")

    def called(self) -> None:
        self.line(f"acc += total({self.tensor()}, {self.place()}, {self.scope.integer(1)} + {self._count * 1000}, B)")

    def block(self) -> None:
        """Write accesses through a block pointer that a loop advances."""
        name, index = self.scope.fresh("b"), self.scope.fresh("j")
        checked = self.rng.choice(("(0, 1)", "(0, 1)", "(0,)", "(1,)", "()"))
        self.line(
            f"{name} = tl.make_block_ptr({self.tensor()}, shape=(n, m), strides=({self.rng.choice(('m', 'C', '64'))}, 1), "
            f"offsets=({self.scope.integer(1)}, {self.rng.choice(('0', self.scope.integer(1)))}), "
            "block_shape=(8, 16), order=(1, 0))"
        )
        checks = f", boundary_check={checked}" if checked != "()" else ""
        self.line(f"for {index} in {self.scope.range()}:")
        self.line(f"    acc += tl.sum(tl.load({name}{checks}).to(tl.float32))")
        self.line(
            f"    {name} = tl.advance({name}, ({self.rng.choice(('0', '8', 'C'))}, {self.rng.choice(('16', '16', 'C', 'm'))}))"
        )

    def descriptor(self) -> None:
        name = self.scope.fresh("d")
        self.line(f"{name} = tl.make_tensor_descriptor(out, shape=[n, m], strides=[m, 1], block_shape=[8, 16])")
        at = f"[{self.scope.integer(1)}, {self.scope.integer(1)} + {self.scope.moving[-1] if self.scope.moving else 0}]"
        if self.rng.random() < 0.5:
            self.line(f"acc += tl.sum({name}.load({at}))")
        else:
            self.line(f"{name}.store({at}, tl.zeros([8, 16], tl.float32))")

    def chosen_pointer(self) -> None:
        """Write an access through a pointer that a condition chooses."""
        self.access(f"tl.where({self.scope.test()}, x, x + n) + {self.place()} + lanes", self.mask("lanes", "lanes"))

    def cube(self) -> None:
        self._count += 1
        a, b, c = f"l{self._count}", f"u{self._count}", f"z{self._count}"
        self.line(f"{a} = ({self.scope.integer(1)} + tl.arange(0, 4))[:, None, None]")
        self.line(f"{b} = ({self.scope.integer(1)} * 2 + tl.arange(0, 2))[None, :, None]")
        self.line(f"{c} = tl.arange(0, 8)[None, None, :]")
        mask = self.joined(lambda: f"{self.rng.choice((a, b, c, a, b, f'{a} + {c}'))} < {self.scope.integer(1)}")
        pitch = self.rng.choice((f"({a} * m + {b}) * k + {c}", f"{a} * 16 + {b} * 8 + {c}", f"{a} * n * m + {b} * n + {c}"))
        self.access(f"{self.tensor()} + {self.place()} + {pitch}", mask if self.rng.random() < 0.8 else "")

    def call(self) -> None:
        """Write a call that the compiler does not inline."""
        self.line(f"put(out, {self.place()}, {self.scope.computed(1)}, {self.scope.computed(1)})")

    def exchange(self) -> None:
        self.line(f"tl.atomic_xchg(out + {self.place()}, 1.0{self.rng.choice(('', f', mask={self.scope.test()}'))})")

    def data_dependent(self) -> None:
        """Write an access that depends on loaded integers."""
        self.rng.choice((self.gathered, self.loop_between_loads, self.lengths, self.changes))()

    def loop_between_loads(self) -> None:
        """Write a loop between two loaded bounds."""
        place, index = self.place(), self.scope.fresh("j")
        self.line(f"for {index} in range(tl.load(idx + {place}), tl.load(idx + {place} + {self.rng.choice((1, 1, 2))})):")
        self.line(f"    acc += tl.sum(tl.load({self.tensor()} + {self.place()} + {index} * B + lanes).to(tl.float32))")

    def lengths(self) -> None:
        """Write an access masked by the difference of two loaded integers."""
        place = self.place()
        self.line(
            f"tl.store(out + {self.place()} + lanes, 1.0, mask=lanes < tl.load(idx + {place} + 1) - tl.load(idx + {place}))"
        )

    def changes(self) -> None:
        """Write an access of lanes whose loaded integers differ.

        Each integer differs from that of the next lane.
        """
        at = f"{self.place()} + lanes"
        self.line(f"tl.store(out + {self.place()} + lanes, 1.0, mask=tl.load(idx + {at}) != tl.load(idx + {at} + 1))")

    def gathered(self) -> None:
        """Write an access whose loaded integers decide addresses or masks."""
        self._count += 1
        rows = f"g{self._count}"
        self.line(f"{rows} = tl.load(idx + {self.place()} + lanes, mask=lanes < {self.scope.integer(1)}, other=0)")
        self.line(f"tl.store(out + {self.place()} + lanes, {rows})")
        self.access(
            f"{self.tensor()} + {self.place()} + {rows} * {self.rng.choice(('8', 'n'))} + lanes", self.mask(rows, "lanes")
        )

    def product(self) -> None:
        name = self.scope.fresh("a")
        self.line(f"{name} = tl.load(out + {self.place()} + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])")
        self.line(f"acc += tl.sum(tl.dot({name}, {name}))")
