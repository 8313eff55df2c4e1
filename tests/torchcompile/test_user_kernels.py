"""Triton kernels of the user inside functions of torch.compile.

They are derived and traced with their own constants and grid.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import ioaware
from ioaware.fakegpu.host_caller import is_library
from tests.support.targets import compiled_user_kernels as targets
from tests.support.targets.compiled_user_kernels import SIZE

WORD = 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("target", "kernel", "grid"),
    [
        (targets.scaled, "scale_kernel", (2, 1, 1)),
        (targets.scaled_at_any_size, "scale_kernel", (2, 1, 1)),
        (targets.tuned_at_any_size, "tuned_kernel", (2, 1, 1)),
        (targets.scaled_by_operator, "scale_kernel", (2, 1, 1)),
    ],
)
def test_a_kernel_in_a_compiled_function_is_derived_and_traced(target: Any, kernel: str, grid: tuple[int, ...]) -> None:
    for result in (ioaware.derive(target, check=True), ioaware.trace(target)):
        assert result.exact
        launches = [launch for launch in result.launches if launch.origin == "triton"]
        assert (launches[1].kernel, launches[1].grid) == (kernel, grid)
        assert not any("generated" in note or "WRONG" in note for note in launches[1].notes)
        moved = [launch.requested for launch in launches if launch.requested]
        assert [(one.read_bytes, one.write_bytes) for one in moved] == [(SIZE * WORD, SIZE * WORD)] * 3


@pytest.mark.parametrize("package", ["jinja2", "networkx"])
def test_packages_that_the_compiler_imports_are_no_host_code(package: str) -> None:
    """The order of their sets decides no launch."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert is_library(spec.origin)
