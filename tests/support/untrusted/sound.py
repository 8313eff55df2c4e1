"""Sound kernels of every kind, each with the plain function that it computes.

An example is `sum_rows` and `sum_rows_reference`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
import triton
import triton.language as tl

WORKSPACES, RESULTS = {}, {}


def blocks(n, block=64):
    return (triton.cdiv(n, block),)


def power(n):
    return triton.next_power_of_2(n)


# Element by element


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


def add(x, y):
    out = torch.empty_like(x)
    add_kernel[blocks(x.numel())](x, y, out, x.numel(), BLOCK=64)
    return out


def add_reference(x, y):
    return x + y


add_integers, add_integers_reference = add, add_reference
add_bfloat16, add_bfloat16_reference = add, add_reference


@triton.jit
def relu(x):
    return tl.maximum(x, 0.0)


@triton.jit
def relu_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, relu(tl.load(x + at, at < n)), at < n)


def relu_by_device_function(x):
    out = torch.empty_like(x)
    relu_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=64)
    return out


def relu_by_device_function_reference(x):
    return F.relu(x)


def relu_in_place(x):
    relu_kernel[blocks(x.numel())](x, x, x.numel(), BLOCK=64)
    return x


def relu_in_place_reference(x):
    return x.relu_()


def relu_into(x, out):
    relu_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=64)


def relu_into_reference(x, out):
    out.copy_(F.relu(x))


def relu_of_a_transposed_view(x):
    return relu_by_device_function(x.t().contiguous())


def relu_of_a_transposed_view_reference(x):
    return F.relu(x.t())


@triton.jit
def positive_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) > 0, at < n)


def positive(x):
    out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
    positive_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=64)
    return out


def positive_reference(x):
    return x > 0


@triton.jit
def zero_kernel(out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.zeros([BLOCK], tl.float32), at < n)


def zeros_like(x):
    """Give the same output for all inputs, as its reference does."""
    out = torch.empty_like(x)
    zero_kernel[blocks(x.numel())](out, x.numel(), BLOCK=64)
    return out


def zeros_like_reference(x):
    return torch.zeros_like(x)


@triton.jit
def first_half_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    tl.store(out + row * (cols // 2) + at, tl.load(x + row * cols + at, at < cols // 2), at < cols // 2)


def first_half(x):
    """Read half of its input, and need no more."""
    rows, cols = x.shape
    out = torch.empty(rows, cols // 2, dtype=x.dtype, device=x.device)
    first_half_kernel[(rows,)](x, out, rows, cols, BLOCK=power(cols))
    return out


def first_half_reference(x):
    return x[:, : x.shape[1] // 2].clone()


@triton.jit
def dropout_kernel(x, out, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > 0.5
    tl.store(out + at, tl.where(keep, tl.load(x + at, at < n) * 2, 0.0), at < n)


def dropout(x, seed: int = 3):
    out = torch.empty_like(x)
    dropout_kernel[blocks(x.numel())](x, out, x.numel(), seed, BLOCK=64)
    return out


@triton.jit
def rope_kernel(x, cos, sin, out, half, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < half
    low, high = tl.load(x + row * 2 * half + at, mask), tl.load(x + row * 2 * half + half + at, mask)
    c, s = tl.load(cos + row * half + at, mask), tl.load(sin + row * half + at, mask)
    tl.store(out + row * 2 * half + at, low * c - high * s, mask)
    tl.store(out + row * 2 * half + half + at, high * c + low * s, mask)


def rope(x, cos, sin):
    out, half = torch.empty_like(x), cos.shape[1]
    rope_kernel[(x.shape[0],)](x, cos, sin, out, half, BLOCK=power(half))
    return out


def rope_reference(x, cos, sin):
    low, high = x.chunk(2, 1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], 1)


@triton.jit
def transpose_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (i < rows) & (j < cols)
    tl.store(out + j * rows + i, tl.load(x + i * cols + j, mask), mask)


def transpose(x):
    rows, cols = x.shape
    out = torch.empty(cols, rows, dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(rows, 16), triton.cdiv(cols, 16))](x, out, rows, cols, BLOCK=16)
    return out


def transpose_reference(x):
    return x.t().contiguous()


# Rows


@triton.jit
def sum_kernel(x, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * cols + at, at < cols, 0.0), 0))


def sum_rows(x):
    out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    sum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=power(x.shape[1]))
    return out


def sum_rows_reference(x):
    return x.sum(1)


def sum_in_two_launches(x):
    return sum_rows(sum_rows(x)[None])


def sum_in_two_launches_reference(x):
    return x.sum()[None]


@triton.jit
def total_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, at < n, 0.0), 0))


def sum_by_atomics(x):
    out = torch.zeros(1, dtype=x.dtype, device=x.device)
    total_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=64)
    return out


sum_by_atomics_reference = sum_in_two_launches_reference


@triton.jit
def argmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * cols + at, at < cols, -float("inf"))
    tl.store(out + tl.program_id(0), tl.argmax(row, 0).to(tl.int64))


def argmax(x):
    out = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
    argmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=power(x.shape[1]))
    return out


def argmax_reference(x):
    return x.argmax(1)


@triton.jit
def cumsum_kernel(x, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * cols + at, at < cols, 0.0)
    tl.store(out + tl.program_id(0) * cols + at, tl.cumsum(row, 0), at < cols)


def cumsum(x):
    out = torch.empty_like(x)
    cumsum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=power(x.shape[1]))
    return out


def cumsum_reference(x):
    return x.cumsum(1)


@triton.jit
def softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * cols + at, at < cols, -float("inf")).to(tl.float32)
    weights = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * cols + at, weights / tl.sum(weights, 0), at < cols)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=power(x.shape[1]))
    return out


def softmax_reference(x):
    return x.softmax(1)


softmax_float16, softmax_float16_reference = softmax, softmax_reference


@triton.jit
def online_softmax_kernel(x, out, cols, BLOCK: tl.constexpr):
    start = tl.program_id(0) * cols
    top, total = -float("inf"), 0.0
    for first in range(0, cols, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, at < cols, -float("inf"))
        higher = tl.maximum(top, tl.max(part, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(part - higher), 0)
        top = higher
    for first in range(0, cols, BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(out + start + at, tl.exp(tl.load(x + start + at, at < cols) - top) / total, at < cols)


def online_softmax(x):
    out = torch.empty_like(x)
    online_softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=16)
    return out


online_softmax_reference = softmax_reference


@triton.jit
def layer_norm_kernel(x, weight, bias, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < cols
    row = tl.load(x + tl.program_id(0) * cols + at, mask, 0.0)
    mean = tl.sum(row, 0) / cols
    centred = tl.where(mask, row - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / cols + 1e-5)
    result = centred * scale * tl.load(weight + at, mask) + tl.load(bias + at, mask)
    tl.store(out + tl.program_id(0) * cols + at, result, mask)


def layer_norm(x, weight, bias):
    out = torch.empty_like(x)
    layer_norm_kernel[(x.shape[0],)](x, weight, bias, out, x.shape[1], BLOCK=power(x.shape[1]))
    return out


def layer_norm_reference(x, weight, bias):
    return F.layer_norm(x, x.shape[1:], weight, bias)


@triton.jit
def residual_norm_kernel(x, residual, weight, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask, place = at < cols, tl.program_id(0) * cols + at
    row = tl.load(x + place, mask, 0.0) + tl.load(residual + place, mask, 0.0)
    tl.store(residual + place, row, mask)
    tl.store(out + place, row / tl.sqrt(tl.sum(row * row, 0) / cols + 1e-6) * tl.load(weight + at, mask), mask)


def residual_rms_norm(x, residual, weight):
    """Add into the residual, as inference engines do."""
    out = torch.empty_like(x)
    residual_norm_kernel[(x.shape[0],)](x, residual, weight, out, x.shape[1], BLOCK=power(x.shape[1]))
    return out, residual


def residual_rms_norm_reference(x, residual, weight):
    total = x + residual
    return total / (total.square().mean(1, keepdim=True) + 1e-6).sqrt() * weight, total


# Products


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for first in range(0, K, BLOCK):
        k = first + tl.arange(0, BLOCK)
        left = tl.load(a + i * K + k[None, :], (i < M) & (k[None, :] < K), 0.0)
        right = tl.load(b + k[:, None] * N + j, (k[:, None] < K) & (j < N), 0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + i * N + j, total, (i < M) & (j < N))


def matmul(a, b):
    M, K, N = *a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    matmul_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, c, M, N, K, BLOCK=16)
    return c


def matmul_reference(a, b):
    return a @ b


matmul_float16, matmul_float16_reference = matmul, matmul_reference
autotuned_kernel = triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["M"])(matmul_kernel)


def matmul_autotuned(a, b):
    M, K, N = *a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    autotuned_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK"]), triton.cdiv(N, meta["BLOCK"]))](a, b, c, M, N, K)
    return c


matmul_autotuned_reference = matmul_reference


@triton.jit
def split_k_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a + i * K + k[None, :], (i < M) & (k[None, :] < K), 0.0)
    right = tl.load(b + k[:, None] * N + j, (k[:, None] < K) & (j < N), 0.0)
    tl.atomic_add(c + i * N + j, tl.dot(left, right, input_precision="ieee"), (i < M) & (j < N))


def matmul_split_k(a, b):
    M, K, N = *a.shape, b.shape[1]
    c = torch.zeros(M, N, dtype=a.dtype, device=a.device)
    split_k_kernel[(triton.cdiv(K, 16),)](a, b, c, M, N, K, BLOCK=16)
    return c


matmul_split_k_reference = matmul_reference


@triton.jit
def triangular_kernel(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for first in range(0, (tl.program_id(0) + 1) * BLOCK, BLOCK):
        k = first + tl.arange(0, BLOCK)
        left = tl.load(a + i * n + k[None, :], (i < n) & (k[None, :] <= i), 0.0)
        right = tl.load(b + k[:, None] * BLOCK + j, k[:, None] < n, 0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + i * BLOCK + j, total, i < n)


def triangular_inputs(n, device):
    return torch.randn(n, n, device=device).tril(), torch.randn(n, 16, device=device)


def triangular_matmul(n: int = 40, device: str = "cuda"):
    """Skip the half of a triangular matrix that is zero."""
    a, b = triangular_inputs(n, device)

    def run():
        c = torch.empty(n, 16, device=device)
        triangular_kernel[(triton.cdiv(n, 16),)](a, b, c, n, BLOCK=16)
        return c

    return run


def triangular_matmul_reference(n: int = 40, device: str = "cuda"):
    a, b = triangular_inputs(n, device)
    return lambda: a.double() @ b.double()


@triton.jit
def block_pointer_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    source = tl.make_block_ptr(x, (rows, cols), (cols, 1), (tl.program_id(0) * BLOCK, 0), (BLOCK, BLOCK), (1, 0))
    target = tl.make_block_ptr(out, (rows, cols), (cols, 1), (tl.program_id(0) * BLOCK, 0), (BLOCK, BLOCK), (1, 0))
    for _ in range(0, cols, BLOCK):
        tile = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, tile * 3, boundary_check=(0, 1))
        source, target = tl.advance(source, (0, BLOCK)), tl.advance(target, (0, BLOCK))


def triple_by_block_pointers(x):
    out = torch.empty_like(x)
    block_pointer_kernel[(triton.cdiv(x.shape[0], 16),)](x, out, *x.shape, BLOCK=16)
    return out


def triple_by_block_pointers_reference(x):
    return x * 3


# Data decide


@triton.jit
def gather_kernel(table, index, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(index + tl.program_id(0))
    tl.store(out + tl.program_id(0) * cols + at, tl.load(table + row * cols + at, at < cols), at < cols)


def embedding_inputs(device):
    return torch.tensor([4, 1, 1, 6], device=device), torch.randn(8, 12, device=device)


def embedding(device: str = "cuda"):
    index, table = embedding_inputs(device)

    def run():
        out = torch.empty(4, 12, device=device)
        gather_kernel[(4,)](table, index, out, 12, BLOCK=16)
        return out

    return run


def embedding_reference(device: str = "cuda"):
    index, table = embedding_inputs(device)
    return lambda: table[index]


@triton.jit
def scatter_kernel(x, index, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(index + tl.program_id(0))
    tl.atomic_add(out + row * cols + at, tl.load(x + tl.program_id(0) * cols + at, at < cols), at < cols)


def scatter_inputs(device):
    return torch.tensor([2, 0, 2, 1, 2], device=device), torch.randn(5, 12, device=device)


def scatter_add(device: str = "cuda"):
    index, x = scatter_inputs(device)

    def run():
        out = torch.zeros(3, 12, device=device)
        scatter_kernel[(5,)](x, index, out, 12, BLOCK=16)
        return out

    return run


def scatter_add_reference(device: str = "cuda"):
    index, x = scatter_inputs(device)
    return lambda: torch.zeros(3, 12, device=device).index_add(0, index, x)


@triton.jit
def histogram_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + at, at < n, 0), 1, at < n)


def histogram(x):
    out = torch.zeros(128, dtype=torch.int32, device=x.device)
    histogram_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=64)
    return out


def histogram_reference(x):
    return torch.bincount(x, minlength=128).int()


@triton.jit
def segment_kernel(x, starts, out, BLOCK: tl.constexpr):
    first, last = tl.load(starts + tl.program_id(0)), tl.load(starts + tl.program_id(0) + 1)
    total = tl.zeros([BLOCK], tl.float32)
    for place in range(first, last, BLOCK):
        at = place + tl.arange(0, BLOCK)
        total += tl.load(x + at, at < last, 0.0)
    tl.store(out + tl.program_id(0), tl.sum(total, 0))


def segment_inputs(device):
    return torch.tensor([0, 5, 5, 29, 40], device=device), torch.randn(40, device=device)


def segment_sums(device: str = "cuda"):
    starts, x = segment_inputs(device)

    def run():
        out = torch.empty(4, device=device)
        segment_kernel[(4,)](x, starts, out, BLOCK=8)
        return out

    return run


def segment_sums_reference(device: str = "cuda"):
    starts, x = segment_inputs(device)
    return lambda: torch.stack([x[first:last].sum() for first, last in zip(starts.tolist(), starts.tolist()[1:], strict=False)])


@triton.jit
def cross_entropy_kernel(logits, labels, out, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(logits + tl.program_id(0) * cols + at, at < cols, -float("inf"))
    top = tl.max(row, 0)
    chosen = tl.load(logits + tl.program_id(0) * cols + tl.load(labels + tl.program_id(0)))
    tl.store(out + tl.program_id(0), tl.log(tl.sum(tl.exp(row - top), 0)) + top - chosen)


def entropy_inputs(device):
    return torch.tensor([0, 3, 9, 3], device=device), torch.randn(4, 10, device=device)


def cross_entropy(device: str = "cuda"):
    labels, logits = entropy_inputs(device)

    def run():
        out = torch.empty(4, device=device)
        cross_entropy_kernel[(4,)](logits, labels, out, 10, BLOCK=16)
        return out

    return run


def cross_entropy_reference(device: str = "cuda"):
    labels, logits = entropy_inputs(device)
    return lambda: F.cross_entropy(logits, labels, reduction="none")


# Host code that does more than launch


def with_a_kept_workspace(x):
    """Allocate the workspace once and write it at each call."""
    if x.shape not in WORKSPACES:
        WORKSPACES[x.shape] = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    partial = WORKSPACES[x.shape]
    sum_kernel[(x.shape[0],)](x, partial, x.shape[1], BLOCK=power(x.shape[1]))
    return sum_rows(partial[None])


with_a_kept_workspace_reference = sum_in_two_launches_reference


def into_a_kept_output(x):
    """Return the same memory at each call, and write it each time."""
    if x.shape not in RESULTS:
        RESULTS[x.shape] = torch.empty_like(x)
    relu_kernel[blocks(x.numel())](x, RESULTS[x.shape], x.numel(), BLOCK=64)
    return RESULTS[x.shape]


into_a_kept_output_reference = relu_by_device_function_reference


def on_joined_streams(x):
    side, out = torch.cuda.Stream(), torch.empty_like(x)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        relu_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=64)
    torch.cuda.current_stream().wait_stream(side)
    return out


on_joined_streams_reference = relu_by_device_function_reference


def joined_by_an_event(x):
    side, out, event = torch.cuda.Stream(), torch.empty_like(x), torch.cuda.Event()
    with torch.cuda.stream(side):
        relu_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK=64)
        event.record()
    event.wait()
    return out


joined_by_an_event_reference = relu_by_device_function_reference


def with_torch_operators(x):
    return relu_by_device_function(x * 2) + 1


def with_torch_operators_reference(x):
    return F.relu(x * 2) + 1


def reraises(x):
    try:
        return relu_by_device_function(x)
    except RuntimeError as error:
        raise RuntimeError("the kernel cannot run") from error


reraises_reference = relu_by_device_function_reference


class Doubled(torch.autograd.Function):
    """A product with 2 and its gradient, by kernels."""

    @staticmethod
    def forward(ctx, x):  # noqa: ARG004
        return add(x, x)

    @staticmethod
    def backward(ctx, gradient):  # noqa: ARG004
        return add(gradient, gradient)


def gradient(x, dy):
    x = x.detach().requires_grad_()
    Doubled.apply(x).backward(dy)
    return x.grad


def gradient_reference(x, dy):
    return dy * 2


class Affine(torch.nn.Module):
    """A module as KernelBench asks for: parameters of its own, and a forward pass."""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(cols))
        self.bias = torch.nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return F.layer_norm(x, x.shape[1:], self.weight, self.bias)


class AffineByKernel(Affine):
    """The same module by a kernel."""

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias)


@triton.jit
def silu_kernel(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a + at, at < n).to(tl.float32)
    right = tl.load(b + at, at < n).to(tl.float32)
    tl.store(out + at, left / (1 + tl.exp(-left)) * right, at < n)


def silu_and_mul(x, y):
    out = torch.empty_like(x)
    silu_kernel[blocks(x.numel())](x, y, out, x.numel(), BLOCK=64)
    return out


def silu_and_mul_reference(x, y):
    return torch.nn.functional.silu(x) * y


@triton.jit
def cube_kernel(x, out, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, at < n)
        tl.store(out + at, value * value * value, at < n)


def cube_by_persistent_programs(x):
    out = torch.empty_like(x)
    cube_kernel[(2,)](x, out, x.numel(), BLOCK=32)
    return out


def cube_by_persistent_programs_reference(x):
    return x * x * x


@triton.jit
def pool_kernel(x, out, cols, half, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    left = tl.load(x + row * cols + 2 * at, at < half)
    right = tl.load(x + row * cols + 2 * at + 1, at < half)
    tl.store(out + row * half + at, tl.maximum(left, right), at < half)


def max_pool(x):
    rows, half = x.shape[0], x.shape[1] // 2
    out = torch.empty(rows, half, dtype=x.dtype, device=x.device)
    pool_kernel[(rows,)](x, out, x.shape[1], half, BLOCK=power(half))
    return out


def max_pool_reference(x):
    return torch.nn.functional.max_pool1d(x[None], 2)[0]


@triton.jit
def conv_kernel(x, w, out, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in range(3):
        before = row - 2 + tap
        value = tl.load(x + before * cols + at, (at < cols) & (before >= 0), 0.0)
        total += value * tl.load(w + at * 3 + tap, at < cols)
    tl.store(out + row * cols + at, total, at < cols)


def causal_convolution(x, w):
    out = torch.empty_like(x)
    conv_kernel[(x.shape[0],)](x, w, out, x.shape[1], BLOCK=power(x.shape[1]))
    return out


def causal_convolution_reference(x, w):
    padded = torch.nn.functional.pad(x.T[None], (2, 0))
    return torch.nn.functional.conv1d(padded, w[:, None], groups=x.shape[1])[0].T


@triton.jit
def softmax_and_sum_kernel(x, out, sums, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + at, at < cols, float("-inf"))
    largest = tl.max(value)
    power = tl.exp(value - largest)
    tl.store(out + row * cols + at, power / tl.sum(power), at < cols)
    tl.store(sums + row, largest + tl.log(tl.sum(power)))


def softmax_and_logsumexp(x):
    out, sums = torch.empty_like(x), torch.empty(x.shape[0], device=x.device)
    softmax_and_sum_kernel[(x.shape[0],)](x, out, sums, x.shape[1], BLOCK=power(x.shape[1]))
    return out, sums


def softmax_and_logsumexp_reference(x):
    return torch.softmax(x, -1), torch.logsumexp(x, -1)


@triton.jit
def quantise_kernel(x, out, scales, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + at, at < cols, 0.0)
    scale = tl.max(tl.abs(value)) / 127
    tl.store(out + row * cols + at, (value / scale).to(tl.int8), at < cols)
    tl.store(scales + row, scale)


def quantise_rows(x):
    out, scales = torch.empty(x.shape, dtype=torch.int8, device=x.device), torch.empty(x.shape[0], device=x.device)
    quantise_kernel[(x.shape[0],)](x, out, scales, x.shape[1], BLOCK=power(x.shape[1]))
    return out, scales


def quantise_rows_reference(x):
    scales = x.float().abs().amax(-1) / 127
    return (x.float() / scales[:, None]).to(torch.int8), scales
