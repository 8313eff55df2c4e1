"""Formulas of the causal Hopper kernels are closed and short.

They equal enumeration.

Tiles are assigned in serpentine order or in pairs of a long and a short one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from ioaware.analysis.ir import KernelTraffic
from ioaware.analysis.ir.algebra.poly import ZERO
from ioaware.analysis.ir.sectors.execution_classes import execution_classes
from ioaware.capture.capture import DEFAULT_GPU, Capture, capture
from ioaware.cli.formula_tables import derived_text
from ioaware.compilation.launch_traffic import kernel_traffic, launch_touches
from ioaware.compilation.launches import CapturedLaunch
from ioaware.derivation.derive import derive
from ioaware.symints.guards import param_facts
from ioaware.targets.target import load_target
from tests.support.lasting_cache import lasting_cache

pytest.importorskip("triton.experimental.gluon", reason="the kernels are written in Gluon")

TARGETS = "ioaware.kernels.attention.targets"
POINTS = [
    {"heads": 3, "seq_len": 64},
    {"heads": 2, "seq_len": 129},
    {"heads": 40, "seq_len": 641},
    {"heads": 7, "seq_len": 1023},
]


@lasting_cache
def capture_target(name: str, deterministic: bool = False) -> Capture:
    target = load_target(f"{TARGETS}:{name}")
    # At 4000 rows the fused backward kernel has the general plan, which the points below need.
    given: dict[str, int | bool] = {"causal": True, "heads": 16, "seq_len": 4000 if name == "hopper_backward" else 4096}
    return capture(target, target.resolve(given | ({"deterministic": True} if deterministic else {})), gpu=DEFAULT_GPU)


def launches(found: Capture) -> list[CapturedLaunch]:
    return [event for event in found.events if isinstance(event, CapturedLaunch)]


def derive_launch(found: Capture, launch: CapturedLaunch) -> KernelTraffic:
    return kernel_traffic(launch, found.values, DEFAULT_GPU, param_facts(found.validity.conditions if found.validity else ()))


def enumerate_bytes(launch: CapturedLaunch, values: Mapping[str, int]) -> dict[str, int]:
    """Count the bytes of all lanes, and of the sectors of each execution."""
    touches, programs = launch_touches(launch, values, DEFAULT_GPU)
    fields: list[str] = ["read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes"]
    totals = dict.fromkeys(fields, 0)
    for touch in touches:
        if touch.kind == "atomic":  # counted without sectors, so wherever it is: a loop carries some addresses
            touch = replace(touch, target=replace(touch.target, offset=ZERO))
        for each in execution_classes(touch, programs):
            totals[f"{touch.kind}_bytes"] += int(each.mask.sum()) * touch.element_bytes * each.times
            if touch.kind != "atomic":
                at = each.addresses[each.mask]
                touched = np.unique(np.concatenate((at // 32, (at + touch.element_bytes - 1) // 32)))
                totals[f"{touch.kind}_sector_bytes"] += 32 * touched.size * each.times
    return totals


@pytest.mark.parametrize(("name", "deterministic"), [("hopper", False), ("hopper_backward", False), ("hopper_backward", True)])
def test_every_formula_equals_enumeration(name: str, deterministic: bool) -> None:
    found = capture_target(name, deterministic)
    for launch in launches(found):
        kernel = derive_launch(found, launch)
        assert kernel.exact, kernel.notes
        assert kernel.sectors_exact, kernel.notes
        for values in POINTS:
            expected = enumerate_bytes(launch, {**found.values, **values})
            known = [field for field in expected if getattr(kernel, field) is not None]
            got = {field: getattr(kernel, field).evaluate({**found.values, **values}) for field in known}
            assert got == {field: expected[field] for field in known}, (launch.name, values)


def test_the_forward_formula_has_the_form_of_the_theory() -> None:
    """Q once, and K and V up to the last row of each row block.

    This is 2 d e (sum of min(128 (b + 1), N)) with e = 2.
    """
    found = capture_target("hopper")
    kernel = derive_launch(found, launches(found)[0])
    blocks = "ceil(seq_len/128)"
    square = f"256*head_dim*heads*{blocks}**2 - 256*head_dim*heads*{blocks}"
    assert str(kernel.read_bytes) == f"6*head_dim*heads*seq_len + {square}"
    assert str(kernel.write_bytes) == "2*head_dim*heads*seq_len + 4*heads*seq_len"
    assert str(kernel.flops) == f"4194304*heads*{blocks}**2 + 3145728*heads*{blocks}"


def test_backward_is_closed() -> None:
    for deterministic in (False, True):
        found = capture_target("hopper_backward", deterministic)
        for launch in launches(found):
            kernel = derive_launch(found, launch)
            counts = (kernel.read_bytes, kernel.write_bytes, kernel.atomic_bytes, kernel.flops)
            assert all(count.closed and len(str(count)) < 250 for count in counts), launch.name


@pytest.mark.parametrize(
    "values", [{"heads": 16, "seq_len": 4096}, {"heads": 64, "seq_len": 1000}, {"heads": 5, "seq_len": 16384}]
)
def test_the_whole_result_is_shown_at_any_size(values: dict[str, int]) -> None:
    """Derived at each size, with any order of tiles.

    Hardware counters agree with this form.
    """
    target = load_target(f"{TARGETS}:hopper")
    result = derive(target, target.resolve({"causal": True, **values}), machine_code=False)
    heads, blocks = values["heads"], -(-values["seq_len"] // 128)
    reads = 32768 * heads * blocks**2 + 768 * heads * values["seq_len"] - 32768 * heads * blocks
    assert result.requested is not None
    assert (result.requested.read_bytes, result.requested.write_bytes) == (reads, 260 * heads * values["seq_len"])
    text = "\n".join(str(part) for part in derived_text(result))
    assert "hopper_forward_kernel" in text
