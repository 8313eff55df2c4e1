"""Judge all configurations of autotuned kernels.

Formulas are of an autotuner's first configuration, and on a GPU any may be the fastest. Each other one is derived by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ioaware.gate.budgets import Judgement, judge
from ioaware.gate.derived_work import work_of
from ioaware.gate.verdict import Verdict, worst

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived

DeriveWith = Callable[[Mapping[str, Any]], "Derived"]
"""Derives the call with given values of configurations.

For example `{"kernel:BLOCK": 64}`.
"""
MOST_COMBINATIONS = 64
"""Most combinations of configurations of several kernels that are derived."""
COMPILE_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Values of a configuration that leave the bytes as they are."""


def configurations_of(derived: Derived, chosen: Mapping[str, Any] = {}, *, options: bool = False) -> list[dict[str, Any]]:
    """Return the configurations of autotuned kernels, as `derive` takes them.

    Those that differ in compile options alone move the same bytes, and are one unless `options`. A kernel with one is left
    out, and so is a configuration without the `chosen` values.
    """
    return list(itertools.chain.from_iterable(_choices(derived, chosen, options=options)))


def combinations_of(derived: Derived, chosen: Mapping[str, Any], *, options: bool = False) -> Iterator[dict[str, Any]]:
    """Yield each combination of configurations of several kernels."""
    for parts in itertools.product(*_choices(derived, chosen, options=options)):
        if parts:
            yield {name: value for part in parts for name, value in part.items()}


def _choices(derived: Derived, chosen: Mapping[str, Any], *, options: bool) -> list[list[dict[str, Any]]]:
    """Return the configurations of each kernel that has a choice."""
    found: list[list[dict[str, Any]]] = []
    for kernel, given in derived.configurations.items():
        wanted = {name: value for owner, _, name, value in _parts(chosen) if owner in ("", kernel)}
        allowed = [one for one in given if wanted.items() <= one.items()]
        kept = dict.fromkeys(tuple(one.items()) if options else _constants(one) for one in allowed)
        if len(kept) > 1:
            found.append([{f"{kernel}:{name}": value for name, value in values} for values in kept])
    return found


def _parts(chosen: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    return ((*name.rpartition(":"), value) for name, value in chosen.items())


def _constants(configuration: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in configuration.items() if name not in COMPILE_OPTIONS)


def _derived_with(derive_with: DeriveWith, chosen: Mapping[str, Any]) -> Derived | None:
    """Return a derivation with a configuration; None where the GPU cannot run it."""
    from ioaware.fakegpu.autotuning import NoConfigurationError

    try:
        return derive_with(chosen)
    except NoConfigurationError:
        return None


def judge_all(
    derived: Derived,
    derive_with: DeriveWith,
    budgets: Mapping[str, Any],
    chosen: Mapping[str, Any] = {},
) -> list[Judgement]:
    """Return the verdict on each budget, the worst of all configurations.

    Spills differ by warps and stages too. Several kernels are judged in each combination.
    """
    found = judge(work_of(derived), budgets)
    others = list(itertools.islice(combinations_of(derived, chosen, options="max_spills" in budgets), _limit(derived) + 1))
    if len(others) > _limit(derived):
        reason = f"the kernels have over {MOST_COMBINATIONS} combinations of configurations"
        return [_worse(one, Judgement(one.budget, Verdict.UNSURE, reason)) for one in found]
    count = 0
    for values in others:
        if all(one.verdict in (Verdict.WORSE, Verdict.INCOMPARABLE) for one in found):
            return found
        if other := _derived_with(derive_with, values):
            count += 1
            named = [_named(one, values) for one in judge(work_of(other), budgets)]
            found = [_worse(one, now) for one, now in zip(found, named, strict=True)]
    return [_counted(one, count) for one in found]


def _limit(derived: Derived) -> int:
    """Return the most combinations to derive: of one kernel all of its configurations."""
    alone = [len(given) for given in derived.configurations.values()]
    return max([MOST_COMBINATIONS, *alone])


def _named(judgement: Judgement, values: Mapping[str, Any]) -> Judgement:
    return Judgement(judgement.budget, judgement.verdict, f"{judgement.reason}, with {named(values)}")


def named(values: Mapping[str, Any]) -> str:
    """Return the values of a configuration as text, without the names of kernels."""
    return ", ".join(f"{name.rpartition(':')[2]}={value}" for name, value in values.items())


def _worse(one: Judgement, other: Judgement) -> Judgement:
    """Return the first judgement unless the other has a worse verdict."""
    return one if worst((one.verdict, other.verdict)) is one.verdict else other


def _counted(judgement: Judgement, count: int) -> Judgement:
    if judgement.verdict is not Verdict.SAME or not count:
        return judgement
    return Judgement(judgement.budget, judgement.verdict, f"{judgement.reason}; within it with each of {count} configurations")
