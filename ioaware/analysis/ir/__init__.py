"""Derive formulas from Triton IR: a kernel's exact traffic from compiled text.

Needs no GPU, no Triton and no torch.
"""

from ioaware.analysis.ir.accesses.kernel_traffic import (
    Access,
    Argument,
    Count,
    Descriptor,
    KernelTraffic,
    Limit,
    Pointer,
    Scalar,
)
from ioaware.analysis.ir.kernel_analysis import analyse

__all__ = ["Access", "Argument", "Count", "Descriptor", "KernelTraffic", "Limit", "Pointer", "Scalar", "analyse"]
