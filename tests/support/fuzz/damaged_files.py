"""Files that ioaware reads, whole and damaged at random, and what reads them.

A loader reads a file, or refuses it by one error with a documented exit code.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from ioaware.bench import race_record
from ioaware.errors import IoawareError
from ioaware.gate.ci.results_file import read_results
from ioaware.gate.measured.json_results import json_results
from ioaware.gate.repository.ledger import LEDGER, Entry, Ledger, read_ledger, write_ledger
from ioaware.gate.sides import read_row
from ioaware.machine.machine_file import find_machine_or_file
from ioaware.measurement.counters.kernel_attribution import METRICS
from ioaware.measurement.counters.ncu_csv import read_table
from ioaware.result_file import read_jsonl, write_jsonl
from ioaware.sweep.points import Point
from ioaware.sweep.store import Store
from ioaware.sweep.study import find_study
from tests.support import ROOT
from tests.support.gate_rows import document
from tests.support.measured_runs import gaussian, run

CODES = (2, 4, 6)
MACHINE = (
    'preset = "H200"\nname = "half"\nsms = 66\nsource = "MIG"\n[levels.l2]\ncapacity_bytes = 31457280\nsource = "calibrated"\n'
)
STUDY = 'title = "a"\n[[grid]]\nsources = ["predict"]\ntargets = ["flash2"]\nparams = { seq_len = [64, 128], causal = true }\n'
OUTCOME = {"test": "t", "target": "k:k", "path": "t.py", "line": 3, "verdict": "SAME", "bytes": 10}
RUN = {"schema": 1, "kind": "traffic results", "time": "2026-11-01T00:00:00+00:00", "commit": "", "triton": "3", "exit_code": 0}


@cache
def records() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_jsonl(Path(folder) / "r.jsonl", run(1, gaussian(0.01), points=2, rounds=3))
        return (Path(folder) / "r.jsonl").read_bytes()


@cache
def store() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        with Store(Path(folder) / "s.db") as made:
            for result in run(1, gaussian(0.01), points=3, rounds=3):
                made.add(Point("measure", result.target, result.params), result)
        return (Path(folder) / "s.db").read_bytes()


@cache
def ledger() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_ledger(Path(folder), Ledger({"k.py:k": Entry(["t.py::t"]), "k.py:l": Entry(exempt="data")}))
        return (Path(folder) / LEDGER).read_bytes()


def race() -> bytes:
    return next(iter((ROOT / "ioaware" / "recorded" / "bench").glob("*.jsonl"))).read_bytes().splitlines()[0] + b"\n"


@cache
def benchmarks() -> bytes:
    saved = json.loads((ROOT / "ioaware" / "recorded" / "benchmarks" / "h200-first.json").read_bytes())
    return json.dumps(saved | {"benchmarks": saved["benchmarks"][:2]}).encode()


@cache
def counters() -> bytes:
    return (ROOT / "tests" / "support" / "ncu_fixtures" / "h200_two_launches.csv").read_bytes()


def stored(path: Path) -> object:
    with Store(path, readonly=True) as opened:
        return opened.results()


LOADERS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "saved derivation": ("row.json", lambda: json.dumps(document()).encode(), read_row),
    "records": ("r.jsonl", records, lambda path: list(read_jsonl(path))),
    "store": ("s.db", store, stored),
    "ledger": (LEDGER, ledger, lambda path: read_ledger(path.parent)),
    "results of a run": ("run.json", lambda: json.dumps({**RUN, "outcomes": [OUTCOME]}).encode(), read_results),
    "race": ("race.jsonl", race, race_record.read),
    "machine": ("m.toml", MACHINE.encode, lambda path: find_machine_or_file(str(path))),
    "benchmarks": ("b.json", benchmarks, json_results),
    "counters of ncu": ("ncu.csv", counters, lambda path: read_table(path.read_bytes().decode(errors="replace"), METRICS)),
    "study": ("s.toml", STUDY.encode, lambda path: find_study(str(path))),
}
Edit = tuple[float, str, bytes]
"""Place in 0..1, kind and bytes of one damage."""
KINDS = ("cut", "remove", "repeat", "replace", "insert")


def damaged(content: bytes, edits: Sequence[Edit]) -> bytes:
    for place, kind, more in edits:
        at = round(place * len(content))
        end = at + len(more)
        match kind:
            case "cut":
                content = content[:at]
            case "remove":
                content = content[:at] + content[end:]
            case "repeat":
                content = content[:end] + content[at:]
            case "replace":
                content = content[:at] + more + content[end:]
            case _:
                content = content[:at] + more + content[at:]
    return content


def loaded(load: Callable[[Path], object], path: Path, content: bytes) -> None:
    path.write_bytes(content)
    error = refusal(lambda: load(path))
    assert error is None or (error.exit_code in CODES and 0 < len(str(error)) < 3_000)


def refusal(load: Callable[[], object]) -> IoawareError | None:
    """Return the error of a load. Every other exception is a fault."""
    try:
        load()
    except IoawareError as error:
        return error
    return None
