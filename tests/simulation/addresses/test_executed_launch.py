"""Bytes of launches whose data decide addresses and loops, against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.compilation.execution import executed_accesses
from ioaware.compilation.execution.executed_accesses import Runs
from ioaware.machine import find_machine_or_file
from ioaware.simulation.addresses.executed_streams import ExecutedLaunch
from ioaware.simulation.schedule import schedule
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import load_target
from tests.support import SUPPORT


def simulated(name: str, **params: int) -> Simulated:
    return simulate(
        load_target(f"{SUPPORT}/targets/index_data_targets.py:{name}"), params, machine=find_machine_or_file("h200")
    )


def read_bytes(result: Simulated) -> int:
    assert result.hbm is not None
    assert result.hbm.read_bytes is not None
    return result.hbm.read_bytes


def sectors(elements: set[int], element_bytes: int) -> int:
    """Return the bytes of the sectors of these elements."""
    return 32 * len({(one * element_bytes + byte) // 32 for one in elements for byte in range(element_bytes)})


@pytest.mark.parametrize("longest", [70, 300])
def test_a_page_table_decides_which_keys_are_read(longest: int) -> None:
    """Of each page, the rows of keys before the sequence ends."""
    batch, heads, pages = 8, 4, -(-longest // 16)
    lengths = [(each * 37) % longest + 1 for each in range(batch)]
    keys = sum(lengths) * heads * 64 * 2
    table = sectors({each * pages + page for each, length in enumerate(lengths) for page in range(-(-length // 16))}, 4)
    expected = keys + table + batch * 4 + batch * heads * 64 * 2
    result = simulated("paged", batch=batch, heads=heads, longest=longest)
    (one,) = filter(None, result.simulations)
    assert one.data_dependent == ()
    assert one.executed
    assert expected <= read_bytes(result) <= expected * 1.01
    assert {tensor.tensor for tensor in one.tensors} == {"q", "cache", "table", "lengths", "out"}


def test_tokens_of_experts_are_read_where_they_lie() -> None:
    """Half of the experts get tokens: squares are 0 or 1 modulo 4."""
    tokens, k, n = 96, 128, 96
    result = simulated("experts", tokens=tokens, k=k, n=n, count=4)
    expected = tokens * k * 2 + 2 * k * n * 2 + tokens * 4 + 32
    assert expected <= read_bytes(result) <= expected * 1.01
    assert result.read_range == (read_bytes(result), read_bytes(result))
    assert result.hbm is not None
    assert result.hbm.write_bytes == tokens * n * 2


def test_a_launch_too_long_to_execute_keeps_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executed_accesses, "MAX_RUNS", 10)
    result = simulated("experts", tokens=96)
    (one,) = filter(None, result.simulations)
    assert one.data_dependent == ("x",)
    assert not one.executed
    assert result.read_range[1] is not None
    assert result.read_range[1] > read_bytes(result)


def test_sectors_read_alone_are_read_in_pieces_of_64_bytes() -> None:
    """As those of other launches; what is written stays in sectors."""
    programs = np.zeros(3, dtype=np.int64)
    begin, size = np.array([32, 128, 320]), np.array([32, 64, 96])
    one = ExecutedLaunch((0,), (Runs(programs, np.zeros(3), begin, size),), np.ones(1))

    def covered(**pieces: int) -> set[int]:
        found = one.streams(0, schedule(np.ones(1), 1), **pieces)
        return {at for each in found for start in each.base.tolist() for at in range(start, start + each.parts[0].run)}

    assert covered() == {*range(32, 64), *range(128, 192), *range(320, 416)}
    assert covered(least_bytes=64) == {*range(64), *range(128, 192), *range(320, 448)}


def test_bytes_that_known_data_decide_are_expected_of_a_launch_too_long_to_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matmul of experts reads what it requests, each byte of a tensor once."""
    recorded = simulated("experts", tokens=96, k=128, n=96, count=4)
    monkeypatch.setattr(executed_accesses, "MAX_RUNS", 1)
    found = simulated("experts", tokens=96, k=128, n=96, count=4)
    (one,) = filter(None, found.simulations)
    assert not one.executed
    assert one.data_dependent
    assert 0.9 * read_bytes(recorded) <= read_bytes(found) <= one.read_range[1]
