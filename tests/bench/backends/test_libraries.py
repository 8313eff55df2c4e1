"""Third-party attention libraries are detected, called and checked.

They are called in their own layout.

Fake modules stand in for them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import BackEnd
from ioaware.bench.registry import back_ends
from ioaware.bench.run import measure
from tests.support.fake_race import BACK, DECODE, SMALL, FakeDevice, exact, session
from tests.support.fakes import FakeNvml

ATTENTION = """
import torch
def attend(q, k, v, causal):
    "[batch, seq_len, heads, head_dim]; exact."
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return o.transpose(1, 2).half()
"""
SOURCES = {
    "flash_attn/flash_attn_interface.py": ATTENTION
    + "def flash_attn_func(q, k, v, causal=False): return attend(q, k, v, causal)",
    "flash_attn_interface.py": ATTENTION
    + """
def flash_attn_func(q, k, v, causal=False, num_splits=1):
    assert num_splits == (0 if q.shape[1] == 1 else 1)  # 0 lets the library choose, for decoding
    return attend(q, k, v, causal)
""",
    "flash_attn/cute/__init__.py": ATTENTION
    + "def flash_attn_func(q, k, v, softmax_scale=None, causal=False, num_splits=1): return attend(q, k, v, causal), None",
    "flashinfer.py": ATTENTION
    + """
def single_prefill_with_kv_cache(q, k, v, causal=False):
    return attend(q[None], k[None], v[None], causal)[0]
""",
}
FILES = {
    "flash-attn-2": "flash_attn/flash_attn_interface.py",
    "flash-attn-3": "flash_attn_interface.py",
    "flash-attn-4": "flash_attn/cute/__init__.py",
    "flashinfer": "flashinfer.py",
}

MODULES = ("flash_attn", "flash_attn.cute", "flash_attn.flash_attn_interface", "flash_attn_interface", "flashinfer")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the name of the only back end whose module can be imported."""
    name: str = request.param
    path = tmp_path / FILES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SOURCES[FILES[name]])
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield name
    for module in MODULES:
        sys.modules.pop(module, None)


def outcome_of(point: Point, name: str) -> tuple[str, str]:
    ends = [BackEnd("ioaware", exact), back_ends()[name]]
    record = measure(point, ends, session(FakeDevice({"ioaware": 1.0, name: 2.0}), FakeNvml()), 2, {})
    entry = record.entry(name)
    assert entry is not None
    return entry.status, entry.reason


@pytest.mark.parametrize("installed", FILES, indirect=True)
def test_an_installed_library_is_detected_and_raced(installed: str) -> None:
    present = {name for name in FILES if back_ends()[name].present}
    assert present == {installed}
    batched = "batches" if installed == "flashinfer" else ""
    one = Point("forward", 1, 2, 2, 16, 16, 8, True, "float16")
    assert outcome_of(one, installed) == ("ok", "")
    for point in (SMALL, DECODE, BACK):
        status, reason = outcome_of(point, installed)
        assert (status, batched in reason or "backward" in reason) == ("unsupported" if batched else "ok", True)


def test_a_library_that_is_not_installed_is_absent() -> None:
    for name in FILES:
        if not back_ends()[name].present:
            assert outcome_of(SMALL, name) == ("absent", f"{back_ends()[name].needs} is not installed")


def test_a_wrong_output_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCES["flash_attn_interface.py"].replace("o.transpose(1, 2).half()", "1.1 * o.transpose(1, 2).half()")
    (tmp_path / "flash_attn_interface.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    status, reason = outcome_of(SMALL, "flash-attn-3")
    sys.modules.pop("flash_attn_interface", None)
    assert (status, "relative error" in reason) == ("wrong", True)
