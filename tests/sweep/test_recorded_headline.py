"""Records of the headline table, training, fused kernels, errors; their page."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioaware.bench.statistics import paired_ratio
from ioaware.bench.training.training_summary import curve_sentences, tokens_per_second
from ioaware.cases import CASES
from ioaware.prediction import predict
from ioaware.report.attention.fused_rows import READS, matrix_bytes
from ioaware.result import BYTES_HOLD, Result
from ioaware.sweep.claim_evidence import recorded_errors, recorded_fusion, recorded_headline, recorded_training

PAGE = (Path(__file__).parents[2] / "docs" / "results" / "headline.md").read_text(encoding="utf-8")
HEADLINE, FUSION, TRAINING, ERRORS = recorded_headline(), recorded_fusion(), recorded_training(), recorded_errors()
OFFSETS = (0, 4, 16, 64, 256, 1024)


@pytest.mark.parametrize("record", [*HEADLINE, *FUSION], ids=lambda one: one.target.rpartition(":")[2])
def test_every_record_has_a_commit_and_a_passed_check(record: Result) -> None:
    assert record.environment is not None
    assert "dirty" not in record.environment["commit"]
    assert record.status in BYTES_HOLD
    assert record.check is not None
    assert record.check.passed


@pytest.mark.parametrize("record", [one for one in HEADLINE if one.target in CASES], ids=lambda one: one.target)
def test_counted_writes_are_the_closed_forms_and_reads_at_most(record: Result) -> None:
    closed = predict(record.target, **dict(record.params)).requested  # pyright: ignore[reportArgumentType]
    assert closed is not None
    assert record.requested is not None
    assert record.requested.write_bytes == pytest.approx(closed.write_bytes, rel=1e-3)
    assert 0.7 * (closed.read_bytes or 0) < (record.requested.read_bytes or 0) <= 1.001 * (closed.read_bytes or 0)


@pytest.mark.parametrize("record", FUSION, ids=lambda one: f"{one.params['program']}-{one.params['form']}")
def test_fused_kernels_read_their_inputs_as_often_as_predicted(record: Result) -> None:
    """To the byte; a row's result of 4 bytes is written as a sector of 32."""
    before, after = READS[str(record.params["program"])]
    assert record.requested is not None
    assert record.requested.read_bytes == matrix_bytes(record) * (after if record.params["form"] == "fused" else before)
    assert record.requested.write_bytes == 32 * int(record.params["rows"] or 0)


def test_losses_are_within_the_noise_of_each_other() -> None:
    """Attentions differ by less than a hundredth of what two seeds do."""
    first, second = (record for record in TRAINING if record.point.kind == "loss")
    for record in (first, second):
        base = record.entry("sdpa")
        assert base is not None
        for entry in record.entries:
            assert max(abs(a - b) for a, b in zip(entry.losses, base.losses, strict=True)) < 0.005
    assert all(entry.status == "ok" for record in TRAINING for entry in record.entries)


def table() -> Iterator[str]:
    for one in HEADLINE:
        assert one.requested is not None
        assert one.hbm is not None
        time = f"{(one.time_ns or 0) / 1e6:.3f}" if one.status == "ok" else "throttled"
        moved = [(one.requested.total_bytes or 0) / 1e9, (one.hbm.total_bytes or 0) / 1e9]
        yield f"| `{one.target.rpartition(':')[2]}` | {moved[0]:.3f} | {moved[1]:.3f} | {time} |"


def training() -> Iterator[str]:
    for record in TRAINING:
        other = record.entry("sdpa")
        for entry in record.entries:
            if entry.step_ns and other is not None:
                words = f"| {record.point.model} | {record.point.seq_len:,} | {entry.attention} "
                rate = tokens_per_second(record, entry.attention) or 0
                ratio = paired_ratio(other.step_ns, entry.step_ns).median
                memory = (entry.peak_bytes or 0) / 1e9
                yield words + f"| {statistics.median(entry.step_ns) / 1e6:.2f} | {rate:,.0f} | {ratio:.3f} | {memory:.1f} |"


def errors() -> Iterator[str]:
    for name in dict.fromkeys(one.attention for one in ERRORS):
        own = [one for one in ERRORS if (one.attention, one.seq_len, one.block_n) == (name, 1024, 64)]
        plain = {one.key_offset: one.dq_error for one in own if not one.centred}
        repaired = max(one.dq_error for one in own if one.centred)
        yield f"| {name} | " + " | ".join(f"{plain[offset]:.1e}" for offset in OFFSETS) + f" | {repaired:.1e} |"


def fused() -> Iterator[str]:
    for one in FUSION:
        assert one.requested is not None
        reads = (one.requested.read_bytes or 0) / matrix_bytes(one)
        yield f"| {one.params['program']} | {one.params['form']} | {reads:.5f} | {(one.time_ns or 0) / 1e3:.1f} |"


@pytest.mark.parametrize("rows", [table, training, errors, fused], ids=lambda rows: rows.__name__)
def test_the_page_has_the_recorded_numbers(rows: object) -> None:
    assert callable(rows)
    assert [line for line in rows() if line not in PAGE] == []


def test_the_page_has_the_distances_of_the_loss_curves() -> None:
    curves = [record for record in TRAINING if record.point.kind == "loss"]
    assert [line for line in curve_sentences(curves) if line not in PAGE] == []
