"""Match profiled kernels to launches.

It goes by NVTX ranges, by order only where it is unambiguous.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ioaware.errors import DataError
from ioaware.measurement.counters.launch_log import TritonLaunch
from ioaware.measurement.counters.ncu_csv import KernelRow, Metric, Table
from ioaware.result import Launch, Traffic

REQUESTED_READS = "l1tex__m_xbar2l1tex_read_bytes.sum"
REQUESTED_WRITES = "l1tex__m_l1tex2xbar_write_bytes.sum"
HBM_READS = "dram__bytes_read.sum"
HBM_WRITES = "dram__bytes_write.sum"
TIME = "gpu__time_duration.sum"
REGISTERS = "launch__registers_per_thread"
SHARED_STATIC = "launch__shared_mem_per_block_static"
SHARED_DYNAMIC = "launch__shared_mem_per_block_dynamic"
L2_READ_SECTORS = "lts__t_sectors_srcunit_tex_op_read.sum"
"""Informative only: L2 slices see fewer reads than SMs request.

Requests of neighbouring SMs are merged.
"""

METRICS = (
    *(
        Metric(name, "byte")
        for name in (REQUESTED_READS, REQUESTED_WRITES, HBM_READS, HBM_WRITES, SHARED_STATIC, SHARED_DYNAMIC)
    ),
    Metric(TIME, "time"),
    *(Metric(name, "count") for name in (REGISTERS, L2_READ_SECTORS)),
)
_KNOWN = frozenset(metric.name for metric in METRICS)


def attribute(table: Table, logged: Sequence[TritonLaunch]) -> tuple[Launch, ...]:
    """Return every profiled kernel in launch order.

    Triton's and torch's are distinguished.

    `logged` are the Triton launches that the worker logged. Each must match exactly one kernel of the table. Otherwise the
    table is truncated or of another run, and `DataError` is raised. Kernels of no Triton launch are torch's own. Metrics beyond
    `METRICS` become the launch's counters.
    """
    owners = _owners_by_range(table.rows, logged) if table.has_ranges else _owners_by_order(table.rows, logged)
    return tuple(
        _triton_launch(row, logged[owners[number]]) if number in owners else _launch(row, row.kernel, "torch")
        for number, row in enumerate(table.rows)
    )


def _owners_by_range(rows: Sequence[KernelRow], logged: Sequence[TritonLaunch]) -> dict[int, int]:
    """Map rows to launch indices.

    Pre-run hooks may run torch kernels inside a range, so names decide there.
    """
    in_range: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row.launch_index is not None:
            in_range[row.launch_index].append(number)
    beyond = [index for index in in_range if index >= len(logged)]
    if beyond:
        raise DataError(
            f"ncu profiled launch {beyond[0]}, but the worker made only {len(logged)}",
            "Measure again; use ncu and Triton that ioaware doctor finds ok.",
        )
    owners: dict[int, int] = {}
    for index, launch in enumerate(logged):
        candidates = in_range[index]
        if len(candidates) > 1:
            candidates = [number for number in candidates if rows[number].kernel == launch.compiled_name]
        if not candidates and launch.is_empty:
            continue
        if len(candidates) != 1:
            raise DataError(
                f"launch {index} ({launch.kernel}) has {len(candidates)} kernels in ncu's output instead of one",
                "The output is truncated or of another run; measure again.",
            )
        owners[candidates[0]] = index
    return owners


def _owners_by_order(rows: Sequence[KernelRow], logged: Sequence[TritonLaunch]) -> dict[int, int]:
    """Map rows without ranges to launches.

    Rows with a Triton kernel's name must equal the logged launches, in order.
    """
    real = [(index, launch.compiled_name) for index, launch in enumerate(logged) if not launch.is_empty]
    names = {name for _, name in real}
    numbers = [number for number, row in enumerate(rows) if row.kernel in names]
    if [rows[number].kernel for number in numbers] != [name for _, name in real]:
        raise DataError(
            f"ncu's output has no NVTX ranges, and its {len(numbers)} kernels named like Triton's are not the "
            f"{len(real)} launches made, in their order: attributing them would be a guess",
            "Use an ncu that supports --nvtx.",
        )
    return {number: index for number, (index, _) in zip(numbers, real, strict=True)}


def _triton_launch(row: KernelRow, made: TritonLaunch) -> Launch:
    """Add what only Triton reports.

    That is the local memory of spilled registers, and the configuration of an autotuned kernel.
    """
    launch = replace(_launch(row, made.kernel, "triton"), local_bytes=made.local_bytes, configuration=made.configuration)
    if not made.local_bytes:
        return launch
    spilled = f"{made.local_bytes} bytes of registers a thread are spilled to local memory: that traffic is in the counters"
    return replace(launch, notes=(spilled,))


def _launch(row: KernelRow, kernel: str, origin: Literal["triton", "torch"]) -> Launch:
    """Return the launch of a row.

    Counters see 32-byte sectors: element and sector fields are equal.
    """
    value = row.values
    reads, writes = value[REQUESTED_READS], value[REQUESTED_WRITES]
    beyond = {name: count for name, count in value.items() if name not in _KNOWN}
    return Launch(
        kernel,
        row.grid,
        origin,
        requested=Traffic(reads, writes, read_sector_bytes=reads, write_sector_bytes=writes),
        hbm=Traffic(value[HBM_READS], value[HBM_WRITES]),
        time_ns=float(value[TIME]),
        shared_bytes=value[SHARED_STATIC] + value[SHARED_DYNAMIC],
        registers=value[REGISTERS],
        counters=beyond or None,
    )
