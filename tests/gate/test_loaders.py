"""Every file that ioaware reads, damaged at random, is read or refused.

It is refused by one error with a documented exit code.

Bytes are removed, repeated, replaced and cut; in JSON also values, by others of every type, NaN and infinities among them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioaware.bench import race_record
from ioaware.errors import IoawareError
from ioaware.gate.ci.results_file import read_results
from ioaware.gate.repository.ledger import LEDGER, Entry, Ledger, read_ledger, write_ledger
from ioaware.gate.sides import read_row
from ioaware.gate.snapshot import snapshot_of
from ioaware.machine.machine_file import find_machine_or_file
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
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_jsonl(Path(folder) / "r.jsonl", run(1, gaussian(0.01), points=2, rounds=3))
        return (Path(folder) / "r.jsonl").read_bytes()


@cache
def store() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with Store(Path(folder) / "s.db") as made:
            for result in run(1, gaussian(0.01), points=3, rounds=3):
                made.add(Point("measure", result.target, result.params), result)
        return (Path(folder) / "s.db").read_bytes()


@cache
def ledger() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_ledger(Path(folder), Ledger({"k.py:k": Entry(["t.py::t"]), "k.py:l": Entry(exempt="data")}))
        return (Path(folder) / LEDGER).read_bytes()


def race() -> bytes:
    return next(iter((ROOT / "ioaware" / "recorded" / "bench").glob("*.jsonl"))).read_bytes().splitlines()[0] + b"\n"


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
    "study": ("s.toml", STUDY.encode, lambda path: find_study(str(path))),
}
EDIT = st.tuples(st.floats(0, 1), st.sampled_from(["cut", "remove", "repeat", "replace", "insert"]), st.binary(max_size=6))
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}),
    st.sampled_from([10**400, -1, "1", float("nan"), float("inf"), [[[]]], "\x00", "\u202e"]),
)  # fmt: skip


def damaged(content: bytes, edits: list[tuple[float, str, bytes]]) -> bytes:
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


@pytest.mark.parametrize("name", LOADERS)
def test_random_damage(name: str, tmp_path: Path) -> None:
    file, content, load = LOADERS[name]
    loaded(load, tmp_path / file, content())

    @settings(derandomize=True, deadline=None, max_examples=15, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(EDIT, min_size=1, max_size=4))
    def check(edits: list[tuple[float, str, bytes]]) -> None:
        loaded(load, tmp_path / file, damaged(content(), edits))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADERS)
def test_much_random_damage(name: str, tmp_path: Path) -> None:
    file, content, load = LOADERS[name]

    @settings(derandomize=True, deadline=None, max_examples=300, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(EDIT, min_size=1, max_size=8))
    def check(edits: list[tuple[float, str, bytes]]) -> None:
        loaded(load, tmp_path / file, damaged(content(), edits))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["saved derivation", "records", "store", "ledger", "results of a run", "machine", "study"])
def test_cut_at_every_byte(name: str, tmp_path: Path) -> None:
    """A file of a gate is refused at each length but its own.

    The others are refused or read.
    """
    file, content, load = LOADERS[name]
    whole = content()
    step = 1 if len(whole) < 5_000 else 61
    for length in range(0, len(whole), step):
        loaded(load, tmp_path / file, whole[:length])
        if name in ("saved derivation", "store", "results of a run") or (name == "ledger" and length < len(whole) - 1):
            with pytest.raises(IoawareError):
                load(tmp_path / file)


@pytest.mark.parametrize("name", ["saved derivation", "records", "results of a run", "race"])
def test_values_of_other_types(name: str, tmp_path: Path) -> None:
    file, content, load = LOADERS[name]
    first = json.loads(content().splitlines()[0])
    paths = list(places(first))

    @settings(derandomize=True, deadline=None, max_examples=30, suppress_health_check=list(HealthCheck), database=None)
    @given(st.sampled_from(paths), ODD)
    def check(path: tuple[Any, ...], value: Any) -> None:
        changed = copy.deepcopy(first)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        loaded(load, tmp_path / file, json.dumps(changed).encode() + b"\n")

    check()


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield the paths of all values of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


WORDS = (
    "reads",
    "writes",
    "atomics",
    "at",
    "tma_loads",
    "spill_bytes",
    "registers",
    "made_with",
    "max_bytes",
    "vs_compulsory",
    "more",
)


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=list(HealthCheck), database=None)
@given(st.dictionaries(st.sampled_from(WORDS), ODD | st.dictionaries(st.text(max_size=4), ODD, max_size=2), max_size=5))
def test_arguments_of_a_snapshot(arguments: dict[str, Any]) -> None:
    error = refusal(lambda: snapshot_of(**arguments))
    if error is None:
        made = snapshot_of(**arguments)
        assert made.missing or set(made.texts) >= {"reads", "writes"}
    else:
        assert error.exit_code == 2
