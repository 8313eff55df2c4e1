"""Host functions with tensors in the memory of the host.

Each launches once with the answers that a machine with a GPU gives.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)


@triton.jit
def gather_kernel(rows, x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows + lanes, lanes < n, 0)
    tl.store(out + lanes, tl.load(x + row, (lanes < n) & (row > 0)), lanes < n)


def copy(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def gather(rows: torch.Tensor) -> torch.Tensor:
    x = torch.ones(rows.numel(), device="cuda")
    out = torch.empty_like(x)
    gather_kernel[(triton.cdiv(rows.numel(), 64),)](rows, x, out, rows.numel(), BLOCK=64)
    return out


def once(n: int, expected: bool) -> torch.Tensor:
    x = copy(torch.ones(n, device="cuda"))
    return x if expected else copy(x)


def made_without_a_device(n: int = 300):
    x = torch.ones(n)
    return once(n, not x.is_cuda and x.is_cpu and x.device == torch.device("cpu") and x.get_device() == -1)


def moved_to_the_gpu(n: int = 300):
    host = torch.ones(n)
    moved = host.cuda()
    return once(n, moved.is_cuda and "cuda" in moved.type() and host.to("cuda").device.type == "cuda" and host.is_cpu)


def copied_back(n: int = 300):
    x = torch.ones(n, device="cuda")
    return once(n, x.cpu().is_cpu and (x.to("cpu") + 1)[1:].is_cpu and x.is_cuda and x.cpu().numpy().ndim == 1)


def pinned(n: int = 300):
    x, y = torch.ones(n, pin_memory=True), torch.ones(n).pin_memory()
    return once(n, x.is_pinned() and y[1:].is_pinned() and not (y + 1).is_pinned() and not torch.ones(n).is_pinned())


def default_device(n: int = 300):
    torch.set_default_device("cuda")
    x = torch.ones(n)
    torch.set_default_device(None)
    with torch.device("cuda"):
        y = torch.ones(n)
    return once(n, x.is_cuda and y.is_cuda and torch.ones(n).is_cpu)


def made_from_another(n: int = 300):
    host = torch.ones(n)
    made = torch.empty_like(host, device="cuda"), torch.zeros_like(host), host.new_ones(3), torch.from_numpy(np.ones(3))
    return once(n, [each.is_cuda for each in made] == [True, False, False, False])


def mixed(n: int = 300):
    x, number = torch.ones(n, device="cuda"), torch.tensor(3.0)
    return once(n, (x * number).is_cuda and x[torch.arange(5)].is_cuda and number.is_cpu)


def module(n: int = 64):
    layer = torch.nn.Linear(n, n)
    places = [layer.weight.is_cuda, layer.cuda().weight.is_cuda, layer.to("cpu").weight.device.type == "cuda"]
    return once(n, places == [False, True, False])


def moved_by_keywords(n: int = 64):
    layer = torch.nn.Linear(n, n).to(device="cuda", dtype=torch.bfloat16)
    return copy(layer.weight) if torch.ones(n).to(layer.weight).is_cuda else None


def memory(n: int = 300):
    x, host = torch.ones(n, device="cuda"), torch.ones(n)
    on_gpu = x.untyped_storage().device.type == "cuda" and x[1:].storage().is_cuda
    return once(n, on_gpu and not host.untyped_storage().is_cuda and host.storage().device == torch.device("cpu"))


def gradient(n: int = 300):
    x = torch.ones(n, requires_grad=True)
    (x.cuda() * 2).cpu().sum().backward()
    return once(n, x.grad is not None and x.grad.is_cpu)


def refused_by_triton(n: int = 300):
    try:
        return copy(torch.ones(n))
    except ValueError:
        return copy(torch.ones(n).cuda())


def overwritten_on_the_host(n: int = 300):
    """The copy on the GPU keeps what was copied."""
    rows = torch.arange(n)
    moved = rows.to("cuda")
    rows.zero_()
    return gather(moved)


def overwritten_after_copying_back(n: int = 300):
    rows = torch.arange(n, device="cuda")
    rows.cpu().zero_()
    return gather(rows)


def never_moved(n: int = 300):
    return copy(torch.ones(n))


def never_moved_and_asserted(n: int = 300):
    x = torch.ones(n)
    assert x.is_cuda, "a tensor of the GPU"
    return copy(x)


def only_for_the_gpu(n: int = 300):
    """As written, it launches no kernel."""
    x = torch.ones(n)
    return copy(x) if x.is_cuda else x + 1


def made_by_type(n: int = 300):
    of_numbers, sized = torch.Tensor([1.0, 2.0]), torch.FloatTensor(n)
    is_host = of_numbers.is_cpu and sized.is_cpu and torch.Tensor(sized).is_cpu
    return once(n, is_host and torch.cuda.FloatTensor(n).is_cuda and torch.LongTensor([1]).cuda().is_cuda)


def recognised_by_type(n: int = 300):
    x = torch.ones(n, device="cuda")
    is_single = isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, (torch.FloatTensor, torch.cuda.HalfTensor))
    return once(n, is_single and isinstance(x.cpu(), torch.FloatTensor))


def converted_by_type(n: int = 300):
    x = torch.ones(n, device="cuda")
    half, host = x.type(torch.cuda.HalfTensor), x.type("torch.DoubleTensor")
    is_moved = half.is_cuda and half.dtype is torch.float16 and host.is_cpu and host.dtype is torch.float64
    return once(n, is_moved and host.type("torch.cuda.FloatTensor").is_cuda and x.type(torch.int32).is_cuda)


def copied(n: int, copy_of: Callable[[torch.Tensor], object]) -> torch.Tensor:
    x = torch.ones(n, device="cuda")
    copy_of(x)
    return copy(x)


def copies_cpu(n: int = 300):
    return copied(n, lambda x: x.cpu())


def copies_to(n: int = 300):
    return copied(n, lambda x: x.to("cpu"))


def copies_converted(n: int = 300):
    return copied(n, lambda x: x.to("cpu", torch.float64))


def copies_into_pinned(n: int = 300):
    return copied(n, lambda x: torch.empty(x.shape, pin_memory=True).copy_(x, non_blocking=True))


def copies_assigned(n: int = 300):
    return copied(n, lambda x: torch.empty(x.shape).__setitem__(slice(None), x))


def copies_as_tensor(n: int = 300):
    return copied(n, lambda x: torch.as_tensor(x, device="cpu"))


def copies_array(n: int = 300):
    return copied(n, lambda x: x.cpu().numpy())


def copies_cuda(n: int = 300):
    return copied(n, lambda x: torch.empty(x.shape).cuda())


def copies_converted_to_gpu(n: int = 300):
    return copied(n, lambda x: torch.empty(x.shape, dtype=torch.float64).to("cuda", torch.float32))


def copies_into_gpu(n: int = 300):
    return copied(n, lambda x: x.copy_(torch.empty(x.shape)))


def copies_on_the_host(n: int = 300):
    return copied(n, lambda x: (torch.ones(x.shape) + 1).clone().copy_(torch.empty(x.shape)).to("cpu"))


def copies_pinned(n: int = 300):
    return copied(n, lambda x: torch.empty(x.shape).pin_memory())


def copies_item(n: int = 300):
    return copied(n, lambda x: x[0].item())


def copies_tolist(n: int = 300):
    return copied(n, lambda x: x.tolist())


def copies_condition(n: int = 300):
    return copied(n, lambda x: x[0] and x)


def copies_item_of_the_host(n: int = 300):
    return copied(n, lambda x: x.cpu()[0].item())


def copies_compared(n: int = 300):
    return copied(n, lambda x: torch.equal(x, torch.zeros(x.shape, device="cuda")))


def copies_deep(n: int = 300):
    return copied(n, lambda x: deepcopy(x))
