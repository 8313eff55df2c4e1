"""Compare what a trace of a case counts with what its closed form predicts."""

from __future__ import annotations

from collections.abc import Mapping

from ioaware.prediction import predict
from ioaware.result import ParamValue, Result
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace


def bytes_of(result: Result) -> tuple[int | None, int | None, int | None]:
    assert result.requested is not None
    return result.requested.read_bytes, result.requested.write_bytes, result.requested.atomic_bytes


def assert_agreement(case: str, params: Mapping[str, ParamValue]) -> Result:
    """Check traced bytes of each launch, extra memory and output.

    They are those of the algorithm. Return what was traced.
    """
    target = load_target(case)
    traced, predicted = trace(target, target.resolve(params)), predict(case, **params)
    assert bytes_of(traced) == bytes_of(predicted)
    for launch, step in zip(traced.launches, predicted.launches, strict=True):
        assert launch.requested is not None
        assert step.requested is not None
        seen, expected = launch.requested, step.requested
        assert (seen.read_bytes, seen.write_bytes, seen.atomic_bytes) == (
            expected.read_bytes,
            expected.write_bytes,
            expected.atomic_bytes,
        ), step.kernel
    assert traced.extra_memory_bytes == predicted.extra_memory_bytes
    assert traced.assumed is None  # no torch operator runs
    assert traced.check is not None
    assert traced.check.passed
    return traced
