"""Kernels whose bytes depend on index tensors that the host function builds.

These are block tables, lengths, offsets and expert ids.
"""

from __future__ import annotations

import random

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def paged_kernel(q, cache, table, lengths, out, stride, HEADS: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr):
    sequence, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + sequence)
    d, t = tl.arange(0, DIM), tl.arange(0, PAGE)
    total = tl.zeros((DIM,), tl.float32)
    query = tl.load(q + (sequence * HEADS + head) * DIM + d)
    for page in range(tl.cdiv(length, PAGE)):
        number = tl.load(table + sequence * stride + page)
        rows = ((number * PAGE + t[:, None]) * HEADS + head) * DIM
        keys = tl.load(cache + rows + d[None, :], mask=page * PAGE + t[:, None] < length, other=0.0)
        total += tl.sum(keys, 0) * query
    tl.store(out + (sequence * HEADS + head) * DIM + d, total)


def paged(batch: int = 8, heads: int = 4, longest: int = 300):
    lengths = torch.tensor([(i * 37) % longest + 1 for i in range(batch)], dtype=torch.int32, device="cuda")
    pages = triton.cdiv(longest, 16)
    table = torch.arange(batch * pages, dtype=torch.int32, device="cuda").view(batch, pages).flip(0).contiguous()
    cache = torch.randn(batch * pages, 16, heads, 64, device="cuda", dtype=torch.float16)
    q = torch.randn(batch, heads, 64, device="cuda", dtype=torch.float16)
    out = torch.empty_like(q)
    paged_kernel[(batch, heads)](q, cache, table, lengths, out, table.stride(0), HEADS=heads, DIM=64, PAGE=16)
    return out


@triton.jit
def ragged_kernel(x, offsets, out, dim, BLOCK: tl.constexpr):
    sequence = tl.program_id(0)
    low, high = tl.load(offsets + sequence), tl.load(offsets + sequence + 1)
    if low == high:
        return
    for row in range(low, high):
        for column in range(0, dim, BLOCK):
            i = column + tl.arange(0, BLOCK)
            tl.store(out + row * dim + i, tl.load(x + row * dim + i, i < dim), i < dim)


def launch_ragged(offsets: torch.Tensor, dim: int):
    x = torch.randn(200, dim, device="cuda")
    ragged_kernel[(offsets.shape[0] - 1,)](x, offsets, x, dim, BLOCK=64)


def ragged(sequences: int = 10, dim: int = 100):
    lengths = torch.tensor([(i * 7) % 13 for i in range(sequences)], dtype=torch.int32, device="cuda")
    launch_ragged(torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int(), dim)


@triton.jit
def expert_kernel(x, w, ids, offsets, out, K, N, BK: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    expert, block = tl.program_id(0), tl.program_id(1)
    low, high = tl.load(offsets + expert), tl.load(offsets + expert + 1)
    n, kk = block * BN + tl.arange(0, BN), tl.arange(0, BK)
    for first in range(low, high, BM):
        m = first + tl.arange(0, BM)
        token = tl.load(ids + m, m < high, other=0)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            a = tl.load(x + token[:, None] * K + k + kk[None, :], (m[:, None] < high) & (k + kk[None, :] < K), other=0.0)
            b = tl.load(
                w + expert * K * N + (k + kk[:, None]) * N + n[None, :], (k + kk[:, None] < K) & (n[None, :] < N), other=0.0
            )
            total = tl.dot(a, b, total)
        tl.store(out + m[:, None] * N + n[None, :], total, (m[:, None] < high) & (n[None, :] < N))


def experts(tokens: int = 100, k: int = 128, n: int = 96, count: int = 4):
    choice = torch.tensor([(i * i) % count for i in range(tokens)], device="cuda")
    order = torch.argsort(choice, stable=True).to(torch.int32)
    counts = torch.bincount(choice, minlength=count)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64, device="cuda"), counts.cumsum(0)]).int()
    x = torch.randn(tokens, k, device="cuda", dtype=torch.float16)
    w = torch.randn(count, k, n, device="cuda", dtype=torch.float16)
    out = torch.empty(tokens, n, device="cuda", dtype=torch.float16)
    expert_kernel[(count, triton.cdiv(n, 32))](x, w, order, offsets, out, k, n, BK=32, BN=32, BM=16)
    return out


def drawn_at_random(sequences: int = 10, dim: int = 100):
    lengths = torch.randint(0, 9, (sequences,), device="cuda")
    launch_ragged(torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int(), dim)


@triton.jit
def fill_kernel(x, value):
    tl.store(x + tl.program_id(0), value)


def written_by_a_kernel(sequences: int = 4, dim: int = 100):
    """A kernel overwrites offsets before the second kernel reads them.

    The host wrote the offsets.
    """
    offsets = torch.arange(sequences + 1, dtype=torch.int32, device="cuda")
    fill_kernel[(sequences + 1,)](offsets, 3)
    offsets[0] = 0
    launch_ragged(offsets, dim)


def written_through_a_float(sequences: int = 4, dim: int = 100):
    """The kernel writes floats, from which the host computes offsets."""
    lengths = torch.ones(sequences + 1, device="cuda")
    fill_kernel[(sequences + 1,)](lengths, 3.0)
    launch_ragged(lengths.cumsum(0).int(), dim)


class Hidden:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self) -> int:
        return self.tensor.data_ptr()


def written_through_a_pointer(sequences: int = 4, dim: int = 100):
    offsets = torch.arange(sequences + 1, dtype=torch.int32, device="cuda")
    fill_kernel[(sequences + 1,)](Hidden(offsets), 3)
    launch_ragged(offsets, dim)


def never_written(sequences: int = 4, dim: int = 100):
    launch_ragged(torch.empty(sequences + 1, dtype=torch.int32, device="cuda"), dim)


kept = torch.arange(5, dtype=torch.int32)


def changed_in_place(dim: int = 100):
    """A tensor of the module, changed in each call."""
    kept.mul_(2)
    offsets = torch.empty(5, dtype=torch.int32, device="cuda")
    offsets[:2] = 1
    offsets[2:].copy_(kept[2:])
    launch_ragged(offsets, dim)


@triton.jit
def fill_through_address_kernel(addresses, value):
    place = tl.load(addresses).to(tl.pointer_type(tl.int32))
    tl.store(place + tl.program_id(0), value)


def written_through_a_table(sequences: int = 4, dim: int = 100):
    """The kernel gets the address of the offsets from memory."""
    offsets = torch.arange(sequences + 1, dtype=torch.int32, device="cuda")
    fill_through_address_kernel[(sequences + 1,)](torch.tensor([offsets.data_ptr()], device="cuda"), 3)
    launch_ragged(offsets, dim)


def written_through_an_array(sequences: int = 4, dim: int = 100):
    """Host code writes a tensor's memory by its name in NumPy."""
    offsets = torch.zeros(sequences + 1, dtype=torch.int32)
    offsets.numpy()[:] = np.arange(sequences + 1)
    launch_ragged(offsets.cuda(), dim)


def array_changed_later(sequences: int = 4, dim: int = 100):
    """NumPy and torch share the memory, which changes before the tensor is used."""
    array = np.zeros(sequences + 1, np.int32)
    offsets = torch.from_numpy(array)
    array[:] = np.arange(sequences + 1) * 2
    launch_ragged(offsets.cuda(), dim)


def distinct(tokens: int = 30, dim: int = 100):
    """A size and offsets from an operator whose shape depends on data."""
    counts = torch.unique(torch.arange(tokens, device="cuda") // 7, return_counts=True)[1]
    launch_ragged(torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int(), dim)


def random_lengths(lengths: list[int], dim: int = 100):
    launch_ragged(torch.tensor([0, *np.cumsum(lengths).tolist()], dtype=torch.int32, device="cuda"), dim)


def drawn_by_python(sequences: int = 10):
    random_lengths([random.randint(0, 9) for _ in range(sequences)])


def drawn_by_numpy(sequences: int = 10):
    random_lengths(np.random.randint(0, 9, sequences).tolist())


def drawn_without_a_seed(sequences: int = 10):
    random_lengths([*np.random.default_rng().integers(0, 9, sequences).tolist(), random.Random().randint(0, 9)])


def drawn_with_a_seed(sequences: int = 10):
    random.seed(5)
    random_lengths([random.randint(0, 9) for _ in range(sequences)])


def size_at_random():
    n = random.randint(1, 1000)
    fill_kernel[(n,)](torch.empty(n, device="cuda"), 1.0)


@triton.jit
def unless_zero(x, rows, settings, out, dim, BLOCK: tl.constexpr):
    row = tl.load(rows + tl.program_id(0))
    setting = tl.load(settings + row).to(tl.float32)
    if setting == 0.0:
        return
    i = tl.arange(0, BLOCK)
    tl.store(out + row * dim + i, tl.load(x + row * dim + i, i < dim) / setting, i < dim)


@triton.jit
def doubled_in_place(x):
    tl.store(x + tl.program_id(0), 2 * tl.load(x + tl.program_id(0)))


def launch_settings(settings: torch.Tensor, rows: int, dim: int):
    x = torch.randn(rows, dim, device="cuda")
    order = torch.arange(rows, device="cuda", dtype=torch.int32).flip(0)
    unless_zero[(rows,)](x, order, settings, torch.empty_like(x), dim, BLOCK=128)


def chosen_settings(rows: int = 10, dim: int = 100):
    launch_settings(torch.tensor([0.5 * (i % 3) for i in range(rows)], device="cuda"), rows, dim)


def chosen_narrow_settings(rows: int = 10, dim: int = 100):
    launch_settings(torch.arange(rows, device="cuda").remainder(4).to(torch.bfloat16), rows, dim)


def drawn_settings(rows: int = 10, dim: int = 100):
    launch_settings(torch.rand(rows, device="cuda").round(), rows, dim)


def computed_settings(rows: int = 10, dim: int = 100):
    settings = torch.zeros(rows, device="cuda")
    doubled_in_place[(rows,)](settings)
    launch_settings(settings, rows, dim)


@triton.jit
def gather_kernel(x, picked, out, cols, BLOCK: tl.constexpr):
    row = tl.load(picked + tl.program_id(0))
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * cols + at, tl.load(x + row * cols + at, mask=at < cols), mask=at < cols)


def gathered(rows: int = 40, cols: int = 600):
    """Return picked rows: data decide their sectors, and no bytes."""
    x = torch.randn(rows, cols, device="cuda", dtype=torch.float16)
    picked = torch.arange(rows // 2, device="cuda", dtype=torch.int32)
    out = torch.empty(rows // 2, cols, device="cuda", dtype=torch.float16)
    gather_kernel[(rows // 2,)](x, picked, out, cols, BLOCK=1024)
    return out


@triton.jit
def rows_kernel(x, ids, out, n, COLS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLS)
    source = tl.load(ids + row, row < n, other=5)
    tl.store(out + row * COLS + column, tl.load(x + source * COLS + column))


def chosen_rows(ids, programs=None):
    """Copy a row for each program, by its id; after the last id it is row 5."""
    ids = torch.as_tensor(ids, dtype=torch.int64, device="cuda")
    x = torch.empty(64, 256, device="cuda")
    out = torch.empty(programs or ids.shape[0], 256, device="cuda")
    rows_kernel[(out.shape[0],)](x, ids, out, ids.shape[0], COLS=256)
    return out


def rows_apart():
    return chosen_rows([3, 60, 7, 12])


def rows_again():
    return chosen_rows([3, 60, 3, 12, 60, 60])


def rows_of_a_view():
    return chosen_rows(torch.tensor([0, 1, 2, 9, 9, 40], device="cuda")[3:])


def rows_beyond_the_mask():
    return chosen_rows([7, 5], programs=6)


def rows_given(ids: torch.Tensor):
    return chosen_rows(ids)


@triton.jit
def chained_rows_kernel(x, order, ids, out, COLS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLS)
    source = tl.load(ids + tl.load(order + row))
    tl.store(out + row * COLS + column, tl.load(x + source * COLS + column))


def chained_rows():
    ids = torch.tensor([9, 20, 31, 9], dtype=torch.int32, device="cuda")
    order = torch.tensor([3, 0, 1], device="cuda")
    out = torch.empty(3, 256, device="cuda")
    chained_rows_kernel[(3,)](torch.empty(64, 256, device="cuda"), order, ids, out, COLS=256)
    return out


@triton.jit
def skipped_rows_kernel(x, labels, out, COLS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLS)
    if tl.load(labels + row) == -100:
        return
    tl.store(out + row * COLS + column, tl.load(x + row * COLS + column))


def skipped_rows():
    """Rows with the label -100 are neither read nor written, as in cross entropies."""
    labels = torch.tensor([1, -100, 2, 3, -100, 4], device="cuda")
    out = torch.empty(6, 256, device="cuda")
    skipped_rows_kernel[(6,)](torch.empty(6, 256, device="cuda"), labels, out, COLS=256)
    return out


@triton.jit
def summed_rows_kernel(x, lengths, out, COLS: tl.constexpr):
    sequence, column = tl.program_id(0), tl.arange(0, COLS)
    total = tl.zeros((COLS,), tl.float32)
    for row in range(tl.load(lengths + sequence)):
        total += tl.load(x + (sequence * 16 + row) * COLS + column)
    tl.store(out + sequence * COLS + column, total)


def summed_rows():
    lengths = torch.tensor([4, 0, 16, 7], dtype=torch.int32, device="cuda")
    out = torch.empty(4, 256, device="cuda")
    summed_rows_kernel[(4,)](torch.empty(4, 16, 256, device="cuda"), lengths, out, COLS=256)
    return out


@triton.jit
def copies_kernel(x, places, out, COLS: tl.constexpr, MOST: tl.constexpr):
    row = tl.program_id(0)
    place = tl.load(places + row * MOST + tl.arange(0, MOST))
    value = tl.load(x + row * COLS + tl.arange(0, COLS))
    for _ in range(tl.sum(tl.where(place >= 0, 1, 0))):
        at = tl.min(tl.where(place < 0, 1000, place))
        tl.store(out + at * COLS + tl.arange(0, COLS), value)
        place = tl.where(place == at, -1, place)


def copied_to_places(tokens: int = 10):
    places = torch.arange(4 * tokens, device="cuda", dtype=torch.int32).reshape(4, tokens).t().contiguous()
    places[::3, 1] = -1
    x, out = torch.ones(tokens, 32, device="cuda"), torch.empty(4 * tokens, 32, device="cuda")
    copies_kernel[(tokens,)](x, places, out, 32, 4)
    return out


@triton.jit
def pairs_kernel(x, offsets, out, COLS: tl.constexpr):
    first, end = tl.split(tl.load(offsets + tl.program_id(0) + tl.arange(0, 2)))
    for row in range(first, end):
        tl.store(out + row * COLS + tl.arange(0, COLS), tl.load(x + row * COLS + tl.arange(0, COLS)))


@triton.jit
def shuffled_kernel(x, lengths, out, COLS: tl.constexpr):
    program, lanes = tl.program_id(0), tl.arange(0, 8)
    length = tl.load(lengths + lanes)
    turned = tl.gather(length, (lanes + program) % 8, 0)
    both = tl.reshape(tl.join(turned, length + 2), (16,))
    for row in range(tl.max(tl.where(tl.arange(0, 16) < 2, both, 0), 0)):
        at = program * 16 * COLS + row * COLS + tl.arange(0, COLS)
        tl.store(out + at, tl.load(x + at))


def split_pairs():
    x, out = torch.ones(64, 32, device="cuda"), torch.empty(64, 32, device="cuda")
    pairs_kernel[(3,)](x, torch.tensor([0, 10, 30, 64], device="cuda", dtype=torch.int32), out, 32)
    return out


def shuffled():
    x, out = torch.ones(128, 32, device="cuda"), torch.empty(128, 32, device="cuda")
    shuffled_kernel[(8,)](x, torch.tensor([3, 1, 4, 1, 5, 9, 2, 6], device="cuda", dtype=torch.int32), out, 32)
    return out


def given_labels(labels: torch.Tensor):
    out = torch.empty(labels.shape[0], 256, device="cuda")
    skipped_rows_kernel[(labels.shape[0],)](torch.empty_like(out), labels, out, COLS=256)
    return out


@triton.jit
def add_to_places(x, places, starts, out, dim, LEFT_OUT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in range(tl.load(starts + tl.program_id(0)), tl.load(starts + tl.program_id(0) + 1)):
        place = tl.load(places + row)
        seen = at < dim
        if LEFT_OUT is not None:
            seen = seen & (place != LEFT_OUT)
        tl.store(out + place * dim + at, tl.load(x + row * dim + at, mask=seen), mask=seen)


def launch_places(places, dim, left_out):
    starts = torch.tensor([0, 3, 3, 10], dtype=torch.int32, device="cuda")
    x, out = torch.randn(10, dim, device="cuda"), torch.zeros(10, dim, device="cuda")
    add_to_places[(3,)](x, places, starts, out, dim, LEFT_OUT=left_out, BLOCK=128)


def places_at_random(dim: int = 100):
    """Rows of fixed ranges go to random places, which decide no byte."""
    launch_places(torch.randint(0, 10, (10,), device="cuda"), dim, None)


def left_out_at_random(dim: int = 100):
    """Rows of fixed ranges go to random places, of which one is masked."""
    launch_places(torch.randint(0, 10, (10,), device="cuda"), dim, 3)


@triton.jit
def unless_seven(x, keys, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_taken = (at < n) & (tl.load(keys + at, at < n) != 7)
    tl.store(out + at, tl.load(x + at, is_taken), is_taken)


def launch_keys(keys):
    n = keys.numel()
    x = torch.randn(n, device="cuda")
    unless_seven[(triton.cdiv(n, 64),)](x, keys, torch.empty_like(x), n, BLOCK=64)


def rare_key_of_python():
    """One draw in 5000 has a key that is left out."""
    launch_keys(torch.tensor([random.randrange(100_000) for _ in range(20)], device="cuda"))


def rare_key_of_numpy():
    launch_keys(torch.from_numpy(np.random.default_rng().integers(0, 100_000, 20)).cuda())


def key_of_a_seed():
    launch_keys(torch.tensor([random.Random(5).randrange(100_000) for _ in range(20)], device="cuda"))


def places_of_python(dim: int = 100):
    launch_places(torch.tensor([random.randrange(10) for _ in range(10)], device="cuda"), dim, None)


def places_of_numpy(dim: int = 100):
    launch_places(torch.from_numpy(np.random.permutation(10)).cuda(), dim, None)


def left_out_by_numpy(dim: int = 100):
    """One place of ten is left out in every permutation."""
    launch_places(torch.from_numpy(np.random.permutation(10)).cuda(), dim, 3)
