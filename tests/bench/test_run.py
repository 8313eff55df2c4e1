"""One point of a race on a fake GPU, from inputs to record.

The tests cover checks, statuses and reasons.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ioaware.bench.attention_points import Point, grid
from ioaware.bench.backend import BackEnd
from ioaware.bench.reference import Reference, sampled, tolerance
from ioaware.bench.run import measure, run
from ioaware.bench.workload import sets
from ioaware.errors import MachineError
from tests.support.fake_race import (
    BACK,
    COPY_BYTES_PER_S,
    DECODE,
    MATMUL_FLOPS_PER_S,
    SMALL,
    FakeDevice,
    crashing,
    ends,
    exact,
    refusing,
    session,
    unwritten_row,
    wrong,
)
from tests.support.fakes import FakeNvml


@pytest.mark.parametrize("point", [SMALL, BACK, DECODE], ids=lambda p: p.what)
def test_correct_back_ends_have_times_and_others_a_reason(point: Point) -> None:
    device = FakeDevice({"ioaware": 100.0, "cudnn": 110.0})
    field = [
        *ends(ioaware=exact, cudnn=exact, flash=wrong, flex=crashing, efficient=refusing, tutorial=unwritten_row),
        BackEnd("flashinfer", exact, needs="no_such_module"),
    ]
    record = measure(point, field, session(device), 5, {})
    statuses = {entry.name: entry.status for entry in record.entries}
    assert statuses == {
        "ioaware": "ok",
        "cudnn": "ok",
        "flash": "wrong",
        "flex": "failed",
        "efficient": "unsupported",
        "tutorial": "wrong",
        "flashinfer": "absent",
    }
    own = record.entry("ioaware")
    assert own is not None
    assert len(own.times_ns) == 5
    assert (own.ran, own.host_us, own.graph) == ("exact: requested", 12.0, True)
    assert own.relative_error is not None
    assert 0 < own.relative_error < 2e-3
    reasons = {entry.name: entry.reason for entry in record.entries}
    assert reasons["flex"] == "RuntimeError: out of shared memory"
    assert reasons["efficient"] == "not at this head_dim"
    assert reasons["flash"].startswith("relative error 0.05")
    assert reasons["flashinfer"] == "no_such_module is not installed"
    assert not any(entry.times_ns for entry in record.entries if entry.status != "ok")
    assert record.matmul_flops_per_s[0] == pytest.approx(MATMUL_FLOPS_PER_S / 1.01)  # the first round is dropped
    assert record.copy_bytes_per_s[0] == pytest.approx(COPY_BYTES_PER_S / 1.01)
    assert device.poisoned == (4 if point.what == "backward" else 5)  # flex crashes in the forward pass before it


def test_a_back_end_wrong_after_the_race_has_no_times() -> None:
    """As with a graph whose input tensors were freed.

    Their memory has other contents by then.
    """
    calls = 0

    def decaying(point: Point):
        def forward(q, k, v):
            nonlocal calls
            calls += 1
            return exact(point).forward(q, k, v) * (1.0 if calls < 5 else 0.9)

        return replace(exact(point), forward=forward)

    record = measure(SMALL, ends(ioaware=exact, flex=decaying), session(FakeDevice({"ioaware": 1.0, "flex": 0.1})), 5, {})
    assert [entry.status for entry in record.entries] == ["ok", "wrong"]
    assert record.entries[1].times_ns == ()
    assert "after the race" in record.entries[1].reason


def test_failures_of_precompilation_are_not_tried_again() -> None:
    tried = []

    def prepare(point: Point):
        tried.append(point)
        return exact(point)

    record = measure(
        SMALL, [BackEnd("flex", prepare)], session(FakeDevice()), 3, {(SMALL, "flex"): ("failed", "its process died")}
    )
    assert not tried
    assert (record.entries[0].status, record.entries[0].reason) == ("failed", "its process died")


def test_a_lost_context_ends_the_run_and_names_the_back_end() -> None:
    with pytest.raises(MachineError) as ended:
        measure(SMALL, ends(flex=crashing), session(FakeDevice(lost=True)), 3, {})
    assert "flex at forward d=8 causal N=16" in ended.value.what


def test_clocks_and_other_processes_are_in_the_record() -> None:
    clocks = iter([1980, *[1900] * 3, 1500, *[1900] * 20])
    record = measure(SMALL, ends(), session(FakeDevice(), FakeNvml(clocks=clocks, reasons=4, processes=lambda: (77,))), 5, {})
    seen = record.telemetry
    assert seen["sm_clock_mhz"] == {"min": 1500, "median": 1900, "max": 1900}
    assert seen["power_mw"]["median"] == 310_000
    assert seen["throttled"][0].split(" (")[0] == "software power cap"
    assert "SM clock stepped" in seen["throttled"][-1]
    assert "1 other process" in seen["unstable"][0]


def test_the_run_stops_between_points_and_returns_those_left() -> None:
    done = []
    left = run(
        [SMALL, BACK, DECODE],
        ends(ioaware=exact),
        session(FakeDevice({"ioaware": 1.0})),
        rounds=2,
        exclusions={},
        enough=lambda: len(done) == 1,
        done=done.append,
    )
    assert [record.point for record in done] == [SMALL]
    assert left == [BACK, DECODE]


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_is_attention_and_its_gradients(causal: bool) -> None:
    """Compared with autograd in float64.

    The cases have grouped heads and more keys than queries.
    """
    torch.manual_seed(0)
    point = Point("backward", 2, 4, 2, 6, 9, 8, causal, "float16")
    q, do = torch.randn(2, 4, 6, 8, dtype=torch.float64), torch.randn(2, 4, 6, 8, dtype=torch.float64)
    k, v = torch.randn(2, 2, 2, 9, 8, dtype=torch.float64)
    leaves = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
    s = leaves[0] @ leaves[1].repeat_interleave(2, 1).transpose(-1, -2) / 8**0.5
    if causal:
        s = s.masked_fill(~torch.ones(6, 9, dtype=torch.bool).tril(3), float("-inf"))
    o = torch.softmax(s, -1) @ leaves[2].repeat_interleave(2, 1)
    gradients = torch.autograd.grad(o, leaves, do)
    assert Reference(point, (q, k, v, do)).error(gradients) < 1e-12
    assert Reference(Point("forward", 2, 4, 2, 6, 9, 8, causal, "float16"), (q, k, v)).error((o,)) < 1e-12
    assert Reference(point, (q, k, v, do)).error((gradients[0], gradients[1], 1.01 * gradients[2])) == pytest.approx(0.01)


def test_the_number_of_checked_heads_is_bounded_by_their_cost() -> None:
    for point in grid():
        heads = sampled(point)
        assert heads[-1] == point.batch * point.kv_heads - 1
        assert len(heads) * point.heads // point.kv_heads * point.seq_len * point.kv_len <= max(2**27, 2**28)
        assert len(set(heads)) == len(heads)
    assert len(sampled(grid(["forward"], [256], [512])[0])) == 32 * 8
    assert tolerance(BACK) == 2 * tolerance(SMALL)


def test_decode_cycles_through_inputs_larger_than_any_cache() -> None:
    for point in grid():
        assert sets(point) * point.compulsory_bytes >= 2**30 if point.what == "decode" else sets(point) == 1
