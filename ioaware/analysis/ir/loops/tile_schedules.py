"""Tile schedules of persistent kernels.

Each is proven to visit every tile exactly once.

Round robin  `for t in range(pid, tiles, P)` with P programs, or `for i in range(cdiv(tiles - pid, P))` and t = pid + P
i:
             every number from 0 to `tiles` is pid + P i for one pair of 0 <= pid < P and i >= 0.
Serpentine   t = P i + s, where s is pid in some rounds and P - 1 - pid in the others. In each round s permutes the
             programs, so all t differ. As t ascends with i, those below `tiles` are the first of each program:
             floor(tiles/P), and one more where s of round floor(tiles/P) is below the remainder.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ioaware.analysis.ir.accesses.access_log import Loop
from ioaware.analysis.ir.algebra.constructors import floor_div, rebuild, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Choice, Extreme, Poly, Symbol, Test, parts, poly
from ioaware.analysis.ir.algebra.predicates import negation
from ioaware.analysis.ir.loops.access_totals import Programs
from ioaware.analysis.ir.loops.substitution import Placed, Rewriting, all_expressions, scope_expressions
from ioaware.analysis.ir.sums.reindex import floors


def merge_tile_loop(plain: Placed, at: int) -> Placed | None:
    """Merge the loop `at` and its grid axis into one loop over tiles.

    None for an unknown schedule.
    """
    loop = plain.scopes[at]
    if not isinstance(loop, Loop):
        return None
    shared = _in_turn(loop, plain.programs)
    if shared is not None:
        axis, tiles, step = shared
        return None if plain.programs.indices[axis].key in step.free else _over_tiles(plain, at, axis, tiles, step)
    return _by_rounds(plain, at, loop)


def _in_turn(loop: Loop, programs: Programs) -> tuple[int, Poly, Poly] | None:
    """Return the axis of programs that share the tiles, and two counts.

    They are the number of tiles and the number of programs.
    """
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
    """Return whether the number of programs is the step, or less.

    It is less because there are fewer tiles.
    """
    if programs == step:
        return True
    named = programs.atom
    exactly = named.lower if isinstance(named, Symbol) and named.lower == named.upper else None
    atom = exactly.atom if exactly is not None else named
    return isinstance(atom, Extreme) and atom.least and set(atom.args) == {stop, step}


def _by_rounds(plain: Placed, at: int, loop: Loop) -> Placed | None:
    """Merge a loop of equal rounds and one more for low programs.

    The order is round robin or serpentine.
    """
    turns = _added(loop.high)
    for axis, (pid, size) in enumerate(zip(plain.programs.indices, plain.programs.sizes, strict=True)):
        if loop.low.terms or size == ONE or pid.key not in turns.free:
            continue
        for extra in sorted(turns.atoms, key=lambda atom: atom.key):
            if not isinstance(extra, Test) or extra.equal or turns.terms.get((extra,)) != 1:
                continue
            rounds = turns - poly(extra)
            for step in (size, *_most(size)):
                assignment = _Assignment(plain, at, axis, extra.value, rounds, step)
                found = assignment.round_robin() or assignment.serpentine()
                if found is not None:
                    return found
    return None


def _added(turns: Poly) -> Poly:
    """Return a choice between n and n + 1 as n plus a test."""
    atom = turns.atom
    return atom.other + atom.condition if isinstance(atom, Choice) and atom.then - atom.other == ONE else turns


def _most(programs: Poly) -> list[Poly]:
    """Return the constant upper bounds of the number of programs."""
    named = programs.atom
    exactly = named.lower.atom if isinstance(named, Symbol) and named.lower is not None else named
    return [arg for arg in exactly.args if arg.constant] if isinstance(exactly, Extreme) else []


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Programs of an axis with `rounds` tiles each, in steps of `step`.

    They have one more where `left` >= 0.
    """

    plain: Placed
    at: int
    axis: int
    left: Poly
    rounds: Poly
    step: Poly

    @property
    def pid(self) -> Symbol:
        return self.plain.programs.indices[self.axis]

    def round_robin(self) -> Placed | None:
        """Merge where programs keep their order in every round."""
        tiles = self.tiles(self.left, poly(self.pid))
        return None if tiles is None else _over_tiles(self.plain, self.at, self.axis, tiles, self.step)

    def tiles(self, left: Poly, position: Poly) -> Poly | None:
        """Return the number of tiles.

        `left` is the test that `position` is below the remainder of the last round.
        """
        tiles = left + self.step * self.rounds + 1 + position
        programs = self.plain.programs.sizes[self.axis]
        known = self.pid.key not in tiles.free and floor_div(tiles, self.step) == self.rounds
        return tiles if known and _covers(programs, tiles, self.step) else None

    def serpentine(self) -> Placed | None:
        """Merge where a test of the round reverses the order of the programs."""
        if self.step != self.plain.programs.sizes[self.axis]:
            return None
        there_and_back = poly(self.pid), self.step - 1 - poly(self.pid)
        for test, last in self.order_tests():
            for positions in (there_and_back, there_and_back[::-1]):
                ways = dict(zip((ONE, ZERO), positions, strict=True))
                candidates = {
                    self.tiles(self.left if last == truth else assume_test(self.left, last, truth), position)
                    for truth, position in ways.items()
                    if last.constant is None or last == truth
                }
                tiles = candidates.pop() if len(candidates) == 1 else None
                if tiles is None:
                    continue
                one, other = (_over_tiles(self.plain, self.at, self.axis, tiles, self.step, way, test) for way in ways.items())
                if one is not None and one == other:
                    return one
        return None

    def order_tests(self) -> list[tuple[Test, Poly]]:
        """Return the tests that decide the order in a round.

        Each is given with its form in the last round.

        Where no choice inside depends on the round, tests in the trip count are candidates.
        """
        loop = self.plain.scopes[self.at]
        turn = loop.index.key if isinstance(loop, Loop) else ""
        inside = tests_of_choices(all_expressions(self.plain.values, self.plain.scopes[self.at + 1 :]))
        mine = [test for test in inside if turn in test.free and self.pid.key not in test.free]
        if mine:
            return [(test, substitute(poly(test), {turn: self.rounds})) for test in mine]
        return [(test, poly(test)) for test in tests_of_choices([self.left]) if self.pid.key not in test.free]


def tests_of_choices(values: Iterable[Poly]) -> list[Test]:
    """Return the tests that choices depend on."""
    found: dict[Test, None] = {}
    for value in values:
        for atom in sorted(value.atoms, key=lambda atom: atom.key):
            if isinstance(atom, Choice):
                found.update((test, None) for test in atom.condition.atoms if isinstance(test, Test))
            found.update((test, None) for test in tests_of_choices(parts(atom)))
    return list(found)


def _unused(name: str, plain: Placed) -> str:
    """Return the name, with underscores appended until it is free."""
    values = (*all_expressions(plain.values, plain.scopes), *plain.programs.sizes)
    taken = {key.partition("[")[0] for value in values for key in value.free}
    taken |= {scope.index.name for scope in plain.scopes if isinstance(scope, Loop)}
    while name in taken:
        name += "_"
    return name


def assume_test(value: Poly, test: Poly, truth: Poly) -> Poly:
    """Return the value where a test is known to hold (1) or to fail (0)."""
    atom, opposite = test.atom, negation(test).atom
    return rebuild(value, lambda found: truth if found == atom else 1 - truth if found == opposite else None, test.free)


def _over_tiles(
    plain: Placed, at: int, axis: int, tiles: Poly, step: Poly, way: tuple[Poly, Poly] | None = None, test: Test | None = None
) -> Placed | None:
    """Rewrite with tile = step t + position as the index, where only the tile is used.

    The position is the program id. `way` gives the outcome of a test of the round and the position for it.
    """
    loop, programs = plain.scopes[at], plain.programs
    pid = programs.indices[axis]
    if not isinstance(loop, Loop) or pid.key in tiles.free:
        return None
    tile = Symbol(_unused("tile", plain), ZERO, tiles - 1)  # one name, so that loops over the same tiles are the same loop
    position = poly(tile) - step * poly(loop.index)
    if way is None or test is None:
        rewrite = Rewriting({pid.key: position})
    else:
        truth, place = way
        back = substitute(place, {pid.key: position})  # both orders are their own inverse
        rewrite = Rewriting({pid.key: back}, lambda value: assume_test(value, poly(test), truth))
    inner = [rewrite.scope(scope) for scope in plain.scopes[at + 1 :]]
    moved = tuple(map(rewrite, plain.values))
    outer = plain.scopes[:at]
    if any({pid.key, loop.index.key} & value.free for value in all_expressions(moved, inner)):
        return None
    if any(pid.key in value.free for scope in outer for value in scope_expressions(scope)):
        return None
    sizes = [ONE if other == axis else size for other, size in enumerate(programs.sizes)]
    grid = Programs(programs.indices, (sizes[0], sizes[1], sizes[2]))
    return Placed(moved, (*outer, Loop(tile, ZERO, tiles), *inner), grid)
