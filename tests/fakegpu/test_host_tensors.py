"""Host code that asks where a tensor is gets the answer of a machine with a GPU."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from ioaware.derivation.derive import derive
from ioaware.fakegpu.host_tensors import tensor_leaves
from ioaware.result import Result
from ioaware.targets.loading import load_file
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT


@pytest.fixture(scope="module")
def targets() -> ModuleType:
    return load_file(Path(SUPPORT / "targets/host_memory_targets.py"))


def both(targets: ModuleType, name: str) -> tuple[Result, Result]:
    target = load_target(getattr(targets, name))
    return derive(target, target.resolve({}), machine_code=False), trace(target, {})


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize(
    "name",
    [
        *("made_without_a_device", "moved_to_the_gpu", "copied_back", "pinned", "default_device", "made_from_another"),
        *("mixed", "module", "moved_by_keywords", "memory", "gradient", "refused_by_triton"),
        *("made_by_type", "recognised_by_type", "converted_by_type"),
    ],
)
def test_launches_that_depend_on_where_a_tensor_is(targets: ModuleType, name: str) -> None:
    for result in both(targets, name):
        assert result.exact
        assert sum(launch.origin == "triton" for launch in result.launches) == 1
        assert not any("on the CPU" in note for note in result.notes)


@pytest.mark.parametrize("name", ["overwritten_on_the_host", "overwritten_after_copying_back"])
def test_a_copy_on_the_other_side_keeps_its_values(targets: ModuleType, name: str) -> None:
    for result in both(targets, name):
        assert result.exact
        assert result.requested
        assert result.requested.read_bytes == 300 * 8 + 299 * 4


@pytest.mark.parametrize(
    ("name", "exact", "reason"),
    [
        ("never_moved", True, "cpu tensor"),
        ("never_moved_and_asserted", True, "AssertionError"),
        ("only_for_the_gpu", False, "launched no Triton kernel"),
    ],
)
def test_tensors_left_on_the_host_are_taken_to_be_the_gpus(targets: ModuleType, name: str, exact: bool, reason: str) -> None:
    for result in both(targets, name):
        assert result.exact == exact
        assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["copy_kernel"]
        assert any("taken to be on the GPU" in note and reason in note for note in result.notes)


def test_operators_on_the_host_are_no_work_of_the_gpu(targets: ModuleType) -> None:
    for result in both(targets, "moved_to_the_gpu"):
        assert operators(result) == [*[("copy from the host", 0, 1200)] * 2, ("aten.ones.default", 0, 1200)]


def operators(result: Result) -> list[tuple[str, int | None, int | None]]:
    launches = [(launch.kernel, launch.requested) for launch in result.launches if launch.origin == "torch"]
    return [(name, moved.read_bytes, moved.write_bytes) for name, moved in launches if moved]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpu", [("copy to the host", 1200, 0)]),
        ("to", [("copy to the host", 1200, 0)]),
        ("converted", [("copy to the host", 1200, 0)]),
        ("into_pinned", [("copy to the host", 1200, 0)]),
        ("assigned", [("copy to the host", 1200, 0)]),
        ("as_tensor", [("copy to the host", 1200, 0)]),
        ("array", [("copy to the host", 1200, 0)]),
        ("cuda", [("copy from the host", 0, 1200)]),
        ("converted_to_gpu", [("copy from the host", 0, 1200)]),
        ("into_gpu", [("copy from the host", 0, 1200)]),
        ("on_the_host", []),
        ("pinned", []),
        ("item", [("copy to the host", 4, 0)]),
        ("tolist", [("copy to the host", 1200, 0)]),
        ("condition", [("copy to the host", 4, 0)]),
        ("item_of_the_host", [("copy to the host", 1200, 0)]),
    ],
)
def test_copies_between_host_and_gpu_read_or_write_its_memory(
    targets: ModuleType, name: str, expected: list[tuple[str, int, int]]
) -> None:
    for result in both(targets, f"copies_{name}"):
        assert operators(result) == [("aten.ones.default", 0, 1200), *expected]
        assert result.exact


def test_a_comparison_reads_both_tensors(targets: ModuleType) -> None:
    for result in both(targets, "copies_compared"):
        read = [(name, moved) for name, moved, _ in operators(result) if name == "aten.equal.default"]
        assert sum(moved for _, moved in read) == 2400


def test_a_deep_copy_reads_and_writes_the_memory(targets: ModuleType) -> None:
    for result in both(targets, "copies_deep"):
        assert [moved for _, *moved in operators(result)] == [[0, 1200], [1200, 1200]]


def test_tensors_in_nested_values_come_in_the_order_of_torch() -> None:
    a, b, c, d, e = (torch.zeros(n) for n in range(5))
    pair: Any = namedtuple("pair", ("one", "other"))(a, [1, b])
    values: list[Any] = [(c, 3, None), {"x": d, "y": {"z": (pair, "text")}}, OrderedDict(w=e), slice(0, 1), [1, 2.0], a]
    found = tensor_leaves(values)
    assert [id(one) for one in found] == [id(one) for one in tree_leaves(values) if isinstance(one, torch.Tensor)]
    assert [len(one) for one in found] == [2, 3, 0, 1, 4, 0]
