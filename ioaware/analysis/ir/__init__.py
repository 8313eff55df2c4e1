"""Triton IR to formulas: the exact traffic of a kernel from its compiled text, without a GPU, Triton or torch."""

from ioaware.analysis.ir.kernel import analyse
from ioaware.analysis.ir.traffic import Access, Argument, Count, Descriptor, KernelTraffic, Pointer, Scalar

__all__ = ["Access", "Argument", "Count", "Descriptor", "KernelTraffic", "Pointer", "Scalar", "analyse"]
