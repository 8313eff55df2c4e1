"""Make the sections of the systems, from one template.

A section has its formula, a check of the sources against each other, and recorded points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ioaware.analysis.formulas.typeset import typeset
from ioaware.analysis.theory.counting import Counts, N, N_k
from ioaware.case import Case
from ioaware.cases import CASES
from ioaware.display.text import params_text
from ioaware.display.units import significant
from ioaware.params import Param
from ioaware.prediction import predict
from ioaware.report.attention.typography import typeset as sentence
from ioaware.report.table_cells import TIME_COLUMNS, bound_cell, bytes_shown, cell, columns, common_params, time_shown
from ioaware.result import BYTES_HOLD, Params, ParamValue, Result
from ioaware.simulation.accuracy import Prediction, point_key

POINT_COLUMNS = columns(
    "requested", "reads ÷ predicted", "writes ÷ predicted", "HBM", *TIME_COLUMNS, words=("recorded point",)
)  # fmt: skip
SMALL: Mapping[str, ParamValue] = {
    "heads": 2, "kv_heads": 1, "seq_len": 24, "head_dim": 16, "block_m": 16, "block_n": 16, "splits": 2, "rows": 4, "cols": 72,
}  # fmt: skip
"""Sizes at which the sources are compared: 24 rows end in a ragged tile of 8."""
SYMBOLS: Mapping[str, str] = {
    "B": "batch", "H": "heads", "N": "rows of Q, K and V", "d": "head_dim", "B_r": "rows of Q in a tile",
    "B_c": "rows of K and V in a tile", "e": "bytes of an element", "S": "splits", "G": "query heads a key head",
    "R": "rows", "C": "columns", "c": "1, or 2 where a row of S leaves the chip", "w": "window", "g": "global blocks",
}  # fmt: skip
FAMILIES: Mapping[str, str] = {
    "theorem 2": "Forward attention of the papers",
    "gradients": "Gradients",
    "grouped heads": "Grouped heads and split-KV",
    "variants": "Variants of the forward pass",
    "rowwise": "Row by row",
    "logsoftmax": "Log-softmax attention",
    "square tiles": "Small on-chip memory, M < d²",
    "block sparse": "Block-sparse attention",
    "decoder": "A decoder's attention",
    "softmax": "Softmax",
}


def small_params(case: Case) -> Params:
    """Return the parameters at which the sources of a case are compared."""
    sizes = {param.name: SMALL[param.name] for param in case.params if _takes(param)}
    return sizes | ({"block_n": 32} if "cols" in sizes and "block_n" in sizes else {})


def _takes(param: Param) -> bool:
    return param.name in SMALL


def system_sections(
    checks: Mapping[str, Mapping[str, Result]], measured: Sequence[Result], predictions: Sequence[Prediction] = ()
) -> list[dict[str, Any]]:
    """Return the families of systems in order, each with its cases.

    `checks` has, by case, the results of `derive` and `trace` at `small_params`. `predictions` are those of the recorded
    points, in whole sectors.
    """
    sectors = {point_key(one.target, one.params): one for one in predictions}
    own: defaultdict[str, list[Result]] = defaultdict(list)
    for result in measured:
        if result.source == "measure" and result.status in BYTES_HOLD:
            own[result.target].append(result)
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in CASES.values():
        found[case.family].append(_section(case, checks.get(case.name, {}), own[case.name], sectors))
    order = [*FAMILIES, *found]
    families = sorted(found, key=order.index)
    return [{"title": FAMILIES.get(family, family), "cases": found[family]} for family in families]


def _section(
    case: Case, check: Mapping[str, Result], recorded: Sequence[Result], sectors: Mapping[str, Prediction]
) -> dict[str, Any]:
    points = [(result, *_ratios(result)) for result in recorded]
    common = common_params([_set(result) for result in recorded])
    counts = case.counts(False)
    return {
        "name": case.name,
        "title": sentence(case.title),
        "paper": sentence(case.paper),
        "formulas": list(_formulas(counts)),
        "symbols": _symbols(counts),
        "check": _check(case, check),
        "columns": POINT_COLUMNS,
        "common": params_text(common),
        "rows": [_point(common, *point) for point in points],
        "recorded": _recorded(points, sectors),
        "command": f"ioaware predict {case.name}",
    }


Point = tuple[Result, float | None, float | None]
"""A recorded point, its reads and its writes over their closed form."""


def _recorded(points: Sequence[Point], sectors: Mapping[str, Prediction]) -> str:
    """Return the number of points, the ratio farthest from 1, and its cause."""
    sides = [(result, read, ratio) for result, *ratios in points for read, ratio in zip((True, False), ratios, strict=True)]
    known = [(abs(ratio - 1), ratio, result, read) for result, read, ratio in sides if ratio is not None]
    if not known:
        return "not measured"
    off, ratio, result, read = max(known, key=lambda one: one[0])
    count = f"{len(points)} point{'s' if len(points) > 1 else ''}"
    cause = "" if off < EQUAL else _cause(result, ratio, sectors, read=read)
    return f"{count}, {f'{ratio:.4f}' if off < 0.01 else significant(ratio, padded=True)}×{cause}"


EQUAL = 5e-5
"""Relative difference below which four decimals show none."""


def _cause(result: Result, ratio: float, sectors: Mapping[str, Prediction], *, read: bool) -> str:
    """Return why the counter is off the closed form; empty where no record says it."""
    if ratio < 1:
        return ": L1 hits" if read else ""
    if any(launch.local_bytes for launch in result.launches):
        return ": spilled registers"
    predicted = sectors.get(point_key(result.target, result.params))
    parts = [one.requested_read_bytes if read else one.requested_write_bytes for one in predicted.launches] if predicted else []
    counted = result.requested and (result.requested.read_bytes if read else result.requested.write_bytes)
    known = sum(part for part in parts if part is not None)
    whole = bool(parts) and None not in parts and counted is not None and abs(counted - known) < 0.01 * known
    return ": whole sectors" if whole else ""


def _formulas(counts: Counts) -> Iterator[dict[str, str]]:
    """Yield reads, writes and atomics of all instances.

    They are typeset.
    """
    for name, total in _totals(counts):
        yield {"name": name, "formula": typeset(total)}


def _symbols(counts: Counts) -> str:
    """Return what the symbols of the formulas stand for, as HTML."""
    found = {str(symbol): symbol for _, total in _totals(counts) for symbol in total.free_symbols}
    return ", ".join(
        f"{typeset(symbol)}: {sentence(SYMBOLS[name])}" for name, symbol in sorted(found.items()) if name in SYMBOLS
    )


def _totals(counts: Counts) -> Iterator[tuple[str, Any]]:
    for name, side in (("reads", counts.reads), ("writes", counts.writes), ("atomics", counts.atomics)):
        if not side.count.is_zero:
            total: Any = counts.instances * side.bytes
            yield name, total.subs(N_k, N)


def _check(case: Case, check: Mapping[str, Result]) -> dict[str, Any]:
    """Return whether three sources give the same bytes.

    They are the closed form, the compiled kernel and the interpreter.
    """
    params = small_params(case)
    expected = _bytes(predict(case.name, **params))  # pyright: ignore[reportArgumentType]
    seen = {source: _bytes(result) for source, result in check.items()}
    if set(seen) != {"derive", "trace"}:
        verdict, tone = "not checked in this run", "inconclusive"
    elif None in seen.values():
        lacking = " and ".join(source for source, found in seen.items() if found is None)
        verdict, tone = f"no number from {lacking}", "inconclusive"
    elif all(found == expected for found in seen.values()):
        verdict, tone = "agree", "holds"
    else:
        verdict, tone = "differ", "fails"
    sides = zip(("reads", "writes", "atomics"), expected or (), strict=False)
    shown = ", ".join(f"{name} {value:,} B" for name, value in sides if value)
    return {"verdict": verdict, "tone": tone, "shown": shown, "params": params_text(params)}


def _bytes(result: Result) -> tuple[int, int, int] | None:
    """Return reads, writes and atomics in bytes.

    None where one of them is unknown, or the run failed.
    """
    requested = result.requested
    if requested is None or result.status != "ok" or requested.read_bytes is None or requested.write_bytes is None:
        return None
    return requested.read_bytes, requested.write_bytes, requested.atomic_bytes or 0


def _ratios(result: Result) -> tuple[float | None, float | None]:
    """Return the reads and the writes of a point over those of the closed form."""
    closed = predict(result.target, **dict(result.params)).requested  # pyright: ignore[reportArgumentType]
    seen = result.requested
    if closed is None or seen is None:
        return None, None
    written = None if closed.write_bytes is None else closed.write_bytes + (closed.atomic_bytes or 0)
    counted = None if seen.write_bytes is None else seen.write_bytes + (seen.atomic_bytes or 0)
    return _ratio(seen.read_bytes, closed.read_bytes), _ratio(counted, written)


def _set(result: Result) -> Params:
    """Return the parameters that a record names."""
    return {name: value for name, value in result.params.items() if value not in (None, False)}


def _point(common: Params, result: Result, *ratios: float | None) -> list[dict[str, Any]]:
    hbm = result.hbm.total_bytes if result.hbm else None
    time = result.time_ns if result.status == "ok" else None
    total = result.requested.total_bytes if result.requested else None
    return [
        cell(params_text({name: value for name, value in _set(result).items() if name not in common}) or "as above"),
        cell(bytes_shown(total), total),
        *(cell("" if ratio is None else f"{ratio:.5f}", ratio) for ratio in ratios),
        cell(bytes_shown(hbm), hbm),
        cell(time_shown(time), time),
        bound_cell(result),
    ]


def _ratio(one: int | None, other: int | None) -> float | None:
    return one / other if one is not None and other else None


def measured_text(sections: Sequence[Mapping[str, Any]]) -> str:
    """Return how many systems have records, and how many sources agree."""
    cases = [case for family in sections for case in family["cases"]]
    equal, measured = sum(case["check"]["tone"] == "holds" for case in cases), sum(bool(case["rows"]) for case in cases)
    agree = f"the closed form, the compiled kernel and the interpreter agree to the byte in {equal}"
    return f"{len(cases)} systems: {agree}, {measured} have recorded points"
