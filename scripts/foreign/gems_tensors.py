"""FlagGems' products, convolutions, attention and indexing as targets.

`FOREIGN_FLAG_GEMS` names the checkout.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from gems import Work, operator, tensor
from gems import of_rows as _rows

diag = _rows("diag")
flip = _rows("flip", [1])
masked_select_nonzero = _rows("nonzero")
pad = _rows("pad", (3, 5))
repeat = _rows("repeat", (2, 3))
repeat_interleave = _rows("repeat_interleave_self_int", 3, 1)
tile = _rows("tile", (2, 3))
to_float = _rows("to_copy", dtype=torch.float32)
trace = _rows("trace", kind="f32")
triu = _rows("triu", 1)
diag_embed = _rows("diag_embed")


def mm(m: int = 200, n: int = 300, k: int = 160, device: str = "cuda") -> Work:
    """Product of two matrices."""
    a, b = tensor((m, k), "f16", device), tensor((k, n), "f16", device)
    return lambda: operator("mm")(a, b)


def addmm(m: int = 200, n: int = 300, k: int = 160, device: str = "cuda") -> Work:
    """Product of two matrices and a bias."""
    a, b, bias = tensor((m, k), "f16", device), tensor((k, n), "f16", device), tensor((n,), "f16", device)
    return lambda: operator("addmm")(bias, a, b)


def bmm(batch: int = 3, m: int = 200, n: int = 300, k: int = 160, device: str = "cuda") -> Work:
    """Products of batches of matrices."""
    a, b = tensor((batch, m, k), "f16", device), tensor((batch, k, n), "f16", device)
    return lambda: operator("bmm")(a, b)


def mv(n: int = 200, m: int = 300, device: str = "cuda") -> Work:
    """Product of a matrix and a vector."""
    a, x = tensor((n, m), "f16", device), tensor((m,), "f16", device)
    return lambda: operator("mv")(a, x)


def addmv(n: int = 200, m: int = 300, device: str = "cuda") -> Work:
    """Product of a matrix and a vector, added to one."""
    y, a, x = tensor((n,), "f16", device), tensor((n, m), "f16", device), tensor((m,), "f16", device)
    return lambda: operator("addmv")(y, a, x)


def outer(n: int = 200, m: int = 300, device: str = "cuda") -> Work:
    """Outer product of two vectors."""
    x, y = tensor((n,), "f32", device), tensor((m,), "f32", device)
    return lambda: operator("outer")(x, y)


def addr(n: int = 200, m: int = 300, device: str = "cuda") -> Work:
    """Outer product of two vectors, added to a matrix."""
    a, x, y = tensor((n, m), "f32", device), tensor((n,), "f32", device), tensor((m,), "f32", device)
    return lambda: operator("addr")(a, x, y)


def kron(n: int = 12, m: int = 20, device: str = "cuda") -> Work:
    """Kronecker product."""
    a, b = tensor((n, m), "f32", device), tensor((m, n), "f32", device)
    return lambda: operator("kron")(a, b)


def conv1d(batch: int = 2, length: int = 200, device: str = "cuda") -> Work:
    """Convolution along a line."""
    x, w = tensor((batch, 16, length), "f16", device), tensor((32, 16, 3), "f16", device)
    return lambda: operator("conv1d")(x, w, padding=1)


def conv2d(batch: int = 2, size: int = 16, device: str = "cuda") -> Work:
    """Convolution of images."""
    x, w = tensor((batch, 16, size, size), "f16", device), tensor((32, 16, 3, 3), "f16", device)
    return lambda: operator("conv2d")(x, w, padding=1)


def conv3d(batch: int = 1, size: int = 8, device: str = "cuda") -> Work:
    """Convolution of volumes."""
    x, w = tensor((batch, 16, size, size, size), "f16", device), tensor((32, 16, 3, 3, 3), "f16", device)
    return lambda: operator("conv3d")(x, w, padding=1)


def avg_pool2d(batch: int = 2, size: int = 16, device: str = "cuda") -> Work:
    """Means of windows of images."""
    x = tensor((batch, 16, size, size), "f32", device)
    return lambda: operator("avg_pool2d")(x, 3, 2, 1)


def max_pool2d(batch: int = 2, size: int = 16, device: str = "cuda") -> Work:
    """Maxima of windows of images."""
    x = tensor((batch, 16, size, size), "f32", device)
    return lambda: operator("max_pool2d_with_indices")(x, 3, 2, 1)


def upsample_nearest2d(batch: int = 2, size: int = 16, device: str = "cuda") -> Work:
    """Images twice as large."""
    x = tensor((batch, 16, size, size), "f32", device)
    return lambda: operator("upsample_nearest2d")(x, (2 * size, 2 * size))


def attention(seq_len: int = 256, heads: int = 4, device: str = "cuda") -> Work:
    """Scaled dot product attention."""
    q, k, v = (tensor((2, heads, seq_len, 64), "f16", device) for _ in range(3))
    return lambda: operator("scaled_dot_product_attention")(q, k, v, is_causal=True)


def rotary(seq_len: int = 64, heads: int = 8, device: str = "cuda") -> Work:
    """Rotary embedding of queries and keys."""
    q, k = (tensor((1, seq_len, heads, 64), "f16", device) for _ in range(2))
    cos, sin = tensor((seq_len, 32), "f16", device), tensor((seq_len, 32), "f16", device)
    return lambda: operator("apply_rotary_pos_emb")(q, k, cos, sin, None)


def rotary_interleaved(seq_len: int = 64, heads: int = 8, device: str = "cuda") -> Work:
    """Rotary embedding on interleaved lanes."""
    q, k = (tensor((1, seq_len, heads, 64), "f16", device) for _ in range(2))
    cos, sin = tensor((seq_len, 32), "f16", device), tensor((seq_len, 32), "f16", device)
    return lambda: operator("apply_rotary_pos_emb")(q, k, cos, sin, None, True)


def cat(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Matrices side by side."""
    a, b = tensor((rows, cols), "f16", device), tensor((rows, cols), "f16", device)
    return lambda: operator("cat")([a, b], 1)


def stack(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Matrices on top of each other."""
    a, b = tensor((rows, cols), "f16", device), tensor((rows, cols), "f16", device)
    return lambda: operator("stack")([a, b])


def vstack(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Matrices below each other."""
    a, b = tensor((rows, cols), "f16", device), tensor((rows, cols), "f16", device)
    return lambda: operator("vstack")([a, b])


def embedding(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Rows of a table by index."""
    table, indices = tensor((100, cols), "f16", device), torch.arange(rows, device=device) % 100
    return lambda: operator("embedding")(table, indices)


def index_select(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Rows of a matrix by index."""
    x, indices = tensor((rows, cols), "f32", device), torch.arange(rows // 2, device=device) * 2
    return lambda: operator("index_select")(x, 0, indices)


def index_add(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Rows added to rows of a matrix by index."""
    x, y, indices = tensor((rows, cols), "f32", device), tensor((rows, cols), "f32", device), torch.arange(rows, device=device)
    return lambda: operator("index_add")(x, 0, indices, y)


def index(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Elements of a matrix by row and column."""
    x, at = tensor((rows, cols), "f32", device), torch.arange(rows, device=device)
    return lambda: operator("index")(x, [at, at])


def index_put(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Elements of a matrix set by row and column."""
    x, at, values = tensor((rows, cols), "f32", device), torch.arange(rows, device=device), tensor((rows,), "f32", device)
    return lambda: operator("index_put")(x, [at, at], values)


def gather(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Elements of each row by index."""
    x, at = tensor((rows, cols), "f32", device), torch.zeros(rows, cols, device=device, dtype=torch.int64)
    return lambda: operator("gather")(x, 1, at)


def scatter(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Elements of each row set by index."""
    x, y = tensor((rows, cols), "f32", device), tensor((rows, cols), "f32", device)
    at = torch.arange(cols, device=device).expand(rows, cols).contiguous()
    return lambda: operator("scatter")(x, 1, at, y)


def masked_select(n: int = 3000, device: str = "cuda") -> Work:
    """Elements where a mask says so."""
    x, mask = tensor((n,), "f32", device), torch.arange(n, device=device) % 2 == 0
    return lambda: operator("masked_select")(x, mask)


def select_scatter(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """A row put into a matrix."""
    x, y = tensor((rows, cols), "f32", device), tensor((cols,), "f32", device)
    return lambda: operator("select_scatter")(x, y, 0, 3)


def slice_scatter(rows: int = 40, cols: int = 120, device: str = "cuda") -> Work:
    """Rows put into a matrix."""
    x, y = tensor((rows, cols), "f32", device), tensor((8, cols), "f32", device)
    return lambda: operator("slice_scatter")(x, y, 0, 4, 12)


def isin(n: int = 3000, m: int = 40, device: str = "cuda") -> Work:
    """Whether elements are among others."""
    x, y = tensor((n,), "i32", device), tensor((m,), "i32", device)
    return lambda: operator("isin")(x, y)


def arange(n: int = 3000, device: str = "cuda") -> Work:
    """Numbers in order."""
    return lambda: operator("arange")(n, device=torch.device(device))


def eye(n: int = 100, device: str = "cuda") -> Work:
    """The unit matrix."""
    return lambda: operator("eye")(n, device=torch.device(device))


def linspace(n: int = 3000, device: str = "cuda") -> Work:
    """Numbers at equal distances."""
    return lambda: operator("linspace")(0.0, 1.0, n, device=torch.device(device))


def reshape_and_cache(tokens: int = 40, heads: int = 8, device: str = "cuda") -> Work:
    """Keys and values written into a paged cache."""
    key, value = (tensor((tokens, heads, 64), "f16", device) for _ in range(2))
    keys, values = (torch.zeros(16, 16, heads, 64, device=device, dtype=torch.float16) for _ in range(2))
    slots, one = torch.arange(tokens, device=device), torch.ones(1, device=device)
    return lambda: operator("reshape_and_cache_flash")(key, value, keys, values, slots, "auto", one, one)


def moe_align(tokens: int = 40, device: str = "cuda") -> Work:
    """Tokens sorted by expert, in blocks."""
    experts = torch.arange(2 * tokens, device=device, dtype=torch.int32).view(tokens, 2) % 8
    return lambda: operator("moe_align_block_size")(experts, 16, 8)
