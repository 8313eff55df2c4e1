"""Say in which regime bytes at HBM follow Theorem 2's requests.

The theorem counts requests to a memory without a cache. An L2 lies between the SMs and HBM: bytes that are read again come from
HBM only where more is read in between than the L2 holds.

- flash1: every column block reads all rows of Q, O, l and m again. Its programs, one a head, sweep them side by side, so the
  rows of all running heads lie between two reads of one row.
- flash2: every row block reads all of K and V again. Row blocks that run at once share these reads, so HBM moves K and V
  far less often than programs request them, and once where they fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ioaware.analysis.theory.claims.claim import Part, judge_bounds
from ioaware.analysis.theory.claims.evidence import Observation
from ioaware.analysis.theory.claims.hardware import spills
from ioaware.analysis.theory.counting import FP32_BYTES
from ioaware.machine import DEFAULT_MACHINE

L2_BYTES = DEFAULT_MACHINE.level("l2").capacity_bytes
"""L2 of the GPU that was recorded."""
SIDES = 2
"""Halves of the L2.

Each keeps a copy of what its SMs read, so that data shared by all SMs have half of it.
"""
FOLLOWS = 0.97
"""Least share of requested reads at HBM where HBM follows.

The rest hits while heads start and end.
"""
APART = 0.5
COMPULSORY = 1.03
HEADS_OF_A_WAVE = 3
"""Heads of flash2 between its oldest and its newest program, at most.

A head has more row blocks than run at once; shorter heads have less in K and V together.
"""


def judge_hbm(measured: Iterable[Observation]) -> Iterator[Part]:
    """Yield a part for each regime: HBM reads over requested, or over compulsory ones.

    Only unmasked square problems in their own order of programs count.
    """
    seen = [one for one in measured if _comparable(one)]
    first = [(one, swept_bytes(one)) for one in seen if one.target == "flash1"]
    beyond = [(one.where, _over_requests(one)) for one, swept in first if swept[0] > L2_BYTES]
    within = [(one.where, _over_requests(one)) for one, swept in first if swept[1] <= L2_BYTES]
    second = [one for one in seen if one.target == "flash2"]
    fits = [(one.where, _over_compulsory(one)) for one in second if HEADS_OF_A_WAVE * _head_bytes(one) <= L2_BYTES / SIDES]
    says = "flash1, rows of Q, O, l and m of all running heads beyond the L2: HBM reads are the requested ones"
    if beyond:
        yield judge_bounds("f", says, beyond, low=FOLLOWS, high=1.001)
    says = "flash1, these rows within the L2: HBM does not follow, at most half of the requested reads reach it"
    if within:
        yield judge_bounds("f", says, within, high=APART)
    says = "flash2, K and V of three heads within a half of the L2: HBM reads are the compulsory ones"
    if fits:
        yield judge_bounds("f", says, fits, low=0.999, high=COMPULSORY)
    says = "flash2, all sizes: HBM does not follow, at most half of the requested reads reach it"
    if second:
        yield judge_bounds("f", says, [(one.where, _over_requests(one)) for one in second], high=APART)


def swept_bytes(seen: Observation) -> tuple[int, int]:
    """Return the least and most bytes that flash1 reads between reads of a row.

    At least one program runs on each SM, and at most all at once.
    """
    row_bytes = 2 * seen.values["d"] * seen.values["e"] + 2 * FP32_BYTES
    head_bytes = seen.values["N"] * row_bytes
    return min(seen.heads, DEFAULT_MACHINE.sms) * head_bytes, seen.heads * head_bytes


def _head_bytes(seen: Observation) -> int:
    """Return the bytes of K and V of one head."""
    return 2 * seen.values["N"] * seen.values["d"] * seen.values["e"]


def _comparable(seen: Observation) -> bool:
    square = seen.values["N"] == seen.values["N_k"] and not seen.causal and not spills(seen)
    requested, hbm, least = seen.observed.requested, seen.observed.hbm, seen.predicted.compulsory
    known = requested and requested.read_bytes and hbm and hbm.read_bytes is not None and least and least.read_bytes
    return bool(square and known and seen.observed.params.get("order") in (None, "plain"))


def _over_requests(seen: Observation) -> float:
    requested, hbm = seen.observed.requested, seen.observed.hbm
    return (hbm.read_bytes or 0) / (requested.read_bytes or 1) if requested and hbm else 0.0


def _over_compulsory(seen: Observation) -> float:
    least, hbm = seen.predicted.compulsory, seen.observed.hbm
    return (hbm.read_bytes or 0) / (least.read_bytes or 1) if least and hbm else 0.0
