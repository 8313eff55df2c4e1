"""Every file that ioaware reads, damaged at random, is read or refused.

It is refused by one error with a documented exit code.

Bytes are removed, repeated, replaced and cut; in JSON also values, by others of every type, NaN and infinities among them.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioaware.errors import IoawareError
from ioaware.gate.snapshot import snapshot_of
from tests.support.fuzz.damaged_files import KINDS, LOADERS, damaged, loaded, refusal

EDIT = st.tuples(st.floats(0, 1), st.sampled_from(KINDS), st.binary(max_size=6))
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}),
    st.sampled_from([10**400, -1, "1", float("nan"), float("inf"), [[[]]], "\x00", "\u202e"]),
)  # fmt: skip


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
