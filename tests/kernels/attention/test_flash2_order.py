"""The order in which flash2 streams K and V does not change the results.

The output and the requested bytes are the same.
"""

from __future__ import annotations

import pytest
import torch

import ioaware
from ioaware.errors import UsageError
from ioaware.kernels.attention.flash2 import flash2, programs_of_one_direction
from ioaware.kernels.attention.references.reference import attention_reference
from ioaware.tracing.interpreter import interpret_kernels

RAGGED = {"seq_len": 70, "kv_len": 83, "block_m": 16, "block_n": 16, "head_dim": 16, "heads": 2}


@pytest.mark.parametrize(
    ("causal", "order"),
    [(True, {"order": "row_sawtooth"}), (False, {"order": "wave_sawtooth", "programs_at_once": 3})],
)
def test_every_order_attends_to_every_key(causal: bool, order: dict[str, object]) -> None:
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, 2, n, 16, generator=generator) for n in (70, 83, 83))
    with interpret_kernels():
        o, lse = flash2(q, k, v, causal=causal, block_m=16, block_n=16, **order)
        plain, plain_lse = flash2(q, k, v, causal=causal, block_m=16, block_n=16)
    assert not torch.equal(o, plain)  # another order of additions: the option is not ignored
    torch.testing.assert_close(o.double(), attention_reference(q, k, v, causal=causal), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse, plain_lse)


def test_requested_bytes_do_not_depend_on_the_order() -> None:
    plain, found = ioaware.predict("flash2", **RAGGED), ioaware.derive("flash2", order="row_sawtooth", **RAGGED)
    assert found.exact
    assert found.requested
    assert plain.requested
    assert found.requested.read_bytes == plain.requested.read_bytes
    assert found.requested.write_bytes == plain.requested.write_bytes


def test_groups_of_programs() -> None:
    assert programs_of_one_direction(None, None, lambda: 264) == 0
    assert programs_of_one_direction("plain", 7, lambda: 264) == 0
    assert programs_of_one_direction("row_sawtooth", None, lambda: 264) == 1
    assert programs_of_one_direction("wave_sawtooth", None, lambda: 264) == 264
    assert programs_of_one_direction("wave_sawtooth", 132, lambda: 264) == 132
    with pytest.raises(UsageError, match="no order 'zigzag'"):
        programs_of_one_direction("zigzag", None, lambda: 264)
    with pytest.raises(UsageError, match="programs_at_once=0"):
        programs_of_one_direction("wave_sawtooth", 0, lambda: 264)
    with pytest.raises(UsageError, match="plain or wave_sawtooth or row_sawtooth"):
        ioaware.derive("flash2", order="zigzag")
