"""Keep the ledger of a repository.

Each kernel is gated by tests, exempt with a reason, or pending with a date or a reason.

`traffic-ledger.toml` at the root of the tests. `ioaware coverage --write` adds kernels as pending since today; `pytest
--traffic=create` and `accept` record which tests gate which; a person writes the exemptions.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from ioaware import strict_json
from ioaware._atomic_file import atomic_write
from ioaware.errors import DataError

LEDGER = "traffic-ledger.toml"
SCHEMA = 1
LARGEST_BYTES = 4 * 2**20
REMEDY = "Restore it from the repository, or write it anew: ioaware coverage --write."
State = Literal["gated", "exempt", "pending"]


@dataclass(slots=True)
class Entry:
    """One kernel: the tests that gate it, or why none does.

    `pending` is a date or a reason, until there are tests.
    """

    tests: list[str] = field(default_factory=list[str])
    exempt: str = ""
    pending: str = ""

    @property
    def state(self) -> State:
        """Return `exempt`, `gated` or `pending`.

        It is `exempt` where there is a reason, `gated` where there are tests.
        """
        return "exempt" if self.exempt else "gated" if self.tests else "pending"


@dataclass(slots=True)
class Ledger:
    """The kernels of a repository, by `path.py:function`."""

    kernels: dict[str, Entry] = field(default_factory=dict[str, Entry])

    @property
    def tests(self) -> set[str]:
        """Return every test that gates a kernel."""
        return {test for entry in self.kernels.values() for test in entry.tests}

    def kernels_of(self, test: str) -> set[str]:
        """Return the kernels that a test gates."""
        return {kernel for kernel, entry in self.kernels.items() if test in entry.tests}

    def gate(self, gated: Mapping[str, Iterable[str]]) -> bool:
        """Record which kernels the tests gate; return whether anything changed.

        Exempt kernels stay exempt.
        """
        before = ledger_text(self)
        for test, launched in gated.items():
            for kernel, entry in self.kernels.items():
                if test in entry.tests and kernel not in launched:
                    entry.tests.remove(test)
                    entry.pending = entry.pending or f"{test} launches it no more"
            for kernel in launched:
                entry = self.kernels.setdefault(kernel, Entry())
                if test not in entry.tests and not entry.exempt:
                    entry.tests, entry.pending = sorted([*entry.tests, test]), ""
        return ledger_text(self) != before


def read_ledger(root: Path) -> Ledger | None:
    """Return the ledger of a repository; None where it has none.

    Raises `DataError` for one that is damaged.
    """
    path = root / LEDGER
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise ValueError(f"more than {LARGEST_BYTES} bytes")
        return ledger_of(content.decode())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})", "Check the path and its permissions.") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: not a ledger ({str(error)[:200]})", REMEDY) from error


def ledger_of(text: str) -> Ledger:
    """Parse a ledger.

    Raises `ValueError` for anything that `write_ledger` would not write.
    """
    data = strict_json.load_toml(text)
    if type(data.get("schema")) is not int or data["schema"] != SCHEMA:
        raise ValueError(f"schema {data.get('schema')!r}, this version reads schema {SCHEMA}")
    if unknown := data.keys() - {"schema", "kernels", "count"}:
        raise ValueError(f"unknown entry {', '.join(sorted(unknown))}")
    kernels: Any = data.get("kernels")
    if not isinstance(kernels, dict):
        raise ValueError("no kernels")
    table = cast("dict[str, Any]", kernels)
    if type(data.get("count")) is not int or data["count"] != len(table):  # a truncated file is still TOML
        raise ValueError(f"count is {data.get('count')!r}, and it has {len(table)} kernels")
    return Ledger({kernel: _entry(kernel, value) for kernel, value in table.items()})


def _entry(kernel: str, value: Any) -> Entry:
    if not isinstance(value, dict):
        raise ValueError(f"{kernel} is no table")
    table = cast("dict[str, Any]", value)
    if table.keys() - {"tests", "exempt", "pending"}:
        raise ValueError(f"{kernel}: only `tests`, `exempt` and `pending` are known")
    tests = table.get("tests", [])
    if not isinstance(tests, list) or not all(isinstance(test, str) and test for test in cast("list[Any]", tests)):
        raise ValueError(f"{kernel}: tests are a list of names")
    exempt = _reason(kernel, table, "exempt", "an exemption is a reason in words")
    pending = _reason(kernel, table, "pending", "what is pending has a date or a reason in words")
    return Entry(list(cast("list[str]", tests)), exempt, pending)


def _reason(kernel: str, table: Mapping[str, Any], name: str, rule: str) -> str:
    reason = table.get(name, "")
    if not isinstance(reason, str) or (name in table and not reason.strip()):
        raise ValueError(f"{kernel}: {rule}")
    return reason


def write_ledger(root: Path, ledger: Ledger) -> None:
    """Write the ledger atomically. Raises `WriteError`."""
    with atomic_write(root / LEDGER) as path:
        path.write_text(ledger_text(ledger), encoding="utf-8")


def ledger_text(ledger: Ledger) -> str:
    """Return the ledger as TOML."""
    lines = [
        "# Kernels and the tests that gate their memory traffic. Written by ioaware coverage and pytest --traffic=create;",
        '# replace `pending = "..."` by `exempt = "reason"` where a kernel cannot be gated.',
        f"schema = {SCHEMA}",
        f"count = {len(ledger.kernels)}",
        "[kernels]",
    ]
    for kernel, entry in sorted(ledger.kernels.items()):
        lines.append(f"{_string(kernel)} = {{ {_value(entry)} }}")
    return "\n".join(lines) + "\n"


def _value(entry: Entry) -> str:
    if entry.exempt:
        return f"exempt = {_string(entry.exempt)}"
    if entry.pending and not entry.tests:
        return f"pending = {_string(entry.pending)}"
    return f"tests = [{', '.join(map(_string, entry.tests))}]"


def _string(text: str) -> str:
    """Return a basic string of TOML; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def missing_tests(root: Path, ledger: Ledger) -> list[str]:
    """Return the tests of the ledger that gate nothing any more.

    They no longer exist, or no longer use the fixture `traffic`.
    """
    return sorted(test for test in ledger.tests if not _uses_traffic(root, test))


def _uses_traffic(root: Path, test: str) -> bool:
    path, *names = test.partition("[")[0].split("::")
    try:
        nodes: list[ast.stmt] = ast.parse((root / path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    for name in names:
        found = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name]
        if not found:
            return False
        if isinstance(found[-1], ast.FunctionDef):
            arguments = found[-1].args
            return any(one.arg == "traffic" for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        nodes = found[-1].body
    return False
