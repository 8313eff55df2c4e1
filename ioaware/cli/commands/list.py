"""`ioaware list`: cases, studies and machines, with their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ioaware.cli.options import json_option, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.case import Case
    from ioaware.machine import Machine
    from ioaware.sweep.study import Study


@verb
@json_option
def list_(as_json: bool) -> None:
    """List cases, studies and machines.

    The name of a case is a TARGET, the name of a study a STUDY.
    """
    data = _data()
    emit(lambda: data, lambda: _text(data), as_json=as_json)


def _data() -> dict[str, Any]:
    from ioaware.cases import CASES
    from ioaware.machine import PRESETS
    from ioaware.sweep.study import find_study, shipped_studies

    return {
        "schema": 1,
        "cases": [_case(case) for case in CASES.values()],
        "studies": [_study(find_study(name)) for name in shipped_studies()],
        "machines": [_machine(machine) for machine in PRESETS.values()],
    }


def _case(case: Case) -> dict[str, Any]:
    params = [{"name": p.name, "kind": p.kind, "default": p.default, "help": p.help} for p in case.params]
    return {"name": case.name, "title": case.title, "source": case.paper, "params": params}


def _study(study: Study) -> dict[str, Any]:
    return {"name": study.name, "title": study.title, "sources": list(study.sources), "points": len(study.points)}


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "device": machine.device,
        "sms": machine.sms,
        "levels": [
            {
                "name": level.name,
                "scope": level.scope,
                "capacity_bytes": level.capacity_bytes,
                "bandwidth_bytes_per_s": level.bandwidth_bytes_per_s,
            }
            for level in machine.levels
        ],
        "peak_flops_per_s": {dtype: peak.flops_per_s for dtype, peak in machine.peaks.items()},
    }


def _text(data: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.render import table

    cases, studies = data["cases"], data["studies"]
    yield table(["case", "what", "source"], [(case["name"], case["title"], case["source"]) for case in cases], left=3)
    yield Text("")
    yield table(["parameter", "default", "meaning"], _params(cases), left=3)
    yield Text("")
    rows = [(study["name"], study["title"], ", ".join(study["sources"]), str(study["points"])) for study in studies]
    yield table(["study", "what", "sources", "points"], rows, left=3)
    yield Text("")
    yield table(["machine", "SMs", "shared/SM", "L2", "HBM", "HBM bandwidth", "fp16 peak"], map(_machine_row, data["machines"]))


def _params(cases: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return each parameter once: a name means the same in every case."""
    seen = {param["name"]: param for case in cases for param in case["params"]}
    return [(name, _default(param["default"]), param["help"]) for name, param in seen.items()]


def _default(value: object) -> str:
    return "" if value is None else str(value).lower()


def _machine_row(machine: dict[str, Any]) -> tuple[str, ...]:
    from ioaware.display.units import bytes_text, significant, size_text

    level = {level["name"]: level for level in machine["levels"]}
    return (
        machine["name"],
        str(machine["sms"]),
        size_text(level["shared"]["capacity_bytes"]) + "B",
        size_text(level["l2"]["capacity_bytes"]) + "B",
        bytes_text(level["hbm"]["capacity_bytes"]),
        bytes_text(level["hbm"]["bandwidth_bytes_per_s"]) + "/s",
        significant(machine["peak_flops_per_s"]["float16"] / 1e12) + " TFLOP/s",
    )


command = list_
