"""Records of the other systems: provenance, checks, and agreement with their page."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib.resources import files
from math import prod
from pathlib import Path
from statistics import median

import pytest

from ioaware.cases import CASES
from ioaware.derivation.derive import derive
from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.counters.l1_counters import READ_SECTORS
from ioaware.prediction import predict
from ioaware.result import BYTES_HOLD, ParamValue, Result
from ioaware.result_file import read_jsonl
from ioaware.sweep.points import make_point
from ioaware.sweep.study import find_study, shipped_studies
from ioaware.targets.target import load_target

RECORDS = list(read_jsonl(Path(str(files("ioaware"))) / "recorded" / "systems" / "h200-systems.jsonl"))
PAGE = Path(__file__).parents[2] / "docs" / "results" / "systems.md"
PROVENANCE = {"gpu", "driver", "cuda", "torch", "triton", "ncu", "python", "ioaware", "commit", "max_sm_clock_mhz"}
SPILLING = {"decoder_bwd", "decoder_notebook_bwd", "logsoftmax_linear"}
SHARED_SECTORS = {"flash2_bwd_atomic": ("flash2_backward_round", 256)}
"""Kernel that reads each sector by two instructions, and the bytes of a row.

The second instruction reads the sector from the L2 again where it has left the L1.
"""
SPLITS = {"split_kv": 28, "split_kv_packed": 16}
"""Unused bytes of a 32-byte sector beside the statistics of one program.

The statistics are of 1 row or of 4 packed rows.
"""
STATISTICS = {"softmax_eager": 2, "softmax_lse": 1}
"""Numbers of 4 bytes stored for each row, each by another program."""
CAUSAL_LOGITS = {"online_rowwise"}
"""Cases that store the logits of a causal row up to its last key, in float32."""


def label(record: Result) -> str:
    return f"{record.target}-" + "-".join(str(value) for value in record.params.values())


def bytes_of(record: Result) -> tuple[int, int, int, int]:
    """Return measured then predicted bytes, read and written.

    Atomics are among the written.
    """
    out: list[int] = []
    for traffic in (record.requested, predict(record.target, **dict(record.params)).requested):  # pyright: ignore[reportArgumentType]
        assert traffic is not None
        assert traffic.read_bytes is not None
        assert traffic.write_bytes is not None
        out += [traffic.read_bytes, traffic.write_bytes + (traffic.atomic_bytes or 0)]
    return out[0], out[1], out[2], out[3]


def unused_sector_bytes(record: Result) -> int:
    """Return the bytes that whole sectors add to statistics and causal rows.

    The statistics are stored one or four at a time. Row i has i + 1 logits.
    """
    params = {name: int(value) for name, value in record.params.items() if isinstance(value, int)}
    if record.target in STATISTICS:
        return 28 * STATISTICS[record.target] * params["rows"]
    if record.target in SPLITS:
        rows = params["batch"] * params["heads"]
        programs = rows if record.target == "split_kv" else params["batch"] * params["kv_heads"]
        return SPLITS[record.target] * programs * params["splits"] + 28 * rows
    if record.target in CAUSAL_LOGITS and record.params.get("causal"):
        return params["batch"] * params["heads"] * sum(-4 * keys % SECTOR_BYTES for keys in range(1, params["seq_len"] + 1))
    return 0


def read_again(record: Result) -> int:
    """Return the bytes that a kernel reads beyond its sectors, once more at most."""
    name, row_bytes = SHARED_SECTORS.get(record.target, ("", 0))
    again = 0
    for launch in record.launches:
        if launch.kernel == name:
            rows = [record.params[size] for size in ("batch", "heads", "seq_len")]
            sectors = row_bytes * prod(size for size in rows if isinstance(size, int))
            assert launch.requested is not None
            assert sectors <= (launch.requested.read_bytes or 0) <= 2 * sectors
            again += (launch.requested.read_bytes or 0) - sectors
    return again


@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_extra_memory_is_that_of_the_prediction(record: Result) -> None:
    assert record.extra_memory_bytes == predict(record.target, **dict(record.params)).extra_memory_bytes


@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_every_record_has_provenance_and_a_passed_check(record: Result) -> None:
    assert record.environment is not None
    assert record.environment.keys() >= PROVENANCE
    assert "dirty" not in record.environment["commit"]
    assert record.status in BYTES_HOLD
    assert record.check is not None
    assert record.check.passed


@pytest.mark.parametrize("record", RECORDS, ids=label)
def test_measured_bytes_are_predicted_except_spills_and_partial_sectors(record: Result) -> None:
    """Reads may be below the prediction, since an L1 can serve them."""
    spills = any(launch.local_bytes for launch in record.launches)
    assert spills == (record.target in SPILLING)
    if spills:
        return
    read, written, predicted_read, predicted_written = bytes_of(record)
    beside = unused_sector_bytes(record)
    read -= read_again(record)
    assert read <= 1.001 * predicted_read or read <= predicted_read + beside
    if beside:
        assert written - predicted_written == pytest.approx(beside, rel=0.001 if record.target in STATISTICS else 0)
    else:
        assert written == pytest.approx(predicted_written, rel=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("target", SHARED_SECTORS)
def test_two_instructions_request_each_sector_of_such_a_kernel(target: str) -> None:
    derived = derive(load_target(target), {"seq_len": 256}, counters=True)
    requested = {
        launch.kernel: (launch.counters or {})[READ_SECTORS] * SECTOR_BYTES / (launch.requested.read_sector_bytes or 1)
        for launch in derived.launches
        if launch.requested is not None
    }
    assert {name for name, times in requested.items() if times > 1} == {SHARED_SECTORS[target][0]}
    assert requested[SHARED_SECTORS[target][0]] == 2


def test_every_case_is_in_a_study_that_measures() -> None:
    points = (point for name in shipped_studies() for point in find_study(name).points if point.source == "measure")
    assert {point.target for point in points} >= CASES.keys()


def test_the_page_says_which_points_are_measured() -> None:
    """Cases without all of their points are named with how many lack."""
    recorded = {make_point("measure", one.target, known(one)).key for one in RECORDS}
    study = find_study("h200-systems").points
    assert recorded <= {point.key for point in study}
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{len(recorded)} of the {len(study)} points of the study `h200-systems`" in text
    lacking = Counter(point.target for point in study if point.key not in recorded)
    said = text.partition("**Not measured**:")[2].partition(". ")[0]
    assert {name: int(count) for name, count in re.findall(r"`(\w+)` \((\d+)\)", said)} == lacking


def known(record: Result) -> dict[str, ParamValue]:
    return {name: value for name, value in record.params.items() if value is not None}


def test_the_page_has_the_ratios_of_every_case() -> None:
    ratios: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in RECORDS:
        read, written, predicted_read, predicted_written = bytes_of(record)
        ratios[record.target].append((read / predicted_read, written / predicted_written))
    table = PAGE.read_text(encoding="utf-8").partition("## What differs")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{case}` | {len(seen)} | {cells([read for read, _ in seen])} | {cells([written for _, written in seen])} |"
        for case, seen in sorted(ratios.items())
    ]


def cells(ratios: Sequence[float]) -> str:
    """Return the ratio farthest from 1, and the median."""
    return f"{max(ratios, key=lambda ratio: abs(ratio - 1)):.5f} | {median(ratios):.5f}"
