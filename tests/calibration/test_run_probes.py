"""`calibrate` on a fake GPU.

A fake ncu writes counters of ideal caches, a fake Python the rates.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ioaware.calibration.fit import PROFILER_DIRTY_BYTES
from ioaware.calibration.machine_toml import machine_toml
from ioaware.calibration.probes import plan
from ioaware.calibration.run_probes import METRICS, calibrate_gpu
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import DataError, MachineError
from ioaware.machine.machine_file import read_machine
from ioaware.machine.presets import find_machine
from ioaware.measurement.counters.ncu import Ncu
from tests.support.fakes import FakeNvml, fake_ncu, script
from tests.support.ideal_caches import SIZES, counted

RATES = {
    "hbm_read_bytes_per_s": 4.5e12,
    "hbm_write_bytes_per_s": 3.4e12,
    "hbm_copy_bytes_per_s": 4.2e12,
    "hbm_triad_bytes_per_s": 4.1e12,
    "l2_read_bytes_per_s": 5.5e12,
    "l2_shared_read_bytes_per_s": 9.5e12,
    "l2_matmul_read_bytes_per_s": 14.2e12,
    "matmul_float16_flops_per_s": 7e14,
    "matmul_bfloat16_flops_per_s": 7.1e14,
    "drift": 0.1,
    "environment": {"gpu": "NVIDIA H200", "driver": "580.1"},
}


def table(*, lost: int = 0, factor: float = 1.0) -> str:
    """Return ncu's table of the plan, with faults.

    `lost` kernels are missing, and the first reads are off by `factor`.
    """
    names = [metric.name for metric in METRICS]
    lines = [",".join(f'"{name}"' for name in ("ID", "Kernel Name", "Grid Size", *names))]
    lines.append(",".join(f'"{unit}"' for unit in ("", "", "", *["byte"] * len(names))))
    for number, probe in enumerate(plan(SIZES)[lost:]):
        one = counted(probe)
        reads = round(one.requested_read_bytes * (factor if number == 0 else 1))
        cells = (reads, one.requested_write_bytes, one.hbm_read_bytes, one.hbm_write_bytes)
        lines.append(",".join(f'"{cell}"' for cell in (number, probe.kernel, "(132, 1, 1)", *cells)))
    return "\n".join(lines) + "\n"


@pytest.fixture
def fake(tmp_path: Path) -> dict[str, Any]:
    """Return the arguments of `calibrate_gpu` for a fake machine."""
    answers = {"counters": {"sizes": [SIZES.sms, SIZES.l2_bytes, SIZES.l1_bytes]}}
    answers["rates"] = {**answers["counters"], **RATES}  # type: ignore[dict-item]
    python = script(
        tmp_path / "python",
        f"import json, sys\nmode, out = sys.argv[3:5]\njson.dump({answers!r}[mode], open(out, 'w'))\n",
    )
    log = tmp_path / "table.csv"
    log.write_text(table())
    return {"python": str(python), "ncu": Ncu(fake_ncu(tmp_path, log=log), (2025, 3, 1)), "nvml": FakeNvml()}


def test_the_machine_file_is_read_by_every_command(fake: dict[str, Any]) -> None:
    found = calibrate_gpu(**fake)
    machine = read_machine(machine_toml(found, "H200"), "h200.toml")
    assert machine.level("hbm").rates == {"read": 4.5e12, "write": 3.4e12, "copy": 4.2e12, "triad": 4.1e12}
    assert machine.level("l2").capacity_bytes == round(found.calibration.usable_l2_bytes / (1 + 1 / 32))
    assert machine.level("l2").bandwidth_bytes_per_s == 14.2e12
    assert machine.peak("float16").flops_per_s == 7e14
    assert machine.l2_model.partitions == 2
    assert machine.l2_model.dirty_share == pytest.approx((29e6 + PROFILER_DIRTY_BYTES) / machine.level("l2").capacity_bytes)
    assert machine.l2_model.ways == find_machine("H200").l2_model.ways
    assert machine.l2_model.skew_spread == 0.1
    assert "driver 580.1" in machine.l2_model.source
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert len(document["probes"]) == len(plan(SIZES))


def test_a_counter_that_is_off_ends_the_calibration(fake: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "off.csv"
    log.write_text(table(factor=1.02))
    kept = tmp_path / "probes.json"
    with pytest.raises(DataError, match="cannot be trusted: copy"):
        calibrate_gpu(**{**fake, "ncu": Ncu(fake_ncu(tmp_path, log=log), (2025, 3, 1))}, probes_file=kept)
    assert len(json.loads(kept.read_text())["probes"]) == len(plan(SIZES))


def test_a_table_that_lacks_a_kernel_is_refused(fake: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "short.csv"
    log.write_text(table(lost=1))
    with pytest.raises(DataError, match=f"profiled {len(plan(SIZES)) - 1} kernels"):
        calibrate_gpu(**{**fake, "ncu": Ncu(fake_ncu(tmp_path, log=log), (2025, 3, 1))})


def test_probes_that_fail_are_one_sentence(fake: dict[str, Any], tmp_path: Path) -> None:
    dying = script(tmp_path / "dying", "import sys\nprint('out of memory', file=sys.stderr)\nsys.exit(7)\n")
    with pytest.raises(MachineError, match=r"(?s)exit code 7.*|ended with exit code 7"):
        calibrate_gpu(**{**fake, "python": str(dying)})


def test_a_machine_without_a_gpu_is_5(capsys: pytest.CaptureFixture[str]) -> None:
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert run(["calibrate"], Settings()) == 5
    assert "Traceback" not in capsys.readouterr().err
