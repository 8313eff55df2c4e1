"""Each verb end to end in this process: JSON as the contract says, text with the same numbers, exit codes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ioaware.analysis.theory.claims.claim import Claim
from ioaware.cases import CASES
from ioaware.cli import report_data
from ioaware.cli.main import run
from ioaware.cli.options import Settings
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
def said(capsys: pytest.CaptureFixture[str]):
    """Runs a command line, expects its exit code, gives what it wrote to stdout."""

    def ask(*arguments: str, code: int = 0) -> str:
        assert run([*map(str, arguments)], Settings()) == code
        return capsys.readouterr().out

    return ask


def test_list_as_json(said) -> None:
    data = json.loads(said("list", "--json"))
    assert data["schema"] == 1
    assert [case["name"] for case in data["cases"]] == list(CASES)
    assert len(CASES) >= 3
    assert {"name": "head_dim", "kind": "int", "default": 64, "help": "d"} in data["cases"][0]["params"]
    assert "forward" in {study["name"] for study in data["studies"]}
    assert "H200" in {machine["name"] for machine in data["machines"]}


def test_list_as_text_names_all_of_it(said) -> None:
    text = said("list")
    data = json.loads(said("list", "--json"))
    for name in ("cases", "studies", "machines"):
        assert all(row["name"] in text for row in data[name])


def test_predict_as_json_is_the_result(said) -> None:
    from ioaware import predict

    assert json.loads(said(*PREDICTED, "--json")) == json.loads(json.dumps(predict("flash2", seq_len=256).to_dict()))


def test_predict_as_text_has_the_same_numbers(said) -> None:
    data = json.loads(said(*PREDICTED, "--json"))
    text = said(*PREDICTED)
    requested = data["requested"]
    for number in (requested["read_bytes"], requested["write_bytes"], data["flops"], data["lower_bound_bytes"]):
        assert f"{number:,}" in text
    assert requested["read_formula"] in text


def test_predict_for_another_machine(said) -> None:
    smaller = json.loads(said(*PREDICTED, "--machine", "L40S", "--json"))
    assert any("L40S" in note for note in smaller["notes"])
    said(*PREDICTED, "--machine", "H2OO", code=2)


def test_every_launch_has_its_formula_under_v(said) -> None:
    short, long = said("predict", "standard"), said("predict", "standard", "-v")
    assert long.count("requested reads") == short.count("requested reads") + 3


def test_output_goes_where_o_says(said, tmp_path: Path) -> None:
    assert said(*PREDICTED, "--json", "-o", tmp_path / "result.json") == ""
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(said(*PREDICTED, "--json"))
    assert said(*PREDICTED, "-o", tmp_path / "result.txt") == ""
    assert (tmp_path / "result.txt").read_text() == said(*PREDICTED)
    said(*PREDICTED, "-o", tmp_path / "missing" / "result.txt", code=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "result.txt"]


def test_trace_agrees_with_predict(said) -> None:
    arguments = ["flash2", "-p", "seq_len=64", "-p", "head_dim=16", "-p", "block_m=32", "-p", "block_n=32", "--json"]
    traced, predicted = json.loads(said("trace", *arguments)), json.loads(said("predict", *arguments))
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
    notes=("said \x1b[31mloudly",),
)


def measured(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Lets `measure` answer with RESULT, changed."""
    import dataclasses

    from ioaware.measurement import measure

    monkeypatch.setattr(measure, "measure", lambda *a, **k: dataclasses.replace(RESULT, **changes))


def test_measure_shows_bytes_time_and_rates(said, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch)
    text = said("measure", "flash2")
    for words in ("9,000 B", "4,000 B", "2 TFLOP/s", "10 GB/s", "4.5 GB/s", "status", "(torch)", "\\x1b[31m"):
        assert words in text
    assert "\x1b" not in text
    assert "sm_clock_mhz" not in text
    assert "sm_clock_mhz" in said("measure", "flash2", "-v")


def test_a_wrong_output_is_1_and_has_no_speed(said, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, check=Check(0.5, 2e-3))
    text = said("measure", "flash2", code=1)
    assert "FAILED" in text
    assert "TFLOP/s" not in text


@pytest.mark.parametrize("error", [float("nan"), float("inf")])
def test_an_output_that_is_not_finite_is_1(error: float, said, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, check=Check(error, 2e-3))
    assert "FAILED" in said("measure", "flash2", code=1)


@pytest.mark.parametrize("status", ["failed", "unstable", "impossible"])
def test_numbers_not_to_be_relied_on_are_3(status: str, said, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, status=status)
    assert status in said("measure", "flash2", code=3)


def test_a_throttled_point_keeps_its_bytes_but_has_no_speed(said, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, status="throttled")
    text = said("measure", "flash2")
    assert "9,000 B" in text
    assert "the clocks moved" in text
    assert "TFLOP/s" not in text


def test_doctor_tells_what_works(said) -> None:
    data = json.loads(said("doctor", "--json"))
    assert data["trace"] is True
    assert {finding["name"] for finding in data["findings"]} >= {"python", "torch", "triton", "ncu"}
    text = said("doctor")
    assert all(finding["detail"] in text for finding in data["findings"])
    assert text.splitlines()[-1].startswith("works here: predict, derive, explain, trace, verify, report")


def test_doctor_is_5_where_nothing_can_be_traced(said, monkeypatch: pytest.MonkeyPatch) -> None:
    from ioaware.measurement import doctor

    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Finding("torch", False, "not installed", "pip install torch")])
    text = said("doctor", code=5)
    assert "pip install torch" in text
    assert text.splitlines()[-1] == "works here: predict"


def claim(verdict: Any) -> Claim:
    """A claim with one row of each kind of evidence."""
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
def test_verify_exits_with_its_verdict(verdicts: list[str], code: int, said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "verify", lambda names, progress: [claim(verdict) for verdict in verdicts])
    data = json.loads(said("verify", "--json", code=code))
    assert [row["verdict"] for row in data["claims"]] == verdicts
    text = said("verify", code=code)
    assert text.count("theorem9: ") == len(verdicts)


def test_verify_shows_its_evidence(said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "verify", lambda names, progress: [claim("holds")])
    text = said("verify")
    for words in ("Bytes are bytes.", "bytes agree", "1.9900", "1.9800 to –", "not judged", "note: a remark"):
        assert words in text
    assert "flash2 N=64" not in text
    assert "flash2 N=64" in said("verify", "-v")


def test_an_unknown_claim_is_answered_with_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "theorem3"], Settings()) == 2
    assert "theorem1, theorem2" in capsys.readouterr().err


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY)
    return path


def test_sweep_fills_a_store_and_goes_on(said, study: Path, tmp_path: Path) -> None:
    store = tmp_path / "tiny.db"
    assert said("sweep", study, "--store", store).rstrip().endswith("3 ok (3 run now)")
    again = json.loads(said("sweep", study, "--store", store, "--json"))
    assert (again["points"], again["statuses"], again["asked_now"]) == (3, {"ok": 3}, 0)


def test_sweep_says_progress_on_stderr_unless_quiet(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["sweep", str(study), "--store", str(tmp_path / "a.db"), "--json"], Settings())
    loud = capsys.readouterr()
    run(["sweep", str(study), "--store", str(tmp_path / "b.db"), "--json", "-q"], Settings())
    quiet = capsys.readouterr()
    assert "3/3 predict flash2" in loud.err
    assert quiet.err == ""
    assert json.loads(loud.out)["statuses"] == json.loads(quiet.out)["statuses"]


def test_points_that_stay_open_are_5(said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine cannot run their source, which is not their failure; what failed besides is worse."""
    monkeypatch.setattr("ioaware.sweep.runner.gpu_name", lambda: "no GPU")
    monkeypatch.setattr("ioaware.sweep.gpu_name.gpu_name", lambda: "no GPU")
    study, store = tmp_path / "open.toml", tmp_path / "open.db"
    study.write_text('[[grid]]\nsources = ["predict", "measure"]\ntargets = ["flash2"]\nparams = { seq_len = 64 }\n')
    text = said("sweep", study, "--store", store, code=5)
    assert "1 ok, 1 open" in text
    assert "not run here: measure" in text
    assert said("sweep", study, "--store", store, "--source", "predict", code=0)
    assert said("sweep", study, "--store", store, code=5)


def test_a_point_that_fails_is_3_now_and_later(said, tmp_path: Path) -> None:
    """A later run that asks nothing anew still says that the store is not all right."""
    study = tmp_path / "broken.toml"
    study.write_text(f'[[grid]]\nsources = ["trace"]\ntargets = ["{tmp_path}/broken.py:work"]\n')
    (tmp_path / "broken.py").write_text("def work():\n    raise RuntimeError('broken on purpose')\n")
    store = tmp_path / "broken.db"
    assert "broken on purpose" in said("sweep", study, "--store", store, code=3)
    assert "1 failed (0 run now)" in said("sweep", study, "--store", store, code=3)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_export(ending: str, said, study: Path, tmp_path: Path) -> None:
    store, file = tmp_path / "tiny.db", tmp_path / f"out.{ending}"
    said("sweep", study, "--store", store)
    assert said("export", "--store", store, "-o", file) == ""
    if ending == "csv":
        sizes = [int(row["params.seq_len"]) for row in csv.DictReader(file.read_text().splitlines())]
    else:
        sizes = [result.params["seq_len"] for result in read_jsonl(file)]
    assert sorted(sizes) == [64, 128, 192]


def test_export_never_replaces_the_store(said, study: Path, tmp_path: Path) -> None:
    store, link = tmp_path / "points.db", tmp_path / "link.csv"
    said("sweep", study, "--store", store)
    link.symlink_to(store)
    before = store.read_bytes()
    for output in (store, link):
        said("export", "--store", store, "-o", output, "--format", "csv", code=2)
    assert store.read_bytes() == before
    assert link.is_symlink()


@pytest.mark.parametrize("verb", [PREDICTED, ["export", "--store"]], ids=["predict", "export"])
def test_what_is_no_file_is_written_and_not_replaced(verb: list[str], said, study: Path, tmp_path: Path) -> None:
    if verb[0] == "export":
        said("sweep", study, "--store", tmp_path / "points.db")
        verb = [*verb, tmp_path / "points.db", "--format", "csv"]
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    said(*verb, "-o", null)
    assert null.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_export_refuses_what_is_no_store(said, tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(b"noise" * 100)
    said("export", "--store", tmp_path / "noise.db", "-o", tmp_path / "out.csv", code=6)
    said("export", "--store", tmp_path / "missing.db", "-o", tmp_path / "out.csv", code=2)
    assert not (tmp_path / "out.csv").exists()


def test_report_writes_its_files_and_says_where(said, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "THEORY", str(study))
    monkeypatch.setattr(verify, "verify", lambda measurements, progress: [])
    monkeypatch.setattr(claim_evidence, "recorded_measurements", list)
    monkeypatch.setattr("ioaware.sweep.gpu_name.gpu_name", lambda: "no GPU")
    path = Path(said("report", "-o", tmp_path / "out").strip())
    assert path == tmp_path / "out" / "report.html"
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert list((tmp_path / "out").glob("*.png"))
