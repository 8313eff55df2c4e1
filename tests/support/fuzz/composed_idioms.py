"""Random compositions of what libraries use one by one.

Loaded integers bound nested loops, and atomics return what masks are made of. Tiles of descriptors and products run in loops,
and reductions have functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.fuzz.expressions import Scope

HELPERS = """@triton.jit
def larger_pair(a, i, b, j):
    return tl.where(a > b, a, b), tl.where(a > b, i, j)


@triton.jit
def two_rows(p, at, step, end, B: tl.constexpr):
    return total(p, at, end, B) + total(p, at + step, end, B)


@triton.jit
def four_rows(p, at, step, end, B: tl.constexpr):
    return two_rows(p, at, step, end, B) + two_rows(p, at + 2 * step, step, end, B)
"""


class ComposedIdioms:
    """Writer of such compositions as lines of a kernel.

    `access` and `place` are those of `Accesses`.
    """

    def __init__(
        self,
        rng: Random,
        scope: Scope,
        line: Callable[[str], None],
        access: Callable[[str, str], None],
        place: Callable[[], str],
    ) -> None:
        self.rng, self.scope, self.line, self.access, self.place = rng, scope, line, access, place

    def any(self) -> None:
        """Write one composition of a random kind."""
        kinds = (
            self.descriptor_loop,
            self.loaded_loops,
            self.loaded_while,
            self.three_tests,
            self.returned,
            self.wide_offsets,
            self.inlined_calls,
            self.unrolled,
            self.own_reduction,
            self.accumulated_product,
            self.gathered_tile,
        )
        self.rng.choices(kinds, (2, 1, 1, 3, 1, 2, 1, 2, 2, 1, 1))[0]()

    def descriptor_loop(self) -> None:
        """Write a loop over tiles of a descriptor of two dimensions."""
        name, index = self.scope.fresh("d"), self.scope.fresh("j")
        height, width = self.rng.choice((("8", "16"), ("4", "8"), ("16", "32")))
        rows, columns = self.rng.choice((("n", "m * 4"), ("m", "n * 4"), ("n - k", "64"), ("tl.cdiv(n, C)", "m * 8")))
        shape = f"shape=[{rows}, {columns}], strides=[{columns}, 1], block_shape=[{height}, {width}]"
        self.line(f"{name} = tl.make_tensor_descriptor(out + {self.place()} // 4 * 4, {shape})")
        self.line(f"for {index} in {self.scope.range()}:")
        at = self.rng.choice(
            (f"[{self.scope.integer(1)}, {index} * {width}]", f"[{index} * {height}, {self.scope.integer(1)}]")
        )
        load, store = f"acc += tl.sum({name}.load({at}))", f"{name}.store({at}, tl.zeros([{height}, {width}], tl.float32))"
        self.line(f"    {self.rng.choice((load, store))}")

    def loaded_loops(self) -> None:
        """Write two nested loops whose bounds are loaded."""
        outer, inner = self.scope.fresh("j"), self.scope.fresh("j")
        low = self.rng.choice(("0", outer, f"tl.load(lock + {self.place()} + {outer})"))
        self.line(f"for {outer} in range(tl.load(lock + {self.place()}), {self.rng.choice(('4', 'k', 'C'))}):")
        self.line(f"    for {inner} in range({low}, tl.load(lock + {self.place()} + {outer} * 2)):")
        self.line(f"        tl.store(out + {self.place()} + {outer} * 640 + {inner} * B + lanes, 1.0, mask=lanes < n)")

    def loaded_while(self) -> None:
        """Write a while loop whose loaded number becomes smaller."""
        name, step = self.scope.fresh("w"), self.rng.choice(("- 1", "- C", "// 2"))
        self.line(f"{name} = tl.load(lock + {self.place()}) + {self.rng.choice(('0', 'k', '3'))}")
        self.line(f"while {name} > {self.rng.choice(('0', '1'))}:")
        self.line(f"    tl.store(out + {self.place()} + {name} * B + lanes, 1.0)")
        self.line(f"    {name} = {name} {step}")

    def three_tests(self) -> None:
        """Write an access under a mask of three comparisons."""
        at = self.scope.fresh("h")
        self.line(f"{at} = {self.scope.integer(1)} * B + lanes")
        form = self.rng.choice(
            (
                "({}) & ({}) & ({})", "(({}) & ({})) | ({})", "({}) & (({}) | ({}))", "(({}) | ({})) & ~({})",
                "({}) | ({}) | ({})", "(({}) != ({})) & ({})", "tl.where({}, {}, {})",
            )
        )  # fmt: skip
        self.access(f"{self.rng.choice('xy')} + {self.place()} + {at}", form.format(*(self._test(at) for _ in range(3))))

    def _test(self, at: str) -> str:
        return f"{self.rng.choice((at, at, 'lanes'))} {self.rng.choice(('<', '<=', '>', '>=', '!='))} {self.scope.integer(1)}"

    def returned(self) -> None:
        """Write an atomic under a mask, whose old values decide an access."""
        old, name = (
            self.scope.fresh("o"),
            self.rng.choice(("atomic_add", "atomic_max", "atomic_min", "atomic_xchg", "atomic_or")),
        )
        self.line(
            f"{old} = tl.{name}(lock + {self.place()} + lanes, {self.rng.choice(('1', 'k'))}, mask={self._test('lanes')})"
        )
        tested, shifted = f"{self.place()} + lanes, 1.0, mask={old} < 3", f"{self.place()} + lanes + {old} * 0, 1.0"
        self.line(f"tl.store(out + {self.rng.choice((tested, shifted))})")

    def wide_offsets(self) -> None:
        """Write an access whose offset has 64 bits."""
        wide = self.scope.fresh("l")
        self.line(f"{wide} = ({self.scope.computed(1)}).to(tl.int64) * {self.rng.choice(('n', 'm', '1'))}")
        lanes = self.rng.choice(("lanes", "lanes.to(tl.int64) * k", "(lanes.to(tl.int64) << 1)"))
        mask = self.rng.choice(
            ("", f"{wide} + lanes < n * m", f"lanes.to(tl.int64) < {wide}", f"lanes < {self.scope.integer(1)}")
        )
        self.access(f"{self.rng.choice('xy')} + {self.place()} + {wide} + {lanes}", mask)

    def inlined_calls(self) -> None:
        """Write calls of a helper that calls another one several times."""
        helper, end = self.rng.choice(("two_rows", "four_rows")), f"{self.place()} + {self.scope.integer(1)}"
        self.line(f"acc += {helper}({self.rng.choice('xy')}, {self.place()}, {self.rng.choice(('1024', '512 + n'))}, {end}, B)")

    def unrolled(self) -> None:
        """Write nested loops that are unrolled, with a branch on their indices."""
        outer, inner = self.scope.fresh("s"), self.scope.fresh("s")
        self.line(f"for {outer} in tl.static_range({self.rng.choice(('2', '3', '1, 4'))}):")
        self.line(f"    for {inner} in tl.static_range({self.rng.choice(('2', f'{outer}', f'{outer}, 3', '4, 0, -2'))}):")
        self.line(f"        if ({outer} + {inner}) % 2 == {self.rng.choice('01')}:")
        at = f"{self.place()} + {outer} * 512 + {inner} * 64 + lanes"
        self.line(f"            tl.store(out + {at}, 1.0, mask=lanes + {inner} < {self.scope.integer(1)})")

    def own_reduction(self) -> None:
        """Write an access with what a reduction by a function of the file finds."""
        name, value = self.scope.fresh("v"), f"((lanes * {self.rng.choice('35')} + {self.scope.integer(1)} % 7) % 11)"
        form = self.rng.choice(
            (
                f"tl.reduce(({value}, lanes), 0, larger_pair)[1] + lanes",
                f"tl.reduce({value}[:, None] + tl.arange(0, 4)[None, :] * 3, 1, larger)",
                "tl.reduce(lanes[:, None] % tl.arange(1, 5)[None, :], 1, add)",
                f"tl.reduce({value}, 0, add) + lanes * 2",
            )
        )
        self.line(f"{name} = {form}")
        self.access(
            f"{self.rng.choice('xy')} + {self.place()} + {name}", self.rng.choice(("", f"{name} < n", f"{name} % 2 == 0"))
        )

    def accumulated_product(self) -> None:
        """Write products of tiles that a loop accumulates."""
        total, index, side = self.scope.fresh("a"), self.scope.fresh("j"), "tl.arange(0, 16)"
        end = self.rng.choice(("n", "m * 4", "k + 16"))
        self.line(f"{total} = tl.zeros((16, 16), dtype=tl.float32)")
        self.line(f"for {index} in range(0, {self.rng.choice((f'tl.cdiv({end}, 16)', '2', 'k'))}):")
        self.line(f"    {total}a = out + {self.place()} + {side}[:, None] * ({end}) + {index} * 16 + {side}[None, :]")
        self.line(f"    {total}b = out + {self.place()} + ({index} * 16 + {side}[:, None]) * 16 + {side}[None, :]")
        self.line(f"    {total}c = tl.load({total}a, mask={index} * 16 + {side}[None, :] < {end}, other=0.0)")
        self.line(f"    {total} = tl.dot({total}c, tl.load({total}b), {total})")
        self.line(f"tl.store(out + {self.place()} + {side}[:, None] * 16 + {side}[None, :], {total})")

    def gathered_tile(self) -> None:
        """Write an access of rows that are loaded, under a mask of rows and columns."""
        rows, columns = self.scope.fresh("g"), "tl.arange(0, 8)[None, :]"
        self.line(f"{rows} = tl.load(lock + {self.place()} + lanes, mask=lanes < {self.scope.integer(1)}, other=0)")
        self.line(f"tl.store(lock + {self.place()} + lanes, {rows})")
        mask = self.rng.choice(("", f"(lanes < n)[:, None] & ({columns} < {self.scope.integer(1)})", f"{rows}[:, None] < 3"))
        self.access(f"{self.rng.choice('xy')} + {self.place()} + {rows}[:, None] * m + {columns}", mask)
