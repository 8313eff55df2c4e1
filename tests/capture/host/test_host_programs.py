"""Random host functions: derived launches equal traced ones.

Formulas hold at new sizes.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.result import Result
from ioaware.targets.loading import load_file
from ioaware.targets.target import Target, load_target
from ioaware.tracing.trace import trace
from tests.support.fuzz.host_programs import host_program


def launches(result: Result) -> list[tuple[str, int | None, int | None]]:
    return [
        (launch.kernel, launch.requested.read_bytes, launch.requested.write_bytes)
        for launch in result.launches
        if launch.origin == "triton" and launch.requested
    ]


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 80))])
def test_derived_equals_traced(seed: int, tmp_path: Path) -> None:
    text, sizes = host_program(seed)

    def fresh(name: str) -> Target:
        """Import the program again, without the state of earlier runs."""
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        return load_target(load_file(path).host)

    result = derive(fresh("derived"), sizes, machine_code=False)
    assert result.exact
    assert launches(result) == launches(trace(fresh("traced"), sizes))
    draw = random.Random(seed)
    for point in range(3):
        values = {name: draw.randint(1, 40) for name in result.symbols or ()}
        try:
            bytes_ = result.evaluate(**values)
        except UsageError:  # the launches differ there, and evaluation is refused
            continue
        traced = trace(fresh(f"point{point}"), {**sizes, **values}).requested
        assert traced
        assert (bytes_["read_bytes"], bytes_["write_bytes"]) == (traced.read_bytes, traced.write_bytes), values
