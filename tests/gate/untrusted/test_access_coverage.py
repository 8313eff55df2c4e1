"""Which elements of an input were read, by a kernel's masks and by operators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ioaware.gate.untrusted.access_coverage import OperatorReads, ReadCoverage, storage_key


def watched(*tensors: torch.Tensor) -> ReadCoverage:
    coverage = ReadCoverage()
    coverage.watch(tensors)
    return coverage


def pointers(addresses: list[int], element: torch.dtype = torch.float32) -> Any:
    from triton.language import float16, float32
    from triton.runtime.interpreter import TensorHandle

    kind: Any = {torch.float32: float32, torch.float16: float16}[element]
    from triton.language import pointer_type

    return TensorHandle(np.array(addresses, dtype=np.uint64), pointer_type(kind))


def test_elements_are_read_where_a_mask_lets_them() -> None:
    x = torch.zeros(6)
    coverage = watched(x)
    start = x.data_ptr()
    mask = SimpleNamespace(data=np.array([True, False, True]))
    coverage.access("read", pointers([start, start + 4, start + 20]), mask)
    assert coverage.unread(x).tolist() == [False, True, True, True, True, False]
    coverage.access("write", pointers([start + 4]), None)
    assert coverage.unread(x)[1]
    coverage.access("atomic", pointers([start + 4]), None)
    assert not coverage.unread(x)[1]
    coverage.begin()
    assert bool(coverage.unread(x).all())


def test_addresses_outside_a_tensor_are_none_of_its() -> None:
    x, other = torch.zeros(4), torch.zeros(4)
    coverage = watched(x)
    start = x.data_ptr()
    coverage.access("read", pointers([start - 4, start + 16, start + 13, other.data_ptr()]), None)
    assert coverage.unread(x).tolist() == [True] * 4  # the one at 13 reads part of the last element
    coverage.access("read", pointers([start + 12]), None)
    assert coverage.unread(x).tolist() == [True, True, True, False]


def test_half_of_an_element_is_no_element() -> None:
    x = torch.zeros(2)
    coverage = watched(x)
    coverage.access("read", pointers([x.data_ptr(), x.data_ptr() + 4], torch.float16), None)
    assert coverage.unread(x).tolist() == [True, True]
    coverage.access("read", pointers([x.data_ptr() + 2], torch.float16), None)
    assert coverage.unread(x).tolist() == [False, True]


def test_a_kernel_may_see_a_storage_at_another_address() -> None:
    x = torch.zeros(8)
    view = x[2:]
    coverage = watched(x)
    coverage.launch("k", (1,), {"a": (1 << 40, view), "b": (1 << 41, torch.zeros(1))})
    coverage.access("read", pointers([1 << 40]), None)
    assert coverage.unread(x).tolist() == [True, True, False, True, True, True, True, True]
    assert coverage.unread(view).tolist() == [False, True, True, True, True, True]


def test_elements_of_a_view_are_those_of_its_strides() -> None:
    x = torch.zeros(3, 4)
    coverage = watched(x)
    coverage.whole([x[:, ::2].t(), torch.zeros(3)])
    assert coverage.unread(x).tolist() == [[False, True, False, True]] * 3
    assert coverage.unread(x.t()).tolist() == [[False] * 3, [True] * 3, [False] * 3, [True] * 3]
    assert storage_key(x) == storage_key(x.t()) != storage_key(torch.zeros(3, 4))


def test_operators_read_operands_and_not_shapes_views_or_outputs() -> None:
    x, y = torch.zeros(4), torch.zeros(4)
    coverage, works = watched(x, y), list[int]()
    with OperatorReads(coverage, lambda: works.append(1)):
        x.view(2, 2)
        torch.empty_like(x)
        assert works == []
        torch.zeros_like(x)
        y.copy_(torch.ones(4))
        assert works == [1, 1, 1]  # zeros, ones, and the copy
        assert bool(coverage.unread(x).all())
        assert bool(coverage.unread(y).all())
        torch.add(x, 1)
    assert not bool(coverage.unread(x).any())
    assert bool(coverage.unread(y).all())


def test_what_a_kernel_writes_is_made_in_this_call() -> None:
    """A read or masked-out write makes nothing. An atomic writes."""
    x, out, other = torch.zeros(4), torch.zeros(4), torch.zeros(4)
    coverage, none = watched(x), SimpleNamespace(data=np.array([False]))
    for kind, makes in (("read", False), ("write", True), ("atomic", True)):
        coverage.begin()
        coverage.launch("k", (1,), {"x": (1 << 40, x), "out": (1 << 41, out), "other": (1 << 42, other)})
        coverage.access("write", pointers([1 << 41]), none)
        assert [coverage.is_made(one) for one in (x, out, other)] == [True, False, False]
        coverage.access(kind, pointers([(1 << 41) + 12]), None)  # type: ignore[arg-type]
        assert [coverage.is_made(one) for one in (x, out, other)] == [True, makes, False]


def test_what_operators_compute_from_inputs_is_made_in_this_call() -> None:
    x, kept = torch.zeros(4), torch.ones(4)
    coverage = watched(x)
    with OperatorReads(coverage, lambda: None):
        once = x + 1
        parts = torch.split(once * kept, 2)
        constant = kept * 2
    assert coverage.is_made(once)
    assert all(coverage.is_made(one) for one in parts)
    assert not coverage.is_made(kept)
    assert not coverage.is_made(constant)  # which any earlier call may have computed
    coverage.begin()
    assert (coverage.is_made(x), coverage.is_made(once)) == (True, False)


def test_events_that_are_no_access_change_nothing() -> None:
    coverage = watched(x := torch.zeros(2))
    coverage.program((0, 0, 0))
    coverage.enter("f")
    coverage.leave()
    coverage.assigned({"a": 1})
    assert list(coverage.iterations("i", [1, 2])) == [1, 2]
    with coverage.while_loop() as step:
        assert step() is None
    assert bool(coverage.unread(x).all())
