from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware.bench.bench_records import append_record, check_same_run
from ioaware.bench.multi_gpu.exchange_points import SIZES, exchange_grid
from ioaware.bench.multi_gpu.launch_ranks import NO_MULTICAST, Ranks, measured_records, merge
from ioaware.bench.multi_gpu.link_record import (
    Ends,
    ExchangeEntry,
    ExchangeRecord,
    read_exchanges,
)
from ioaware.bench.multi_gpu.rank_attention import METHODS, ONE_GPU, TORCH
from ioaware.bench.multi_gpu.rank_links import expected_link_ends
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.cli.tables.exchange_tables import exchange_text, share_of_gpus
from ioaware.errors import DataError, MachineError, UsageError
from ioaware.measurement.nvlink import FIELDS, KIB, LinkBytes, link_bytes
from ioaware.measurement.nvml import Gpu, open_uuid
from tests.support.fakes import UUID, FakeNvml
from tests.support.ranks import on_ranks

PROGRAMS = "tests.bench.multi_gpu.exchange_programs"
ENVIRONMENT = {"gpu": "NVIDIA H200", "driver": "580", "torch": "2.11", "gpus": 2, "nccl": "2.28"}


class LinkNvml(FakeNvml):
    """NVML whose counters are four numbers of KiB."""

    refused = 0

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[tuple[int, int]]) -> list[Any]:
        assert [scope for _, scope in fields] == [0xFFFFFFFF] * 4

        class Value:
            def __init__(self, kib: int, refused: int) -> None:
                self.nvmlReturn, self.value = refused, type("Union", (), {"ullVal": kib})

        order = list(FIELDS.values())
        return [Value(10 + order.index(field), self.refused) for field, _ in fields]


def test_counters_are_kib_of_payload_and_raw_bytes_apart() -> None:
    gpu = open_uuid(LinkNvml(), UUID.removeprefix("GPU-"))
    found = link_bytes(gpu)
    assert found == LinkBytes(10 * KIB, 11 * KIB, 12 * KIB, 13 * KIB)
    assert found - LinkBytes(KIB, 0, 0, 13 * KIB) == LinkBytes(9 * KIB, 11 * KIB, 12 * KIB, 0)


def test_a_gpu_without_counters_is_one_error() -> None:
    nvml = LinkNvml()
    nvml.refused = 3
    with pytest.raises(MachineError, match="no counters of NVLink bytes for this NVIDIA H200"):
        link_bytes(Gpu(nvml, UUID))
    with pytest.raises(MachineError, match="no counters of NVLink bytes"):
        link_bytes(Gpu(FakeNvml(), UUID))
    with pytest.raises(MachineError, match="NVML does not see a GPU that CUDA sees"):
        open_uuid(FakeNvml(), "GPU-another")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_measure_every_entry_and_their_answers_merge(ranks: int, tmp_path: Path) -> None:
    points = [point.to_dict() for point in exchange_grid(ranks, (), (16,), 4, 2, 8, "bfloat16", causal=True)]
    names = [ONE_GPU, *METHODS, *list(TORCH)[:1]]
    answers = on_ranks(f"{PROGRAMS}:measured", ranks, tmp_path, points=points, names=names)
    for index, point in enumerate(points):
        record = merge("context-parallel", point, [rank[index] for rank in answers], ENVIRONMENT, idle_s=0.0)
        assert [entry.name for entry in record.entries] == names
        for entry in record.entries[:-1]:
            assert (entry.status, len(entry.times_ns)) == ("ok", 2), entry
            if entry.name == ONE_GPU:
                continue
            assert entry.relative_error is not None
            assert entry.relative_error < 2e-2
        assert record.entries[-1].status == "failed"  # torch's has no attention of these back ends on a CPU
        ring, square = record.entry("ring"), record.entry("square")
        assert ring is not None
        assert square is not None
        factor = {"forward": 1, "backward": 3}[point["pass"]]  # dK and dV besides, in float32
        assert len(set(ring.expected)) == 1
        rows = 16 * (ranks - 1) // ranks  # of K and V: 2 heads, 8 columns, 2 bytes
        assert ring.expected[0].received == 2 * 2 * rows * 8 * 2 * factor
        assert square.ratio() == square.counted_calls * ranks * 2 * KIB / (
            square.counted_calls * sum(ends.received + ends.sent for ends in square.expected)
        )


def test_the_square_of_a_bench_is_the_squarest_with_more_than_one_column() -> None:
    grids = [exchange_grid(gpus, (), (64,), 8, 8, 8, "bfloat16", causal=True)[0].square_grid for gpus in (2, 3, 4, 6, 8)]
    assert grids == [(1, 2), (1, 3), (2, 2), (3, 2), (4, 2)]


@pytest.mark.slow
def test_a_wrong_output_on_one_rank_is_wrong_and_never_timed(tmp_path: Path) -> None:
    points = [point.to_dict() for point in exchange_grid(2, ("forward",), (16,), 4, 2, 8, "bfloat16", causal=True)]
    answers = on_ranks(f"{PROGRAMS}:measured", 2, tmp_path, points=points, names=["ring"], wrong=True)
    (entry,) = merge("context-parallel", points[0], [rank[0] for rank in answers], ENVIRONMENT, idle_s=0.0).entries
    assert (entry.status, entry.times_ns, entry.counted) == ("wrong", (), ())
    assert "relative error above" in entry.reason


def record(**changes: Any) -> ExchangeRecord:
    (point,) = exchange_grid(2, ("forward",), (1024,), 4, 4, 64, "float16", causal=True)
    counted = tuple(LinkBytes(2 * 10240, 2 * 10240, 2 * 12288, 2 * 12288) for _ in range(2))
    ring = ExchangeEntry("ring", "ok", "", (60.0, 50.0), 1e-3, 2, counted, (Ends(10240, 10240),) * 2)
    entries = (ExchangeEntry(ONE_GPU, "ok", "", (100.0, 90.0), 0.0), ring, ExchangeEntry("torch", "failed", "why"))
    whole = ExchangeRecord("context-parallel", point.to_dict(), entries, 1.0, counted, ({"sm_clock_mhz": 1980},), ENVIRONMENT)
    return replace(whole, **changes)


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    links = ExchangeRecord("nvlink", {"size_bytes": 8, "gpus": 2}, (ExchangeEntry("copy", "wrong", "why"),))
    for one in (record(), links):
        append_record(file, one)
    assert read_exchanges(file) == [record(), links]
    check_same_run(file, [record()], ENVIRONMENT)
    with pytest.raises(UsageError, match="driver was 580, now it is 590"):
        check_same_run(file, [record()], ENVIRONMENT | {"driver": "590"})
    no_entry = {"entries": [{"name": "x", "status": "fast"}]}
    for change in (no_entry, {"point": {"gpus": None}}, {"point": {"gpus": "2"}}, {"schema": True}):
        file.write_text(json.dumps(record().to_dict() | change))
        with pytest.raises(DataError, match=":1: not a record of an exchange"):
            read_exchanges(file)


def test_the_table_shows_shares_and_ratios() -> None:
    ring = record().entry("ring")
    assert ring
    assert (ring.ratio(), ring.ratio(raw=True)) == (1.0, 1.2)
    share = share_of_gpus(record(), ring)
    assert share == pytest.approx((100 / 60 + 90 / 50) / 2 / 2)
    shown = [str(part) for part in exchange_text([record()])]
    assert shown[0].startswith("2 x NVIDIA H200")
    assert shown[-1].endswith("torch: failed: why")


def test_a_copy_one_way_and_a_gather_have_these_ends() -> None:
    assert expected_link_ends("copy one way", 8, 3) == (Ends(0, 8), Ends(8, 0), Ends(0, 0))
    assert expected_link_ends("all_gather LL", 8, 3) == (Ends(16, 16),) * 3
    assert expected_link_ends("send", 8, 2) == (Ends(8, 8),) * 2


def worker(text: str) -> list[str]:
    return [sys.executable, "-c", f"import json, os, sys, time\norder = json.load(sys.stdin)\nrank = order['rank']\n{text}"]


def test_a_rank_that_ends_fails_or_hangs_is_one_error() -> None:
    with Ranks({}, 2, worker=worker("print('{}', flush=True)\nif rank: sys.exit('lost the GPU')\ntime.sleep(60)")) as ranks:
        ranks.next()
        with pytest.raises(MachineError, match="rank 1 ended early") as ended:
            ranks.next()
        assert "lost the GPU" in ended.value.remedy
    with (
        Ranks({}, 1, worker=worker("print(json.dumps({'error': 'no GPU', 'remedy': 'buy one'}))")) as ranks,
        pytest.raises(MachineError, match="rank 0: no GPU"),
    ):
        ranks.next()
    with (
        Ranks({}, 1, worker=worker("time.sleep(60)"), limit_s=0.1) as ranks,
        pytest.raises(MachineError, match="did not answer for 0 s"),
    ):
        ranks.next()


def test_multicast_stays_off_in_every_rank() -> None:
    with Ranks({}, 1, worker=worker("print(json.dumps(dict(os.environ)))")) as ranks:
        (environment,) = ranks.next()
    assert NO_MULTICAST.items() <= environment.items()


def test_answers_become_records_in_the_points_order() -> None:
    answer = {"entries": {"copy": {"status": "ok", "times_ns": [5.0]}}, "idle": None, "telemetry": {}}
    with Ranks({}, 2, worker=worker(f"for _ in range(2): print({json.dumps(json.dumps(answer))})")) as ranks:
        found = list(measured_records("nvlink", SIZES[:2], ranks, ENVIRONMENT, idle_s=0.0))
    assert [one.point["size_bytes"] for one in found] == list(SIZES[:2])
    assert found[0].entries[0].times_ns == (5.0,)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["context-parallel"], 5, "needs 2 GPUs, torch sees 0"),
        (["nvlink", "--gpus", "4"], 5, "needs 4 GPUs"),
        (["context-parallel", "--kv-len", "9"], 2, "has no --kv-len: it belongs to bench attention"),
        (["attention", "--gpus", "2"], 2, "has no --gpus: it belongs to bench context-parallel and nvlink"),
        (["attention", "--rounds", "0"], 2, "needs --rounds of at least 1"),
    ],
)
def test_bad_options_and_no_gpus(
    arguments: list[str], code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert run(["bench", *arguments], Settings()) == code
    assert text in capsys.readouterr().err
