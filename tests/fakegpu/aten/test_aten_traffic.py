"""Bytes of torch operators: inputs once, outputs once, and nothing for views."""

from __future__ import annotations

import torch

from ioaware.fakegpu.aten.aten_traffic import OperatorRecorder, operator_traffic, tensors_read
from ioaware.result import Launch

ATEN = torch.ops.aten


def test_an_operator_reads_its_inputs_and_writes_its_output() -> None:
    x, y = torch.ones(8), torch.ones(8)
    assert operator_traffic(ATEN.add.Tensor, (x, y), {}, x + y) == (64, 32)
    assert operator_traffic(ATEN.add.Tensor, (x, x), {}, x + x) == (32, 32), "a tensor used twice is read once"


def test_a_view_moves_nothing() -> None:
    """By its schema, or by its output alone.

    Dropout returns its input outside training.
    """
    x = torch.ones(8, 4)
    assert operator_traffic(ATEN.t.default, (x,), {}, x.t()) is None
    assert operator_traffic(ATEN.dropout.default, (x, 0.5, False), {}, x) is None
    assert operator_traffic(ATEN.dropout.default, (x, 0.5, True), {}, x.clone()) == (128, 128)


def test_the_shape_of_an_operand_is_not_its_elements() -> None:
    x, out = torch.ones(8), torch.ones(8)
    assert operator_traffic(ATEN.zeros_like.default, (x,), {}, torch.zeros_like(x)) == (0, 32)
    assert operator_traffic(ATEN.full_like.default, (x, 2.0), {}, torch.full_like(x, 2.0)) == (0, 32)
    assert operator_traffic(ATEN.new_zeros.default, (x, [3]), {}, x.new_zeros(3)) == (0, 12)
    assert [read is x for read in tensors_read(ATEN.copy_.default, (out, x), {})] == [True]
    assert tensors_read(ATEN.zeros_like.default, (x,), {}) == []


def test_a_storage_that_grows_is_copied() -> None:
    """One that is empty, or large enough, is not."""
    x, empty = torch.ones(8), torch.empty(0)
    seen: list[Launch] = []
    with OperatorRecorder(seen):
        empty.resize_(8)
        x.resize_(4).resize_(8)
        x.resize_(16)
    moved = [one.requested for one in seen]
    assert [(one.read_bytes, one.write_bytes) for one in moved if one] == [(32, 32)]


def test_attention_that_a_compiler_traces_has_no_cpu_in_its_name() -> None:
    x = torch.ones(1, 1, 16, 16)
    seen: list[Launch] = []
    with OperatorRecorder(seen):
        ATEN._scaled_dot_product_flash_attention_for_cpu.default(x, x, x)
        torch.neg(x)
    assert [one.kernel for one in seen] == ["aten.scaled_dot_product_attention.default", "aten.neg.default"]
