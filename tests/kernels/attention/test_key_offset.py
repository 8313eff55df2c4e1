"""A common offset of K costs dQ its digits, and a centred K does not.

The dQ is that of the backward kernels, and the loss is as the claim's emulation says.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ioaware.analysis.theory.claims.numerics.attention import attention_gradients
from ioaware.analysis.theory.claims.numerics.gradient_error import run
from ioaware.analysis.theory.claims.numerics.rounded_kernels import Inputs, centred, draw, relative_error
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.flash2_backward import flash2_backward
from ioaware.tracing.interpreter import interpret_kernels

BLOCK = 32


def kernel_dq(inputs: Inputs, *, atomic: bool) -> np.ndarray:
    """Return dQ of the kernels in the interpreter."""
    q, k, v, do = (torch.from_numpy(x.astype(np.float16))[None, None] for x in inputs)
    with interpret_kernels():
        o, lse = flash2(q, k, v, block_m=BLOCK, block_n=BLOCK)
        dq, _, _ = flash2_backward(q, k, v, o, lse, do, atomic=atomic, block_m=BLOCK, block_n=BLOCK)
    return dq[0, 0].float().numpy()


@pytest.mark.parametrize("atomic", [False, True])
def test_the_kernels_lose_what_the_emulation_loses(atomic: bool) -> None:
    inputs = draw(64, 16, key_offset=1024, value_mean=1)
    exact = attention_gradients(*inputs.double(), scale=float(inputs.scale)).dq
    emulated = relative_error(run(inputs, BLOCK).dq, exact)
    assert emulated > 0.3
    assert relative_error(kernel_dq(inputs, atomic=atomic), exact) == pytest.approx(emulated, rel=0.5)
    assert relative_error(kernel_dq(centred(inputs), atomic=atomic), exact) < 2e-3
