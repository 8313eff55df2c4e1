"""Bytes at index tensors from host code equal the traced bytes.

Kernel outputs are unknown.
"""

from __future__ import annotations

import pytest

from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.targets.loading import load_file
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT

TARGETS = load_file(SUPPORT / "targets/index_data_targets.py")
FIELDS = ("read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes")


def derive_target(name: str) -> Derived:
    target = load_target(getattr(TARGETS, name))
    return derive(target, target.resolve({}), machine_code=False)


def test_a_sum_of_all_lanes_is_counted_in_any_order() -> None:
    """Each of 10 rows is stored 4 times, and 4 of them once less."""
    result = derive_target("copied_to_places")
    assert result.exact
    assert result.requested
    assert result.requested.write_bytes == 36 * 32 * 4


@pytest.mark.parametrize(("name", "rows"), [("split_pairs", 64), ("shuffled", 6 * 5 + 9 + 6)])
def test_lanes_that_are_moved_stay_known(name: str, rows: int) -> None:
    target = load_target(getattr(TARGETS, name))
    result = derive(target, target.resolve({}), machine_code=False, check=True)
    traced = trace(target, target.resolve({})).requested
    assert result.exact
    assert result.requested
    assert traced
    assert {field: getattr(result.requested, field) for field in FIELDS} == {field: getattr(traced, field) for field in FIELDS}
    assert "check: counted again by plain interpretation" in result.launches[-1].notes
    assert result.requested.write_bytes == rows * 32 * 4


@pytest.mark.parametrize("name", ["paged", "ragged", "experts", "array_changed_later", "distinct", "drawn_with_a_seed"])
def test_bytes_at_index_tensors_equal_traced_bytes(name: str) -> None:
    result, target = derive_target(name), load_target(getattr(TARGETS, name))
    traced = trace(target, target.resolve({})).requested
    assert result.exact
    assert result.requested
    assert traced
    assert {field: getattr(result.requested, field) for field in FIELDS} == {field: getattr(traced, field) for field in FIELDS}
    assert "@" in str(result.requested.read_formula)  # the formula keeps its unknowns
    assert any("that the function built" in note for note in result.launches[-1].notes)
    if result.compulsory:
        assert (result.compulsory.read_bytes or 0) <= (result.requested.read_bytes or 0)


def test_sectors_at_index_tensors_equal_traced_sectors() -> None:
    """Every other of 20 rows of 37.5 sectors begins inside one: all touch 38.

    The formula has the most that a row can touch, 39 sectors.
    """
    result, target = derive_target("gathered"), load_target(TARGETS.gathered)
    traced = trace(target, target.resolve({})).requested
    assert result.requested
    assert traced
    assert result.requested.read_bytes == traced.read_bytes == 20 * (600 * 2 + 4)
    assert result.requested.read_sector_bytes == traced.read_sector_bytes == 32 * 20 * (38 + 1)
    (kernel,) = (one for one in result.kernels if one)
    bound = kernel.read_sector_bytes
    assert bound
    assert str(bound).startswith("<= ")
    assert bound.evaluate(result.symbols) == 32 * 20 * (39 + 1)
    assert any("sectors for the contents of picked that the function built" in note for note in result.launches[-1].notes)


@pytest.mark.parametrize("name", ["drawn_at_random", "drawn_by_python", "drawn_by_numpy", "drawn_without_a_seed"])
def test_random_contents_are_not_exact(name: str) -> None:
    """The numbers drawn from Python and NumPy are those of a trace."""
    result, target = derive_target(name), load_target(getattr(TARGETS, name))
    assert not result.exact
    assert result.requested
    traced = trace(target, target.resolve({})).requested
    assert traced
    assert result.requested.read_bytes == traced.read_bytes
    assert any("which are random" in note for note in result.launches[-1].notes)


@pytest.mark.parametrize("name", ["chosen_settings", "chosen_narrow_settings"])
def test_floats_that_the_target_chose_decide_a_branch(name: str) -> None:
    result, target = derive_target(name), load_target(getattr(TARGETS, name))
    traced = trace(target, target.resolve({})).requested
    assert result.exact
    assert result.requested
    assert traced
    assert {field: getattr(result.requested, field) for field in FIELDS} == {field: getattr(traced, field) for field in FIELDS}
    assert any("settings that the function built" in note for note in result.launches[-1].notes)


@pytest.mark.parametrize("name", ["drawn_settings", "computed_settings"])
def test_other_floats_decide_nothing(name: str) -> None:
    result = derive_target(name)
    assert not result.exact
    assert any("a branch depends on a value" in note for note in result.launches[-1].notes)


@pytest.mark.parametrize("name", ["places_at_random", "places_of_python", "places_of_numpy"])
def test_random_addresses_decide_no_bytes(name: str) -> None:
    """Each of 10 rows of 400 B is read and stored.

    It has a place of 8 B, and each program reads 2 offsets of 4 B.
    """
    result, target = derive_target(name), load_target(getattr(TARGETS, name))
    traced = trace(target, target.resolve({})).requested
    assert result.exact
    assert result.requested
    assert traced
    assert result.requested.read_bytes == traced.read_bytes == 10 * (400 + 8) + 3 * 2 * 4
    assert result.requested.write_bytes == traced.write_bytes == 10 * 400
    assert result.requested.read_sector_bytes is None  # the places decide the sectors
    assert "bytes for the contents of starts that the function built" in result.launches[-1].notes


@pytest.mark.parametrize("name", ["rare_key_of_python", "rare_key_of_numpy"])
def test_a_mask_of_drawn_keys_is_not_exact_where_draws_agree(name: str) -> None:
    result = derive_target(name)
    assert not result.exact
    assert any("keys that the function built, which are random" in note for note in result.launches[-1].notes)
    assert derive_target("key_of_a_seed").exact


@pytest.mark.parametrize("name", ["left_out_at_random", "left_out_by_numpy"])
def test_random_masks_are_not_exact(name: str) -> None:
    result = derive_target(name)
    assert not result.exact
    assert any("places, starts that the function built, which are random" in note for note in result.launches[-1].notes)


def test_a_random_size_is_not_exact() -> None:
    result = derive_target("size_at_random")
    assert not result.exact
    assert any("random numbers" in note for note in result.notes)


@pytest.mark.parametrize(
    "name",
    [
        *("written_by_a_kernel", "written_through_a_float", "written_through_a_pointer", "never_written"),
        *("written_through_a_table", "written_through_an_array"),
    ],
)
def test_contents_unknown_to_the_host_are_not_used(name: str) -> None:
    result = derive_target(name)
    assert not result.exact
    assert result.requested
    assert result.requested.read_bytes is None


def test_tensors_of_the_module_are_copied() -> None:
    result = derive_target("changed_in_place")
    assert result.requested
    rows = 8 - 1  # offsets 1, 1, 4, 6, 8
    assert result.requested.read_bytes == 4 * (100 * rows + 2 * 4)
    assert TARGETS.kept.tolist() == [0, 1, 2, 3, 4]
