"""Functions of torch.compile on tensors of `rows` x `cols`.

They are called from plain host code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

from ioaware.case import Work

ROWS, COLS = 64, 256


def random(*sizes: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.randn(*sizes, dtype=dtype, device="cuda")


def indices(rows: int) -> Any:
    return torch.arange(rows, device="cuda")


def compiled(function: Callable[..., Any], *arguments: Callable[[int, int], Any], **options: Any) -> Callable[..., Any]:
    """Return a target that builds the arguments and calls the compiled function."""

    def target(rows: int = ROWS, cols: int = COLS) -> Any:
        compiled_function = torch.compile(function, **options)
        given = [build(rows, cols) for build in arguments]
        return lambda: compiled_function(*given)

    return target


def matrix(rows: int, cols: int) -> Any:
    return random(rows, cols)


def half_matrix(rows: int, cols: int) -> Any:
    return random(rows, cols, dtype=torch.float16)


def vector(_: int, cols: int) -> Any:
    return random(cols)


def row_numbers(rows: int, _: int) -> Any:
    return indices(rows)


pointwise = compiled(lambda a, b: torch.relu(a) * b + 1, matrix, matrix)
softmax = compiled(lambda a: torch.softmax(a, -1), half_matrix)
dynamic_softmax = compiled(lambda a: torch.softmax(a, -1), half_matrix, dynamic=True)
layer_norm = compiled(lambda a, w, b: functional.layer_norm(a, (a.shape[-1],), w, b), matrix, vector, vector)
rms_norm = compiled(lambda a, w: functional.rms_norm(a, (a.shape[-1],), w), matrix, vector)
row_sum = compiled(lambda a: a.sum(-1), matrix)
transpose = compiled(lambda a: a.t().contiguous(), matrix)
cat = compiled(lambda a, b: torch.cat([a, b], -1), matrix, matrix)
embedding = compiled(functional.embedding, row_numbers, matrix)
index_add = compiled(lambda a, i, b: a.index_add(0, i, b), matrix, row_numbers, matrix)
cross_entropy = compiled(functional.cross_entropy, matrix, row_numbers)
cumsum = compiled(lambda a: a.cumsum(-1), matrix)
argmax = compiled(lambda a: a.argmax(-1), matrix)
max_pool = compiled(lambda a: functional.max_pool2d(a[None, None], 2), matrix)
var_mean = compiled(lambda a: torch.var_mean(a, 0), matrix)
sort = compiled(lambda a: a[:, :32].sort(-1), matrix)
dropout = compiled(lambda a: functional.dropout(a, 0.5, training=True), matrix)
linear = compiled(lambda a, b: torch.relu(functional.linear(a, b)), matrix, matrix)
large_layer_norm = compiled(
    lambda a, w, b: functional.layer_norm(a, (a.shape[-1],), w, b),
    lambda *_: random(2, 20_000),
    lambda *_: random(20_000),
    lambda *_: random(20_000),
)
in_place = compiled(lambda a: a.mul_(2).add_(1), matrix)
branch_on_device = compiled(lambda a: a * 2 if a.is_cuda else a.double(), matrix)
in_a_region = compiled(lambda a: torch.relu(a @ a.t()), matrix)
at_an_offset = compiled(lambda a: a + 1, lambda rows, cols: random(rows * cols + 1)[1:])
tuned_by_time = compiled(lambda a: a + 1, matrix, mode="max-autotune")


def broken_graph(rows: int = ROWS, cols: int = COLS) -> Any:
    """Two graphs with plain code between them, which allocates on the GPU."""

    def function(a: Any) -> Any:
        b = torch.relu(a)
        torch._dynamo.graph_break()
        return torch.exp(b) + torch.empty_like(b, device="cuda")

    return torch.compile(function)(random(rows, cols))


def compiled_module(rows: int = ROWS, cols: int = COLS) -> Any:
    module = torch.compile(torch.nn.Sequential(torch.nn.Linear(cols, cols), torch.nn.GELU()).cuda())
    with torch.no_grad():
        return module(random(rows, cols))


def under_autocast(rows: int = ROWS, cols: int = COLS) -> Any:
    target = in_a_region(rows, cols)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return target()


def normalised(a: Any, w: Any) -> Any:
    return functional.rms_norm(a, (a.shape[-1],), w)


def gradients(function: Callable[..., Any], rows: int, cols: int, **options: Any) -> Work:
    """Return the work of a forward and a backward.

    Its reference is the gradients of the plain function in float64.
    """
    x, w = random(rows, cols).requires_grad_(), random(cols).requires_grad_()
    compiled_function = torch.compile(function, **options)

    def run() -> Any:
        return torch.autograd.grad(compiled_function(x, w).square().sum(), (x, w))

    def reference() -> Any:
        exact = [tensor.detach().cpu().double().requires_grad_() for tensor in (x, w)]
        return torch.autograd.grad(function(*exact).square().sum(), exact)

    return Work(run=run, reference=reference, tolerance=1e-5)


def norm_gradients(rows: int = ROWS, cols: int = COLS) -> Work:
    return gradients(normalised, rows, cols)


def dynamic_gradients(rows: int = ROWS, cols: int = COLS) -> Work:
    return gradients(lambda a, w: torch.softmax(a, -1) * w, rows, cols, dynamic=True)


def pointwise_gradients(rows: int = ROWS, cols: int = COLS) -> Any:
    """Forward and backward of one pointwise kernel each.

    The input is read twice, the upstream gradient once.
    """
    x, g = random(rows, cols).requires_grad_(), random(rows, cols)
    function = torch.compile(torch.sin)

    def run() -> Any:
        function(x).backward(g)
        return x.grad

    return run


def module_gradients(rows: int = ROWS, cols: int = COLS) -> Any:
    """A module in half precision, converted twice."""
    module = torch.nn.Sequential(torch.nn.Linear(cols, cols), torch.nn.GELU(), torch.nn.LayerNorm(cols)).cuda().half()
    function, x = torch.compile(module), random(rows, cols, dtype=torch.float16)

    def run() -> Any:
        function(x).sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    return run


def odd_matmul(rows: int = 40, cols: int = 100) -> Any:
    """A product whose operands the compiler may pad."""
    a, b = random(rows, cols, dtype=torch.float16), random(cols, cols, dtype=torch.float16)
    function = torch.compile(lambda a, b: torch.relu(a @ b))
    return lambda: function(a, b)


def attention(
    dtype: torch.dtype = torch.float16, head_dim: int = 64, rows: int = 32, *, has_gradients: bool = False, **options: Any
) -> Any:
    """Attention between two pointwise operators."""
    q, k, v = (random(2, 2, rows, head_dim, dtype=dtype).requires_grad_(has_gradients) for _ in range(3))
    function = torch.compile(lambda q, k, v: torch.relu(functional.scaled_dot_product_attention(q * 2, k, v, **options)))

    def run() -> Any:
        out = function(q, k, v)
        return out.sum().backward() if has_gradients else out

    return run


def fused_attention() -> Any:
    return attention()


def double_attention() -> Any:
    return attention(torch.float64)


def dropout_attention() -> Any:
    return attention(dropout_p=0.5)


def masked_attention() -> Any:
    return attention(attn_mask=random(32, 32, dtype=torch.float16))


def odd_attention() -> Any:
    return attention(head_dim=60)


def attention_gradients() -> Any:
    return attention(has_gradients=True)


def encoder_layer_step(rows: int = 32, cols: int = 64) -> Any:
    """One training step of an encoder layer.

    Its backward scatters the gradients of q, k and v into one tensor.
    """
    layer = torch.nn.TransformerEncoderLayer(cols, 2, 2 * cols, dropout=0.0, batch_first=True).cuda()
    function, x = torch.compile(layer), random(2, rows, cols)
    return lambda: function(x).sum().backward()
