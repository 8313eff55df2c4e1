"""GPU time of every case, with the bytes and FLOPs that are known of it.

Run it with `python -m pytest tests/benchmarks -m gpu`.

Two runs of one commit are compared by `--benchmark-save` and `--benchmark-compare`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ioaware.cases import CASES
from tests.support.gpu import NEEDS_GPU

if TYPE_CHECKING:
    from ioaware.bench.benchmark_plugin import GpuBenchmark


pytestmark = NEEDS_GPU


SIZES = {"batch": "4", "heads": "16", "kv_heads": "4"}
"""Instances that fill the GPU; other parameters keep their defaults."""


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # of autograd's own thread, in the reference
@pytest.mark.parametrize("case", CASES)
def test_case(case: str, gpu_benchmark: GpuBenchmark) -> None:
    import torch

    from ioaware.prediction import predict
    from ioaware.targets.output_check import tensors, worst_error
    from ioaware.targets.target import load_target

    target = load_target(case)
    given = {param.name: SIZES[param.name] for param in CASES[case].params if param.name in SIZES}
    params = target.resolve(given, typed=True)
    torch.manual_seed(0)
    work = target.build(device="cuda", **params)
    assert work.reference is not None
    assert work.tolerance is not None
    assert worst_error(tensors(work.run()), work.reference()) <= work.tolerance  # first, so that no wrong output is timed
    gpu_benchmark.describe(predict(case, **params))
    gpu_benchmark(work.run)
