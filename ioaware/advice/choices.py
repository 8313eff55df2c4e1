"""List the choices that a target leaves open.

They are parameters of a case, and configurations and program order of other kernels.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from ioaware.cases import CASES
from ioaware.compilation.launches import CapturedLaunch
from ioaware.errors import IoawareError
from ioaware.fakegpu.autotuning import Override
from ioaware.kernels.attention.launching.on_chip_limits import ORDERS
from ioaware.prediction import predict
from ioaware.result import Params, ParamValue

CASE_VALUES: Mapping[str, tuple[ParamValue, ...]] = {
    "order": ORDERS,
    "block_m": (64, 128, 256),
    "block_n": (32, 64, 128),
}
"""Values tried beside the given one."""
REGROUPED = {one: f"{one}_packed" for one in ("gqa", "split_kv")}
"""Cases whose programs pack the query heads that share K and V into one tile.

Their output is the same.
"""
GROUP_NAME = re.compile(r"^(GROUP(_SIZE)?(_M)?|SWIZZLE(_SIZE)?)$", re.IGNORECASE)
"""Constexprs that Triton's matmuls use for the order of programs.

They are GROUP_SIZE_M, GROUP_M, GROUP_SIZE and SWIZZLE.
"""
GROUP_VALUES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A choice before its prediction: what differs from the given parameters.

    `tuning` selects configurations of kernels.
    """

    target: str
    params: Params
    tuning: Mapping[str, ParamValue | Override]
    change: Mapping[str, ParamValue]
    current: bool = False


def case_candidates(target: str, params: Params) -> list[Candidate]:
    """Return every combination of blocks, orders and head groupings of a case.

    The given one is the first.
    """
    found = [Candidate(target, params, {}, _shown(target, params), current=True)]
    for name in _same_output(target):
        declared = {param.name: param for param in CASES[name].params}
        open_params = [one for one in CASE_VALUES if one in declared]
        if params.get("sram_elements") is not None:  # M has set the blocks
            open_params = [one for one in open_params if not one.startswith("block")]
        values = [dict.fromkeys((_plain(params.get(one)), *CASE_VALUES[one])) for one in open_params]
        for combination in itertools.product(*values):
            changed = {**params, **dict(zip(open_params, combination, strict=True))}
            found.append(Candidate(name, changed, {}, _shown(name, changed) | _grouping(name, target)))
    return _once(found)


def _same_output(target: str) -> tuple[str, ...]:
    pairs = [pair for pair in REGROUPED.items() if target in pair]
    return pairs[0] if pairs else (target,)


def _grouping(name: str, target: str) -> dict[str, ParamValue]:
    return {} if name == target else {"case": name}


def _plain(value: ParamValue) -> ParamValue:
    return ORDERS[0] if value is None else value


def _shown(target: str, params: Params) -> dict[str, ParamValue]:
    names = {param.name for param in CASES[target].params}
    return {name: _plain(params.get(name)) for name in CASE_VALUES if name in names}


def _once(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Drop candidates that repeat an earlier one."""
    found: dict[tuple[str, tuple[tuple[str, ParamValue], ...]], Candidate] = {}
    for one in candidates:
        found.setdefault((one.target, tuple(sorted(one.change.items(), key=str))), one)
    return list(found.values())


def configuration_candidates(target: str, params: Params, launches: Sequence[CapturedLaunch]) -> list[Candidate]:
    """Return what the target does now, then each other configuration of each kernel.

    The other kernels stay as they are. Kernels take turns, so that all have some tried where the time is short.
    """
    now: dict[str, ParamValue] = {}
    found: list[list[Candidate]] = []
    for launch in _by_kernel(launches):
        known = {tuple(sorted(one.items())): one for one in launch.alternatives}
        found.append([])
        for values in known.values():
            change = {f"{launch.name}:{name}": value for name, value in values.items()}
            if values == launch.configuration:
                now |= change
            else:
                found[-1].append(Candidate(target, params, change, change))
    in_turns = [one for each in itertools.zip_longest(*found) for one in each if one is not None]
    return [Candidate(target, params, {}, now, current=True), *in_turns]


def fewest_requested_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sort the choices of a case by the requested bytes of its closed form.

    The current one stays first. Those without a closed form come last.
    """

    def requested(one: Candidate) -> float:
        declared = {param.name for param in CASES[one.target].params}
        try:
            given: dict[str, Any] = {name: value for name, value in one.params.items() if name in declared}
            found = predict(one.target, **given)
        except IoawareError:
            return inf
        return inf if found.requested is None else found.requested.total_bytes or 0

    return sorted(candidates, key=lambda one: (not one.current, requested(one)))


def order_candidates(base: Candidate, launches: Sequence[CapturedLaunch]) -> Iterator[Candidate]:
    """Yield other values of parameters that look like an order of programs.

    The parameters are those in a candidate's launches.
    """
    for launch in _by_kernel(launches):
        constants = {param.name for param in launch.kernel.params if param.is_constexpr}
        for name in sorted(constants):
            now = launch.arguments.get(name)
            if not GROUP_NAME.match(name) or type(now) is not int:
                continue
            for value in GROUP_VALUES:
                if value != now:
                    key = f"{launch.name}:{name}"
                    yield Candidate(
                        base.target, base.params, {**base.tuning, key: Override(value)}, {**base.change, key: value}
                    )


def _by_kernel(launches: Sequence[CapturedLaunch]) -> list[CapturedLaunch]:
    """Return the first launch of each kernel."""
    return list({launch.name: launch for launch in reversed(launches)}.values())[::-1]
