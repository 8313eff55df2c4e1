"""What one of several GPUs moves and computes with each method of attention.

It also says which of the GPU's ceilings binds.

The numbers are of the GPU that receives most, in one pass: bytes between GPUs, FLOPs, and the bytes of its attention kernels.
Those are requested and the least to and from HBM (forward, without a mask). Each has its time at the machine's peak. Overlap
hides the smaller times at best.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.counts.gpu_transfers import PASSES, Method, Pass, Problem, moved, shard_rows
from ioaware.analysis.theory.fewest_transfers import Choice, choices
from ioaware.analysis.theory.lower_bounds import visible_pairs
from ioaware.machine.model import Machine
from ioaware.params import ELEMENT_BYTES

FP32_BYTES = 4
MATMULS = {"forward": 2, "backward": 5}
"""Products of N N_k d multiply-adds a head.

FlashAttention-2 computes the scores again in its backward pass.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """One method in one pass, on the GPU that receives most.

    None: unknown, or the mask decides it.
    """

    method: Method
    direction: Pass
    grid: tuple[int, int] | None
    received_bytes: int
    sent_bytes: int
    requested_bytes: int | None
    hbm_bytes: int | None
    flops: int
    link_ns: float | None
    hbm_ns: float | None
    matmul_ns: float | None

    @property
    def binds(self) -> str | None:
        """Return the ceiling with the longest time.

        Return None where not all ceilings that matter are known.
        """
        times = {"matmul": self.matmul_ns, "NVLink": self.link_ns}
        if self.direction == "forward":
            times["HBM"] = self.hbm_ns
        known = {name: time for name, time in times.items() if time is not None}
        return max(known, key=lambda name: known[name]) if len(known) == len(times) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are known, as `--json` prints them."""
        return {key: value for key, value in {**asdict(self), "binds": self.binds}.items() if value is not None}


def plans(problem: Problem, machine: Machine, dtype: str, *, causal: bool, block_m: int) -> tuple[list[Plan], list[Choice]]:
    """Return the methods that can run, least received bytes first, a row a pass.

    And those that cannot run.
    """
    found = choices(problem, ELEMENT_BYTES[dtype])
    possible = [choice for choice in found if not choice.why_not]
    rows = [
        _plan(choice, direction, problem, machine, dtype, causal=causal, block_m=block_m)
        for choice in possible
        for direction in PASSES
    ]
    return rows, [choice for choice in found if choice.why_not]


def _plan(
    choice: Choice, direction: Pass, problem: Problem, machine: Machine, dtype: str, *, causal: bool, block_m: int
) -> Plan:
    problem, element = replace(problem, grid=choice.grid or problem.grid), ELEMENT_BYTES[dtype]
    counted = [moved(choice.method, direction, problem, gpu) for gpu in range(problem.ranks)]
    received, sent = max(one.received_bytes(element) for one in counted), max(one.sent_bytes(element) for one in counted)
    values = {"N": problem.seq_len, "N_k": problem.kv_len}
    pairs = problem.batch * problem.heads * evaluate(visible_pairs(causal), values)
    flops = -(-2 * MATMULS[direction] * pairs * problem.head_dim // problem.ranks)
    requested = hbm = None
    if direction == "forward" and not causal:
        requested, hbm = _attention_bytes(choice.method, problem, element, block_m)
    return Plan(
        choice.method,
        direction,
        choice.grid,
        received,
        sent,
        requested,
        hbm,
        flops,
        _time_ns(received, machine.link.bandwidth_bytes_per_s if machine.link else None),
        _time_ns(hbm, machine.level("hbm").bandwidth_bytes_per_s),
        _time_ns(flops, machine.peaks[dtype].flops_per_s if dtype in machine.peaks else None),
    )


def _time_ns(amount: int | None, per_s: float | None) -> float | None:
    return None if amount is None or per_s is None else 1e9 * amount / per_s


def _attention_bytes(method: Method, problem: Problem, element: int, block_m: int) -> tuple[int, int]:
    """Return what GPU 0's attention kernels request, and their compulsory bytes.

    The requests are bytes in FlashAttention-2's order.

    Kernels that merge partial results are not counted.
    """
    d, requested, hbm = problem.head_dim, 0, 0
    for rows, keys, heads, kv_heads in _calls(method, problem):
        written = problem.batch * heads * (rows * d * element + rows * FP32_BYTES)
        queries = problem.batch * heads * rows * d * element
        requested += queries + written + problem.batch * heads * 2 * keys * d * element * -(-rows // block_m)
        hbm += queries + written + problem.batch * kv_heads * 2 * keys * d * element
    return requested, hbm


def _calls(method: Method, problem: Problem) -> list[tuple[int, int, int, int]]:
    """Return (rows, keys, heads, key heads) of each attention kernel call on GPU 0.

    The calls have no mask.
    """
    ranks, heads, kv_heads = problem.ranks, problem.heads, problem.kv_heads
    if method == "all_to_all":
        return [(problem.seq_len, problem.kv_len, heads // ranks, max(kv_heads // ranks, 1))]
    columns = problem.grid[1] if method == "square" else 1
    rows = problem.rows(problem.seq_len, range(columns))
    blocks = [shard_rows(problem.kv_len, ranks, gpu) for gpu in range(0, ranks, columns)]
    return [(rows, keys, heads, kv_heads) for keys in blocks if rows and keys]
