"""Host functions that choose their launches by the GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.testing import get_dram_gbps, nvsmi

IS_HOPPER = torch.cuda.get_device_capability()[0] >= 9
PROGRAMS = torch.cuda.get_device_properties("cuda").multi_processor_count


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)


def launch(n, block, programs=None):
    x = torch.zeros(n, device="cuda")
    copy_kernel[(programs or triton.cdiv(n, block),)](x, torch.empty_like(x), n, BLOCK=block)


def by_capability(n: int = 1024):
    launch(n, 128 if torch.cuda.get_device_capability()[0] >= 9 else 64)


def by_triton_target(n: int = 1024):
    launch(n, 128 if triton.runtime.driver.active.get_current_target().arch >= 90 else 64)


def by_name(n: int = 1024):
    launch(n, 128 if "H200" in torch.cuda.get_device_name() else 64)


def by_imported_capability(n: int = 1024):
    launch(n, 128 if IS_HOPPER else 64)


def by_properties(n: int = 1024):
    launch(n, 64, torch.cuda.get_device_properties(0).multi_processor_count)


def by_imported_properties(n: int = 1024):
    launch(n, 64, PROGRAMS)


def by_shared_memory(n: int = 1024):
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    launch(n, 128 if properties["max_shared_mem"] > 200_000 else 64)


def by_peak_rates(n: int = 1024):
    """A performance model reads the highest clock and the bandwidth of the memory."""
    (sm_mhz,) = nvsmi(["clocks.max.sm"])
    launch(n, 128 if sm_mhz > 1500 and get_dram_gbps() > 4000 else 64)


def by_temperature(n: int = 1024):
    launch(n, 64 if nvsmi(["temperature.gpu"])[0] > 80 else 128)


def by_integer_histogram(n: int = 1024):
    """A GPU bins integers, which torch does not do on a CPU."""
    bins = torch.histc(torch.arange(n, device="cuda"), bins=8)
    launch(n, 64 if bins.shape[0] == 8 else 128)


def rounded_blocks(configs, named, **_):
    return [triton.Config({"BLOCK": triton.cdiv(named["n"], 64) * 64})]


tuned_kernel = triton.autotune(
    [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})],
    key=["n"],
    prune_configs_by={"early_config_prune": rounded_blocks},
)(copy_kernel)


def by_size(n: int = 1024):
    """The pruner makes a configuration of the size."""
    x = torch.zeros(n, device="cuda")
    tuned_kernel[(1,)](x, torch.empty_like(x), n)
