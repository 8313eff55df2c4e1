"""Capture: symbolic integers as formulas, guards, calls, and patches undone.

The calls are those with tensors.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
import torch
import triton
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from triton.compiler.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

import ioaware
from ioaware.analysis.formulas.printing import show
from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation.triton_ir import first_ir
from ioaware.errors import UsageError
from ioaware.symints.symbols import Symbols
from ioaware.targets.loading import load_file
from ioaware.targets.target import load_target
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/derived_targets.py"


def symbols(**values: int) -> tuple[Symbols, list[torch.SymInt]]:
    made = Symbols(values)
    return made, [made.ints[name] for name in values]


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda n, m: triton.cdiv(n, 64), "ceil(n/64)"),
        (lambda n, m: -(-n // m), "ceil(n/m)"),
        (lambda n, m: (n + m - 1) // m, "ceil(n/m)"),
        (lambda n, m: n // m, "floor(n/m)"),
        (lambda n, m: (n + 5) // 64, "floor((n + 5)/64)"),
        (lambda n, m: n % 8 + m * n**2, "m*n**2 + n % 8"),
        (lambda n, m: torch.sym_max(n, m), "max(m, n)"),
        (lambda n, m: n << 2, "4*n"),
        (lambda n, m: n >> 3, "floor(n/8)"),
    ],
)
def test_symbolic_integers_become_formulas(function, shown: str) -> None:
    made, (n, m) = symbols(n=100, m=7)
    assert show(made.expression(function(n, m))) == shown
    assert not made.decisions


def test_expression_without_formula_pins_its_parameter() -> None:
    made, (n,) = symbols(n=100)
    assert made.expression(n | 1) == sympy.Integer(101)
    (decision,) = made.decisions.values()
    assert (decision.pins, decision.names) == (True, frozenset({"n"}))


def test_conditions_that_always_hold_are_not_guards() -> None:
    made, (n, m) = symbols(n=100, m=7)
    assert n > 0
    assert n * m >= n
    assert n + 1 != 1
    assert not made.decisions
    assert n > m
    (decision,) = made.decisions.values()
    assert decision.note.startswith("assumes ")
    assert "test_capture.py:" in decision.note
    assert not decision.pins


def test_equal_parameters_become_one_symbol() -> None:
    made, (n, m) = symbols(n=64, m=64)
    assert n == m
    (decision,) = made.decisions.values()
    assert (decision.equals, decision.pins) == (("n", "m"), False)


def test_views_keep_symbolic_sizes() -> None:
    made, (n, m) = symbols(n=100, m=8)
    with FakeTensorMode(shape_env=made.shapes):
        x = torch.empty(n, m).t().contiguous().view(-1)
    assert show(made.expression(x.shape[0])) == "m*n"


def test_patches_are_undone() -> None:
    before = (
        JITFunction.run,
        Autotuner.run,
        CompiledKernel.__getitem__,
        FakeTensor.device,
        vars(torch.SymInt).get("bit_length"),
    )
    available, state = torch.cuda.is_available(), torch.random.get_rng_state()
    target = load_target(f"{TARGETS}:tuned")
    capture(target, target.resolve({}))
    with pytest.raises(UsageError):
        ioaware.derive(f"{TARGETS}:broken")
    after = (
        JITFunction.run,
        Autotuner.run,
        CompiledKernel.__getitem__,
        FakeTensor.device,
        vars(torch.SymInt).get("bit_length"),
    )
    assert after == before
    assert torch.cuda.is_available() == available
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.ones(2).device.type == "cpu"


def test_ir_is_general_in_symbolic_parameters() -> None:
    """The IR is not specialised to a value of 1 or to multiples of 16."""
    target = load_target(f"{TARGETS}:one_launch_each")
    texts = []
    for n in (1, 64, 100):
        found = capture(target, target.resolve({"n": n}))
        texts.append(first_ir(found.launches[0], found.values, DEFAULT_GPU).text)
    assert texts[1] == texts[2] == texts[0]
    assert "%n: i32 loc" in texts[0]


def test_a_large_parameter_is_compiled_as_64_bits() -> None:
    target = load_target(f"{TARGETS}:one_launch_each")
    found = capture(target, target.resolve({"n": 2**31, "times": 1}))
    assert "%n: i64 loc" in first_ir(found.launches[0], found.values, DEFAULT_GPU).text


def test_a_call_with_tensors() -> None:
    module = load_file(TARGETS)
    result = ioaware.derive(module.scale, torch.empty(30, 40, dtype=torch.float16), 2.0, block=128)
    assert result.requested is not None
    assert result.requested.read_formula == "2*x_0*x_1"
    assert dict(result.params) == {"x_0": 30, "x_1": 40, "factor": 2.0, "block": 128}
    rows = np.array([1, 30, 1000])
    assert list(np.asarray(result.evaluate(x_0=rows)["read_bytes"])) == [80, 2400, 80000]


def test_asserted_equal_sizes_share_a_parameter() -> None:
    module = load_file(TARGETS)

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        assert x.shape == y.shape
        return module.scale(x, 1.0) + module.scale(y, 1.0)

    result = ioaware.derive(both, torch.empty(50), torch.empty(50))
    assert result.requested is not None
    assert result.requested.read_formula == "8*x_0"
    assert any("x_0 == y_0" in note for note in result.notes)


def test_a_transposed_tensor_stays_transposed() -> None:
    module = load_file(TARGETS)
    seen: list[tuple[bool, str]] = []

    def observe(x: torch.Tensor) -> torch.Tensor:
        seen.append((x.is_contiguous(), str(x.device)))
        return module.scale(x.contiguous(), 1.0)

    result = ioaware.derive(observe, torch.empty(40, 30).t())
    assert set(seen) == {(False, "cuda:0")}
    assert result.assumed is not None
    assert result.assumed.read_formula == "4*x_0*x_1"


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot be called like that"):
        ioaware.derive(load_file(TARGETS).scale, torch.empty(3))


def test_repeated_derivations_do_not_leak_objects() -> None:
    """The number of live objects stays constant, despite torch's caches."""
    import gc

    from ioaware.derivation.derive import derive
    from ioaware.targets.target import load_target

    target = load_target("flash2")
    params = target.resolve({})
    counts: list[int] = []
    for _ in range(3):
        for _ in range(3):
            derive(target, params, machine_code=False)
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert counts[2] - counts[1] < 500  # three runs that leak add a thousand objects
