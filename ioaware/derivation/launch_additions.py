"""Add to derived launches what their formulas do not give.

This is bytes at given data, resources and counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton.backends.compiler import GPUTarget

from ioaware.capture.capture import Capture
from ioaware.compilation.execution.program_values import Moved
from ioaware.compilation.execution.without_data import execute_without_data
from ioaware.compilation.launches import CapturedLaunch, CapturedOperator, Event
from ioaware.compilation.resource_usage import MachineCode
from ioaware.compilation.triton_ir import first_ir
from ioaware.derivation.derived_launch import DerivedLaunch
from ioaware.derivation.machine_code_notes import machine_code_notes


def with_index_data(parts: Sequence[DerivedLaunch], captured: Capture, gpu: GPUTarget) -> list[DerivedLaunch]:
    """Return the launches, inexact ones with their bytes at the given sizes.

    Inexact launches are those without an exact formula.

    The bytes are for the index tensors that host code built.
    """
    numbers = iter(range(len(parts)))
    added: list[DerivedLaunch] = []
    for part, event in zip(parts, captured.events, strict=True):
        if isinstance(event, CapturedLaunch):
            moved = captured.moved.get(next(numbers))
            if moved is None and _has_unknowns(part):
                moved = execute_without_data(event, captured.values, gpu)
            added.append(_at_index_data(part, moved))
        else:
            added.append(part)
    return added


def _has_unknowns(part: DerivedLaunch) -> bool:
    """Return whether a formula has a name without a value.

    A formula that ignores something stays as it is.
    """
    requested = part.launch.requested
    return requested is not None and None in (requested.read_bytes, requested.write_bytes, requested.atomic_bytes)


def _at_index_data(part: DerivedLaunch, moved: Moved | str | None) -> DerivedLaunch:
    launch = part.launch
    if isinstance(moved, Moved) and moved.beyond:
        beyond = [f"{where} reaches beyond its tensor with {n} elements at these sizes" for where, n in moved.beyond.items()]
        launch = replace(launch, notes=(*launch.notes, *beyond))
        part = replace(part, launch=launch)
    if moved is None or launch.requested is None:
        return part
    if launch.exact:
        return _with_sectors(part, moved) if isinstance(moved, Moved) else part
    if isinstance(moved, str):
        return replace(part, launch=replace(launch, notes=(*launch.notes, f"no bytes for the actual index tensors: {moved}")))
    requested = replace(
        launch.requested,
        read_bytes=moved.read_bytes,
        write_bytes=moved.write_bytes,
        atomic_bytes=moved.atomic_bytes,
        read_sector_bytes=moved.read_sector_bytes if moved.has_sectors else None,
        write_sector_bytes=moved.write_sector_bytes if moved.has_sectors else None,
    )
    note = "bytes at these sizes, by executing the kernel's integers: no data decide them, and no formula has a rule for them"
    if moved.read_names:
        note = f"bytes for the contents of {', '.join(sorted(moved.read_names))}{moved.caveat or ' that the function built'}"
    notes, exact = (*launch.notes, note), not moved.caveat
    at_data = replace(launch, requested=requested, flops=moved.flops, exact=exact, notes=notes)
    return replace(part, launch=at_data, moved=moved)


def _with_sectors(part: DerivedLaunch, moved: Moved) -> DerivedLaunch:
    """Return an exact launch with its sectors at the data that decide them.

    The execution must move the bytes of the formulas.
    """
    launch, requested = part.launch, part.launch.requested
    if requested is None or part.traffic is None or part.traffic.sectors_exact or moved.caveat or not moved.has_sectors:
        return part
    if any(getattr(requested, name) != getattr(moved, name) for name in ("read_bytes", "write_bytes", "atomic_bytes")):
        return part
    sectors = {name: getattr(moved, name) for name in ("read_sector_bytes", "write_sector_bytes")}
    note = "sectors at these sizes, by executing the kernel's integers: no formula has a rule for them"
    if moved.read_names:
        note = f"sectors for the contents of {', '.join(sorted(moved.read_names))} that the function built"
    launch = replace(launch, requested=replace(requested, **sectors), notes=(*launch.notes, note))
    return replace(part, launch=launch, moved=moved)


def with_resources(parts: Sequence[DerivedLaunch], captured: Capture, code: MachineCode, gpu: GPUTarget) -> list[DerivedLaunch]:
    """Return the launches with registers and shared memory."""
    launches = enumerate(captured.launches)
    with_them: list[DerivedLaunch] = []
    for part, event in zip(parts, captured.events, strict=True):
        if isinstance(event, CapturedLaunch):
            used = code.of(next(launches)[0], first_ir(event, captured.values, gpu).text)
            taken = {"shared_bytes": used.shared_bytes, "registers": used.registers, "local_bytes": used.local_bytes}
            noted = machine_code_notes(used, part.traffic, captured.values)
            launch = replace(part.launch, **taken, notes=(*part.launch.notes, *noted))
            with_them.append(replace(part, launch=launch, resources=used))
        else:
            with_them.append(part)
    return with_them


def with_counters(part: DerivedLaunch, event: Event, captured: Capture, gpu: GPUTarget) -> DerivedLaunch:
    """Return the launch with its L1 requests, or a note why they are unknown."""
    from ioaware.derivation.l1_requests import l1_requests_of_launch

    if isinstance(event, CapturedOperator):
        return part
    try:
        launch = replace(part.launch, counters=l1_requests_of_launch(event, captured.values, gpu).counters())
    except ValueError as error:
        launch = replace(part.launch, notes=(*part.launch.notes, f"counters cannot be predicted: {error}"))
    return replace(part, launch=launch)
