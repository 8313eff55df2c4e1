"""One point of each source through the worker.

Its record equals the source's result.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ioaware.measurement import measure as measuring
from ioaware.result import Launch, Result, Traffic
from ioaware.result_file import decode
from ioaware.sweep.execute import execute

PARAMS = {"seq_len": 128, "head_dim": 32, "heads": 2}


@pytest.mark.parametrize("source", ["predict", "derive", "trace"])
def test_three_sources_agree_on_a_point_through_their_records(source: str) -> None:
    job = {"source": source, "target": "flash2", "params": PARAMS, "timeout_s": 60.0}
    found = decode(execute(job))
    assert (found.source, found.status) == (source, "ok")
    assert found.requested is not None
    # FlashAttention-2: Q and O once, K and V once for each of two blocks of 64 rows, in float16; the log-sum-exp in float32.
    assert found.requested.read_bytes == 2 * 2 * (128 * 32 + 2 * 2 * 128 * 32)
    assert found.requested.write_bytes == 2 * (2 * 128 * 32 + 4 * 128)


def test_a_measured_point_has_the_flops_of_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are part of its least time; no derivation need be in the study."""
    name, params = "ioaware.kernels.attention.targets:portable", {**PARAMS, "kv_heads": 2}
    moved, environment = Traffic(1_000, 1_000), {"gpu": "NVIDIA H200", "sm_count": 132}
    derived = decode(execute({"source": "derive", "target": name, "params": params, "timeout_s": 60.0}))
    launches = tuple(Launch(one.kernel, requested=moved, hbm=moved, time_ns=1.0) for one in derived.launches)
    record = Result("measure", name, params=params, requested=moved, hbm=moved, time_ns=1.0, launches=launches)
    monkeypatch.setattr(measuring, "measure", lambda *_, **__: replace(record, environment=environment))
    found = decode(execute({"source": "measure", "target": name, "params": params, "timeout_s": 60.0}))
    assert found.flops == derived.flops
    assert found.time_bound is not None
    assert found.time_bound["arithmetic_ns"]


def test_an_error_is_returned_with_its_exit_code() -> None:
    job = {"source": "derive", "target": "no.such.module:work", "params": {}, "timeout_s": 60.0}
    assert json.loads(execute(job))["exit_code"] == 2
