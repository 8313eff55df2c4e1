"""Sweeps of alternating direction: HBM bytes by the closed form.

The cost of the replay is tested too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ioaware
from ioaware.simulation.regimes import sweep_bytes

SIZES = {"seq_len": 4096, "heads": 1, "head_dim": 64}
HEAD_BYTES = 2 * 4096 * 64 * 2
"""K and V of one head."""
CAPACITY = HEAD_BYTES // 2
AT_ONCE = 4
WAVE_BYTES = AT_ONCE * 64 * (2 * 64 * 2 + 4)
"""Q, O and the log-sum-exp of the programs of a wave.

They also take room in the L2, beside those of the wave before.
"""


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep programs in step.

    A machine file scales no rate to one SM, so that instructions would bound the loop.
    """
    monkeypatch.setattr("ioaware.simulation.planned_launch.rates_by_age", lambda *_: (1.0,))


def small_gpu(tmp_path: Path) -> str:
    """Write one SM and an L2 of one partition that holds half of a head.

    The SM runs four programs.
    """
    path = tmp_path / "small.toml"
    model = 'partitions = 1\ndirty_share = 1.0\ncapacity_spread = 0.0\nskew_spread = 0.0\nsource = "test"'
    path.write_text(f'preset = "H200"\nsms = 1\n[levels.l2]\ncapacity_bytes = {CAPACITY}\n[l2_model]\n{model}\n')
    return str(path)


def kv_reads(machine: str, **order: object) -> int:
    """Return HBM reads of K and V."""
    (launch,) = ioaware.simulate("flash2", machine=machine, **SIZES, **order).simulations
    assert launch
    assert launch.programs_at_once == AT_ONCE
    return sum(one.read_bytes for one in launch.tensors if one.tensor in "KV")


def test_a_wave_sawtooth_is_the_closed_form(tmp_path: Path) -> None:
    """64 row blocks in 16 waves: each but the first begins in the half that is cached."""
    machine = small_gpu(tmp_path)
    assert kv_reads(machine) == sweep_bytes(1, 64, AT_ONCE, HEAD_BYTES, CAPACITY, "lru") == 16 * HEAD_BYTES
    sawtooth = kv_reads(machine, order="wave_sawtooth", programs_at_once=AT_ONCE)
    least, most = (
        sweep_bytes(1, 64, AT_ONCE, HEAD_BYTES, capacity, "sawtooth") for capacity in (CAPACITY, CAPACITY - 2 * WAVE_BYTES)
    )
    assert least <= sawtooth <= most


@pytest.mark.slow
def test_half_a_wave_in_each_direction_shares_less(tmp_path: Path) -> None:
    machine = small_gpu(tmp_path)
    wave, half = (kv_reads(machine, order="wave_sawtooth", programs_at_once=each) for each in (AT_ONCE, AT_ONCE // 2))
    assert wave < half


def test_a_reversed_sweep_stays_a_run_of_tiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Enumerated tile by tile, long sequences would take minutes."""
    from ioaware.simulation import streams

    monkeypatch.setattr(streams, "MAX_EXECUTIONS", 200)
    kv_reads(small_gpu(tmp_path), order="wave_sawtooth", programs_at_once=AT_ONCE)
