"""Closed forms of what waves read, beside the replay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioaware.machine import find_machine_or_file
from ioaware.simulation.regimes import sweep_bytes
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import LaunchSimulation, TensorTraffic
from ioaware.simulation.waves.closed_form import closed_form_lines, closed_forms
from ioaware.targets.target import load_target


def launch(read: int, waves: int = 10, usable: int = 50) -> LaunchSimulation:
    """Return a launch of which each wave reads 100 bytes of one tensor."""
    tensor = TensorTraffic("k", read, 0, 100, 100 * waves, {"wave": 0, "capacity": 0, "skew": 0}, 0, 0, None)
    return LaunchSimulation(1, 1, "warps", waves, (tensor,), (0, 0), (0, 0), 0, usable_l2_bytes=usable)


@pytest.mark.parametrize(
    ("read", "nearest"), [(1000, "lru"), (960, "lru"), (800, "random"), (550, "sawtooth"), (100, "sawtooth")]
)
def test_the_form_nearest_to_the_replay(read: int, nearest: str) -> None:
    (found,) = closed_forms(launch(read))
    assert found.nearest == nearest
    assert found.read_bytes == {"lru": 1000, "random": pytest.approx(817, abs=1), "sawtooth": 550}


def test_what_fits_is_read_once() -> None:
    (found,) = closed_forms(launch(100, usable=100))
    assert (found.nearest, found.read_bytes) == ("fits", {"fits": 100})


def test_one_wave_and_an_unknown_l2_have_none() -> None:
    assert closed_forms(launch(100, waves=1)) == []
    assert closed_forms(replace(launch(1000), usable_l2_bytes=0)) == []


def test_attention_beyond_the_l2_is_the_form_of_the_theory() -> None:
    target = load_target("flash2")
    params = target.resolve({"seq_len": 65536, "heads": 2, "head_dim": 128})
    found = simulate(target, params, machine=find_machine_or_file("H200"), ranges=False)
    (how,) = found.simulations
    assert how is not None
    forms = {one.tensor: one for one in closed_forms(how)}
    footprint = 65536 * 128 * 2
    for name in ("K", "V"):
        expected = sweep_bytes(2, 65536 // 64, how.programs_at_once, footprint, 1, "lru")
        assert forms[name].read_bytes.get("lru", forms[name].read_bytes.get("fits")) in (expected, 2 * footprint)
    data = found.to_dict()["launches"][0]["simulation"]["tensors"]
    assert {one["tensor"] for one in data if "closed_form" in one} == {"K", "V"}
    assert "the usable L2 holds 32.44 MB" in closed_form_lines([("flash2_kernel", how)])[0]
