"""One point of each source through the worker.

Its record equals the source's result.
"""

from __future__ import annotations

import json

import pytest

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


def test_an_error_is_returned_with_its_exit_code() -> None:
    job = {"source": "derive", "target": "no.such.module:work", "params": {}, "timeout_s": 60.0}
    assert json.loads(execute(job))["exit_code"] == 2
