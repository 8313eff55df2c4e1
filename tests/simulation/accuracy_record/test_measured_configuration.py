"""An unnamed configuration of a recorded launch is found by its resources."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.machine import find_machine
from ioaware.result import Result, Traffic
from ioaware.simulation.accuracy_record.measured_configuration import compiled_otherwise, measured_tuning
from ioaware.simulation.predictions import predict_point
from ioaware.targets.target import load_target


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (1, 4, 8)], key=["n"])
@triton.jit
def centred(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value - tl.sum(value, 0), mask=at < n)


def rows(n: int = 1 << 14, device: str = "cuda") -> Callable[[], object]:
    x = torch.empty(n, device=device)
    return lambda: centred[(triton.cdiv(n, 4096),)](x, torch.empty_like(x), n, BLOCK=4096)


def _recorded(warps: int, params: dict[str, int]) -> Result:
    """Return what a record says of a run with so many warps: not how many."""
    target = load_target(rows)
    derived = derive(target, target.resolve(params), autotune={"num_warps": warps})
    launches = tuple(replace(one, configuration=None, hbm=Traffic(1, 1)) for one in derived.launches)
    return Result("measure", f"{__file__}:rows", derived.params, launches=launches, hbm=Traffic(1, 1))


def test_resources_tell_the_configuration() -> None:
    target = load_target(rows)
    params = target.resolve({})
    first = derive(target, params)
    for warps in (1, 4, 8):
        measured = _recorded(warps, {})
        assert compiled_otherwise(first, measured) == (warps != 1)
        assert measured_tuning(measured, target, params)["centred:num_warps"] == warps
    unlike = replace(_recorded(4, {}), launches=tuple(replace(one, registers=7) for one in _recorded(4, {}).launches))
    assert measured_tuning(unlike, target, params) == {}


def test_a_point_is_predicted_as_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ioaware.simulation.simulate")

    chosen: list[object] = []
    plain: Callable[..., object] = module.simulate

    def simulate(*args: object, **kwargs: object) -> object:
        chosen.append(kwargs["autotune"])
        return plain(*args, **kwargs)

    monkeypatch.setattr(module, "simulate", simulate)
    assert not predict_point(_recorded(8, {}), find_machine("H200")).failed
    assert chosen == [{}, {"centred:num_warps": 8, "centred:num_stages": 3}]
