"""Run attention over several GPUs on one rank.

The entries are each method, one GPU alone, and torch's own context parallel.

Every rank makes the same whole tensors from one seed and holds its part. Outputs and gradients are compared with those of one
GPU, which are computed here too.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ioaware.bench.interleaving import order
from ioaware.bench.multi_gpu.exchange_points import METHODS, ExchangePoint
from ioaware.bench.multi_gpu.rank_clock import RankClock
from ioaware.kernels.attention import attention, context_parallel, shard_sequence

ONE_GPU = "one GPU"
TORCH = {
    "torch cuDNN all_gather": ("CUDNN_ATTENTION", "allgather"),
    "torch cuDNN all_to_all": ("CUDNN_ATTENTION", "alltoall"),
    "torch flash all_gather": ("FLASH_ATTENTION", "allgather"),
}
"""Attention back end, and transfer of K and V, of torch's context parallel."""
NAMES = (ONE_GPU, *METHODS, *TORCH)
TOLERANCES = {"float16": 4e-3, "bfloat16": 2e-2}
"""Relative Frobenius error allowed between two outputs.

Each may be off by the tolerance of attention. Twice that for gradients.
"""
SAMPLE_S = 0.03
RATE = 4e14
"""FLOP/s that a GPU reaches about.

Why: how many calls make a sample must not depend on the rank.
"""
COUNTED_BYTES = 2**27
Tensors = tuple[torch.Tensor, ...]
Run = Callable[[], Tensors]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do at every point.

    These are the entries, rounds of timing, perhaps none, and whether to count bytes.
    """

    names: Sequence[str]
    rounds: int
    count: bool
    idle_s: float


def measure_point(clock: RankClock, point: ExchangePoint, plan: Plan) -> dict[str, Any]:
    """Return what this rank found at a point: entries by name, idle bytes."""
    whole = _inputs(point, clock.device)
    with contextlib.ExitStack() as open_contexts:
        entries: dict[str, dict[str, Any]] = {}
        runs: dict[str, Run] = {}
        alone = _one_gpu(point, whole)
        exact = _parts(alone(), clock)
        for name in plan.names:
            if name == ONE_GPU:
                entries[name], run = {"status": "ok"}, alone
            else:
                entries[name], run = _prepare(name, clock, point, whole, exact, open_contexts)
            if run:
                runs[name] = run
        del exact
        idle = clock.idle(plan.idle_s) if plan.count else None
        if plan.count:
            for name, run in runs.items():
                if name == ONE_GPU:
                    continue
                calls = _counted_calls(point, name)
                entries[name] |= {"counted_calls": calls, "counted": clock.count(run, calls)}
        for name, times in _times(clock, point, runs, plan.rounds).items():
            entries[name]["times_ns"] = times
    return {"entries": entries, "idle": idle, "telemetry": clock.gpu.snapshot().to_dict()}


def _inputs(point: ExchangePoint, device: str) -> Tensors:
    """Return q, k, v and the gradient of the output, the same on every rank."""
    torch.manual_seed(point.seq_len)
    heads = (point.heads, point.kv_heads, point.kv_heads, point.heads)
    shapes = [(point.batch, number, point.seq_len, point.head_dim) for number in heads]
    return tuple(torch.randn(shape, dtype=getattr(torch, point.dtype), device=device) for shape in shapes)


def _parts(outputs: Tensors, clock: RankClock) -> Tensors:
    return tuple(shard_sequence(output, clock.rank, clock.ranks) for output in outputs)


def _prepare(
    name: str, clock: RankClock, point: ExchangePoint, whole: Tensors, exact: Tensors, open_contexts: contextlib.ExitStack
) -> tuple[dict[str, Any], Run | None]:
    """Return an entry with its error, and its work.

    No work where a rank cannot do it or has a wrong output.
    """
    entry: dict[str, Any] = {"status": "ok"}
    run: Run | None = None
    try:
        run = _runs(name, clock, point, whole, open_contexts)
        entry["relative_error"] = max(_error(got, want) for got, want in zip(run(), exact, strict=True))
        limit = TOLERANCES[point.dtype] * (2 if point.direction == "backward" else 1)
        if not entry["relative_error"] <= limit:
            entry |= {"status": "wrong", "reason": f"relative error above {limit:g}"}
    except Exception as error:  # whatever torch raises where it cannot run a point
        entry |= {"status": "failed", "reason": f"{type(error).__name__}: {str(error).strip()[:300]}"}
    clock.barrier()
    return entry, run if clock.all_agree(entry["status"] == "ok") else None


def _error(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the relative Frobenius error; a very large one for NaN.

    One head is compared at a time, so that float32 copies stay small.
    """
    off = sum((a.float() - b.float()).square().sum(dtype=torch.float64).item() for a, b in zip(got[0], want[0], strict=True))
    size = sum(b.float().square().sum(dtype=torch.float64).item() for b in want[0])
    error = math.sqrt(off / size) if size else math.sqrt(off)
    return error if math.isfinite(error) else 1e9


def _runs(name: str, clock: RankClock, point: ExchangePoint, whole: Tensors, open_contexts: contextlib.ExitStack) -> Run:
    q, k, v, do = _parts(whole, clock)
    if name in METHODS:
        method, grid = name, point.square_grid if name == "square" else None
        return _passes(point, partial(context_parallel, method=method, causal=point.causal, grid=grid), q, k, v, do)
    backend, rotation = TORCH[name]
    if not point.causal:
        raise ValueError("torch balances causal attention only")
    return _torchs(point, clock, backend, rotation, (q, k, v, do), open_contexts)


def _one_gpu(point: ExchangePoint, whole: Tensors) -> Run:
    q, k, v, do = whole
    return _passes(point, partial(attention, causal=point.causal), q, k, v, do)


def _passes(
    point: ExchangePoint,
    compute: Callable[..., torch.Tensor],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
) -> Run:
    """Return the work of one pass.

    It computes the output, or the gradients of an output that is computed here once.
    """
    if point.direction == "forward":

        def forward() -> Tensors:
            with torch.no_grad():
                return (compute(q, k, v),)

        return forward
    leaves = tuple(x.detach().requires_grad_() for x in (q, k, v))
    o = compute(*leaves)
    return lambda: torch.autograd.grad(o, leaves, do, retain_graph=True)


def _torchs(
    point: ExchangePoint, clock: RankClock, backend: str, rotation: str, parts: Tensors, open_contexts: contextlib.ExitStack
) -> Run:
    """Return the work of torch's context parallel.

    Its patch of torch's attention stays until the contexts close.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel as torch_context_parallel
    from torch.distributed.tensor.experimental._attention import set_rotate_method
    from torch.nn.attention import SDPBackend, sdpa_kernel

    switch = torch.zeros(1, 1, 2 * clock.ranks, 1, device=clock.device)  # torch cuts this one; ours are cut alike already
    patch = torch_context_parallel(
        init_device_mesh("cuda", (clock.ranks,)), buffers=[switch], buffer_seq_dims=[2], no_restore_buffers={switch}
    )
    open_contexts.enter_context(patch)

    @contextlib.contextmanager
    def chosen() -> Generator[None]:
        set_rotate_method(rotation)
        with sdpa_kernel(getattr(SDPBackend, backend)):
            yield

    def compute(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] < q.shape[1])

    with chosen():
        run = _passes(point, compute, *parts)

    def chosen_run() -> Tensors:
        with chosen():
            return run()

    return chosen_run


def _counted_calls(point: ExchangePoint, name: str) -> int:
    """Return how many calls to count: enough bytes that steps of 1,024 do not matter."""
    one = max((ends.received for ends in point.ends(name)), default=COUNTED_BYTES)
    return max(1, min(16, -(-COUNTED_BYTES // max(one, 1))))


def _times(clock: RankClock, point: ExchangePoint, runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Return each entry's times, one per round, in a changing order."""
    times: dict[str, list[float]] = {name: [] for name in runs} if rounds else {}
    for number in range(rounds if runs else 0):
        for name in order(list(runs), number):
            share = 1 if name == ONE_GPU else clock.ranks
            calls = max(1, min(20, round(SAMPLE_S * RATE * share / point.flops)))
            times[name].append(clock.time_ns(runs[name], calls))
    return times
