"""Records of two H200s against the closed forms, and the docs against them."""

from __future__ import annotations

from pathlib import Path

import pytest

import ioaware
from ioaware.bench.multi_gpu.link_record import ExchangeEntry, ExchangeRecord, read_exchanges
from ioaware.bench.statistics import spread
from ioaware.cli.tables.exchange_tables import share_of_gpus
from ioaware.measurement.nvlink import KIB
from tests.support import ROOT

FOLDER = Path(ioaware.__file__).parent / "recorded" / "several_gpus"
LSE_BYTES = 4
LOW_LATENCY = 2**19
"""Largest message that NCCL sent by its protocol LL, which doubles it."""


def records(name: str) -> list[ExchangeRecord]:
    return read_exchanges(FOLDER / f"h200-{name}.jsonl")


def entry(record: ExchangeRecord, name: str) -> ExchangeEntry:
    found = record.entry(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["nvlink", "bytes", "speed"])
def test_records_name_gpu_driver_versions_and_commit_and_their_links_were_idle_before(name: str) -> None:
    for record in records(name):
        assert {"gpu", "driver", "torch", "triton", "nccl", "commit"} <= record.environment.keys()
        assert [gpu["sm_clock_mhz"] > 0 for gpu in record.telemetry] == [True, True]
        if any(one.counted for one in record.entries):
            assert [(gpu.payload_sent, gpu.payload_received) for gpu in record.idle] == [(0, 0), (0, 0)]
            assert max(gpu.raw_received for gpu in record.idle) < 250_000  # of the protocol alone, in half a second
        assert all(one.status == "ok" for one in record.entries)


def test_a_copy_moves_its_payload_to_a_few_steps_of_the_counter_on_every_gpu_in_every_direction() -> None:
    for record in records("nvlink"):
        for name in ("copy", "copy one way"):
            one = entry(record, name)
            for counted, ends in zip(one.counted, one.expected, strict=True):
                assert abs(counted.payload_sent - one.counted_calls * ends.sent) <= 4 * KIB
                assert abs(counted.payload_received - one.counted_calls * ends.received) <= 4 * KIB


@pytest.mark.parametrize(("protocol", "factor"), [("Simple", 1.0), ("LL128", 16 / 15), ("LL", 2.0)])
def test_the_share_of_a_protocol_is_its_flags(protocol: str, factor: float) -> None:
    """LL128 has 8 bytes of flags in 128, LL 4 in 8."""
    for record in records("nvlink"):
        if record.point["size_bytes"] >= 2**24:
            assert entry(record, f"all_gather {protocol}").ratio() == pytest.approx(factor, rel=1e-3)


def test_the_methods_exchange_their_closed_forms_within_a_thousandth_where_transfers_are_plain_copies() -> None:
    found = records("bytes")
    assert sorted({record.point["seq_len"] for record in found}) == [2048, 4096, 8192, 16384, 32768]
    for record in found:
        for name in ("ring", "all_gather", "all_to_all", "square"):
            one = entry(record, name)
            for counted, ends in zip(one.counted, one.expected, strict=True):
                # A square's log-sum-exp is the only small message: below the limit it is sent twice as large.
                lse = LSE_BYTES * record.point["heads"] * record.point["seq_len"] // 2 if name == "square" else 0
                twice = lse if lse <= LOW_LATENCY else 0
                assert counted.payload_sent == pytest.approx(one.counted_calls * (ends.sent + twice), rel=1e-3)
                assert counted.payload_received == pytest.approx(one.counted_calls * (ends.received + twice), rel=1e-3)


def test_the_page_shows_the_recorded_speeds() -> None:
    page = (ROOT / "docs" / "context-parallel.md").read_text(encoding="utf-8")
    for record in records("speed"):
        for one in record.entries:
            share = share_of_gpus(record, one)
            if share is not None:
                assert f"{spread(one.times_ns).median / 1e6:.1f} ({100 * share:.0f} %)" in page


def test_the_ring_reaches_nine_tenths_of_two_gpus_from_131072_on_and_is_faster_than_torch() -> None:
    for record in records("speed"):
        ring = entry(record, "ring")
        torchs = [one for one in record.entries if one.name.startswith("torch")]
        assert all(spread(ring.times_ns).median < spread(one.times_ns).median for one in torchs)
        assert record.environment["commit"][-6:] != "-dirty"
        if record.point["seq_len"] >= 131072:
            share = share_of_gpus(record, ring)
            assert share is not None
            assert share >= 0.9
