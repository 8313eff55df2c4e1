"""`ioaware list`: the cases, studies and machines there are, with their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ioaware.cli.options import json_option, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.case import Case


@verb
@json_option
def list_(as_json: bool) -> None:
    """Cases, studies and machines, with their parameters. A case's name is a TARGET; a study's name is a STUDY."""
    data = _data()
    emit(lambda: data, lambda: _text(data), as_json=as_json)


def _data() -> dict[str, Any]:
    from ioaware.cases import CASES

    return {"schema": 1, "cases": [_case(case) for case in CASES.values()]}


def _case(case: Case) -> dict[str, Any]:
    params = [{"name": p.name, "kind": p.kind, "default": p.default, "help": p.help} for p in case.params]
    return {"name": case.name, "title": case.title, "source": case.paper, "params": params}


def _text(data: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.render import table

    yield table(["case", "what", "source"], [(case["name"], case["title"], case["source"]) for case in data["cases"]], left=3)
    yield Text("")
    yield table(["parameter", "default", "meaning"], _params(data["cases"]), left=3)


def _params(cases: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Each parameter once: a name means the same in every case that has it."""
    seen = {param["name"]: param for case in cases for param in case["params"]}
    return [(name, str(param["default"]).lower(), param["help"]) for name, param in seen.items()]


command = list_
