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
from ioaware.analysis.theory.counts.gpu_transfers import PASSES, Method, Pass, Problem, moved
from ioaware.analysis.theory.fewest_transfers import Choice, choices
from ioaware.analysis.theory.host_links import most_by_link
from ioaware.analysis.theory.lower_bounds import visible_pairs
from ioaware.analysis.theory.shard_calls import kernel_bytes
from ioaware.machine.model import Machine
from ioaware.params import ELEMENT_BYTES

MATMULS = {"forward": 2, "backward": 5}
"""Products of N N_k d multiply-adds a head.

FlashAttention-2 computes the scores again in its backward pass.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """One method in one pass, on the GPU that receives most.

    Requested and HBM bytes are those of GPU 0's kernels. NVLink and the network have the GPU that receives most over each; the
    network is None on one host. Other times are None where unknown.
    """

    method: Method
    direction: Pass
    grid: tuple[int, int] | None
    received_bytes: int
    sent_bytes: int
    requested_bytes: int
    hbm_bytes: int
    flops: int
    link_ns: float | None
    hbm_ns: float | None
    matmul_ns: float | None
    network_bytes: int | None = None
    network_ns: float | None = None

    @property
    def binds(self) -> str | None:
        """Return the ceiling with the longest time.

        Return None where not all ceilings that matter are known.
        """
        times = {"matmul": self.matmul_ns, "NVLink": self.link_ns, "HBM": self.hbm_ns}
        if self.network_bytes is not None:
            times["network"] = self.network_ns
        known = {name: time for name, time in times.items() if time is not None}
        return max(known, key=lambda name: known[name]) if len(known) == len(times) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are known, as `--json` prints them."""
        return {key: value for key, value in {**asdict(self), "binds": self.binds}.items() if value is not None}


def plans(
    problem: Problem, machine: Machine, dtype: str, *, causal: bool, block_m: int, block_n: int
) -> tuple[list[Plan], list[Choice]]:
    """Return the methods that can run, least received bytes first, a row a pass.

    And those that cannot run.
    """
    found = choices(problem, ELEMENT_BYTES[dtype])
    possible = [choice for choice in found if not choice.why_not]
    rows = [
        _plan(choice, direction, problem, machine, dtype, causal=causal, blocks=(block_m, block_n))
        for choice in possible
        for direction in PASSES
    ]
    return rows, [choice for choice in found if choice.why_not]


def _plan(
    choice: Choice, direction: Pass, problem: Problem, machine: Machine, dtype: str, *, causal: bool, blocks: tuple[int, int]
) -> Plan:
    problem, element = replace(problem, grid=choice.grid or problem.grid), ELEMENT_BYTES[dtype]
    counted = [moved(choice.method, direction, problem, gpu) for gpu in range(problem.ranks)]
    received, sent = max(one.received_bytes(element) for one in counted), max(one.sent_bytes(element) for one in counted)
    values = {"N": problem.seq_len, "N_k": problem.kv_len}
    pairs = problem.batch * problem.heads * evaluate(visible_pairs(causal), values)
    flops = -(-2 * MATMULS[direction] * pairs * problem.head_dim // problem.ranks)
    kernels = kernel_bytes(
        choice.method, direction, problem, element, causal=causal, block_m=blocks[0], block_n=blocks[1]
    )  # fmt: skip
    link = machine.link
    within, remote = received, 0
    if link and problem.ranks > link.host_gpus:
        within, remote = most_by_link(choice.method, direction, problem, element, link.host_gpus)
    return Plan(
        choice.method,
        direction,
        choice.grid,
        received,
        sent,
        kernels.requested,
        kernels.hbm,
        flops,
        _time_ns(within, link.ceiling_bytes_per_s if link else None),
        _time_ns(kernels.hbm, machine.level("hbm").bandwidth_bytes_per_s),
        _time_ns(flops, machine.peaks[dtype].flops_per_s if dtype in machine.peaks else None),
        remote or None,
        _time_ns(remote, link.network_bytes_per_s) if link and remote else None,
    )


def _time_ns(amount: int, per_s: float | None) -> float | None:
    return None if per_s is None else 1e9 * amount / per_s
