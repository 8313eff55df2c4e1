"""Random uses of what libraries use beside loops and masks.

Integer tensors are scanned, reduced, permuted and gathered before they become addresses or masks. Helpers return tuples, locks
are taken, and constants are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.fuzz.expressions import Scope

HELPERS = """@triton.jit
def add(a, b):
    return a + b


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def tile_of(p, at, end, B: tl.constexpr):
    lanes = at + tl.arange(0, B)
    return p + lanes, (lanes, lanes < end)


@triton.jit
def nested(p, at, end, B: tl.constexpr):
    (pointers, rest), more = tile_of(p, at, end, B), at % 3
    return pointers, rest[1], more
"""

INTEGERS = (
    "tl.associative_scan({x}, 0, add)",
    "tl.associative_scan({x} % 5, 0, larger)",
    "tl.cumsum(({x} % 3 == 0).to(tl.int32), 0)",
    "tl.gather({x}, (lanes * 3 + {s}) % B, 0)",
    "tl.flip({x}, 0)",
    "tl.reshape(tl.reshape({x}, (2, B // 2)).T, (B,))",
    "tl.reshape(tl.join({x}, {x} + 64), (2 * B,))",
    "tl.interleave({x}, {x} + n)",
    "tl.cat({x}, {x} + 64, can_reorder=True)",
    "tl.split(tl.reshape({x}, (B // 2, 2)))[1]",
    "tl.sum(tl.reshape({x}, (B // 2, 2)), 1)",
    "tl.histogram({x} % 4, 8)",
    "tl.ravel({x}[:, None] * 2 + tl.arange(0, 2)[None, :])",
    "{x} + tl.reduce({x} % 7, 0, larger)",
    "{x} + tl.argmax({x} % 5, 0)",
    "{x} * 2 + tl.max({x}, 0)",
    'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [{x}], dtype=tl.int32, is_pure=True, pack=1)',
)
"""Tensors of integers, computed from those of lanes `{x}` and a scalar `{s}`."""


class LibraryIdioms:
    """Writer of such uses as lines of a kernel.

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
        """Write one use of a random kind."""
        kinds = (self.computed_lanes, self.helper, self.compare_and_swap, self.constants, self.grouped, self.reduced_bound)
        self.rng.choices(kinds, (6, 1, 1, 1, 1, 1))[0]()

    def computed_lanes(self) -> None:
        """Write an access whose addresses or mask are computed tensors."""
        name = self.scope.fresh("v")
        lanes = self.rng.choice(
            ("lanes", f"(lanes + {self.scope.integer(1)} % 16)", f"(lanes + {self.rng.choice(self.scope.programs)})")
        )
        self.line(f"{name} = {self.rng.choice(INTEGERS).format(x=lanes, s=self.rng.choice(('1', '5', 'C')))}")
        mask = self.rng.choice(("", f"{name} < {self.scope.integer(1)}", f"{name} % 3 == 0", f"({name} < n) & ({name} >= 0)"))
        self.access(f"{self.rng.choice('xy')} + {self.place()} + {name}", mask)

    def helper(self) -> None:
        """Write an access with what a function of nested tuples returns."""
        pointers, mask, more = (self.scope.fresh(each) for each in ("p", "k", "t"))
        end = f"{self.place()} + {self.scope.integer(1)}"
        self.line(f"{pointers}, {mask}, {more} = nested({self.rng.choice('xy')}, {self.place()}, {end}, B)")
        self.access(pointers, mask)
        self.scope.names.append(more)

    def compare_and_swap(self) -> None:
        old = self.scope.fresh("o")
        self.line(f"{old} = tl.atomic_cas(lock + {self.place()}, 0, 1)")
        self.line(f"tl.store(lock + {self.place()}, {old})")
        if self.rng.random() < 0.4:
            self.line(f"while tl.atomic_cas(lock + {self.place()}, 0, 1) == 7:")
            self.line("    pass")

    def constants(self) -> None:
        """Write an access of a width that is computed from constants."""
        width, half = self.scope.fresh("W"), self.scope.fresh("H")
        value = self.rng.choice(("B * 2", "B // 2", "B * 4 // 2", "triton.next_power_of_2(C * 3)"))
        self.line(f"{width}: tl.constexpr = {value}")
        self.line(f"{half}: tl.constexpr = {width} > 16")
        at = f"tl.arange(0, {width})"
        self.line(f"if {half}:")
        self.line(f"    tl.store(out + {self.place()} + {at}, 1.0, mask={at} < {self.scope.integer(1)})")
        self.line("else:")
        self.line(f"    acc += tl.sum(tl.load(out + {self.place()} + {at}))")

    def grouped(self) -> None:
        """Write an access of tiles in Triton's own order of groups."""
        row, column = self.scope.fresh("t"), self.scope.fresh("t")
        first, second = self.rng.choice((("pid // m", "pid % m"), ("pid", "0"), ("pid % n", "pid // n")))
        rows, group = self.rng.choice(("n", "tl.cdiv(n, C)")), self.rng.choice("234")
        self.line(f"{row}, {column} = tl.swizzle2d({first}, {second}, {rows}, m, {group})")
        self.access(f"x + {self.place()} + {row} * 64 + {column} * B + lanes", self.rng.choice(("", f"lanes < {column} + 3")))
        self.scope.names += [row, column]

    def reduced_bound(self) -> None:
        """Write a loop or branch whose bound is reduced from a tensor of lanes."""
        bound, index = self.scope.fresh("b"), self.scope.fresh("j")
        forms = (
            "tl.max(tl.where(lanes < {e}, lanes, 0), 0)",
            "tl.sum((lanes < {e}).to(tl.int32), 0)",
            "tl.min(lanes + {e}, 0)",
        )
        form = self.rng.choice(forms)
        self.line(f"{bound} = {form.format(e=self.scope.integer(1))}")
        self.line(f"for {index} in range({bound}):")
        self.line(f"    tl.store(out + {self.place()} + {index} * B + lanes, 1.0)")
