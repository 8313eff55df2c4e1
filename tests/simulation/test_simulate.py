"""`simulate` end to end: real kernels against laws and counters.

The laws are those of caches, the counters those of hardware.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import ioaware
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.cli.tables.simulation_tables import simulated_text
from ioaware.compilation import resource_usage, triton_ir
from ioaware.errors import UsageError
from ioaware.machine import find_machine_or_file
from ioaware.simulation.simulate import simulate
from ioaware.targets.target import load_target
from tests.support import SUPPORT

SMALL = {"seq_len": 512, "heads": 4, "head_dim": 64}
SPILLING = f"{SUPPORT}/targets/spilling_targets.py:spilling"
TINY_L2, HUGE_L2 = 1 << 16, 1 << 40


def machine(tmp_path: Path, capacity: int) -> str:
    """Write one SM of an H200 with another L2.

    It has one partition, and dirty lines without limit.
    """
    path = tmp_path / f"l2-{capacity}.toml"
    model = 'partitions = 1\ndirty_share = 1.0\ncapacity_spread = 0.0\nskew_spread = 0.0\nsource = "test"'
    hbm = f"[levels.hbm]\ncapacity_bytes = {1 << 50}\n"
    path.write_text(f'preset = "H200"\nsms = 1\n[levels.l2]\ncapacity_bytes = {capacity}\n{hbm}[l2_model]\n{model}\n')
    return str(path)


@pytest.mark.parametrize(("spec", "params", "spills"), [("flash2", SMALL, False), (SPILLING, {}, True)])
def test_a_kernel_is_compiled_once(
    spec: str, params: dict[str, int], spills: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Resources, loads through the L1 and spills come from one compilation.

    Another process takes them from the cache on disk.
    """
    names: list[str] = []

    class Counted(resource_usage._Lowering):
        def prepared(self) -> Callable[[], resource_usage.Resources]:
            names.append("lowered")
            return super().prepared()

    monkeypatch.setenv("IOAWARE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(resource_usage, "resource_cache", {})
    monkeypatch.setattr(resource_usage, "_Lowering", Counted)
    monkeypatch.setattr(triton_ir._triton, "compile", lambda *_, **__: names.append("compiled by Triton"))
    found = ioaware.simulate(spec, machine="H200", **params)
    assert names == ["lowered"] * len(found.launches)
    assert any(one is not None and one.spills for one in found.simulations) is spills
    resource_usage.resource_cache.clear()
    assert ioaware.simulate(spec, machine="H200", **params).simulations == found.simulations
    assert names == ["lowered"] * len(found.launches)


@pytest.mark.parametrize("case", ["flash1", "flash2", "standard"])
@pytest.mark.parametrize("causal", [False, True])
def test_an_infinite_l2_leaves_the_compulsory_bytes(case: str, causal: bool, tmp_path: Path) -> None:
    """Each input is read once, intermediate results never.

    All outputs are written.
    """
    found = ioaware.simulate(case, machine=machine(tmp_path, HUGE_L2), causal=causal, **SMALL)
    assert found.hbm
    assert found.compulsory
    assert found.requested
    assert found.hbm.read_bytes == found.compulsory.read_bytes
    assert found.hbm.write_bytes is not None
    assert found.compulsory.write_bytes <= found.hbm.write_bytes <= found.requested.write_bytes


def test_a_tiny_l2_reads_at_most_what_is_requested(tmp_path: Path) -> None:
    found = ioaware.simulate("flash2", machine=machine(tmp_path, TINY_L2), **SMALL)
    assert found.hbm
    assert found.compulsory
    assert found.requested
    assert found.compulsory.read_bytes < found.hbm.read_bytes <= found.requested.read_sector_bytes
    assert found.simulations[0] is not None
    assert {one.tensor: one.regime for one in found.simulations[0].tensors}["K"] == "leaking"  # programs of an SM drift apart


def test_a_larger_l2_never_reads_more(tmp_path: Path) -> None:
    reads = [
        ioaware.simulate("flash2", machine=machine(tmp_path, capacity), **SMALL).hbm.read_bytes
        for capacity in (1 << 16, 1 << 18, 1 << 19, 1 << 21)
    ]
    assert reads == sorted(reads, reverse=True)
    assert reads[0] > reads[-1]


def test_fa2_beyond_the_l2_is_the_closed_form_and_the_counter() -> None:
    """d 128, N 131,072, 2 heads: 67.1 MB of Q and 17 times 67.1 MB of K and V.

    An H200 counted 1,209 MB.
    """
    found = ioaware.simulate("flash2", seq_len=131072, heads=2, head_dim=128, cold=True)
    assert found.hbm
    assert found.simulations[0]
    assert found.hbm.read_bytes == 67_108_864 + 17 * 67_108_864
    assert found.hbm.read_bytes == pytest.approx(1_209e6, rel=0.01)
    regimes = {one.tensor: one.regime for one in found.simulations[0].tensors}
    assert (regimes["Q"], regimes["K"]) == ("compulsory", "thrashing")
    assert "later wave" in next(one.reason for one in found.simulations[0].tensors if one.tensor == "K")


@pytest.mark.slow
def test_fa1_beyond_the_l2_reads_what_it_requests() -> None:
    """An H200 counted 4,495.8 MB read, 2,263.1 MB written while it ran.

    The case has 64 heads of 4,096 rows, d 64.
    """
    found = ioaware.simulate("flash1", seq_len=4096, heads=64, head_dim=64, cold=True)
    kernel = found.launches[-1]
    assert kernel.hbm
    assert kernel.requested
    assert kernel.hbm.read_bytes == kernel.requested.read_bytes
    assert kernel.hbm.read_bytes == pytest.approx(4_495.8e6, rel=0.005)
    assert kernel.hbm.write_bytes == pytest.approx(2_263.1e6, rel=0.01)


def test_launches_start_with_the_l2_of_the_launch_before() -> None:
    warm = ioaware.simulate("standard", **SMALL)
    cold = ioaware.simulate("standard", cold=True, **SMALL)
    assert warm.hbm.read_bytes < cold.hbm.read_bytes
    assert warm.launches[1].hbm.read_bytes == 0  # the scores of 4 heads are still in the L2


def test_data_dependent_reads_are_a_range(tmp_path: Path) -> None:
    path = tmp_path / "gather.py"
    path.write_text(GATHER)
    found = ioaware.simulate(f"{path}:gather", rows=256)
    assert found.simulations[0] is not None
    low, high = found.simulations[0].read_range
    assert low == 256 * 4  # the indices
    assert high == 256 * 4 + 256 * 64 * 4  # a row is whole sectors
    assert any("uncertain" in note for note in found.notes)
    assert found.simulations[0].data_dependent == ("x",)
    assert any("data decide where x" in note for note in found.notes)
    shown = StringIO()
    Console(file=shown, width=200).print(*simulated_text(found))
    (row,) = (line for line in shown.getvalue().splitlines() if line.startswith("kernel "))
    assert re.split(" {2,}", row.rstrip())[5:] == ["1.024 kB to 66.56 kB", "65.54 kB", "65.54 kB"]


GATHER = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x, index, y, D: tl.constexpr):
    row = tl.program_id(0)
    at = tl.load(index + row)
    lane = tl.arange(0, D)
    tl.store(y + row * D + lane, tl.load(x + at * D + lane))

def gather(rows=256, device="cuda"):
    x = torch.empty(1000, 64, device=device)
    index = torch.empty(rows, dtype=torch.int32, device=device)
    y = torch.empty(rows, 64, device=device)
    kernel[(rows,)](x, index, y, D=64)
    return y
"""


def test_a_loop_that_data_decide_is_refused() -> None:
    with pytest.raises(UsageError, match=r"data decide iterations@derived_targets.py:\d+"):
        ioaware.simulate(f"{SUPPORT}/targets/derived_targets.py:labelled")


def test_text_json_and_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["-p", "seq_len=512", "-p", "heads=2"]
    assert run(["simulate", "flash2", *given], Settings()) == 0
    text = capsys.readouterr().out
    assert "flash2_kernel: 4 programs an SM, limited by shared memory" in text
    assert "hbm reads" in text
    assert run(["simulate", "flash2", *given, "--json", "--cold"], Settings()) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["source"], data["machine"], data["cold"], data["exact"]) == ("simulate", "H200", True, False)
    assert data["hbm"]["read_bytes"] == data["compulsory"]["read_bytes"]
    assert data["hbm_read_range_bytes"][0] <= data["hbm"]["read_bytes"] <= data["hbm_read_range_bytes"][1]
    simulation = data["launches"][0]["simulation"]
    assert simulation["programs_at_once"] == 528
    assert {one["tensor"] for one in simulation["tensors"]} == {"Q", "K", "V", "O", "Lse"}
    assert run(["simulate", "flash2", "--machine", "H2000"], Settings()) == 2
    assert "there is no machine" in capsys.readouterr().err
    broken = tmp_path / "broken.toml"
    broken.write_text("preset = 3")
    assert run(["simulate", "flash2", "--machine", str(broken)], Settings()) == 6
    assert "preset is missing or no text" in capsys.readouterr().err


def test_the_large_forward_is_replayed_in_seconds() -> None:
    """Cost goes by waves x distinct units.

    4,096 programs of 2,048 steps make some 5,000 events in lines of 256 KiB. Lines become smaller while a replay has room.
    """
    from ioaware.simulation import sampling, sequence

    counted: list[int] = []
    original = sequence.launch_touches

    def counting(*arguments):
        touches = original(*arguments)
        counted.append(touches.count())
        return touches

    sequence.launch_touches = counting
    try:
        target = load_target("flash2")
        params = target.resolve({"seq_len": 131072, "heads": 2, "head_dim": 128})
        simulate(target, params, machine=find_machine_or_file("H200"), ranges=False)
    finally:
        sequence.launch_touches = original
    assert 0 < counted[0] * sampling.PILOT < 10_000
    assert max(counted) <= sampling.MAX_EVENTS


def test_what_has_no_bound_is_refused_before_the_caches_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.py"
    path.write_text(
        "import torch, triton, triton.language as tl\n\n"
        "@triton.jit\ndef chosen(x, labels, y, BLOCK: tl.constexpr):\n"
        "    label = tl.load(labels + tl.program_id(0))\n"
        "    lanes = tl.arange(0, BLOCK)\n"
        "    if label > 0:\n"
        "        tl.store(y + label * BLOCK + lanes, tl.load(x + lanes, mask=lanes < label * label))\n\n"
        "def work(rows=64, device='cuda'):\n"
        "    labels = torch.empty(rows, dtype=torch.int64, device=device)\n"
        "    x, y = torch.empty(1024, device=device), torch.empty(rows, 1024, device=device)\n"
        "    chosen[(rows,)](x, labels, y, BLOCK=1024)\n"
        "    return y\n"
    )
    monkeypatch.setattr("ioaware.simulation.simulate.run", lambda *_, **__: pytest.fail("the caches are replayed"))
    with pytest.raises(UsageError, match="cannot be bounded: chosen depends on"):
        ioaware.simulate(f"{path}:work", machine="H200")
