"""Tiles with nonzero start and masks of any length.

Derived bytes and sectors equal traced ones.
"""

from __future__ import annotations

import pytest

from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/partial_tiles.py"


def equal_traffic(name: str, **params: int | str) -> None:
    target = load_target(f"{TARGETS}:{name}")
    derived, traced = derive(target, target.resolve(params), machine_code=False), trace(target, target.resolve(params))
    assert derived.requested is not None
    assert traced.requested is not None
    for field in ("read_bytes", "write_bytes", "read_sector_bytes", "write_sector_bytes"):
        assert getattr(derived.requested, field) == getattr(traced.requested, field), (name, params, field)


@pytest.mark.parametrize(("first", "last"), [(0, 8), (1, 8), (3, 7), (7, 8), (5, 5), (0, 1)])
def test_rows_that_begin_above_0(first: int, last: int) -> None:
    equal_traffic("rows", first=first, last=last)


@pytest.mark.parametrize(("first", "last"), [(0, 16), (1, 16), (3, 15), (8, 9), (9, 16), (15, 16)])
def test_columns_that_begin_above_0(first: int, last: int) -> None:
    equal_traffic("columns", first=first, last=last)


@pytest.mark.parametrize("first", [0, 1, 3, 8, 12, 15])
def test_columns_from_one_to_the_end_of_the_row(first: int) -> None:
    """The last lanes of each row are active.

    Its start alone separates it from the previous row.
    """
    equal_traffic("columns_from", first=first)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 63, 64, 65, 100, 255, 256, 257, 1000])
def test_a_mask_at_any_length(n: int) -> None:
    """The last sector may be used in part or in full."""
    equal_traffic("line", n=n)


def test_a_counter_of_atomics_that_the_host_reads_is_refused() -> None:
    """A kernel that only does atomics has no store.

    Still, the host's next launch depends on it.
    """
    target = load_target(f"{TARGETS}:counted")
    with pytest.raises(UsageError, match="reads what a kernel computed"):
        derive(target, target.resolve({}), machine_code=False)
    traced = trace(target, target.resolve({}))
    assert traced.requested is not None
    assert traced.requested.read_bytes == 800, "two launches"


def test_views_of_one_tensor_are_compulsory_once() -> None:
    target = load_target(f"{TARGETS}:overlapping")
    derived = derive(target, target.resolve({}), machine_code=False)
    assert derived.requested is not None
    assert derived.compulsory is not None
    assert derived.requested.read_bytes == 4 * (128 + 64)
    assert (derived.compulsory.read_bytes, derived.compulsory.write_bytes) == (4 * 128, 4 * (128 + 64))
