"""HBM bytes where values that a kernel loads decide them, against counts by hand."""

from __future__ import annotations

import pytest

from ioaware.errors import UsageError
from ioaware.machine import find_machine_or_file
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import load_target
from tests.support import SUPPORT

ROW = 1024
"""Bytes of a row of 256 float32."""
TARGETS = f"{SUPPORT}/targets/index_data_targets.py"


def hbm(result: Simulated) -> tuple[int, int]:
    """Return the bytes read and written."""
    assert result.hbm is not None
    assert result.hbm.read_bytes is not None
    assert result.hbm.write_bytes is not None
    return result.hbm.read_bytes, result.hbm.write_bytes


def most_read(result: Simulated) -> int:
    assert result.read_range is not None
    assert result.read_range[0] <= hbm(result)[0]
    assert result.read_range[1] is not None
    return result.read_range[1]


def simulated(name: str, **params: str | int) -> Simulated:
    data = {name: int(value) for name, value in params.items() if "@" in name}
    given = {name: value for name, value in params.items() if "@" not in name}
    return simulate(load_target(f"{TARGETS}:{name}"), given, machine=find_machine_or_file("h200"), data=data)


@pytest.mark.parametrize(
    ("name", "read_rows", "written_rows", "index_bytes"),
    [
        ("rows_apart", 4, 4, [4 * 8]),
        ("rows_again", 3, 6, [6 * 8]),
        ("rows_of_a_view", 2, 3, [3 * 8]),
        ("rows_beyond_the_mask", 2, 6, [2 * 8]),
        ("chained_rows", 2, 3, [3 * 8, 3 * 4]),
        ("skipped_rows", 4, 4, [6 * 8]),
        ("summed_rows", 27, 4, [4 * 4]),
    ],
)
def test_loaded_values_decide_the_bytes(name: str, read_rows: int, written_rows: int, index_bytes: list[int]) -> None:
    """Rows are read once into an empty L2, each table of indices in 64 bytes."""
    result = simulated(name)
    read, written = hbm(result)
    assert max(index_bytes) <= 64
    assert read == read_rows * ROW + 64 * len(index_bytes)
    assert written == written_rows * ROW
    assert most_read(result) == read


def test_zeros_that_stand_for_contents_choose_no_rows() -> None:
    """Zeros would all read row 0; each of 8 rows is taken as read once."""
    result = simulated("rows_given", ids="i64[n=8]")
    assert hbm(result)[0] == 8 * 8 + 8 * ROW
    assert most_read(result) >= 8 * ROW


def test_a_value_may_be_given() -> None:
    with pytest.raises(UsageError, match="cannot be bounded") as refused:
        simulated("given_labels", labels="i64[n=6]")
    name = str(refused.value.remedy).partition("'")[2].partition("=")[0]
    skipped, taken = (simulated("given_labels", labels="i64[n=6]", **{name: value}) for value in (-100, 1))
    assert (hbm(skipped)[1], hbm(taken)[1]) == (0, 6 * ROW)
