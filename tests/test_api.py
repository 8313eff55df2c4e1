"""The verbs as Python functions, each returning a value that notebooks can show."""

from __future__ import annotations

from html import escape

import pytest

import ioaware
from ioaware.analysis.theory.claims.claim import Claim
from ioaware.errors import MachineError, UsageError
from ioaware.sweep import verify

SMALL = {"seq_len": 48, "head_dim": 16, "block_m": 16, "block_n": 16}


def test_predict_and_trace_agree_and_have_html() -> None:
    predicted, traced = ioaware.predict("flash1", **SMALL), ioaware.trace("flash1", **SMALL)
    assert predicted.requested is not None
    assert traced.requested is not None
    assert predicted.requested.total_bytes == traced.requested.total_bytes
    for result in (predicted, traced):
        assert "<table>" in result._repr_html_()
        assert "flash1" in result._repr_html_()


def test_explain_shows_each_line_with_its_bytes() -> None:
    source = ioaware.explain("flash2", **SMALL)
    (kernel,) = source.kernels
    data = source.to_dict()
    assert data["target"] == "flash2"
    moved = [line for line in data["kernels"][0]["lines"] if (line["kinds"], line["function"]) == ("writes", kernel.kernel)]
    assert sum(line["bytes"] for line in moved) == source.result.requested.write_bytes
    html = source._repr_html_()
    assert kernel.kernel in html
    assert all(escape(line["source"]) in html for line in moved)


def test_the_machine_sets_the_lower_bound() -> None:
    """At long sequences Theorem 2 exceeds the compulsory bytes.

    It exceeds them the more, the smaller the memory.

    Without a machine the bound is that of an H200.
    """
    sizes = {"seq_len": 65536, "head_dim": 256}
    bounds = {name: ioaware.predict("flash2", machine=name, **sizes).lower_bound_bytes for name in ("L40S", "H200")}
    assert ioaware.predict("flash2", **sizes).lower_bound_bytes == bounds["H200"]
    small, large = bounds["L40S"], bounds["H200"]
    assert small is not None
    assert large is not None
    assert small > large


def test_unknown_names_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no case 'flash3'"):
        ioaware.predict("flash3")
    with pytest.raises(UsageError, match="no parameter 'seqlen'"):
        ioaware.predict("flash2", seqlen=3)
    with pytest.raises(UsageError, match="theorem3"):
        ioaware.verify("theorem3")
    with pytest.raises(UsageError):
        ioaware.predict("flash2", machine="H2OO")


def test_measure_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from ioaware.measurement import measure

    def no_gpu(*_: object) -> None:
        raise MachineError("no NVIDIA GPU is visible here")

    monkeypatch.setattr(measure, "open_gpu", no_gpu)
    monkeypatch.setattr(measure, "load_nvml", object)
    with pytest.raises(MachineError, match="no NVIDIA GPU"):
        ioaware.measure("flash2", **SMALL)


def test_verify_gives_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = Claim("theorem9", "1 < 2 & <b>", "invented", "holds", {})
    monkeypatch.setattr(verify, "verify", lambda names: [claim])
    claims = ioaware.verify("theorem9")
    assert claims == (claim,)
    assert "1 &lt; 2 &amp; &lt;b&gt;" in claims._repr_html_()
    assert "holds" in claims._repr_html_()
