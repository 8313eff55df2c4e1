"""Host functions with state, tables, modules, custom operators or autotuners.

Each has one idiom.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as datetime_module
import functools
import gc
import io
import itertools
import math
import os
import pickle
import pprint
import secrets
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from os import getpid
from time import perf_counter

import torch
import triton
import triton.language as tl
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor


@triton.jit
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * factor, lanes < n)


def scale(x: torch.Tensor, factor: float = 2.0, block: int = 64) -> torch.Tensor:
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), factor, BLOCK=block)
    return out


def ones(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes, device="cuda")


first = True
workspaces: dict[object, torch.Tensor] = {}
kept = None
counter = itertools.count()


def first_call_only(n: int = 1000):
    """Runs a kernel on its first call only."""
    global first
    x = ones(n)
    if first:
        first = False
        x = scale(x)
    return scale(x)


def cached_workspace(n: int = 1000):
    if "workspace" not in workspaces:
        workspaces["workspace"] = scale(ones(n))
    return scale(workspaces["workspace"])


def workspace_of_a_shape(n: int = 1000, m: int = 10):
    x = ones(n, m)
    key = (*x.shape, x.dtype)
    if key not in workspaces:
        workspaces[key] = torch.empty_like(x)
    return scale(workspaces[key])


def opaque_state(n: int = 1000):
    """State that no snapshot holds. The first call makes two launches, later ones one."""
    x = scale(ones(n))
    return scale(x) if next(counter) == 0 else x


def opaque_failure(n: int = 1000):
    """Raises from its second call on."""
    x = scale(ones(n))
    if next(counter) > 0:
        raise RuntimeError("again")
    return x


def kept_kernel(n: int = 1000):
    """Launches the compiled kernel that its first launch returned."""
    global kept
    x = ones(n)
    out = torch.empty_like(x)
    for _ in range(2):
        if kept is None:
            kept = scale_kernel[(triton.cdiv(n, 64),)](x, out, n, 2.0, BLOCK=64)
        else:
            kept[(triton.cdiv(n, 64), 1, 1)](x, out, n, 2.0, 128)  # a compiled constexpr is not changed by an argument
    return out


def registers(n: int = 1000):
    x = ones(n)
    kernel = scale_kernel[(triton.cdiv(n, 64),)](x, x, n, 2.0, BLOCK=64)
    assert kernel.n_spills == 0
    assert kernel.metadata.shared == 0
    return scale(x) if kernel.n_regs > 8 else x


class Wrapped:
    """No tensor, but accepted as one by Triton."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self) -> int:
        return self.tensor.data_ptr()


def wrapped(n: int = 1000, skip: int = 5):
    x = ones(n + skip)
    scale_kernel[(triton.cdiv(n, 64),)](Wrapped(x[skip:]), Wrapped(torch.empty_like(x)), n, 2.0, BLOCK=64)


def wrapped_and_beyond(n: int = 1000):
    """Reads 6 numbers more than there are."""
    x = ones(n)
    scale_kernel[(triton.cdiv(n, 64),)](Wrapped(x), Wrapped(ones(2 * n)), n + 6, 2.0, BLOCK=64)


def wild_pointer(n: int = 1000):
    x = ones(n)
    pointer = Wrapped(x)
    pointer.data_ptr = lambda: 7  # pyright: ignore[reportAttributeAccessIssue]
    scale_kernel[(triton.cdiv(n, 64),)](pointer, x, n, 2.0, BLOCK=64)


def branch_on_alignment(n: int = 100, skip: int = 8):
    x = ones(2 * n)
    return scale(x) if x[skip:].data_ptr() % 16 == 0 else scale(scale(x))


@functools.lru_cache
def tiles(n: int) -> int:
    return triton.cdiv(n, 64)


def cached_size(n: int = 1000, m: int = 10):
    x = ones(n, m)
    scale_kernel[(tiles(n * m),)](x, x, n * m, 2.0, BLOCK=64)


TABLE = {64: 32, 128: 128}


def looked_up(d: int = 128, n: int = 100):
    return scale(ones(n, d), 2.0, TABLE[d])


def looked_up_or_default(d: int = 256, n: int = 100):
    """Launches a second kernel for sizes in the table."""
    x = ones(n, d)
    return scale(x) if TABLE.get(d) is None else scale(scale(x))


def tensor_as_size(n: int = 1000):
    return scale(ones(int(torch.tensor([10, 20], device="cuda").sum()), n))


def tensor_as_size_in_torch(n: int = 1000):
    return scale(torch.ones(torch.tensor([10, 20], device="cuda").sum(), n, device="cuda"))


def float_from_a_kernel(n: int = 1000):
    x = scale(torch.randn(n, device="cuda"))
    return scale(x, x.abs().max().item())


def number_from_a_kernel(n: int = 1000):
    """Python's float, arithmetic and text of a number that a kernel computes."""
    x = scale(torch.randn(n, device="cuda"))
    largest = float(x.abs().max())
    print(f"{largest:.3f}")
    return scale(x, math.sqrt(abs(largest)) / 2 if largest else 1.0)


def index_from_a_number(n: int = 1000):
    """Builds an index tensor from a number that a kernel computes."""
    x = scale(torch.randn(n, device="cuda"))
    rows = (torch.arange(4, device="cuda") * float(x[0])).int()
    out = torch.empty(4, device="cuda")
    gather_kernel[(4,)](rows, out)
    return out


@triton.jit
def gather_kernel(rows, out):
    row = tl.load(rows + tl.program_id(0))
    if row > 0:
        tl.store(out + row, 1.0)


def branch_on_a_number(n: int = 1000):
    x = scale(torch.randn(n, device="cuda"))
    return scale(x) if float(x.max()) > 3 else x


def branch_on_an_item(n: int = 1000):
    x = scale(torch.randn(n, device="cuda"))
    return scale(x) if x.max().item() > 3 else x


def compared(n: int = 1000):
    x = torch.ones(n, device="cuda")
    return scale(x) if torch.equal(x, torch.ones_like(x)) and x.allclose(x + 0) else x


def rows_of_a_mask(n: int = 1000):
    x = torch.ones(n, 2, device="cuda")
    places = (x > 0).nonzero()
    return scale(x) if places.contiguous().shape[0] and torch.ones(1, device="cuda").bool() else x


@triton.jit
def at_address_kernel(address, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = address.to(tl.pointer_type(tl.float32))
    tl.store(out + lanes, tl.load(source + lanes, lanes < n), lanes < n)


def address_and_data(n: int = 1000):
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    distinct = torch.unique(torch.arange(n, device="cuda") // 128)
    at_address_kernel[(distinct.shape[0],)](x.data_ptr(), out, n, 128)
    return out


@triton.jit
def optional_kernel(x, bias, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + lanes, lanes < n)
    if bias:
        value += tl.load(bias + lanes, lanes < n)
    tl.store(out + lanes, value, lanes < n)


def optional_bias(n: int = 1000, biases: int = 1000):
    x, out = ones(n), ones(n)
    optional_kernel[(triton.cdiv(n, 64),)](x, torch.ones(biases, device="cuda"), out, n, BLOCK=64)
    return out


class Projection(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)

    def forward(self) -> torch.Tensor:
        assert self.linear.weight.is_cuda
        turned = self.linear.weight.t()  # a view
        return scale(self.linear.weight, 2.0 * turned.dim())


outside = Projection(64, 32)


def module_from_outside():
    return outside.cuda()()


def module_from_inside(inputs: int = 64, outputs: int = 32):
    module = Projection(inputs, outputs).to(device="cuda", dtype=torch.bfloat16)
    return lambda: module()


def moved(n: int = 1000):
    x = torch.ones(n).to("cuda", non_blocking=True).half().cuda()
    return scale(x.to(x.device).to(torch.empty(1, device="cuda", dtype=torch.float16)))


def queries(n: int = 1000):
    free, total = torch.cuda.mem_get_info()
    assert free <= total
    assert torch.cuda.memory_allocated() == 0
    assert torch.version.cuda
    assert torch.cuda.get_arch_list() == ["sm_90"]
    torch.cuda.nvtx.range_push("here")
    torch.cuda.nvtx.range_pop()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.default_generators[0].manual_seed(1)
    generator = torch.Generator(device="cuda").manual_seed(2)
    with torch.cuda.stream(torch.cuda.Stream()), torch.device("cuda"):
        return scale(torch.randn(n, generator=generator))


def tall_grid(rows: int = 70_000):
    x = ones(rows)
    tall_kernel[(1, rows)](x)


def grid_of_a_tensor(n: int = 1000):
    """The sizes of both grids are tensors of one element, computed from data."""
    x, most = ones(n), torch.tensor([n, 3]).max()
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(most, 64),)](x, out, n, 2.0, BLOCK=64)
    keyed_kernel[lambda meta: (triton.cdiv(most.cuda(), meta["BLOCK"]),)](x, out, n)
    return out


def wide_grid(programs: int = 3_900_000_000):
    x = ones(64)
    scale_kernel[(programs,)](x, x, 64, 2.0, BLOCK=64)


@triton.jit
def tall_kernel(x):
    tl.store(x + tl.program_id(1), 1.0)


class KeyedTuner(triton.runtime.Autotuner):
    """A library's autotuner with its own cache."""

    def run(self, *args, **kwargs):
        key = (args[2],)
        if key not in self.cache:
            times = {config: self._bench(*args, config=config, **kwargs) for config in self.configs}
            self.cache[key] = min(times, key=lambda config: times[config])
        return self.fn.run(*args, **kwargs, **self.cache[key].all_kwargs())


def keyed(configs):
    return lambda kernel: KeyedTuner(kernel, kernel.arg_names, configs, ["n"], None, None)


@keyed([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 128})])
@triton.jit
def keyed_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)


def own_autotuner(n: int = 1000):
    x = ones(n)
    keyed_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, n)


@triton.autotune([triton.Config({"BLOCK": 48}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def uncompilable_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)


def two_tuned_kernels(n: int = 1000):
    x = ones(n)
    out = torch.empty_like(x)
    for kernel in (keyed_kernel, uncompilable_kernel):
        kernel[lambda given: (triton.cdiv(n, given["BLOCK"]),)](x, out, n)
    return out


def uncompilable_configuration(n: int = 1000):
    """48 is no power of two, so Triton's autotuner skips the configuration."""
    x = ones(n)
    uncompilable_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, n)


@triton.autotune([triton.Config({"BLOCK": block}) for block in (24, 48, 96)], key=["n"])
@triton.jit
def wrong_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * 32 + tl.arange(0, 32)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) + undefined_name, lanes < n)  # noqa: F821


def only_uncompilable_configurations(n: int = 1000):
    x = ones(n)
    wrong_kernel[(triton.cdiv(n, 32),)](x, x, n)


@triton.autotune([triton.Config({"SIZE": 256}, num_stages=4), triton.Config({"SIZE": 64})], key=["n"])
@triton.jit
def large_kernel(a, b, out, n, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, n, SIZE):
        x = tl.load(a + i[:, None] * n + k + i[None, :])
        y = tl.load(b + (k + i[:, None]) * n + i[None, :])
        total = tl.dot(x, y, total)
    tl.store(out + i[:, None] * n + i[None, :], total)


def oversized_configuration(n: int = 1024):
    """The first configuration needs more shared memory than there is."""
    x = ones(n, n)
    large_kernel[(1,)](x, x, torch.empty_like(x), n)


@torch.library.custom_op("ioaware_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return scale(x)


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


library = torch.library.Library("ioaware_tests_cuda", "FRAGMENT")
if not hasattr(torch.ops.ioaware_tests_cuda, "doubled"):
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: scale(scale(x)), "CUDA")
    library.impl("doubled", torch.empty_like, "CPU")
    library.impl("doubled", torch.empty_like, "Meta")


def operator_with_a_fake(n: int = 1000):
    return doubled(ones(n))


def operator_for_cuda(n: int = 1000):
    return torch.ops.ioaware_tests_cuda.doubled(ones(n))


class Remembering:
    """Keeps the kernel of its first launch, as an attribute of an object."""

    compiled = None

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        if self.compiled is None:
            self.compiled = scale_kernel[(1,)](x, out, x.numel(), 2.0, BLOCK=64)
        else:
            self.compiled[(2, 1, 1)](x, out, x.numel(), 2.0)


remembering = Remembering()


def kept_by_an_object(n: int = 100):
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    remembering(x, out)
    remembering(x, out)
    return out


def launched_from_threads(n: int = 100):
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: scale_kernel[(triton.cdiv(n, 64),)](x, out, n, 2.0, BLOCK=64), range(4)))
    return out


def result_as_an_array(n: int = 100):
    out = torch.empty(n, device="cuda")
    scale_kernel[(2,)](torch.ones(n, device="cuda"), out, n, 2.0, BLOCK=64)
    return out.cpu().numpy()


def result_compared(n: int = 100):
    x, out = torch.ones(n, device="cuda"), torch.zeros(n, device="cuda")  # empty memory may hold ones by chance
    scale_kernel[(2,)](x, out, n, 2.0, BLOCK=64)
    torch.testing.assert_close(out, x)


def graph_of_launches(n: int = 100):
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale_kernel[(2,)](x, out, n, 2.0, BLOCK=64)
    graph.replay()


def timed_by_the_host(n: int = 100):
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    triton.testing.do_bench(lambda: scale_kernel[(2,)](x, out, n, 2.0, BLOCK=64))


class TiedLayers(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(n, 1, bias=False), nn.Linear(n, 1, bias=False)
        self.second.weight = self.first.weight


def converted_twice(n: int = 100):
    """Weights of 2 bytes, moved to the GPU before."""
    return scale(nn.Linear(n, 1, bias=False).cuda().half().weight)


def converted_back(n: int = 100):
    layer = nn.Linear(n, 1, bias=False).to("cuda").to(torch.float64).half()
    return scale(layer.float().weight)


def tied_and_converted(n: int = 100):
    layers = TiedLayers(n).cuda().half()
    assert layers.first.weight is layers.second.weight
    return scale(layers.second.weight)


@triton.jit
def unused_constant_kernel(x, out, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)


def tensor_as_constant(n: int = 1000):
    """Pass a tensor where the kernel takes a constant, which it does not use."""
    x = ones(n)
    out = torch.empty_like(x)
    unused_constant_kernel[(triton.cdiv(n, 64),)](x, out, n, x, BLOCK=64)
    return out


def on_another_stream(n: int = 1000):
    stream, x = torch.cuda.Stream(), ones(n)
    with torch.cuda.stream(stream):
        y = scale(x)
    x.record_stream(stream)
    stream.record_event().wait(torch.cuda.current_stream())
    return scale(y)


def counted_in_the_environment(n: int = 1000):
    """A launch more for each earlier call."""
    os.environ["IOAWARE_TEST_CALLS"] = "x" + os.environ.get("IOAWARE_TEST_CALLS", "")
    for _ in os.environ["IOAWARE_TEST_CALLS"]:
        scale(ones(n))


def drawn_from_the_system(n: int = 1000):
    for _ in range(1 + secrets.randbelow(2) + uuid.uuid4().bytes[0] % 2 + os.urandom(1)[0] % 2):
        scale(ones(n))


def once_or_twice(n: int, once: object):
    scale(ones(n))
    return None if once else scale(ones(n))


def at_an_odd_nanosecond(n: int = 1000):
    once_or_twice(n, time.time_ns() % 2)


def within_a_time(n: int = 1000):
    """As often as the time lasts, which ends."""
    end = perf_counter() + 0.1
    while perf_counter() < end:
        scale(ones(n))


def in_the_morning(n: int = 1000):
    once_or_twice(n, datetime.now(tz=timezone.utc).hour < 12)  # noqa: UP017


def on_a_weekday(n: int = 1000):
    once_or_twice(n, datetime_module.date.today().weekday() < 4)


def by_the_second(n: int = 1000):
    once_or_twice(n, int(time.strftime("%S")) % 2)


def by_a_dated_name(n: int = 1000):
    once_or_twice(n, uuid.uuid1().time % 2)


def in_a_new_thread(n: int = 1000):
    with ThreadPoolExecutor(1) as pool:
        once_or_twice(n, pool.submit(lambda: time.time_ns() % 2).result())


def collecting(n: int = 1000):
    gc.collect()
    return scale(ones(n))


def on_a_negative_grid(n: int = 10):
    scale_kernel[(n - 20,)](ones(n), ones(n), n, 2.0, BLOCK=64)


def timed(n: int = 1000):
    """Readings that decide no launch."""
    start = time.perf_counter()
    out = scale(ones(n))
    assert time.perf_counter() > start
    assert isinstance(datetime.now(tz=timezone.utc), datetime)  # noqa: UP017
    return out


class Projected(nn.Module):
    def __init__(self, cols: int) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(cols), nn.Linear(cols, 2 * cols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scale(self.up(self.norm(x)).view(-1))


def initialised_by_torch(n: int = 10, cols: int = 100):
    return Projected(cols).half().cuda()(torch.randn(n, cols, device="cuda").half())


def sparse_blocks(n: int = 64):
    return scale(torch.eye(n, device="cuda").to_sparse_bsr((16, 16)).values().view(-1))


def sparse_values(n: int = 64):
    return scale(torch.eye(n, device="cuda").to_sparse().values())


def merged_values(n: int = 64):
    indices = torch.zeros(1, n, dtype=torch.int64, device="cuda")
    return scale(torch.sparse_coo_tensor(indices, ones(n), (n,)).coalesce().values())


def as_many_classes_as_there_are(n: int = 64):
    return scale(nn.functional.one_hot(torch.arange(n, device="cuda") % 5).float().view(-1))


def named_by_the_system(n: int = 1000):
    """Random bytes that decide no launch."""
    assert uuid.uuid4().hex
    return scale(ones(n))


def by_the_type_of_a_tensor(n: int = 1000):
    x = scale(ones(int(torch.full((3,), n, device="cuda").max())))
    return x if isinstance(x, FakeTensor) else scale(x)


def exact_types(n: int = 1000):
    x, weight = ones(n), nn.Linear(4, 4).cuda().weight
    kinds = type(x) is torch.Tensor and type(weight) is nn.Parameter
    kinds = kinds and x.__class__ is torch.Tensor and weight.__class__.__name__ == "Parameter"
    made = type("Made", (), {"size": 1})
    return if_else(n, not kinds or type(made) is not type or not isinstance(made, type) or {torch.Tensor: 0}[type(x)])


def handed_to_another_library(n: int = 1000):
    return scale(torch.from_dlpack(ones(n)))


def optimised(n: int = 16):
    layer = nn.Linear(n, n).cuda()
    optimiser = torch.optim.AdamW(layer.parameters())
    layer(ones(n)).sum().backward()
    optimiser.step()
    return scale(layer.weight)


def in_heads(n: int = 1000):
    size = n // 4
    if size * 4 != n:
        return None
    return scale(ones(n))


def drawn_by_torch(n: int = 1000):
    return if_else(n, torch.rand(1).item() > 0.5)


def drawn_on_the_gpu(n: int = 1000):
    return scale(ones(int(torch.randperm(n, device="cuda")[0]) + 1))


def drawn_from_a_seed(n: int = 1000):
    torch.manual_seed(1)
    return if_else(n, torch.rand(1).item() > 2)


@dataclasses.dataclass(frozen=True)
class Key:
    name: object


def if_else(n: int, other: object):
    out = scale(ones(n))
    return scale(out) if other else out


def by_the_hash_of_text(n: int = 1000):
    return if_else(n, hash("text") % 2)


def by_the_hash_of_a_tuple(n: int = 1000):
    return if_else(n, hash((1, ("text", 2.0))) > 0)


def by_the_hash_of_a_dataclass(n: int = 1000):
    return if_else(n, hash(Key("text")) & 4)


def by_an_address(n: int = 1000):
    return if_else(n, id(Key) // 16 % 2)


def by_the_number_of_the_process(n: int = 1000):
    return if_else(n, os.getpid() % 2)


def by_an_imported_name(n: int = 1000):
    return if_else(n, getpid() % 2)


def hashed(n: int = 1000):
    """Hashes that are the same in each process, and others that decide no launch."""
    known = {hash("text"): 1, id(Key): 2}
    assert known[hash("text")] + known[id(Key)] == 3
    return if_else(n, hash((1, 2.0, Key(3))) != hash((1, 2.0, Key(3))))


def by_a_printed_length(n: int = 1000):
    return scale(ones(len(str(ones(n)))))


def by_a_printed_number(n: int = 1000):
    return if_else(n, f"{ones(n).sum():.0f}" == "1")


def by_a_logged_tensor(n: int = 1000):
    return if_else(n, "nan" in pprint.pformat([ones(n)]))


def printed(n: int = 1000):
    x = ones(n)
    text = f"{x} {nn.Parameter(x)!r} {x.sum():.3f}"
    return if_else(n, "FakeTensor" in text or not text.startswith("tensor([") or "device='cuda:0')" not in str(x))


class Named(torch.Tensor):
    """A tensor class of the user's."""


class Made(torch.Tensor):
    def __new__(cls, data: torch.Tensor):
        return torch.Tensor._make_subclass(cls, data)


def of_its_own_class(n: int = 1000):
    x, made = ones(n).as_subclass(Named), Made(Named(ones(n)))
    y = x + 1
    is_own = type(y) is Named and y.__class__ is Named and isinstance(y[1:], Named) and type(made) is Made
    assert scale(made).shape == (n,)
    return if_else(n, not is_own or type(y.as_subclass(torch.Tensor)) is not torch.Tensor)


def of_its_own_class_with_gradient(n: int = 1000):
    x = ones(n).requires_grad_()
    (x.as_subclass(Named) * 2).sum().backward()
    return scale(x.grad.contiguous())


def by_the_text_of_a_size(n: int = 100):
    return if_else(n, {"100": 0, "2000": 1}.get(f"{n}", 0))


def by_the_text_of_a_shape(n: int = 100):
    return if_else(n, len(str(ones(n).shape)) > 17)


def by_the_text_of_a_dataclass(n: int = 100):
    return if_else(n, len(repr(Key(n))) > 13)


def copied_deeply(n: int = 16):
    layer = nn.Linear(n, n).cuda()
    x = ones(n)
    copied, (y, part) = copy.deepcopy(layer), copy.deepcopy([x, x[2:]])
    shares = part.data_ptr() == y.data_ptr() + 8 and copy.copy(x).data_ptr() == x.data_ptr() != y.data_ptr()
    is_own = copied.weight.data_ptr() != layer.weight.data_ptr() and type(copied.weight) is nn.Parameter
    copied.weight.data.add_(layer.weight)
    return if_else(n, not shares or not is_own or not copied.weight.requires_grad)


def on_a_device(n: int = 16):
    with torch.cuda.device(0) as device:
        return if_else(n, device is not None or not isinstance(torch.cuda.device(0), torch.cuda.device))


def by_the_clock_of_the_gpu(n: int = 16):
    return if_else(n, torch.cuda.clock_rate() > 1000)


FIRST_NAME = "alpha"
NAMES = {"alpha", "beta", "gamma", "epsilon"}


def first_of_a_set(n: int = 16):
    names = {"one", "three", "eleven"} | NAMES
    return if_else(n, len(next(iter(names))) % 2)


def popped(n: int = 16):
    return if_else(n, frozenset([torch.float16, torch.float32]) and NAMES.copy().pop() == "alpha")


def listed(n: int = 16):
    return if_else(n, [name.upper() for name in NAMES - {"beta"}] == ["ALPHA", "GAMMA", "EPSILON"])


def smallest_by_key(n: int = 16):
    return if_else(n, min(set("abc"), key=lambda _: 0) == "a")


def sets_without_order(n: int = 16):
    """Sets of numbers have an order of their own, and others are sorted or counted."""
    lengths = sorted({len(name) for name in NAMES})
    total = sum(length for length in {1, 2, 3}) + max(len(name) for name in NAMES) + len(set("abc"))
    first = next(iter(set(range(3))))
    for name in NAMES:
        if not name:
            raise ValueError(name)
    names = list({"alpha", FIRST_NAME})
    assert names == ["alpha"]
    return if_else(n, first or "beta" not in NAMES or not lengths or sorted(NAMES)[0] != "alpha" or total != 16)


def attention_of_a_width(n: int = 10, width: int = 64):
    attention = nn.MultiheadAttention(width, 4, batch_first=True).cuda()
    x = ones(2, n, width)
    return scale(attention(x, x, x)[0])


def initialised_within_bounds(n: int = 10, width: int = 64):
    """torch draws until all numbers lie within the bounds."""
    weight = torch.empty(n, width, device="cuda")
    nn.init.trunc_normal_(weight, std=0.02)
    return scale(weight)


def saved_to_memory(n: int = 16):
    file = io.BytesIO()
    torch.save(ones(n), file)
    file.seek(0)
    return scale(torch.load(file))


def pickled(n: int = 16):
    return scale(pickle.loads(pickle.dumps(ones(n))))  # noqa: S301 - its own tensor
