"""Interpret loops and branches: trip counts and loop-carried values.

Loop-carried values are functions of the iteration.

A carried value is found by induction: interpret the body once with a symbol for it and solve the recurrence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import TypeAlias

from ioaware.analysis.ir.accesses.access_log import Condition, Loop
from ioaware.analysis.ir.accesses.values import CARRIED, Value, select
from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Choice, Poly, Symbol, Test, Unknown, poly
from ioaware.analysis.ir.algebra.predicates import choice, is_zero, negation, resolve_tests
from ioaware.analysis.ir.algebra.prover import positive
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter, short
from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.sums.closed_forms import linear
from ioaware.analysis.ir.sums.summation import sum_over

Body: TypeAlias = Callable[[Sequence[Value]], list[Value]]

_FOR = re.compile(r"(?:unsigned )?(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(?: iter_args\((.*?)\))?")


def _for(walk: Interpreter, operation: Operation) -> None:
    """Interpret `scf.for %i = %low to %high step %step iter_args(%a = %init)`.

    The loop runs while %i < %high, whatever the sign of its step. The counts assume that it is positive.
    """
    found = _FOR.match(operation.text)
    if not found:
        raise walk.unsupported(operation, "its header")
    walk.requires_width(operation, *(walk.value(found[at]) for at in (2, 3, 4)))
    low, high, step = (_number(walk, operation, found[at]) for at in (2, 3, 4))
    pairs = [part.split(" = ") for part in split_top(found[5] or "")]
    names, init = [name for name, _ in pairs], [walk.value(value.strip()) for _, value in pairs]
    if not walk.record.rehearsing and not positive(step):
        walk.record.steps.setdefault(step, walk.where(operation))
    if step == ONE:
        index = walk.fresh(found[1], low, high - 1)
        loop, variable, count = Loop(index, low, high), poly(index), poly(index) - low
    else:
        trips = greatest(ZERO, floor_div(high - low + step - 1, step))
        index = walk.fresh(found[1], ZERO, trips - 1)
        loop, variable, count = Loop(index, ZERO, trips, (low, high, step)), low + step * poly(index), poly(index)
    kind = walk.value(found[2]).type

    def body(carried: Sequence[Value]) -> list[Value]:
        walk.bind([found[1], *names], [Value(kind, variable), *carried])
        with walk.record.inside(loop):
            return walk.run_region(operation, 0)

    trips = greatest(ZERO, loop.high - loop.low)
    if not trips.terms:  # it never runs
        walk.bind(operation.results, init)
        return
    entering = carried_values(walk, operation, names, init, body, index, count)
    body(entering)
    walk.bind(operation.results, substitute_index(entering, index, loop.low + trips))


def substitute_index(values: Sequence[Value], index: Symbol, by: Poly) -> list[Value]:
    """Return the values at one iteration."""
    return [value.mapped(value.type, lambda e: substitute(e, {index.key: by})) for value in values]


def _number(walk: Interpreter, operation: Operation, name: str) -> Poly:
    number = walk.value(name).number
    if number is None:
        raise walk.unsupported(operation, f"{name} is not a number")
    return number


def carried_values(
    walk: Interpreter,
    operation: Operation,
    names: Sequence[str],
    init: Sequence[Value],
    body: Body,
    index: Symbol,
    count: Poly,
) -> list[Value]:
    """Return the carried values at the start of iteration `count`.

    They are expressions of the loop's index.
    """
    followed = [at for at, value in enumerate(init) if value.number is not None or len(value.targets) == 1]
    if not followed:
        return list(init)
    marks = {at: Symbol(f"{names[at]}:{walk.frames(operation)}{CARRIED}") for at in followed}
    entering = [_with_expression(value, poly(marks[at])) if at in marks else value for at, value in enumerate(init)]
    leaving = _rehearsed(walk, body, entering)
    start = {at: _expression(init[at]) for at in followed}
    end = {at: _expression(leaving[at]) if _same_base(init[at], leaving[at]) else None for at in followed}
    known: dict[str, Poly] = {}
    waiting = dict(marks)
    while waiting:
        solved = False
        for at, mark in list(waiting.items()):
            after = end[at]
            form = None if after is None else _closed(start[at], substitute(after, known), mark, waiting, index, count)
            if form is not None:
                known[mark.key] = form
                del waiting[at]
                solved = True
        if not solved:
            break
    result: list[Value] = []
    for at, value in enumerate(init):
        mark = marks.get(at)
        if mark is None:
            result.append(value)
        elif mark.key in known:
            result.append(_with_expression(value, known[mark.key]))
        else:
            why = "it is carried around a loop, and its recurrence has no rule"
            name = f"{names[at].lstrip('%')}@{short(walk.where(operation))}"
            after = end[at]
            by_lane = after is None or any(key.startswith("lane") for key in after.free | start[at].free)
            args = [*walk.surroundings(), poly(index), *(walk.lanes(value.type) if by_lane else ())]
            source = f"{walk.identity(operation)} {names[at]}"
            unknown = poly(Unknown(name, why, args, value.type.element == "i1", source))
            step = 1 if after is None else _step(after, mark)
            result.append(_with_expression(value, unknown if step <= 1 else start[at] + step * unknown))
    return result


def _rehearsed(walk: Interpreter, body: Body, entering: Sequence[Value]) -> list[Value]:
    """Interpret the body with these values, recording nothing and reserving no name."""
    names = set(walk.names)
    with walk.record.rehearsal():
        leaving = body(entering)
    walk.names.clear()
    walk.names.update(names)
    return leaving


def _closed(start: Poly, after: Poly, mark: Symbol, waiting: Mapping[int, Symbol], index: Symbol, count: Poly) -> Poly | None:
    """Solve mark -> after for its value after `count` iterations.

    None where no rule applies.
    """
    others = {other.key for other in waiting.values()} - {mark.key}
    if after.free & others:
        return None
    added = _added(after, mark)
    if mark.key not in added.free:
        if index.key not in added.free:
            return start + count * added
        earlier = Symbol(f"{index.name}~", index.lower, index.upper)
        first = index.lower if index.lower is not None else ZERO
        return start + sum_over(substitute(added, {index.key: poly(earlier)}), earlier, first, poly(index))
    restart = _restart(start, after, mark, index)
    if restart is not None:
        first, period = restart
        form = first + mod(start - first + count, period)
        return form if positive(period) else choice(is_zero(count), start, form)  # a loop that never runs keeps the start
    if mark.key not in after.free:  # left by the previous iteration
        before = substitute(after, {index.key: poly(index) - 1})
        known = index.lower is not None and substitute(before, {index.key: index.lower}) == start  # as if one ran before
        return before if known else choice(is_zero(count), start, before)
    return None


def _added(after: Poly, mark: Symbol) -> Poly:
    """Return what an iteration adds to the mark, under conditions without the mark."""
    turn = after.atom
    if isinstance(turn, Choice) and mark.key not in turn.condition.free:
        return choice(turn.condition, _added(turn.then, mark), _added(turn.other, mark))
    return after - poly(mark)


def _restart(start: Poly, after: Poly, mark: Symbol, index: Symbol) -> tuple[Poly, Poly] | None:
    """Return a restarting counter's first value and period.

    It is `i += 1; if i == end: i = first`.

    Both hold in iterations of the loop: one that never runs may have an end before the first.
    """
    turn = after.atom
    if not isinstance(turn, Choice) or mark.key in turn.then.free or turn.other != poly(mark) + 1:
        return None
    test, first = turn.condition.atom, turn.then
    if not isinstance(test, Test) or not test.equal:
        return None
    for end in (turn.other + test.value, turn.other - test.value):
        if mark.key not in end.free and _positive_inside(end - first, index) and _counted(start, first, end, index):
            return first, end - first
    return None


def _counted(value: Poly, first: Poly, end: Poly, index: Symbol) -> bool:
    """Return whether the counter certainly takes this value.

    Its values are first to end - 1. It is that many more than the first, or what an iteration made of such a value.
    """
    turn, more = value.atom, (value - first).constant
    if more is not None:
        return more == 0 or (more > 0 and _positive_inside(end - value, index))
    if not isinstance(turn, Choice) or turn.then != first:
        return False
    test = turn.condition.atom
    restarts = isinstance(test, Test) and test.equal and turn.other - end in (test.value, -test.value)
    return restarts and _counted(turn.other - 1, first, end, index)


def _positive_inside(value: Poly, index: Symbol) -> bool:
    """Return whether the value is positive where this index's loop runs.

    Its iterations, one at least there, are no more than a multiple of the value.
    """
    if positive(value):
        return True
    if index.lower is None or index.upper is None:
        return False
    iterations = index.upper - index.lower + 1
    multiples = {iterations.terms.get(factors, 0) // coefficient for factors, coefficient in value.terms.items() if factors}
    rests = [(iterations - multiple * value).constant for multiple in multiples if multiple > 0]
    return any(rest is not None and rest <= 0 for rest in rests)


def _step(after: Poly, mark: Symbol) -> int:
    """Return a common divisor of all increments of the mark.

    It preserves the mark's alignment.
    """
    turn = after.atom
    if isinstance(turn, Choice):
        return gcd(_step(turn.then, mark), _step(turn.other, mark))
    added = after - poly(mark)
    if mark.key in added.free or not all(isinstance(coefficient, int) for coefficient in added.terms.values()):
        return 1
    return gcd(*(int(coefficient) for coefficient in added.terms.values()))


def _expression(value: Value) -> Poly:
    return value.number if value.number is not None else value.targets[0].offset


def _with_expression(value: Value, expression: Poly) -> Value:
    if value.number is not None:
        return Value(value.type, expression)
    return Value(value.type, None, (replace(value.targets[0], offset=expression),))


def _same_base(before: Value, after: Value) -> bool:
    if before.number is not None:
        return after.number is not None
    return len(after.targets) == 1 and after.targets[0].argument == before.targets[0].argument


def _if(walk: Interpreter, operation: Operation) -> None:
    """Interpret both branches, or one where the condition is certain.

    Both branches are interpreted under their conditions.
    """
    condition = resolve_tests(_number(walk, operation, operation.operands[0]))
    if condition.constant is not None:
        results = walk.run_region(operation, 0 if condition.constant else 1)
        walk.bind(operation.results, results)
        return
    with walk.record.inside(Condition(condition)):
        then = walk.run_region(operation, 0)
    with walk.record.inside(Condition(negation(condition))):
        other = walk.run_region(operation, 1)
    walk.bind(operation.results, [select(condition, a, b) for a, b in zip(then, other, strict=True)])


_WHILE = re.compile(r"\((.*?)\) : ")


def _while(walk: Interpreter, operation: Operation) -> None:
    """Interpret a loop; its trip count is derived, or is an unknown.

    It follows from an inequality in carried values where it is derived.
    """
    found = _WHILE.match(operation.text)
    pairs = [part.split(" = ") for part in split_top(found[1])] if found else []
    names, init = [name for name, _ in pairs], [walk.value(value.strip()) for _, value in pairs]
    index = walk.fresh("trip", ZERO)
    after_names = [name for name, _ in operation.regions[1][0].arguments]
    condition: list[Poly] = []

    def body(carried: Sequence[Value]) -> list[Value]:
        walk.bind(names, carried)
        with walk.record.inside(Loop(index, ZERO, poly(index) + 1)):
            truth, *passed = walk.run_region(operation, 0)
            condition[:] = [truth.number if truth.number is not None else ONE]
            walk.bind(after_names, passed)
            return walk.run_region(operation, 1)

    entering = carried_values(walk, operation, names, init, body, index, poly(index))
    _rehearsed(walk, body, entering)
    trips = _trips(condition[0], index)
    if trips is None:
        name = f"iterations@{walk.where(operation).rsplit('/', 1)[-1]}"
        trips = poly(Symbol(name, ZERO))
        walk.record.note(f"{name} is how often the while loop at {walk.where(operation)} runs, which data decide: not exact")
    asked, turn = Symbol(index.name, ZERO, trips), Symbol(index.name, ZERO, trips - 1)  # an index without an end is a parameter
    walk.bind(names, substitute_index(entering, index, poly(asked)))
    with walk.record.inside(Loop(asked, ZERO, trips + 1)):
        _, *passed = walk.run_region(operation, 0)
    walk.bind(after_names, substitute_index(passed, asked, poly(turn)))
    with walk.record.inside(Loop(turn, ZERO, trips)):
        walk.run_region(operation, 1)
    walk.bind(operation.results, substitute_index(passed, asked, trips))


def _trips(condition: Poly, index: Symbol) -> Poly | None:
    """Return the iterations before `condition` fails.

    Every factor must become false permanently at some index.
    """
    if condition == ZERO:
        return ZERO
    if len(condition.terms) != 1 or next(iter(condition.terms.values())) != 1:
        return None
    ((factors, _),) = condition.terms.items()
    limits: list[Poly] = []
    for test in factors:
        if not isinstance(test, Test) or test.equal or any(isinstance(a, Unknown) for a in test.value.atoms):
            return None
        found = linear(test.value, index)
        if found is None or not positive(-found[0]):
            return None
        limits.append(greatest(ZERO, floor_div(found[1], -found[0]) + 1))
    return least(*limits)


def _call(walk: Interpreter, operation: Operation) -> None:
    name = re.search(r"@([\w.$-]+|\"[^\"]*\")", operation.text)
    if name is None:
        raise walk.unsupported(operation, "a call of no name")
    outer = walk.calls
    walk.calls = (*outer, walk.identity(operation))
    results = walk.run_function(name[1], walk.operands(operation))
    walk.calls = outer
    walk.bind(operation.results, results)


HANDLERS: Mapping[str, Handler] = {"scf.for": _for, "scf.if": _if, "scf.while": _while, "tt.call": _call}

__all__ = ["HANDLERS"]
