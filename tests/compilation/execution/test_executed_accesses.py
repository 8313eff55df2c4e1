"""Where an executed launch accesses memory, against sets of sectors by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ioaware.analysis.ir.mlir.parser import Operation
from ioaware.compilation.execution import executed_accesses
from ioaware.compilation.execution.executed_accesses import ExecutedAccesses, Instruction
from ioaware.compilation.execution.program_values import Pointer, UndeterminedError

LOAD = Operation("tt.load", "", [])
INSTRUCTION = Instruction("tt.load", "read", "x", ("kernel.py:1",), 4)
PROGRAMS = np.array([3, 4, 7])


def recorded(offsets: np.ndarray, lanes: np.ndarray, shape: tuple[int, ...]) -> ExecutedAccesses:
    found = ExecutedAccesses(8)
    found.add(LOAD, INSTRUCTION, PROGRAMS, Pointer("x", offsets), lanes, shape)
    return found


def sectors_of(found: ExecutedAccesses, program: int) -> list[int]:
    """Return the sectors of a program's runs, each as often as a run has it."""
    (runs,) = found.runs
    mine = runs.program == program
    pairs = zip(runs.begin[mine].tolist(), runs.size[mine].tolist(), strict=True)
    return [sector for begin, size in pairs for sector in range(begin // 32, (begin + size) // 32)]


def by_hand(offsets: np.ndarray, lanes: np.ndarray, shape: tuple[int, ...], row: int) -> list[int]:
    full = (len(PROGRAMS), *shape)
    starts = np.broadcast_to(offsets, full)[row][np.broadcast_to(lanes, full)[row]]
    return sorted({(start + byte) // 32 for start in starts.ravel().tolist() for byte in range(4)})


@pytest.mark.parametrize("kind", ["random", "rows", "columns", "one lane", "same everywhere"])
def test_runs_cover_each_sector_once(kind: str) -> None:
    for seed in range(30):
        chosen = np.random.default_rng(seed)
        shape: tuple[int, ...] = (6, 16)
        base = 4 * chosen.integers(0, 400, (3, 6, 1))
        across = 4 * np.arange(16)
        offsets = {
            "random": 4 * chosen.integers(0, 400, (3, 6, 16)),
            "rows": base + across,
            "columns": 4 * chosen.integers(0, 400, (3, 1, 16)) + 4 * np.arange(6).reshape(1, 6, 1),
            "one lane": base[:, :, :1],
            "same everywhere": np.array([12]),
        }[kind]
        low, high = np.sort(chosen.integers(0, 17, (2, 3, 6, 1)), axis=0)
        within = (np.arange(16) >= low) & (np.arange(16) < high)
        for lanes in (np.ones((3, 1, 1), bool), chosen.random((3, 6, 1)) < 0.6, within, chosen.random((3, 6, 16)) < 0.6):
            found = recorded(offsets, lanes, shape)
            for row, program in enumerate(PROGRAMS.tolist()):
                assert sectors_of(found, program) == by_hand(offsets, lanes, shape, row), (seed, program)


def test_time_is_what_a_program_accessed_before() -> None:
    found = ExecutedAccesses(8)
    offsets = np.arange(16).reshape(1, 16) * 4
    only_last = np.array([False, False, True]).reshape(3, 1)
    for lanes in (np.ones((3, 1), bool), only_last, np.ones((3, 1), bool)):
        found.add(LOAD, INSTRUCTION, PROGRAMS, Pointer("x", offsets), lanes, (16,))
    (runs,) = found.runs
    assert list(zip(runs.program.tolist(), runs.time.tolist(), strict=True)) == [
        *((3, 0), (4, 0), (7, 0)),
        (7, 64),
        *((3, 64), (4, 64), (7, 128)),
    ]
    assert found.work.tolist() == [0, 0, 0, 128, 128, 0, 0, 192]


def test_too_many_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = np.array([random.Random(0).randrange(99) * 64 + at * 6400 for at in range(9)]).reshape(1, 9)
    recorded(apart, np.ones((3, 1), bool), (9,))
    monkeypatch.setattr(executed_accesses, "MAX_RUNS", 26)
    with pytest.raises(UndeterminedError, match="too many"):
        recorded(apart, np.ones((3, 1), bool), (9,))


def test_runs_that_follow_each_other_are_joined_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program reads a row of its own, 64 bytes at a time."""
    monkeypatch.setattr(executed_accesses, "MAX_RUNS", 20)
    found = ExecutedAccesses(8)
    for piece in range(16):
        offsets = (PROGRAMS[:, None] * 4096 + piece * 64) + np.arange(16) * 4
        found.add(LOAD, INSTRUCTION, PROGRAMS, Pointer("x", offsets), np.ones((3, 1), bool), (16,))
    (runs,) = found.runs
    assert runs.begin.size <= 20
    for program in PROGRAMS.tolist():
        mine = runs.program == program
        assert sectors_of(found, program) == list(range(program * 128, program * 128 + 32))
        assert runs.time[mine].tolist() == ((runs.begin[mine] - program * 4096) * 1.0).tolist()
