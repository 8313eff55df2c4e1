"""Numbers that several attention kernels use."""

from __future__ import annotations

import triton

LOG2_E = triton.language.constexpr(1.4426950408889634)
"""log2(e), for exponentials in base 2.

Softmax kernels compute these, because each is one instruction.
"""
