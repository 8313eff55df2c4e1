"""Launches with one program on each SM, as an H200 counted them.

What their L1s serve is a matter of sets alone, and not of time.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

import ioaware
from ioaware.result import Result
from ioaware.result_file import read_jsonl


def counted(target: str, **like: object) -> Result:
    path = Path(str(files("ioaware") / "recorded" / "l1" / "h200-alone.jsonl"))
    (found,) = (one for one in read_jsonl(path) if one.target == target and like.items() <= one.params.items())
    return found


@pytest.mark.parametrize(
    ("target", "like"),
    [
        ("flash1", {"seq_len": 1024, "causal": False}),
        ("flash1", {"seq_len": 1024, "causal": True}),
        ("softmax_bwd", {"cols": 16384}),
        ("softmax_bwd", {"cols": 65536}),
        ("small_cache_bwd", {"seq_len": 1024, "block_m": 16}),
    ],
)
def test_requested_reads_of_lone_programs_are_those_counted(target: str, like: dict[str, object]) -> None:
    """They are within 6 %.

    Without places for lines that were read again, or with wider sectors, some are 10 to 60 % off.
    """
    one = counted(target, **like)
    done = ioaware.simulate(target, **{name: value for name, value in one.params.items() if value is not None}, machine="H200")
    read = [launch.requested.read_bytes for launch in one.launches if launch.origin == "triton" and launch.requested]
    simulated = [each.requested_read_bytes for each in done.simulations if each]
    assert len(read) == len(simulated)
    for number, wanted in zip(simulated, read, strict=True):
        assert number == pytest.approx(wanted, rel=0.06, abs=1e4)
