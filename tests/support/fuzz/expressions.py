"""Random integer expressions and conditions from the names in scope."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from random import Random


class Scope:
    """Integers in scope: `names`.

    The last of `moving` changes in every iteration of the innermost loop.
    """

    def __init__(self, rng: Random, names: Sequence[str]) -> None:
        self.rng, self.names = rng, list(names)
        self.programs: list[str] = []
        self.moving: list[str] = []
        self._count = 0

    @contextmanager
    def inside(self, names: Sequence[str], moving: str) -> Generator[None]:
        before = list(self.names)
        self.names += [*names, *names]  # inner names are used more often
        self.moving += [moving] if moving else []
        yield
        self.names = before
        if moving:
            self.moving.pop()

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, low: int = 0, high: int = 9) -> str:
        return str(self.rng.randint(low, high))

    def divisor(self) -> str:
        """Return a divisor that is never 0."""
        return self.rng.choice(("2", "3", "4", "5", "7", "8", "B", "C", "n", "m", "k"))

    def integer(self, depth: int) -> str:
        """Return an expression of about this depth, mostly of small value."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.25:
            return self.constant() if rng.random() < 0.2 else rng.choice(self.names)
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        form = rng.choices(
            (
                "({a} + {b})", "({a} - {b})", "({a} * {c})", "({a} // {d})", "({a} % {d})", "tl.cdiv({a}, {d})",
                "min({a}, {b})", "max({a}, {b})", "tl.minimum({a}, {b})", "tl.where({t}, {a}, {b})", "({a} * {b})",
                "({a} & 3)", "({a} >> 1)", "first({a}, {b}, C)", "max({a}, 0)", "({a} + {c})", "(-{a})", "({a} ^ 1)",
                "({a} << 1)", "(({a} + {d} - 1) // {d} * {d})", "tl.where({t}, 1, 0)",
                "({a} & 6)", "({a} | 5)", "({a} & -4)", "({a} ^ 9)", "tl.abs({p} - {b})", "({p} * 40).to(tl.int8).to(tl.int32)",
            ),
            (5, 4, 3, 4, 3, 3, 3, 2, 1, 0.7, 0.7, 0.5, 0.4, 0.4, 1, 3, 0.3, 0.1, 0.2, 1, 0.3, 0.2, 0.2, 0.2, 0.2, 0.3, 0.1),
        )[0]  # fmt: skip
        return form.format(
            a=a,
            b=b,
            c=self.constant(1, 6),
            d=self.divisor(),
            p=rng.choice(self.programs),
            t=self.test() if "{t}" in form else "",
        )

    def computed(self, depth: int) -> str:
        """Return an integer that a variable may become.

        It is unknown before the kernel runs.
        """
        return f"{self.rng.choice(self.programs)} * {self.constant(0, 3)} + {self.integer(depth)}"

    def test(self) -> str:
        """Return a comparison of scalars."""
        rng, a = self.rng, self.integer(1)
        if rng.random() < 0.25:
            return f"{a} % {rng.choice(('2', '3', 'C', 'k'))} {rng.choice(('==', '!=', '<'))} {self.constant(0, 2)}"
        return f"{a} {rng.choice(('<', '<', '<=', '>', '>=', '==', '!='))} {self.integer(1)}"

    def condition(self) -> str:
        """Return the condition of an `if`."""
        form = self.rng.choices(
            ("{a}", "({a}) and ({b})", "({a}) or ({b})", "not ({a})", "({a}) & ({b})"), (6, 1, 1, 0.5, 0.5)
        )[0]
        return form.format(a=self.test(), b=self.test())

    def range(self) -> str:
        rng = self.rng
        low, high = self.integer(1), self.integer(2)
        step = rng.choice(("2", "3", "B", "C", "C", "k", "m"))
        form = rng.choices(
            (
                "range({h})", "range({l}, {h})", "range({l}, {h}, {s})", "range(0, {h}, {s})", "range({h}, {l}, -{c})",
                "tl.range({l}, {h}, num_stages=2)", "range(0, tl.cdiv({h}, C))", "range({p}, {p} + {c})", "range({p} + 1)",
            ),
            (3, 3, 2, 2, 0.7, 0.3, 1.5, 0.7, 1),
        )[0]  # fmt: skip
        return form.format(h=high, l=low, s=step, c=rng.choice((1, 2, 3)), p=rng.choice(self.programs or ["n"]))
