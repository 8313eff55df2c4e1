"""Split index sets: cut loops where a choice switches, and merge pieces.

Pieces with equal bodies are merged.

Example: a causal kernel pairs the longest row block with the shortest. Pair r takes block b - 1 - r, then block r; of an odd
number b the middle one is alone. Split by the two cases, this is a sum over the blocks from b - 1 down to b/2 and one from 0 to
b/2. These merge into one sum over all blocks. Every step is an identity of sums for any lengths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product

from ioaware.analysis.ir.accesses.access_log import Loop
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, Test, poly
from ioaware.analysis.ir.algebra.prover import nonnegative, positive
from ioaware.analysis.ir.algebra.simplify import simplify
from ioaware.analysis.ir.loops.substitution import Placed, Rewriting, all_expressions
from ioaware.analysis.ir.loops.tile_schedules import assume_test, tests_of_choices
from ioaware.analysis.ir.sums.closed_forms import linear
from ioaware.analysis.ir.sums.reindex import floors

FEW = 4  # most iterations that are enumerated
MAX_PIECES = 8


@lru_cache(maxsize=256)
def split_and_merge(plain: Placed) -> tuple[Placed, ...]:
    """Return the sum as few sums without choices, if splitting leads there.

    Else unchanged.
    """
    parts, apart = list[Placed](), [plain]
    while apart and len(parts) + len(apart) <= MAX_PIECES:
        part = apart.pop()
        smaller = _taken_apart(part)
        if smaller is None:
            parts.append(part)
        else:
            apart += smaller
    folded = [] if apart or len(parts) == 1 else _folded(parts)
    found = [_narrowed(part) for part in folded] if folded and len(folded) < len(parts) else [plain]
    return tuple(_plainly_named(part) for part in found)


def _plainly_named(part: Placed) -> Placed:
    """Drop loops of one iteration and restore the source names.

    Equal loops then compare equal.
    """
    for at, loop in enumerate(part.scopes):
        if not isinstance(loop, Loop):
            continue
        if loop.high - loop.low == ONE:
            return _plainly_named(_at(part, at, loop, loop.low))
        name = re.sub(r"_\d+$", "", loop.index.name)
        values = (*all_expressions(part.values, part.scopes), *part.programs.sizes)
        taken = {key.partition("[")[0] for value in values for key in value.free}
        taken |= {scope.index.name for scope in part.scopes if isinstance(scope, Loop)}
        if name not in taken:
            index = Symbol(name, loop.index.lower, loop.index.upper)
            return _plainly_named(_with_loop(part, at, Loop(index, loop.low, loop.high), {loop.index.key: poly(index)}))
    return part


def _taken_apart(part: Placed) -> list[Placed] | None:
    """Split one loop by digits, into iterations, or where a choice switches.

    The iterations are few, and the switch is that of the choice's test.
    """
    asked = [
        (at, loop, test) for at, loop in enumerate(part.scopes) if isinstance(loop, Loop) for test in _tests(part, at, loop)
    ]
    for at, loop, test in asked:
        if divisor := next((d for d in _divisors(test, loop)), None):
            return [_in_digits(part, at, loop, divisor)]
    for at, loop, _ in asked:
        if few := _few(loop):
            return [_at(part, at, loop, loop.low + turn) for turn in range(few)]
    for at, loop, test in asked:
        found = linear(test.value, loop.index) if not test.equal else None
        if found is not None and (positive(found[0]) or positive(-found[0])):
            return list(_cut(part, at, loop, test, *found))
    return None


def _tests(part: Placed, at: int, loop: Loop) -> list[Test]:
    """Return tests of a loop's index that choices inside it depend on."""
    return [
        test for test in tests_of_choices(all_expressions(part.values, part.scopes[at + 1 :])) if loop.index.key in test.free
    ]


def _few(loop: Loop) -> int:
    """Return the number of iterations if it is at most FEW, else 0."""
    times = (loop.high - loop.low).constant
    return int(times) if times is not None and 0 < times <= FEW else 0


def _at(part: Placed, at: int, loop: Loop, turn: Poly) -> Placed:
    """Replace the loop by its iteration at index `turn`."""
    rewrite = Rewriting({loop.index.key: turn})
    inner = [rewrite.scope(scope) for scope in part.scopes[at + 1 :]]
    return Placed(tuple(map(rewrite, part.values)), (*part.scopes[:at], *inner), part.programs)


def _cut(part: Placed, at: int, loop: Loop, test: Test, slope: Poly, offset: Poly) -> Iterator[Placed]:
    """Yield the part below the switch and the part from it on.

    The index keeps its known bounds.
    """
    rises = positive(slope)
    cut, early = (-floor_div(offset, slope), ZERO) if rises else (floor_div(offset, -slope) + 1, ONE)
    middle = least(greatest(loop.low, cut), greatest(loop.low, loop.high))
    for truth, low, high in ((early, loop.low, middle), (1 - early, middle, loop.high)):
        yield _with_loop(part, at, Loop(loop.index, low, high), {}, (poly(test), truth))


def _with_loop(part: Placed, at: int, loop: Loop, by: dict[str, Poly], known: tuple[Poly, Poly] | None = None) -> Placed:
    """Replace one loop by another, rewriting its body.

    `known` fixes the outcome of a test.
    """
    rewrite = Rewriting(by, None if known is None else lambda value: assume_test(value, *known))
    inner = [rewrite.scope(scope) for scope in part.scopes[at + 1 :]]
    return Placed(tuple(map(rewrite, part.values)), (*part.scopes[:at], loop, *inner), part.programs)


def _divisors(test: Test, loop: Loop) -> Iterator[Poly]:
    """Yield divisors D of index mod D in a test.

    The loop is a multiple of D long.
    """
    for floor in floors(poly(test)):
        turns = floor_div(loop.high, floor.denominator)
        if floor.numerator == poly(loop.index) and not loop.low.terms and turns * floor.denominator == loop.high:
            yield floor.denominator


def _in_digits(part: Placed, at: int, loop: Loop, divisor: Poly) -> Placed:
    """Replace the loop by two, one over quotients and one over remainders."""
    turns = floor_div(loop.high, divisor)
    tens = Symbol(f"{loop.index.name}_quotient", ZERO, turns - 1)
    ones = Symbol(f"{loop.index.name}_rest", ZERO, divisor - 1)
    rewrite = Rewriting({loop.index.key: divisor * poly(tens) + poly(ones)})
    inner = [rewrite.scope(scope) for scope in part.scopes[at + 1 :]]
    outer = (*part.scopes[:at], Loop(tens, ZERO, turns), Loop(ones, ZERO, divisor))
    return Placed(tuple(map(rewrite, part.values)), (*outer, *inner), part.programs)


def _folded(parts: Sequence[Placed]) -> list[Placed]:
    """Merge pairs of pieces that are one sum over adjacent ranges."""
    for one, other in permutations(range(len(parts)), 2):
        joined = _joined(parts[one], parts[other])
        if joined is not None:
            return _folded([joined, *(part for at, part in enumerate(parts) if at not in (one, other))])
    return list(parts)


def _joined(first: Placed, second: Placed) -> Placed | None:
    """Append `second` to `first`, reversed where it counts down.

    None where they do not match.
    """
    at = next((at for at, (a, b) in enumerate(zip(first.scopes, second.scopes, strict=False)) if a != b), None)
    if at is None or len(first.scopes) != len(second.scopes) or first.programs != second.programs:
        return None
    one, other = first.scopes[at], second.scopes[at]
    if not isinstance(one, Loop) or not isinstance(other, Loop):
        return None
    if not all(nonnegative(loop.high - loop.low) for loop in (one, other)):
        return None  # ranges that end before they begin do not add up
    # each as it is, or counted from its own beginning
    for first_from, then_from in product(dict.fromkeys((ZERO, one.low)), dict.fromkeys((ZERO, other.low))):
        low, end = simplify(one.low - first_from), simplify(one.high - first_from)
        start, stop = simplify(other.low - then_from), simplify(other.high - then_from)
        top = simplify(end + stop - 1)
        for high, back in ((stop, False), (simplify(top + 1 - start), True)):
            if not back and start != end:
                continue
            index = Symbol(one.index.name, low, high - 1)
            loop, place = Loop(index, low, high), top - poly(index) if back else poly(index)
            moved = _with_loop(first, at, loop, {one.index.key: poly(index) + first_from})
            if moved == _with_loop(second, at, loop, {other.index.key: place + then_from}):
                return moved
    return None


def _narrowed(part: Placed) -> Placed:
    """Bound every index by the range of its loop."""
    for at, scope in enumerate(part.scopes):
        if isinstance(scope, Loop) and (scope.index.lower, scope.index.upper) != (scope.low, scope.high - 1):
            index = Symbol(scope.index.name, scope.low, scope.high - 1)
            loop = Loop(index, scope.low, scope.high)
            return _narrowed(_with_loop(part, at, loop, {scope.index.key: poly(index)}))
    return part
