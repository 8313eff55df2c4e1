"""GPU time of every case, with the bytes and FLOPs that are known of it.

Run it with `python -m pytest tests/benchmarks -m gpu`.

Two runs of one commit are compared by `--benchmark-save` and `--benchmark-compare`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ioaware.cases import CASES
from ioaware.errors import MachineError
from ioaware.measurement.nvml import load_nvml, open_gpu

if TYPE_CHECKING:
    from ioaware.bench.benchmark_plugin import GpuBenchmark


def reason_to_skip() -> str:
    """Return why this machine cannot measure, or "" if it can."""
    try:
        open_gpu(load_nvml())
    except MachineError as error:
        return error.what
    return ""


WHY = reason_to_skip()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(WHY), reason=WHY or "a GPU is here")]


@pytest.mark.parametrize("case", CASES)
def test_case(case: str, gpu_benchmark: GpuBenchmark) -> None:
    from ioaware.prediction import predict
    from ioaware.targets.target import load_target

    target = load_target(case)
    params = target.resolve({}, typed=True)
    work = target.build(device="cuda", **params)
    gpu_benchmark.describe(predict(case))
    gpu_benchmark(work.run)
