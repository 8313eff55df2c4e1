"""The page of one target: its findings as a template's values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ioaware.derivation.derived import Derived
from ioaware.display.notebook import FOLDERS
from ioaware.display.text import clean, params_text, without_folders
from ioaware.display.units import percent_text, significant, times_text
from ioaware.machine.time_bound import fastest_hbm
from ioaware.report.figures.labels import BELOW_COMPULSORY
from ioaware.report.pages.document import Document
from ioaware.report.pages.figure_set import figures_of
from ioaware.report.pages.findings import Compared, Findings
from ioaware.report.pages.formula_rows import formula_tables
from ioaware.report.pages.known_hbm import range_text, shown_notes
from ioaware.report.pages.launch_rows import LAUNCH_COLUMNS, launch_rows
from ioaware.report.pages.source_rows import hot_rows, source_sections
from ioaware.report.table_cells import TIME_COLUMNS, bytes_shown, cell, columns, telling, time_cells, time_shown
from ioaware.result import Params
from ioaware.simulation.simulation_result import Simulated
from ioaware.simulation.waves.closed_form import closed_form_lines
from ioaware.targets.target import compulsory_bytes

INDEX = re.compile(r"\[[^][]*\]")
"""An index in brackets."""
SERVED = 1e-4
"""Share of the derived bytes whose lack is explained."""
MAX_LAUNCHES, MAX_IN_ORDER, MAX_MEASURED, MAX_NOTES = 400, 24, 300, 40
"""Rows of tables; above `MAX_IN_ORDER` launches they are sorted by bytes."""


def target_page(found: Findings, *, with_text: bool = True, fragments: Sequence[str] = (), made: str = "") -> Document:
    """Return the page of a target.

    Without `with_text` lines of the source appear by number alone, for third-party sources. `fragments` are further sections
    in HTML that this package wrote.
    """
    derived = found.derived
    figures = list(figures_of(found))
    tables, left = formula_tables(derived)
    ordered = len(derived.launches) <= MAX_IN_ORDER
    floor_columns, floors = telling(FLOOR_COLUMNS, list(_floors(found)))
    launch_columns, launches = telling(LAUNCH_COLUMNS, list(launch_rows(found, ordered=ordered))[:MAX_LAUNCHES])
    measured = sorted(found.measured, key=lambda one: _numbers_of(one, derived.params))
    values: dict[str, Any] = {
        "params": params_text(derived.params),
        "exact": derived.exact,
        "headline": _headline(found),
        "numbers": list(_numbers(found)),
        "sections": _sections(found)[0 if any(shown.figure.name == "bytes" for shown in figures) or found.torch_alone else 1 :],
        "hot": hot_rows(found.source, found.shared, with_text=with_text),
        "with_text": with_text,
        "several": any(kernel.launches > 1 for kernel in found.source.kernels),
        "with_shared": any(found.shared.kernels.values()),
        "tables": tables,
        "constant": all(table.constant for table in tables),
        "tables_left": left,
        "floor_columns": floor_columns,
        "floors": floors,
        "floor_note": _rates_note(found),
        "launch_columns": launch_columns,
        "launches": launches,
        "launches_left": max(0, len(derived.launches) - MAX_LAUNCHES),
        "launches_in_order": ordered,
        "measured_columns": MEASURED_COLUMNS,
        "measured": [_measured(one, derived.params) for one in measured[:MAX_MEASURED]],
        "measured_notes": list(_measured_notes(found)),
        "fragments": list(fragments),
        "source": list(source_sections(found.source, found.shared, with_text=with_text)),
        "notes": list(_notes(found))[:MAX_NOTES],
        "made": made,
    }
    return Document("target.html", without_folders(derived.target), values, figures)


def _headline(found: Findings) -> str:
    """Return the page's one sentence."""
    derived, requested = found.derived, found.requested_bytes
    if requested is None:
        return "How many bytes the kernels request depends on data; the formulas name what decides it."
    if found.torch_alone:
        least = found.launch_by_launch_ns
        time = f" One after the other, they take at least {time_shown(least)}." if least else ""
        return f"No Triton kernel runs.{_beside(derived, '')}{time}"
    parts = [f"The kernels request {'at most ' if found.at_most else ''}{bytes_shown(requested)}"]
    if found.compulsory_bytes:
        times = times_text(requested / found.compulsory_bytes, padded=True)
        parts.append(f", {times} the compulsory {bytes_shown(found.compulsory_bytes)}")
    if found.hbm_bytes is not None:
        spills = ", spilled registers included" if found.spills else ""
        parts.append(f"; {bytes_shown(found.hbm_bytes)} pass HBM on {found.machine.name}, by simulation{spills}")
    elif found.simulated:
        parts.append(f"; {range_text(*found.hbm_range)} pass HBM on {found.machine.name}, by simulation: data decide")
    bound = found.simulated_bound
    if bound.time_ns:
        parts.append(f". The launches take at least {time_shown(bound.time_ns)}, bound by {bound.binds}")
    return "".join(parts) + "." + _beside(derived)


def _beside(derived: Derived, start: str = "Beside them, ") -> str:
    """Return a sentence on torch's own operators; empty without any."""
    assumed, own = derived.assumed, sum(one.origin == "torch" for one in derived.launches)
    if assumed is None or assumed.total_bytes is None:
        return ""
    operators = "1 operator of torch moves" if own == 1 else f"{own} operators of torch move"
    return f" {start}{operators} at least {bytes_shown(assumed.total_bytes)}."


def _numbers(found: Findings) -> Iterator[dict[str, str]]:
    derived, requested = found.derived, found.requested_bytes
    if not found.torch_alone:
        most = "≤ " if found.at_most else ""
        yield {
            "name": "requested",
            "value": "data decide" if requested is None else most + bytes_shown(requested),
            "what": "between the L2 and the SMs",
        }
    elif derived.assumed:
        moved = bytes_shown(derived.assumed.total_bytes)
        yield {"name": "torch's operators", "value": moved, "what": "assumed: inputs read once, outputs written once"}
    if found.hbm_bytes is not None:
        yield {"name": "HBM, simulated", "value": bytes_shown(found.hbm_bytes), "what": f"on {found.machine.name}"}
    elif found.simulated and not found.torch_alone:
        what = f"on {found.machine.name}: data decide"
        yield {"name": "HBM, simulated", "value": range_text(*found.hbm_range), "what": what}
    if found.compulsory_bytes is not None and not found.torch_alone:
        yield {"name": "compulsory", "value": bytes_shown(found.compulsory_bytes), "what": "inputs and outputs once"}
    if found.work_bound.time_ns:
        yield {
            "name": "time floor",
            "value": time_shown(found.work_bound.time_ns),
            "what": f"of any kernel, bound by {found.work_bound.binds}",
        }
    if derived.assumed and (together := _one_by_one_ns(found)):
        yield {"name": "with torch's operators", "value": time_shown(together), "what": "at least, one launch after the other"}


def _sections(found: Findings) -> list[tuple[str, str]]:
    several = [("launches", "Launches")] if len(found.derived.launches) > 1 else [("each", "Launches")]
    measured = [("measured", "Measured")] if found.measured else []
    over = [("over", "Over parameters")] if any(one.points for one in found.curves) else []
    roof = [("roofline", "Roofline")] if found.peak_dtype and found.derived.flops else []
    if found.torch_alone:
        return [("time", "Time"), *several]
    return [
        ("bytes", "Bytes"),
        ("hot", "Hot lines"),
        ("formulas", "Formulas"),
        *over,
        *roof,
        ("time", "Time"),
        *several,
        *measured,
        ("source", "Source"),
    ]


def _floors(found: Findings) -> Iterator[list[dict[str, Any]]]:
    least = "" if found.hbm_bytes is not None else "least "
    simulated = f"{least}HBM bytes simulated on {found.machine.name}"
    simulated = "compulsory bytes at HBM" if found.least_hbm is found.derived.compulsory else simulated
    rows = (
        ("any kernel that does this work: compulsory bytes", found.work_bound),
        (f"these launches: requested bytes, {simulated}", found.simulated_bound),
    )
    for name, bound in () if found.torch_alone else rows:
        yield [
            cell(name),
            cell(bound.binds or "unknown"),
            *(cell(time_shown(part), part) for part in (bound.hbm_ns, bound.l2_ns, bound.arithmetic_ns, bound.time_ns)),
        ]
    together = _one_by_one_ns(found)
    if (found.torch_alone or len(found.derived.launches) > 1) and together is not None:
        parts = [one.binds for one in found.launch_bounds if one.time_ns]
        binds = ", ".join(f"{name} in {_launches(parts.count(name))}" for name in dict.fromkeys(filter(None, parts)))
        beside = ["torch's operators"] if found.derived.assumed else []
        work = " and ".join([*([] if found.torch_alone else ["kernels"]), *beside])
        empty = (cell(""),) * 3
        yield [cell(f"one launch after the other, {work}"), cell(binds), *empty, cell(time_shown(together), together)]


def _one_by_one_ns(found: Findings) -> float | None:
    """Return the least time of all launches, one after the other.

    It is no less than that of the launches together: where data decide, a launch alone counts the low end of its bytes.
    """
    apart, together = found.launch_by_launch_ns, found.simulated_bound.time_ns
    return apart if apart is None or found.torch_alone else max(apart, together or 0)


def _launches(number: int) -> str:
    return "1 launch" if number == 1 else f"{number} launches"


def _rates_note(found: Findings) -> str:
    machine, dtype = found.machine, found.peak_dtype if found.derived.flops else None
    peak = machine.peaks[dtype] if dtype else None
    hbm, l2 = machine.level("hbm"), machine.level("l2")
    rates = (
        ("at HBM", fastest_hbm(machine), 1e12, "TB/s", hbm.bandwidth_source),
        ("of the L2", l2.bandwidth_bytes_per_s, 1e12, "TB/s", l2.bandwidth_source),
        *([(f"of {dtype}", peak and peak.flops_per_s, 1e12, "TFLOP/s", peak.source if peak else "")] if dtype else ()),
    )
    known = [f"{significant(rate / unit)} {name} {of} ({source})" for of, rate, unit, name, source in rates if rate]
    missing = [of for of, rate, *_ in rates if not rate]
    return (
        f"{machine.name}: {'; '.join(known) or 'no rates are on record'}. "
        + (f"Not on record: the rate {', '.join(missing)}. " if known and missing else "")
        + "L2 bytes: requested, in whole sectors where they are known, less what the L1s serve by simulation. "
        + "FLOPs are those of matrix products; other arithmetic is not counted, so a least time may be too low."
    )


FLOOR_COLUMNS = columns("HBM bytes ÷ rate", "L2 bytes ÷ rate", "FLOPs ÷ peak", "at least", words=("for", "binds"))
MEASURED_COLUMNS = [
    {"name": "parameters", "number": False},
    {"name": "GPU", "number": False},
    *columns("derived", "measured", "deviation", "HBM, measured", *TIME_COLUMNS),
    {"name": "status", "number": False},
]


def _measured(one: Compared, params: Params) -> list[dict[str, Any]]:
    """Return the row of a measured point.

    Parameters that differ from the page's are shown.
    """
    result = one.measured
    changed = {name: value for name, value in result.params.items() if params.get(name) != value}
    hbm = result.hbm.total_bytes if result.hbm else None
    return [
        cell(params_text(changed) or "as this page"),
        cell((result.environment or {}).get("gpu", "unknown")),
        cell(bytes_shown(one.derived_bytes), one.derived_bytes),
        cell(bytes_shown(one.measured_bytes), one.measured_bytes),
        cell("" if one.deviation is None else percent_text(one.deviation), one.deviation),
        cell(bytes_shown(hbm), hbm),
        *time_cells(result),
        cell(result.status),
    ]


def _numbers_of(one: Compared, params: Params) -> list[tuple[float, str]]:
    """Return a measured point's values, in the order of the page's parameters."""
    values = (one.measured.params.get(name) for name in params)
    return [(value, "") if isinstance(value, (int, float)) else (0, str(value)) for value in values]


def _measured_notes(found: Findings) -> Iterator[str]:
    """Yield what the table of measured points needs to be understood."""
    yield "Deviation: measured over derived bytes, less 1, in whole sectors where they are derived."
    if any(one.deviation is not None and one.deviation < -SERVED for one in found.measured):
        yield "Below derived: L1s served reads or merged writes, which no formula counts."
    results = [one.measured for one in found.measured]
    if any(one.status == "throttled" for one in results):
        yield "Throttled: the GPU lowered its clocks, so that the time is in no figure; bytes do not depend on clocks."
    pairs = [(one.hbm, one.compulsory or compulsory_bytes(one.target, one.params)) for one in results]
    if any(hbm and least and (hbm.total_bytes or 0) < (least.total_bytes or 0) for hbm, least in pairs):
        yield BELOW_COMPULSORY


def _closed_forms(simulated: Simulated) -> list[str]:
    pairs = zip(simulated.launches, simulated.simulations, strict=True)
    return closed_form_lines([(one.kernel, how) for one, how in pairs if how is not None])


def _notes(found: Findings) -> Iterator[str]:
    """Yield every note once: of the work, its launches, the simulation."""
    derived = found.derived
    own = [
        f"{one.kernel}: {FOLDERS.sub('', f' {note}').strip()}"
        for one in derived.launches
        if one.origin == "triton"
        for note in one.notes
    ]
    simulated = (*shown_notes(found.simulated), *_closed_forms(found.simulated)) if found.simulated else ()
    refused = (f"not simulated: {found.why_not_simulated}",) if found.why_not_simulated else ()
    why: dict[str, list[str]] = {}
    for one in found.curves:
        if one.left_out:
            why.setdefault(without_folders(FOLDERS.sub("", one.why)), []).append(f"{len(one.left_out)} of {one.span.name}")
    left_out = [f"values left out, {', '.join(names)}: {reason}" for reason, names in why.items()]
    alike: dict[str, list[str]] = {}
    for note in dict.fromkeys((*left_out, *derived.notes, *own, *simulated, *refused, *found.shared.why_not)):
        alike.setdefault(INDEX.sub("[]", note), []).append(note)
    for first, *more in alike.values():
        yield clean(first, 1000) + (f" ({len(more)} more notes differ from this in the index alone)" if more else "")
