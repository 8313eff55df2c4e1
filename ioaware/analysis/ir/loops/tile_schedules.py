"""Which program of a persistent kernel has which tile: that each tile is somebody's, and nobody else's, is proven here.

In turn      `for t in range(pid, tiles, P)` with P programs, or `for i in range(cdiv(tiles - pid, P))` and t = pid + P i:
             every number from 0 up to `tiles` is pid + P i for one pair of 0 <= pid < P and i >= 0.
To and fro   t = P i + s, where s is pid in some turns and P - 1 - pid in the others. In each turn s is a permutation of the
             programs, so all t are again different, and as t ascends with i, those below `tiles` are the first of each
             program: floor(tiles/P), and one more for which s of the turn floor(tiles/P) is below what is left over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ioaware.analysis.ir.accesses.access_log import Loop
from ioaware.analysis.ir.algebra.constructors import floor_div, rebuild, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Choice, Extreme, Poly, Symbol, Test, parts, poly
from ioaware.analysis.ir.algebra.predicates import negated
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.analysis.ir.loops.substitution import Placed, Rewriting, everything, expressions
from ioaware.analysis.ir.sums.reindex import floors


def swept(plain: Placed, at: int) -> Placed | None:
    """With the loop `at` and its axis of the grid made one loop over the tiles; None where they are dealt in no known way."""
    loop = plain.scopes[at]
    if not isinstance(loop, Loop):
        return None
    dealt = _in_turn(loop, plain.programs)
    if dealt is not None:
        axis, tiles, step = dealt
        return None if plain.programs.indices[axis].key in step.free else _over_tiles(plain, at, axis, tiles, step)
    return _by_rounds(plain, at, loop)


def _in_turn(loop: Loop, programs: Programs) -> tuple[int, Poly, Poly] | None:
    """The axis whose programs share the tiles, how many tiles there are, and how many programs."""
    if loop.source is not None:
        start, stop, step = loop.source
        axes = [axis for axis, index in enumerate(programs.indices) if start == poly(index)]
        return (axes[0], stop, step) if axes and _covers(programs.sizes[axes[0]], stop, step) else None
    for axis, (pid, size) in enumerate(zip(programs.indices, programs.sizes, strict=True)):
        for floor in floors(loop.high) if not loop.low.terms else ():
            more = loop.high - poly(floor)
            stop = floor.numerator + poly(pid) + 1 + (more - 1) * size  # i < floor(n / P) + c says P i < n + 1 + (c - 1) P
            if floor.denominator == size and pid.key not in more.free | stop.free | size.free:
                return axis, stop, size
    return None


def _covers(programs: Poly, stop: Poly, step: Poly) -> bool:
    """Whether there are as many programs as the step is long, or fewer because there is less to do."""
    if programs == step:
        return True
    named = programs.atom
    exactly = named.lower if isinstance(named, Symbol) and named.lower == named.upper else None
    atom = exactly.atom if exactly is not None else named
    return isinstance(atom, Extreme) and atom.least and set(atom.args) == {stop, step}


def _by_rounds(plain: Placed, at: int, loop: Loop) -> Placed | None:
    """Where every program has so many rounds, and one more if it sits low enough in the last: in turn, or to and fro."""
    turns = _added(loop.high)
    for axis, (pid, size) in enumerate(zip(plain.programs.indices, plain.programs.sizes, strict=True)):
        if loop.low.terms or size == ONE or pid.key not in turns.free:
            continue
        for extra in sorted(turns.atoms, key=lambda atom: atom.key):
            if not isinstance(extra, Test) or extra.equal or turns.terms.get((extra,)) != 1:
                continue
            rounds = turns - poly(extra)
            for step in (size, *_most(size)):
                dealt = _Dealt(plain, at, axis, extra.value, rounds, step)
                found = dealt.in_turn() or dealt.to_and_fro()
                if found is not None:
                    return found
    return None


def _added(turns: Poly) -> Poly:
    """One of two numbers of turns as the smaller one and a test."""
    atom = turns.atom
    return atom.other + atom.condition if isinstance(atom, Choice) and atom.then - atom.other == ONE else turns


def _most(programs: Poly) -> list[Poly]:
    """The most programs that there can be, where it takes many tiles to have as many."""
    named = programs.atom
    exactly = named.lower.atom if isinstance(named, Symbol) and named.lower is not None else named
    return [arg for arg in exactly.args if arg.constant] if isinstance(exactly, Extreme) else []


@dataclass(frozen=True, slots=True)
class _Dealt:
    """Programs of an axis that have `rounds` tiles each, and one more where `left` >= 0, in steps of `step`."""

    plain: Placed
    at: int
    axis: int
    left: Poly
    rounds: Poly
    step: Poly

    @property
    def pid(self) -> Symbol:
        return self.plain.programs.indices[self.axis]

    def in_turn(self) -> Placed | None:
        tiles = self.tiles(self.left, poly(self.pid))
        return None if tiles is None else _over_tiles(self.plain, self.at, self.axis, tiles, self.step)

    def tiles(self, left: Poly, seat: Poly) -> Poly | None:
        """The tiles, where `left` says that the seat is below what rounds of all programs leave of them."""
        tiles = left + self.step * self.rounds + 1 + seat
        programs = self.plain.programs.sizes[self.axis]
        known = self.pid.key not in tiles.free and floor_div(tiles, self.step) == self.rounds
        return tiles if known and _covers(programs, tiles, self.step) else None

    def to_and_fro(self) -> Placed | None:
        """Programs sit in one order or in the other, which a test of the turn decides."""
        if self.step != self.plain.programs.sizes[self.axis]:
            return None
        there_and_back = poly(self.pid), self.step - 1 - poly(self.pid)
        for test, last in self.turning():
            for seats in (there_and_back, there_and_back[::-1]):
                ways = dict(zip((ONE, ZERO), seats, strict=True))
                told = {
                    self.tiles(self.left if last == truth else settled(self.left, last, truth), seat)
                    for truth, seat in ways.items()
                    if last.constant is None or last == truth
                }
                tiles = told.pop() if len(told) == 1 else None
                if tiles is None:
                    continue
                one, other = (_over_tiles(self.plain, self.at, self.axis, tiles, self.step, way, test) for way in ways.items())
                if one is not None and one == other:
                    return one
        return None

    def turning(self) -> list[tuple[Test, Poly]]:
        """What decides in which order programs sit in a turn, and in the last: a test that choices inside the loop depend on,
        or one of how often the loop runs where nothing inside asks for the turn."""
        loop = self.plain.scopes[self.at]
        turn = loop.index.key if isinstance(loop, Loop) else ""
        inside = tests_of_choices(everything(self.plain.values, self.plain.scopes[self.at + 1 :]))
        mine = [test for test in inside if turn in test.free and self.pid.key not in test.free]
        if mine:
            return [(test, substitute(poly(test), {turn: self.rounds})) for test in mine]
        return [(test, poly(test)) for test in tests_of_choices([self.left]) if self.pid.key not in test.free]


def tests_of_choices(values: Iterable[Poly]) -> list[Test]:
    """Tests that choices depend on."""
    found: dict[Test, None] = {}
    for value in values:
        for atom in sorted(value.atoms, key=lambda atom: atom.key):
            if isinstance(atom, Choice):
                found.update((test, None) for test in atom.condition.atoms if isinstance(test, Test))
            found.update((test, None) for test in tests_of_choices(parts(atom)))
    return list(found)


def _unused(name: str, plain: Placed) -> str:
    """The name, or with lines behind it, that nothing has yet."""
    values = (*everything(plain.values, plain.scopes), *plain.programs.sizes)
    taken = {key.partition("[")[0] for value in values for key in value.free}
    taken |= {scope.index.name for scope in plain.scopes if isinstance(scope, Loop)}
    while name in taken:
        name += "_"
    return name


def settled(value: Poly, test: Poly, truth: Poly) -> Poly:
    """The value where a test is known to hold (1) or to fail (0)."""
    atom, opposite = test.atom, negated(test).atom
    return rebuild(value, lambda found: truth if found == atom else 1 - truth if found == opposite else None, test.free)


def _over_tiles(
    plain: Placed, at: int, axis: int, tiles: Poly, step: Poly, way: tuple[Poly, Poly] | None = None, test: Test | None = None
) -> Placed | None:
    """With tile = step t + seat as the index, where nothing but the tile is asked for.

    The seat is the program's number; or `way` says what a test of the turn comes to, and which seat the program has then.
    """
    loop, programs = plain.scopes[at], plain.programs
    pid = programs.indices[axis]
    if not isinstance(loop, Loop) or pid.key in tiles.free:
        return None
    tile = Symbol(_unused("tile", plain), ZERO, tiles - 1)  # one name, so that loops over the same tiles are the same loop
    seat = poly(tile) - step * poly(loop.index)
    if way is None or test is None:
        rewrite = Rewriting({pid.key: seat})
    else:
        truth, place = way
        back = substitute(place, {pid.key: seat})  # both ways of sitting are their own way back
        rewrite = Rewriting({pid.key: back}, lambda value: settled(value, poly(test), truth))
    inner = [rewrite.scope(scope) for scope in plain.scopes[at + 1 :]]
    moved = tuple(map(rewrite, plain.values))
    outer = plain.scopes[:at]
    if any({pid.key, loop.index.key} & value.free for value in everything(moved, inner)):
        return None
    if any(pid.key in value.free for scope in outer for value in expressions(scope)):
        return None
    sizes = [ONE if other == axis else size for other, size in enumerate(programs.sizes)]
    grid = Programs(programs.indices, (sizes[0], sizes[1], sizes[2]))
    return Placed(moved, (*outer, Loop(tile, ZERO, tiles), *inner), grid)
