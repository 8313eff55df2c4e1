"""Answer host code's questions about the GPU as an H200 would."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

# NVIDIA H200. SMs and L2 bytes are those that its driver reports. Shared memory, registers and threads are those of compute
# capability 9.0 (CUDA C++ Programming Guide, technical specifications per compute capability). Memory is the data sheet's.
SM_COUNT, L2_BYTES, MEMORY_BYTES = 132, 60 * 2**20, 141 * 10**9
SHARED_BYTES_PER_BLOCK, SHARED_BYTES_PER_SM, REGISTERS = 232_448, 233_472, 65_536
THREADS, BLOCK_THREADS, WARP = 2048, 1024, 32
CAPABILITY = (9, 0)
CUDA_VERSION = "12.8"
CUDNN_VERSION = 91002
"""That of torch's wheels for CUDA 12.8: nvidia-cudnn-cu12 9.10.2."""
NAME = "NVIDIA H200"


@dataclass
class StandIn:
    """Record of what depends on the GPU in a run, for the notes of the result.

    It is the properties that host code read, and choices that need a GPU's times.
    """

    queries: set[str] = field(default_factory=set[str])
    choices: set[str] = field(default_factory=set[str])
    differences: set[str] = field(default_factory=set[str])
    """Why a GPU may run other kernels than those of this run."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes of properties that were read, choices and differences.

        Its choices may depend on the properties.
        """
        read = f"the host function read the GPU's properties and saw an {NAME} with {SM_COUNT} SMs"
        return (*([read] if self.queries else []), *sorted(self.choices | self.differences))

    def torch_properties(self, *_: Any) -> SimpleNamespace:
        """`torch.cuda.get_device_properties`."""
        self.queries.add("properties")
        return SimpleNamespace(
            name=NAME,
            major=CAPABILITY[0],
            minor=CAPABILITY[1],
            multi_processor_count=SM_COUNT,
            total_memory=MEMORY_BYTES,
            L2_cache_size=L2_BYTES,
            warp_size=WARP,
            max_threads_per_multi_processor=THREADS,
            regs_per_multiprocessor=REGISTERS,
            shared_memory_per_block=48 * 1024,
            shared_memory_per_block_optin=SHARED_BYTES_PER_BLOCK,
            shared_memory_per_multiprocessor=SHARED_BYTES_PER_SM,
            is_integrated=False,
            is_multi_gpu_board=False,
        )

    def triton_properties(self, *_: Any) -> dict[str, int]:
        """`triton.runtime.driver.active.utils.get_device_properties`."""
        self.queries.add("properties")
        return {
            "max_shared_mem": SHARED_BYTES_PER_BLOCK,
            "max_num_regs": REGISTERS,
            "multiprocessor_count": SM_COUNT,
            "warpSize": WARP,
        }
