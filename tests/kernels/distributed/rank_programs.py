"""What ranks do in tests of `context_parallel`.

They run it on their parts, compare with one process, and count what moves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist

from ioaware.errors import IoawareError
from ioaware.kernels.attention import context_parallel, shard_sequence
from ioaware.kernels.attention.references.reference import attention_backward_reference, attention_reference

Sizes = dict[str, int]


def whole_tensors(sizes: Sizes, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return q, k, v and the output's gradient, the same on every rank."""
    torch.manual_seed(sizes["seq_len"])
    batch, head_dim = sizes.get("batch", 1), sizes["head_dim"]
    q = torch.randn(batch, sizes["heads"], sizes["seq_len"], head_dim)
    k, v = (torch.randn(batch, sizes["kv_heads"], sizes["kv_len"], head_dim) for _ in range(2))
    return [x.to(dtype) for x in (q, k, v, torch.randn_like(q))]


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, *, causal: bool) -> list[torch.Tensor]:
    """Return o, dq, dk and dv of one process, in float64."""
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, 1) for x in (k, v))
    dq, dk, dv = attention_backward_reference(q, keys, values, do, causal=causal)
    shared = (x.unflatten(1, (k.shape[1], group)).sum(2) for x in (dk, dv))
    return [attention_reference(q, keys, values, causal=causal), dq, *shared]


def relative_error(found: torch.Tensor, part: torch.Tensor, whole: torch.Tensor) -> float:
    """Return the error of a part relative to the whole.

    Gradients of a row that sees one key are all rounding.
    """
    return ((found.double() - part.double()).norm() / whole.double().norm()).item()


def errors(rank: int, ranks: int, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each call the largest relative errors, and the bytes of both passes.

    The errors are those of this rank's o, dq, dk and dv.
    """
    return [one_call(rank, ranks, **call) for call in calls]


def one_call(
    rank: int, ranks: int, sizes: Sizes, dtype: str = "float32", device: str = "cpu", **options: Any
) -> dict[str, Any]:
    place = f"cuda:{rank}" if device == "cuda" else device
    whole = [x.to(place) for x in whole_tensors(sizes, getattr(torch, dtype))]
    wanted = expected(*whole, causal=options.get("causal", False))
    q, k, v, do = (shard_sequence(x, rank, ranks) for x in whole)
    for x in (q, k, v):
        x.requires_grad_()
    if "grid" in options:
        options["grid"] = tuple(options["grid"])  # JSON made it a list
    with counted() as forward:
        o = context_parallel(q, k, v, **options)
    with counted() as backward:
        o.backward(do)
    assert o.dtype == q.dtype
    assert o.shape == q.shape
    found = [o.detach(), q.grad, k.grad, v.grad]
    pairs = zip(found, wanted, strict=True)
    error = max(relative_error(got, shard_sequence(want, rank, ranks), want) for got, want in pairs if got is not None)
    return {"error": error, "forward": forward, "backward": backward}


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count the bytes of the tensors that torch.distributed is given.

    They are counted as sent and received, with the agreement's apart.
    """
    moved = {"sent": 0, "received": 0, "agreement": 0}
    batch, gather = dist.batch_isend_irecv, dist.all_gather

    def counting_batch(ops: list[dist.P2POp]) -> Any:
        for op in ops:
            moved["sent" if op.op is dist.isend else "received"] += op.tensor.nbytes
        return batch(ops)

    def counting_gather(out: list[torch.Tensor], mine: torch.Tensor, **options: Any) -> Any:
        moved["agreement"] += sum(x.nbytes for x in out) - mine.nbytes
        return gather(out, mine, **options)

    replaced: dict[str, Callable[..., Any]] = {"batch_isend_irecv": counting_batch, "all_gather": counting_gather}
    originals = {name: getattr(dist, name) for name in replaced}
    for name, function in replaced.items():
        setattr(dist, name, function)
    try:
        yield moved
    finally:
        for name, function in originals.items():
            setattr(dist, name, function)


def errors_of_bad_calls(rank: int, ranks: int) -> list[str]:
    """Return the error that each bad call raises on this rank."""

    def part(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    q, last = part(1, 2, 4, 8), rank == ranks - 1
    half = q.half()
    calls: list[Callable[[], torch.Tensor]] = [
        lambda: context_parallel(q, q, part(1, 2, 4, 16) if last else q),  # one rank refuses
        lambda: context_parallel(q, q, q, method="ring" if last else "square"),
        lambda: context_parallel(half, half, half) if last else context_parallel(q, q, q),
        lambda: context_parallel(q, q, q, causal=last),
        lambda: context_parallel(q[:, :, :3] if last else q, q, q),  # not the rows that this rank holds
        lambda: context_parallel(part(1, 3, 4, 8), part(1, 3, 4, 8), part(1, 3, 4, 8), method="all_to_all"),
        lambda: context_parallel(part(1, 8, 4, 8), part(1, 3, 4, 8), part(1, 3, 4, 8)),
        lambda: context_parallel(q, q, q, method="square", grid=(3, 1)),
        lambda: context_parallel(q, q, q, grid=(ranks, 1)),
        lambda: context_parallel(q, q, q, method="star"),  # pyright: ignore[reportArgumentType]
        lambda: context_parallel(q[:, :, :0], q, q),
        lambda: context_parallel(q.to("meta"), q.to("meta"), q.to("meta")),
        lambda: context_parallel(q, q, q, timeout_s=-1),
    ]
    found = [error_of(call) for call in calls]
    context_parallel(q, q, q)  # the group still works
    return found


def errors_of_the_last_rank(rank: int, ranks: int) -> list[str]:
    """Return this rank's error of calls that are wrong on the last rank alone.

    The group works after each.
    """
    q = torch.zeros(1, 2, 4, 8)
    wrong: list[tuple[torch.Tensor, dict[str, Any]]] = [
        (q, {"timeout_s": -1.0}),
        (q, {"timeout_s": "soon"}),
        (q, {"causal": "yes"}),
        (q, {"method": "star"}),
        (q, {"method": "all_to_all", "grid": (2, 1)}),
        (q, {"method": "square", "grid": (3, 2)}),
        (q, {"scale": float("nan")}),
        (q[0], {}),
        (q.int(), {}),
        (q.to("meta"), {}),
        (cast("torch.Tensor", None), {}),
    ]
    found: list[str] = []
    for bad, options in wrong:
        found.append(
            error_of(
                lambda bad=bad, options=options: (
                    context_parallel(*(bad,) * 3, **options) if rank == ranks - 1 else context_parallel(q, q, q)
                )
            )
        )
        context_parallel(q, q, q)
    return found


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except IoawareError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def errors_of_outsiders(rank: int, ranks: int) -> str:
    """Return the error on ranks outside the group, and of a group of one.

    The group of one works.
    """
    group = dist.new_group([0])
    q = torch.zeros(1, 1, 4, 8)
    return error_of(lambda: context_parallel(q, q, q, group))


def alone(rank: int, ranks: int, calls: list[dict[str, Any]]) -> list[float]:
    """Return for each call the largest relative error of one GPU alone."""
    from ioaware.kernels.attention import attention

    found: list[float] = []
    for call in calls:
        q, k, v, do = (x.to(f"cuda:{rank}") for x in whole_tensors(call["sizes"], getattr(torch, call["dtype"])))
        wanted = expected(q, k, v, do, causal=call.get("causal", False))
        leaves = [x.requires_grad_() for x in (q, k, v)]
        o = attention(*leaves, causal=call.get("causal", False))
        got = (o.detach(), *torch.autograd.grad(o, leaves, do))
        found.append(max(relative_error(one, want, want) for one, want in zip(got, wanted, strict=True)))
    return found


def dies_in_the_middle(
    rank: int, ranks: int, method: str, backward: bool, device: str = "cpu", limit_s: float = 20
) -> list[Any]:
    """Kill the last rank when its first (or backward's first) transfer is due.

    Return the others' error and its seconds.
    """
    place, dtype = (f"cuda:{rank}", torch.bfloat16) if device == "cuda" else (device, torch.float32)
    q = torch.ones(1, ranks, 64, 64, dtype=dtype, device=place, requires_grad=True)
    call = partial(context_parallel, q, q, q, method=method, timeout_s=limit_s)
    if backward:
        o = call()
        call = partial(o.sum().backward)
    if rank == ranks - 1:
        dist.batch_isend_irecv = lambda ops: os._exit(0)
    return seconds_and_error(call)


def never_comes(rank: int, ranks: int, device: str = "cpu") -> list[Any]:
    """Leave the last rank out of the call; return the others' error and its seconds."""
    if rank == ranks - 1:
        time.sleep(10)
        return [0, "none"]
    place, dtype = (f"cuda:{rank}", torch.bfloat16) if device == "cuda" else (device, torch.float32)
    q = torch.ones(1, 1, 64, 64, dtype=dtype, device=place)
    return seconds_and_error(lambda: context_parallel(q, q, q, timeout_s=2))


def errors_on_gpus(rank: int, ranks: int) -> list[str]:
    """Return the error of each bad call; the group works before and after."""

    def part(rows: int = 8, device: int = rank) -> torch.Tensor:
        return torch.ones(1, 2, rows, 64, dtype=torch.bfloat16, device=f"cuda:{device}")

    q, last = part(), rank == ranks - 1
    elsewhere, here = part(device=0), part().cpu()
    context_parallel(q, q, q)
    calls: list[Callable[[], torch.Tensor]] = [
        lambda: context_parallel(*(elsewhere,) * 3),  # rank 0's GPU, also on the last rank
        lambda: context_parallel(here, here, here),
        lambda: context_parallel(q, q, q, method="ring" if last else "all_to_all"),
        lambda: context_parallel(*((part(7) if last else q),) * 3),
        lambda: context_parallel(q, q, q, method="square", grid=(3, 1)),
    ]
    found = [error_of(call) for call in calls]
    context_parallel(q, q, q, timeout_s=60)
    return found


def seconds_and_error(call: Callable[[], object]) -> list[Any]:
    started = time.monotonic()
    error = error_of(call)
    return [time.monotonic() - started, error]
