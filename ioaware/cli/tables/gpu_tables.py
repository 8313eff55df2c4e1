"""Print what each of several GPUs moves with each method of attention.

This is the output of `predict --gpus` and `advise --gpus`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from ioaware.analysis.theory.counts.gpu_transfers import Problem
from ioaware.analysis.theory.fewest_transfers import CROSSOVERS
from ioaware.analysis.theory.gpu_plan import Plan, plans
from ioaware.cli.render import Row, table
from ioaware.cli.terminal_text import printable
from ioaware.display.units import UNKNOWN, bytes_text, time_text
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from ioaware.machine import Machine
    from ioaware.result import ParamValue

CASES = ("flash2", "gqa")
"""Cases whose algorithm each GPU runs on its part of the work."""


class GpuPlans:
    """The plans of a case at its parameters over so many GPUs, as text and as JSON."""

    def __init__(
        self, case: str, params: Mapping[str, ParamValue], gpus: int, machine: Machine, *, verb: str = "predict"
    ) -> None:
        """Raise UsageError for another case, or for fewer rows or keys than GPUs."""
        from ioaware.cases import find_case

        if case not in CASES:
            raise UsageError(f"{verb} --gpus does not know {case!r}", f"It takes: {', '.join(CASES)}.")
        given = dict(params)
        values = find_case(case).values(params)
        if gpus > min(values["N"], values["N_k"]):
            what = f"{verb} --gpus {gpus}: there are {values['N']} queries and {values['N_k']} keys"
            raise UsageError(what, "Each GPU needs at least one of both.")
        heads = values["H"]
        kv_heads = int(given.get("kv_heads") or heads)
        problem = Problem(values["B"], heads, kv_heads, values["N"], values["N_k"], values["d"], gpus, (gpus, 1))
        self.gpus, self.machine, causal = gpus, machine, bool(given.get("causal"))
        self.rows, self.impossible = plans(
            problem, machine, str(given["dtype"]), causal=causal, block_m=values["B_r"], block_n=values["B_c"]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plans, fewest bytes first, and methods that cannot run."""
        link = self.machine.link
        return {
            "gpus": self.gpus,
            "machine": self.machine.name,
            "fewest_bytes": self.rows[0].method,
            "link_bytes_per_s": link and link.ceiling_bytes_per_s,
            "plans": [row.to_dict() for row in self.rows],
            "impossible": {choice.method: choice.why_not for choice in self.impossible},
        }

    def verdict(self) -> str:
        """Return the method that receives the fewest bytes, and what the next one does.

        Both passes count.
        """
        received: dict[str, int] = {}
        for row in self.rows:
            received[_name(row)] = received.get(_name(row), 0) + row.received_bytes
        (best, fewest), *others = received.items()
        second = next(((name, total) for name, total in others if total > fewest), None)
        than = f"; {second[0]} receives {bytes_text(second[1])}" if second else ""
        return f"{best} moves the fewest bytes: a GPU receives {bytes_text(fewest)} in both passes{than}"

    def text(self) -> Iterator[RenderableType]:
        """Yield the table, least received bytes first, and what it leaves out."""
        yield Text(f"\nover {self.gpus} GPUs ({self.machine.name}), the one that receives most\n")
        link = self.machine.link
        hosts = link is not None and self.gpus > link.host_gpus
        columns = (
            *("method", "pass", "received", "sent", *(("from hosts",) * hosts), "requested", "hbm"),
            *("NVLink time", *(("network time",) * hosts), "HBM time", "matmul time", "binds"),
        )
        yield table(columns, (_row(plan, hosts=hosts) for plan in self.rows), left=2)
        yield Text(printable(f"\n{self.verdict()}\n"))
        for choice in self.impossible:
            yield Text(printable(f"note: {choice.method} cannot run: {choice.why_not}"))
        known = link.ceiling_text if link else "no bandwidth is known"
        yield Text(printable(f"note: {self.machine.name}, NVLink: {known}"))
        if link and hosts:
            rate = f"{link.network_bytes_per_s / 1e9:g} GB/s from other hosts ({link.network_source})"
            yield Text(printable(f"note: assumes hosts of {link.host_gpus} GPUs, each of which receives {rate}"))
        yield Text(
            "note: requested and hbm are those of GPU 0's attention kernels alone, without dQ's atomics; "
            "hbm, at its least, is every tensor of a call once"
        )
        for (better, worse), condition in CROSSOVERS.items():
            yield Text(printable(f"note: forward, {better} receives less than {worse} where {condition}"))


def _row(plan: Plan, *, hosts: bool) -> Row:
    remote = ((plan.network_bytes or 0,), (plan.network_ns or 0.0,)) if hosts else ((), ())
    moved = (plan.received_bytes, plan.sent_bytes, *remote[0], plan.requested_bytes, plan.hbm_bytes)
    times = (plan.link_ns, *remote[1], plan.hbm_ns, plan.matmul_ns)
    return (_name(plan), plan.direction, *map(bytes_text, moved), *map(time_text, times), plan.binds or UNKNOWN)


def _name(plan: Plan) -> str:
    return plan.method if plan.grid is None else f"{plan.method} {plan.grid[0]} x {plan.grid[1]}"
