"""A call in steady state is compared as a whole, its writes at their own place."""

from __future__ import annotations

from ioaware.machine import find_machine_or_file
from ioaware.result import Result, Traffic
from ioaware.simulation.accuracy import PredictedLaunch, Prediction
from ioaware.simulation.accuracy_record.counter_comparison import compare
from ioaware.simulation.accuracy_record.steady_state import CALL, predict_call

MB = 1_000_000
SOFTMAX = Result("measure", "softmax_one_read", {"rows": 64, "cols": 128, "dtype": "float16"})


def test_all_that_a_call_writes_counts() -> None:
    (call,) = predict_call(SOFTMAX, find_machine_or_file("H200")).launches
    assert (call.hbm_read_bytes, call.hbm_write_bytes) == (64 * 128 * 2, 64 * 128 * 2)
    assert (call.requested_read_bytes, call.requested_write_bytes) == (64 * 128 * 2, 64 * 128 * 2)


def test_a_target_that_cannot_be_predicted_has_a_reason() -> None:
    found = predict_call(Result("measure", "nowhere:f", {}), find_machine_or_file("H200"))
    assert "nowhere" in found.failed
    assert not found.launches


def test_steady_writes_of_a_megabyte_have_an_error() -> None:
    measured = Result(
        "measure", "flash2", {"seq_len": 1}, requested=Traffic(9 * MB, 2 * MB), hbm=Traffic(9 * MB, 2 * MB),
        telemetry={"steady_state": {"calls": 3}},
    )  # fmt: skip
    call = PredictedLaunch(CALL, 9 * MB, 2 * MB, 9 * MB, 3 * MB, (0, 9 * MB), (0, None), fills_l2=False)
    found = compare([measured], [], steady=[Prediction("flash2", {"seq_len": 1}, (call,))])
    (outlier,) = found.outliers
    assert outlier.explanation.startswith("temporaries")
    rows = {(row.family, row.place): row for row in found.rows}
    assert rows["flash2", "HBM writes, steady state"].worst == 0.5
    assert rows["held out", "HBM reads"].worst == 0
    assert ("flash2", "HBM writes") not in rows
    assert compare([measured], []).unpredicted


def test_torch_has_causes_of_its_own() -> None:
    target = "ioaware.kernels.attention.pytorch.sdpa_targets:torch_flash"
    measured = Result(
        "measure", target, {"seq_len": 1}, requested=Traffic(9 * MB, 9 * MB), hbm=Traffic(9 * MB, 2 * MB),
        telemetry={"steady_state": {"calls": 3}},
    )  # fmt: skip
    call = PredictedLaunch(CALL, 9 * MB, 2 * MB, 9 * MB, 2 * MB, (0, None), (0, None), fills_l2=False)
    (outlier,) = compare([measured], [], steady=[Prediction(target, {"seq_len": 1}, (call,))]).outliers
    assert outlier.place == "requested writes"
    assert "likely spilled registers" in outlier.explanation
