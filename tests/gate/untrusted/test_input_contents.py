"""Other contents of inputs, and when two outputs are the same."""

from __future__ import annotations

import math

import pytest
import torch

from ioaware.gate.untrusted.input_contents import agree, agree_all, copies, other_contents, same_bits, write

SEED = 20_000


def drawn(*shape: int) -> torch.Tensor:
    return 0.5 + torch.rand(shape, generator=torch.Generator().manual_seed(SEED))


def test_elements_of_one_sign_keep_it() -> None:
    positive, negative = torch.full((3, 4), 2.0), torch.full((3, 4), -2.0)
    assert torch.equal(other_contents([positive])[0], 2 * drawn(3, 4))
    assert torch.equal(other_contents([negative])[0], -2 * drawn(3, 4))
    with_zeros = torch.tensor([0.0, 0.0, 3.0])
    assert torch.equal(other_contents([with_zeros])[0], with_zeros * drawn(3))
    assert torch.equal(other_contents([-with_zeros])[0], -with_zeros * drawn(3))


def test_signs_are_drawn_where_there_are_both() -> None:
    before = torch.cat([torch.ones(100), -torch.ones(100), torch.zeros(5)])
    (after,) = other_contents([before])
    assert 50 < int((after * before < 0).sum()) < 150
    assert bool((after[200:] == 0).all())
    size = after[:200].abs()
    assert 0.5 <= float(size.min()) < 0.6
    assert 1.4 < float(size.max()) <= 1.5


def test_types_stay_and_complex_numbers_keep_their_angle() -> None:
    half = torch.ones(8, dtype=torch.float16)
    assert torch.equal(other_contents([half])[0], drawn(8).half())
    number = torch.full((8,), 1 - 1j)
    assert torch.equal(other_contents([number])[0], number * drawn(8))


def test_integers_stay_beside_numbers() -> None:
    rows, x = torch.tensor([3, 1]), torch.ones(2)
    same, other = other_contents([rows, x])
    assert torch.equal(same, rows)
    assert same is not rows
    assert not torch.equal(other, x)


def test_integers_alone_are_rolled_or_drawn() -> None:
    rows = torch.tensor([[3, 1], [2, 0]])
    assert other_contents([rows])[0].tolist() == [[0, 3], [1, 2]]
    mask = torch.tensor([True, True])
    assert other_contents([mask])[0].tolist() == [True, True]
    (drawn_anew,) = other_contents([torch.full((10, 40), 7, dtype=torch.int16)])
    assert (drawn_anew.dtype, drawn_anew.shape) == (torch.int16, (10, 40))
    assert (int(drawn_anew.min()), int(drawn_anew.max())) == (0, 127)


def test_contents_are_written_in_place() -> None:
    first, second = torch.zeros(2, requires_grad=True), torch.zeros(3)
    write([first, second], [torch.ones(2), torch.full((3,), 2.0)])
    assert (first.tolist(), second.tolist()) == ([1.0, 1.0], [2.0, 2.0, 2.0])
    with pytest.raises(ValueError, match="shorter"):
        write([first, second], [torch.ones(2)])
    (copy,) = copies([first])
    assert not copy.requires_grad
    copy[0] = 5
    assert first.tolist() == [1.0, 1.0]


def test_bits_tell_what_equality_does_not() -> None:
    nan, zero = torch.tensor([math.nan]), torch.tensor([0.0])
    assert same_bits(nan, nan.clone())
    assert not same_bits(zero, -zero)
    assert not same_bits(zero, zero.double())
    assert not same_bits(zero, torch.zeros(2))
    assert not same_bits(zero, zero.int())


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "expected"),
    [
        ([1.0, 100.0], [1.05, 100.0], 1e-3, True),  # relative to the largest element
        ([1.0, 100.0], [1.2, 100.0], 1e-3, False),
        ([1.0, math.nan], [1.0005, math.nan], 1e-3, True),
        ([1.0, math.inf], [1.0005, math.inf], 1e-3, True),
        ([1.0, math.inf], [1.0, -math.inf], 1e-3, False),
        ([1.0, math.nan], [1.0, 2.0], 1e-3, False),
        ([math.inf, 0.5], [math.inf, math.nan], 1e-3, False),
        ([-100.0, 1.0], [-100.0, 1.05], 1e-3, True),
    ],
)
def test_outputs_agree_relative_to_the_largest_element(
    one: list[float], other: list[float], tolerance: float, expected: bool
) -> None:
    assert agree(torch.tensor(one), torch.tensor(other), tolerance) is expected


def test_other_shapes_types_and_integers_agree_only_where_they_are_the_same() -> None:
    x = torch.ones(4)
    assert not agree(x, torch.ones(5), 1.0)
    assert not agree(x, x.double(), 1.0)
    assert not agree(torch.ones(2).int(), torch.tensor([1, 2]).int(), 1.0)
    assert agree(torch.ones(2).int(), torch.ones(2).int(), 0.0)


def test_all_outputs_agree_up_to_rounding() -> None:
    x = torch.ones(4)
    assert agree_all([x, x], [x, x * (1 + 5e-7)])
    assert not agree_all([x, x], [x, x * (1 + 5e-6)])
    assert not agree_all([x], [x, x])
    assert agree_all([], [])
