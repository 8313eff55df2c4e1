"""Kernels before and after the Hopper backward kernels.

The choice of the backward kernel is tested too.
"""

from __future__ import annotations

import math

import pytest
import torch

from ioaware.kernels.attention.dispatch import Backend, attention, gradients_by
from ioaware.kernels.attention.hopper.backward_pass.backward_postprocess import finish_kernel, finish_parts_kernel
from ioaware.kernels.attention.hopper.backward_pass.backward_preprocess import prepare_kernel
from ioaware.tracing.interpreter import interpret_kernels

HEADS = 2


def test_preprocess_computes_delta_and_scaled_lse_and_zeroes_sums() -> None:
    seq_len, head_dim, width, block_m = 130, 40, 64, 128
    generator = torch.Generator().manual_seed(0)
    o, do = (torch.randn(1, seq_len, HEADS, head_dim, generator=generator).transpose(1, 2) for _ in range(2))
    lse = torch.randn(1, HEADS, seq_len, generator=generator)
    lse[0, 1, 3] = -math.inf  # a row that sees no key
    pieces = 2 * HEADS + 3  # pieces of dK's and dV's sums, more than there are programs
    parts = torch.full((pieces + 1, 4096), math.nan)
    rows, sums = torch.full((HEADS, 2, 2, block_m), math.nan), torch.full((HEADS, 2, block_m * width), math.nan)
    with interpret_kernels():
        prepare_kernel[(2, HEADS, 1)](
            o, do, lse, rows, sums, parts, *o.stride()[:3], *do.stride()[:3], seq_len, pieces,
            HEAD_DIM=head_dim, WIDTH=width, BLOCK_M=block_m, SUMS=True,
        )  # fmt: skip
    assert not sums.any()
    assert not parts[:pieces].any()
    assert parts[pieces].isnan().all()
    base_2, delta = (rows[:, :, which].flatten(1) for which in (0, 1))
    torch.testing.assert_close(delta[:, :seq_len], (o * do).sum(-1)[0])
    expected = lse[0] / math.log(2)
    expected[1, 3] = math.inf
    torch.testing.assert_close(base_2[:, :seq_len], expected)
    assert (base_2[:, seq_len:] == math.inf).all()  # rows beyond the last have no weight
    assert not delta[:, seq_len:].any()


def in_register_order(x: torch.Tensor) -> torch.Tensor:
    """Reorder x [any, rows, columns] into blocks of 64.

    The result is [any, row blocks of 64, column blocks of 64, 4096].
    """
    pieces = torch.empty(x.shape[0], x.shape[1] // 64, x.shape[2] // 64, 4096)
    for row in range(64):  # of a piece: a thread holds two adjacent columns of a row and of the row 8 below
        for col in range(64):
            lane, register = row % 8 * 4 + col % 8 // 2, row // 8 % 2 * 2 + col % 2
            place = ((col // 8 * 4 + row // 16) * 32 + lane) * 4 + register
            pieces[..., place] = x[:, row::64, col::64]
    return pieces


@pytest.mark.parametrize(("width", "head_dim"), [(64, 40), (128, 100)])
def test_sums_of_the_last_column_blocks_become_dk_and_dv(width: int, head_dim: int) -> None:
    batch, kv_len, blocks, pieces = 2, 330, 6, width // 64  # six blocks of 64 keys a head, the last of them beyond kv_len
    before = 8  # column blocks written by the main kernel; the sums are those of the others
    generator = torch.Generator().manual_seed(0)
    dk, dv = (torch.randn(batch * HEADS, blocks * 64, width, generator=generator) for _ in range(2))
    of_tiles = [in_register_order(x).reshape(-1, 2, pieces, 4096)[before // 2 :] for x in (dk, dv)]
    parts = torch.stack(of_tiles, 1).contiguous()  # [tiles, dK and dV, 2, pieces, 4096]
    found = [torch.full((batch, HEADS, kv_len, head_dim), math.nan) for _ in range(2)]
    with interpret_kernels():
        finish_parts_kernel[((batch * HEADS * blocks - before) * pieces,)](
            parts, *found, *found[0].stride()[:3], *found[1].stride()[:3], kv_len, HEADS, blocks, before, 0.5,
            HEAD_DIM=head_dim, PIECES=pieces,
        )  # fmt: skip
    for one, x, scale in zip(found, (dk, dv), (0.5, 1.0), strict=True):
        expected = scale * x[:, :kv_len, :head_dim]
        expected[0] = math.nan  # the main kernel wrote six blocks of the first head and two of the second
        expected[1, :128] = math.nan
        assert torch.equal(one.flatten(0, 1).nan_to_num(7.0), expected.nan_to_num(7.0))


@pytest.mark.parametrize(("width", "head_dim"), [(64, 40), (128, 100)])
def test_sums_in_register_order_become_dq(width: int, head_dim: int) -> None:
    seq_len, blocks, pieces = 130, 3, width // 64
    dq = torch.randn(HEADS, blocks * 64, width, generator=torch.Generator().manual_seed(0))
    sums = in_register_order(dq)
    found = torch.full((1, HEADS, seq_len, head_dim), math.nan)
    with interpret_kernels():
        finish_kernel[(blocks * pieces, HEADS, 1)](
            sums, found, *found.stride()[:3], seq_len, 0.5, HEAD_DIM=head_dim, PIECES=pieces
        )  # fmt: skip
    assert torch.equal(found[0], 0.5 * dq[:, :seq_len, :head_dim])


@pytest.mark.parametrize(
    ("forward", "head_dim", "deterministic", "name", "why"),
    [
        ("hopper", 128, False, "hopper", "in any order"),
        ("hopper", 128, True, "hopper", "deterministic results requested"),
        ("hopper", 136, False, "hopper", "deterministic"),
        ("triton", 64, False, "triton", "deterministic"),
        ("decode", 64, False, "triton", "deterministic"),
    ],
)
def test_the_backward_backend_has_a_reason(forward: str, head_dim: int, deterministic: bool, name: str, why: str) -> None:
    chosen = gradients_by(Backend(forward, "requested"), head_dim, deterministic=deterministic)  # pyright: ignore[reportArgumentType]
    assert chosen.name == name
    assert chosen.why.endswith(why)


def test_the_backward_backend_is_set_only_by_calls_with_gradients() -> None:
    q, k, v = (torch.randn(1, 1, 20, 16) for _ in range(3))
    with interpret_kernels():
        before = attention.backward_backend
        attention(q, k, v)
        assert attention.backward_backend is before
        attention(q.requires_grad_(), k, v)
    assert attention.backward_backend == ("triton", "the forward pass was not the Hopper kernel's; deterministic")
