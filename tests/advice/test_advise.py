"""Advice: planted choices keep their rank, and what does not fit is named.

An order of programs is only that.
"""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest

import ioaware
from ioaware.advice import choices
from ioaware.advice.advice_result import Choice, rank
from ioaware.advice.advise import advise
from ioaware.capture.capture import capture
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.compilation.triton_ir import gpu_or_machines
from ioaware.display import work_deadline
from ioaware.errors import UsageError
from ioaware.machine import find_machine
from ioaware.machine.model import SECTOR_BYTES
from ioaware.machine.time_bound import TimeBound
from ioaware.result import Traffic
from ioaware.targets.target import load_target
from tests.support import SUPPORT

MATMUL = """
import torch, triton, triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": 16, "GROUP_SIZE_M": 1}, num_warps=4, num_stages=1),
    triton.Config({"BLOCK_M": 64, "GROUP_SIZE_M": 1}, num_warps=4, num_stages=1),
    triton.Config({"BLOCK_M": 128, "GROUP_SIZE_M": 1}, num_warps=1, num_stages=1),
]

@triton.autotune(CONFIGS, key=["m"])
@triton.jit
def matmul_kernel(a, b, c, m, N: tl.constexpr, K: tl.constexpr, BLOCK_M: tl.constexpr, GROUP_SIZE_M: tl.constexpr):
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(m, BLOCK_M), N // 64
    group = pid // (GROUP_SIZE_M * cols)
    first = group * GROUP_SIZE_M
    size = min(rows - first, GROUP_SIZE_M)
    i = first + pid % (GROUP_SIZE_M * cols) % size
    j = pid % (GROUP_SIZE_M * cols) // size
    at_m, at_n, at_k = i * BLOCK_M + tl.arange(0, BLOCK_M), j * 64 + tl.arange(0, 64), tl.arange(0, 32)
    total = tl.zeros((BLOCK_M, 64), tl.float32)
    for k in range(0, K, 32):
        x = tl.load(a + at_m[:, None] * K + (k + at_k)[None, :])
        y = tl.load(b + (k + at_k)[:, None] * N + at_n[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + at_m[:, None] * N + at_n[None, :], total.to(tl.float16))

def matmul(device="cuda"):
    m = 512
    a, b = (torch.empty(s, dtype=torch.float16, device=device) for s in ((m, 512), (512, 1024)))
    c = torch.empty(m, 1024, dtype=torch.float16, device=device)
    matmul_kernel[lambda meta: (m // meta["BLOCK_M"] * 16,)](a, b, c, m, N=1024, K=512)
    return c

@triton.jit
def scaled(x, y, GROUP_SIZE: tl.constexpr):
    i = tl.program_id(0)
    lane = tl.arange(0, 64)
    tl.store(y + i * 64 + lane, tl.load(x + i * 64 + lane) * tl.load(x + i // GROUP_SIZE))

def quantised(device="cuda"):
    x = torch.empty(64 * 64, device=device)
    y = torch.empty_like(x)
    scaled[(64,)](x, y, GROUP_SIZE=8)
    return y

@triton.jit
def persistent_kernel(a, b, c, N: tl.constexpr, K: tl.constexpr, SCALED: tl.constexpr, GROUP_SIZE_M: tl.constexpr):
    for tile in range(tl.program_id(0), N // 64 * (N // 64), tl.num_programs(0)):
        inside = tile % (GROUP_SIZE_M * (N // 64))
        i, j = tile // (GROUP_SIZE_M * (N // 64)) * GROUP_SIZE_M + inside % GROUP_SIZE_M, inside // GROUP_SIZE_M
        at_m, at_n, at_k = i * 64 + tl.arange(0, 64), j * 64 + tl.arange(0, 64), tl.arange(0, 32)
        total = tl.zeros((64, 64), tl.float32)
        for k in range(0, K, 32):
            x = tl.load(a + at_m[:, None] * K + (k + at_k)[None, :])
            y = tl.load(b + (k + at_k)[:, None] * N + at_n[None, :])
            total = tl.dot(x, y, total)
        if SCALED:
            total *= tl.load(a + tile // GROUP_SIZE_M)
        tl.store(c + at_m[:, None] * N + at_n[None, :], total.to(tl.float16))

def persistent(scaled=False, device="cuda"):
    a, b = (torch.empty(s, dtype=torch.float16, device=device) for s in ((1024, 64), (64, 1024)))
    c = torch.empty(1024, 1024, dtype=torch.float16, device=device)
    persistent_kernel[(12,)](a, b, c, N=1024, K=64, SCALED=scaled, GROUP_SIZE_M=1)
    return c

def plain(device="cuda"):
    x = torch.empty(64, device=device)
    scaled[(1,)](x, x, 8)
    return x
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advice") / "kernels.py"
    path.write_text(MATMUL)
    return path


def small_l2(tmp_path: Path) -> str:
    """Write an H200 of four SMs whose L2 holds less than one matrix."""
    path = tmp_path / "small.toml"
    model = 'partitions = 1\ndirty_share = 1.0\ncapacity_spread = 0.0\nskew_spread = 0.0\nsource = "test"'
    path.write_text(f'preset = "H200"\nsms = 4\n[levels.l2]\ncapacity_bytes = 400000\n[l2_model]\n{model}\n')
    return str(path)


def test_a_planted_worse_configuration_ranks_lower(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 16 rows read B more often than tiles of 64.

    128 rows by one warp spill; groups share A and B.
    """
    monkeypatch.setattr(choices, "GROUP_VALUES", (1, 8))
    found = ioaware.advise(f"{file}:matmul", machine=small_l2(tmp_path))
    assert found.current
    assert found.current.change["matmul_kernel:BLOCK_M"] == 16  # Triton's first
    rows = [one.change["matmul_kernel:BLOCK_M"] for one in found.ranked]
    assert rows == sorted(rows, reverse=True)
    assert found.best.requested_bytes < found.current.requested_bytes
    (too_large,) = [one for one in found.rejected if one.change["matmul_kernel:BLOCK_M"] == 128]
    assert "spills" in too_large.reason or "shared memory" in too_large.reason
    groups = {
        one.change["matmul_kernel:GROUP_SIZE_M"]: one for one in found.ranked if one.change["matmul_kernel:BLOCK_M"] == 64
    }
    assert found.best.change["matmul_kernel:GROUP_SIZE_M"] > 1
    assert found.best.hbm_bytes < 0.8 * groups[1].hbm_bytes
    unshared = 8 * 16 * 2 * 64 * 512 * 2  # of each program a block of rows of A and one of columns of B, in float16
    assert unshared / 2 < groups[1].requested_bytes < unshared  # an SM's programs share A, or B
    assert abs(found.best.requested_bytes - groups[1].requested_bytes) < 0.05 * unshared
    assert found.best.requested_bytes % SECTOR_BYTES == 0


def test_a_kernel_may_spill_beside_the_one_that_is_varied() -> None:
    """Its bytes are in each choice: the target runs as it is."""
    found = ioaware.advise(f"{SUPPORT}/targets/spilling_targets.py:tuned_beside_spilling")
    assert not found.rejected
    assert found.current
    assert [one.change["copy:BLOCK"] for one in found.ranked] == [256, 1024]


def test_a_group_that_is_no_order_is_rejected(file: Path) -> None:
    """GROUP_SIZE of a quantised kernel chooses which scale a program reads."""
    found = ioaware.advise(f"{file}:quantised")
    assert [one.current for one in found.ranked] == [True]
    assert {one.reason for one in found.rejected} == {"changes what programs access, and not only their order"}


def test_tiles_of_persistent_programs_may_be_taken_in_another_order(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "GROUP_VALUES", (1, 4))
    found = ioaware.advise(f"{file}:persistent")
    assert sorted(one.change.get("persistent_kernel:GROUP_SIZE_M", 1) for one in found.ranked) == [1, 4]
    assert not found.rejected
    scaled = ioaware.advise(f"{file}:persistent", scaled=True)
    assert [one.current for one in scaled.ranked] == [True]
    assert {one.reason for one in scaled.rejected} == {"changes what programs access, and not only their order"}


@pytest.mark.slow
def test_orders_of_flash2_are_ranked_by_hbm_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "CASE_VALUES", {"order": choices.CASE_VALUES["order"]})
    found = ioaware.advise("flash2", machine=small_l2(tmp_path), seq_len=4096, heads=1, head_dim=64)
    orders = [one.change["order"] for one in found.ranked]
    assert orders[0] == "wave_sawtooth"
    assert found.current
    assert found.best.hbm_bytes < found.current.hbm_bytes
    again = ioaware.simulate("flash2", machine=small_l2(tmp_path), seq_len=4096, heads=1, head_dim=64)
    assert again.hbm
    assert found.current.hbm.read_bytes == again.hbm.read_bytes


def choice(name: str, *, time_ns: float, hbm: int, requested: int) -> Choice:
    traffic, at_hbm = Traffic(requested, 0), Traffic(hbm, 0)
    return Choice("t", {"name": name}, traffic, at_hbm, 0, TimeBound(time_ns, None, None), 32, 0, 1)


def test_ranks_go_by_time_then_hbm_then_requested_bytes() -> None:
    planted = [
        choice("slow", time_ns=200, hbm=10, requested=10),
        choice("far", time_ns=100, hbm=1000, requested=10),
        choice("noise", time_ns=100.2, hbm=502, requested=700),
        choice("best", time_ns=100, hbm=504, requested=600),
    ]
    assert [one.change["name"] for one in rank(planted)] == ["best", "noise", "far", "slow"]


def test_errors_are_one_sentence(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="softmax_one_read has no blocks, orders or head grouping"):
        ioaware.advise("softmax_one_read")
    assert run(["advise", "softmax_one_read"], Settings()) == 2
    assert run(["advise", "flash2", "--machine", "H2000"], Settings()) == 2
    assert run(["advise", f"{file}:absent"], Settings()) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_text_and_json_have_the_same_choices(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["advise", f"{file}:quantised", "--json"], Settings()) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema"], data["machine"], len(data["ranked"]), len(data["rejected"])) == (1, "H200", 1, 5)
    assert data["ranked"][0]["bound"]["binds"] == "HBM"
    assert run(["advise", f"{file}:quantised"], Settings()) == 0
    text = capsys.readouterr().out
    assert "Keep what it does now" in text
    assert "5 that do not fit" in text


TWO_KERNELS = """
import torch, triton, triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}) for block in (256, 128)]

@triton.autotune(CONFIGS, key=[])
@triton.jit
def doubled(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)

@triton.autotune(CONFIGS, key=[])
@triton.jit
def halved(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) / 2)

def twice(device="cuda"):
    x = torch.empty(4096, device=device)
    for kernel in (doubled, halved):
        kernel[lambda meta: (4096 // meta["BLOCK"],)](x, x, **{})
"""


def test_what_two_kernels_do_now_is_one_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO_KERNELS)
    found = ioaware.advise(f"{path}:twice")
    assert len(found.ranked) == 3
    assert [dict(one.change) for one in found.ranked if one.current] == [
        {f"{kernel}:{name}": value for kernel in ("doubled", "halved") for name, value in _now().items()}
    ]
    assert run(["advise", f"{path}:twice"], settings=Settings()) == 0
    assert capsys.readouterr().out.count(" now ") == 1


def _now() -> dict[str, int]:
    return {"BLOCK": 256, "num_warps": 4, "num_stages": 3}


def test_no_choice_is_begun_when_the_time_is_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO_KERNELS)
    found = ioaware.advise(f"{path}:twice", seconds=0)
    assert [one.current for one in found.ranked] == [True]
    assert found.notes[-1] == "2 more choices were not tried: 0 s were over. A better one may be among them"
    assert found.untried == 2
    assert run(["advise", f"{path}:twice", "--for", "0"], settings=Settings()) == 0
    shown = capsys.readouterr()
    assert "Keep what it does now: no choice that was tried is predicted to move fewer bytes." in shown.out
    assert "halved:BLOCK" not in shown.out
    assert shown.err.splitlines() == ["1 of 3: as it is now"]


def test_kernels_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO_KERNELS.replace("(256, 128)", "(256, 128, 64)"))
    target = load_target(f"{path}:twice")
    found = choices.configuration_candidates(target.name, {}, capture(target, {}).launches)
    assert [next(iter(one.change)) for one in found[1:]] == ["doubled:BLOCK", "halved:BLOCK"] * 2


def test_choices_of_a_case_that_request_least_come_first() -> None:
    """Requested bytes fall with block_m; block_n and the order leave them as they are."""
    candidates = choices.case_candidates("flash2", ioaware.predict("flash2", heads=2, seq_len=1024).params)
    ordered = choices.fewest_requested_first(candidates)
    assert ordered[0].current
    assert [one.params["block_m"] for one in ordered[1:]] == [256] * 9 + [128] * 9 + [64] * 8


def test_a_choice_in_work_ends_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "two.py"
    path.write_text(TWO_KERNELS)
    started: list[str] = []
    monkeypatch.setattr(work_deadline, "monotonic", lambda: inf if len(started) > 1 else 0.0)
    target, h200 = load_target(f"{path}:twice"), find_machine("H200")
    gpu = gpu_or_machines(None, h200)
    found = advise(target, target.resolve({}), machine=h200, gpu=gpu, seconds=100, on_start=started.append)
    assert len(started) == 2
    assert [one.current for one in found.ranked] == [True]
    assert found.untried == 2
