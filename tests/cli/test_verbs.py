"""Every verb end to end: JSON by its schema, text, exit codes.

The text has the same numbers.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ioaware.analysis.theory.claims.claim import Claim
from ioaware.cases import CASES
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.cli.reports import report_data
from ioaware.result import Check, Launch, Result, Timing, Traffic
from ioaware.result_file import read_jsonl
from ioaware.sweep import claim_evidence, verify

PREDICTED = ["predict", "flash2", "-p", "seq_len=256"]
STUDY = """
[[grid]]
sources = ["predict"]
targets = ["flash2"]
params = { seq_len = [64, 128, 192], block_m = 32 }
"""


@pytest.fixture
def output_of(capsys: pytest.CaptureFixture[str]):
    """Run a command line and check its exit code. Return stdout."""

    def run_verb(*arguments: str, code: int = 0) -> str:
        assert run([*map(str, arguments)], Settings()) == code
        return capsys.readouterr().out

    return run_verb


def test_list_as_json(output_of) -> None:
    data = json.loads(output_of("list", "--json"))
    assert data["schema"] == 1
    assert [case["name"] for case in data["cases"]] == list(CASES)
    assert len(CASES) >= 3
    assert {"name": "head_dim", "kind": "int", "default": 64, "help": "d"} in data["cases"][0]["params"]
    assert "forward" in {study["name"] for study in data["studies"]}
    assert "H200" in {machine["name"] for machine in data["machines"]}


def test_list_as_text_has_every_name(output_of) -> None:
    text = output_of("list")
    data = json.loads(output_of("list", "--json"))
    for name in ("cases", "studies", "machines"):
        assert all(row["name"] in text for row in data[name])


def test_predict_as_json_is_the_result(output_of) -> None:
    from ioaware import predict

    assert json.loads(output_of(*PREDICTED, "--json")) == json.loads(json.dumps(predict("flash2", seq_len=256).to_dict()))


def test_predict_as_text_has_the_same_numbers(output_of) -> None:
    data = json.loads(output_of(*PREDICTED, "--json"))
    text = output_of(*PREDICTED)
    requested = data["requested"]
    for number in (requested["read_bytes"], requested["write_bytes"], data["flops"], data["lower_bound_bytes"]):
        assert f"{number:,}" in text
    assert requested["read_formula"] in text


def test_predict_for_another_machine(output_of) -> None:
    smaller = json.loads(output_of(*PREDICTED, "--machine", "L40S", "--json"))
    assert any("L40S" in note for note in smaller["notes"])
    output_of(*PREDICTED, "--machine", "H2OO", code=2)


def test_every_launch_has_its_formula_under_v(output_of) -> None:
    short, long = output_of("predict", "standard"), output_of("predict", "standard", "-v")
    assert long.count("requested reads") == short.count("requested reads") + 3


def test_output_goes_to_the_file_of_o(output_of, tmp_path: Path) -> None:
    assert output_of(*PREDICTED, "--json", "-o", tmp_path / "result.json") == ""
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(output_of(*PREDICTED, "--json"))
    assert output_of(*PREDICTED, "-o", tmp_path / "result.txt") == ""
    assert (tmp_path / "result.txt").read_text() == output_of(*PREDICTED)
    output_of(*PREDICTED, "-o", tmp_path / "missing" / "result.txt", code=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "result.txt"]


def test_trace_agrees_with_predict(output_of) -> None:
    arguments = ["flash2", "-p", "seq_len=64", "-p", "head_dim=16", "-p", "block_m=32", "-p", "block_n=32", "--json"]
    traced, predicted = json.loads(output_of("trace", *arguments)), json.loads(output_of("predict", *arguments))
    assert traced["source"] == "trace"
    for name in ("read_bytes", "write_bytes"):
        assert traced["requested"][name] == predicted["requested"][name]
    assert traced["check"]["relative_error"] <= traced["check"]["tolerance"]


RESULT = Result(
    "measure",
    "flash2",
    {"seq_len": 128},
    requested=Traffic(9_000, 1_000, 0, 9_600, 1_024),
    hbm=Traffic(4_000, 500),
    compulsory=Traffic(3_000, 500),
    flops=2_000_000,
    time_ns=1_000.0,
    timing=Timing(1_000.0, 990.0, 1_010.0, 980.0, 20),
    telemetry={"sm_clock_mhz": 1980},
    check=Check(1e-4, 2e-3),
    launches=(Launch("flash2_kernel", (2, 1, 1), time_ns=1_000.0), Launch("at::zeros", origin="torch")),
    notes=("printed \x1b[31mloudly",),
)


def replace_measure(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Replace `measure` by a function that returns RESULT with changes."""
    import dataclasses

    from ioaware.measurement import measure

    monkeypatch.setattr(measure, "measure", lambda *a, **k: dataclasses.replace(RESULT, **changes))


def test_measure_shows_bytes_time_and_rates(output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_measure(monkeypatch)
    text = output_of("measure", "flash2")
    for words in ("9,000 B", "4,000 B", "2 TFLOP/s", "10 GB/s", "4.5 GB/s", "status", "(torch)", "\\x1b[31m"):
        assert words in text
    assert "\x1b" not in text
    assert "sm_clock_mhz" not in text
    assert "sm_clock_mhz" in output_of("measure", "flash2", "-v")


def test_a_wrong_output_is_1_and_has_no_speed(output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_measure(monkeypatch, check=Check(0.5, 2e-3))
    text = output_of("measure", "flash2", code=1)
    assert "FAILED" in text
    assert "TFLOP/s" not in text


@pytest.mark.parametrize("error", [float("nan"), float("inf")])
def test_an_output_that_is_not_finite_is_1(error: float, output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_measure(monkeypatch, check=Check(error, 2e-3))
    assert "FAILED" in output_of("measure", "flash2", code=1)


@pytest.mark.parametrize("status", ["failed", "unstable", "impossible"])
def test_unreliable_numbers_are_3(status: str, output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_measure(monkeypatch, status=status)
    assert status in output_of("measure", "flash2", code=3)


def test_a_throttled_point_keeps_its_bytes_but_has_no_speed(output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_measure(monkeypatch, status="throttled")
    text = output_of("measure", "flash2")
    assert "9,000 B" in text
    assert "the clocks changed" in text
    assert "TFLOP/s" not in text


def test_doctor_lists_what_works(output_of) -> None:
    data = json.loads(output_of("doctor", "--json"))
    assert data["trace"] is True
    assert {finding["name"] for finding in data["findings"]} >= {"python", "torch", "triton", "ncu"}
    text = output_of("doctor")
    assert all(finding["detail"] in text for finding in data["findings"])
    assert text.splitlines()[-1].startswith("works here: predict, derive, explain, trace, verify, report")


def test_doctor_is_5_where_nothing_can_be_traced(output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    from ioaware.measurement import doctor

    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("torch", False, "not installed", "pip install torch")])
    text = output_of("doctor", code=5)
    assert "pip install torch" in text
    assert text.splitlines()[-1] == "works here: predict"


def claim(verdict: Any) -> Claim:
    """Return a claim with one row of each kind of evidence."""
    part = {"part": "a", "says": "bytes agree", "expected": "1", "observed": "1", "points": 1, "verdict": verdict}
    power = {
        "quantity": "bytes",
        "variable": "N",
        "exponent": 1.99,
        "low": 1.98,
        "high": None,
        "expected": 2.0,
        "points": 9,
        "verdict": "not judged",
    }
    point = {"part": "a", "where": "flash2 N=64", "expected": 8, "observed": 8}
    found = {"parts": [part], "exponents": [power], "points": [point], "notes": ["a remark"]}
    return Claim("theorem9", "Bytes are bytes.", "invented", verdict, found)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["holds", "holds"], 0),
        (["holds", "fails"], 1),
        (["fails", "inconclusive"], 1),
        (["holds", "inconclusive"], 3),
        ([], 3),
    ],
)
def test_verify_exits_with_its_verdict(verdicts: list[str], code: int, output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "verify", lambda names, progress: [claim(verdict) for verdict in verdicts])
    data = json.loads(output_of("verify", "--json", code=code))
    assert [row["verdict"] for row in data["claims"]] == verdicts
    text = output_of("verify", code=code)
    assert [line.split()[:2] for line in text.splitlines()] == [[verdict, "theorem9"] for verdict in verdicts]


def test_verify_shows_its_evidence_where_one_claim_is_named(output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "verify", lambda names, progress: [claim("holds")])
    words = ("bytes agree", "1.9900", "1.9800 to –", "not judged", "note: a remark")
    summary, named = output_of("verify"), output_of("verify", "theorem9")
    assert summary == "holds         theorem9  Bytes are bytes.  [invented]\n"
    assert named.startswith(summary)
    assert all(word in named for word in words)
    assert "flash2 N=64" not in named
    assert all(word in output_of("verify", "-v") for word in (*words, "flash2 N=64"))


def test_an_unknown_claim_is_refused_with_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "theorem3"], Settings()) == 2
    assert "theorem1, theorem2" in capsys.readouterr().err


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY)
    return path


def test_sweep_fills_a_store_and_goes_on(output_of, study: Path, tmp_path: Path) -> None:
    store = tmp_path / "tiny.db"
    assert output_of("sweep", study, "--store", store).rstrip().endswith("3 ok (3 run now)")
    again = json.loads(output_of("sweep", study, "--store", store, "--json"))
    assert (again["points"], again["statuses"], again["asked_now"]) == (3, {"ok": 3}, 0)


def test_sweep_shows_progress_on_stderr_unless_quiet(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["sweep", str(study), "--store", str(tmp_path / "a.db"), "--json"], Settings())
    loud = capsys.readouterr()
    run(["sweep", str(study), "--store", str(tmp_path / "b.db"), "--json", "-q"], Settings())
    quiet = capsys.readouterr()
    assert "3/3 predict flash2" in loud.err
    assert quiet.err == ""
    assert json.loads(loud.out)["statuses"] == json.loads(quiet.out)["statuses"]


def test_points_that_stay_open_are_5(output_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that this machine cannot run are open, not failed.

    A failure gives another code.
    """
    monkeypatch.setattr("ioaware.sweep.runner.gpu_name", lambda: "no GPU")
    monkeypatch.setattr("ioaware.sweep.gpu_name.gpu_name", lambda: "no GPU")
    study, store = tmp_path / "open.toml", tmp_path / "open.db"
    study.write_text('[[grid]]\nsources = ["predict", "measure"]\ntargets = ["flash2"]\nparams = { seq_len = 64 }\n')
    text = output_of("sweep", study, "--store", store, code=5)
    assert "1 ok, 1 open" in text
    assert "not run here: measure" in text
    assert output_of("sweep", study, "--store", store, "--source", "predict", code=0)
    assert output_of("sweep", study, "--store", store, code=5)


def test_a_point_that_fails_is_3_now_and_later(output_of, tmp_path: Path) -> None:
    """A later run that runs no point still reports the failure."""
    study = tmp_path / "broken.toml"
    study.write_text(f'[[grid]]\nsources = ["trace"]\ntargets = ["{tmp_path}/broken.py:work"]\n')
    (tmp_path / "broken.py").write_text("def work():\n    raise RuntimeError('broken on purpose')\n")
    store = tmp_path / "broken.db"
    assert "broken on purpose" in output_of("sweep", study, "--store", store, code=3)
    assert "1 failed (0 run now)" in output_of("sweep", study, "--store", store, code=3)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_export(ending: str, output_of, study: Path, tmp_path: Path) -> None:
    store, file = tmp_path / "tiny.db", tmp_path / f"out.{ending}"
    output_of("sweep", study, "--store", store)
    assert output_of("export", "--store", store, "-o", file) == ""
    if ending == "csv":
        sizes = [int(row["params.seq_len"]) for row in csv.DictReader(file.read_text().splitlines())]
    else:
        sizes = [result.params["seq_len"] for result in read_jsonl(file)]
    assert sorted(sizes) == [64, 128, 192]


def test_export_never_replaces_the_store(output_of, study: Path, tmp_path: Path) -> None:
    store, link = tmp_path / "points.db", tmp_path / "link.csv"
    output_of("sweep", study, "--store", store)
    link.symlink_to(store)
    before = store.read_bytes()
    for output in (store, link):
        output_of("export", "--store", store, "-o", output, "--format", "csv", code=2)
    assert store.read_bytes() == before
    assert link.is_symlink()


@pytest.mark.parametrize("verb", [PREDICTED, ["export", "--store"]], ids=["predict", "export"])
def test_a_device_is_written_and_not_replaced(verb: list[str], output_of, study: Path, tmp_path: Path) -> None:
    if verb[0] == "export":
        output_of("sweep", study, "--store", tmp_path / "points.db")
        verb = [*verb, tmp_path / "points.db", "--format", "csv"]
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    output_of(*verb, "-o", null)
    assert null.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_export_refuses_other_files(output_of, tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(b"noise" * 100)
    output_of("export", "--store", tmp_path / "noise.db", "-o", tmp_path / "out.csv", code=6)
    output_of("export", "--store", tmp_path / "missing.db", "-o", tmp_path / "out.csv", code=2)
    assert not (tmp_path / "out.csv").exists()


def test_report_writes_its_files_and_prints_the_path(
    output_of, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_data, "THEORY", str(study))
    monkeypatch.setattr(verify, "verify", lambda measurements, known: [])
    monkeypatch.setattr(verify, "runs", list)
    monkeypatch.setattr(claim_evidence, "recorded_measurements", list)
    monkeypatch.setattr(report_data, "system_points", list)
    monkeypatch.setattr(report_data, "walks", list)
    monkeypatch.setattr("ioaware.sweep.gpu_name.gpu_name", lambda: "no GPU")
    path = Path(output_of("report", "-o", tmp_path / "out").strip())
    assert path == tmp_path / "out" / "report.html"
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert list((tmp_path / "out").glob("*.png"))
