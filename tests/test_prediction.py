"""`predict` against hand counts and measurements.

Its formulas are compared with its own numbers.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from ioaware.analysis.formulas.printing import show
from ioaware.cases import CASES
from ioaware.errors import UsageError
from ioaware.machine import find_machine
from ioaware.prediction import predict, predicted_flops

FUNCTIONS: dict[str, Callable[..., Any]] = {"ceil": math.ceil, "floor": math.floor, "max": max, "min": min}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: Fraction,
    ast.Pow: operator.pow,
}


def evaluate_text(node: ast.expr, names: dict[str, int]) -> Any:
    """Evaluate the text of a formula in Python's notation, without sympy."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return names[name]
        case ast.BinOp(left, op, right):
            return OPERATORS[type(op)](evaluate_text(left, names), evaluate_text(right, names))
        case ast.Call(ast.Name("sum"), [ast.GeneratorExp(body, [ast.comprehension(ast.Name(index), ast.Call(_, [end]))])]):
            return sum(evaluate_text(body, {**names, index: at}) for at in range(evaluate_text(end, names)))
        case ast.Call(ast.Name(function), arguments):
            return FUNCTIONS[function](*(evaluate_text(argument, names) for argument in arguments))
    raise AssertionError(f"not Python's notation for a formula: {ast.unparse(node)}")


@pytest.mark.parametrize(
    ("case", "params", "reads_mb", "writes_mb"),
    [
        # bytes counted on an H200, in MB of 10^6
        ("flash2", {"heads": 64, "seq_len": 1024, "block_m": 128}, 142.606336, None),
        ("flash2", {"heads": 4, "seq_len": 65_536, "block_m": 128}, 34_393.29, None),
        ("flash1", {"heads": 64, "seq_len": 4096}, 4496.29, 2281.70),
    ],
)
def test_predicted_bytes_equal_measured_ones(
    case: str, params: dict[str, int], reads_mb: float, writes_mb: float | None
) -> None:
    requested = predict(case, **params).launches[-1].requested  # the measured flash1 initialised O, l and m on chip
    assert requested.read_bytes / 1e6 == pytest.approx(reads_mb, rel=2e-6)
    if writes_mb is not None:
        assert requested.write_bytes / 1e6 == pytest.approx(writes_mb, rel=2e-6)


def test_standard_by_hand() -> None:
    """N = 100, N_k = 70, d = 16, tiles of 32 x 48, S in fp32, P in fp16.

    There are 4 row blocks and 2 column blocks.
    """
    result = predict("standard", seq_len=100, kv_len=70, head_dim=16, block_m=32, block_n=48, batch=2, heads=3)
    scores, panels = 100 * 16 * 2 + 70 * 16 * 4, 100 * 70 + 70 * 16 * 4
    assert result.requested.read_bytes == 6 * (2 * scores + 4 * 7000 + 2 * panels)
    assert result.requested.write_bytes == 6 * (4 * 7000 + 2 * 7000 + 2 * 1600)
    assert result.extra_memory_bytes == 6 * 7000 * (4 + 2)
    assert result.flops == 6 * 4 * 7000 * 16
    assert result.compulsory.total_bytes == 6 * 2 * (1600 + 2 * 1120 + 1600)


def test_a_row_too_long_for_the_chip_is_read_twice() -> None:
    short, long = (predict("standard", seq_len=1, kv_len=kv_len).launches[1].requested for kv_len in (16_384, 16_385))
    assert short.read_bytes == 4 * 16_384
    assert long.read_bytes == 2 * 4 * 16_385


GRID = (
    {},
    {"causal": True},
    {"seq_len": 300, "kv_len": 1000, "causal": True, "dtype": "float32"},
    {"seq_len": 1000, "kv_len": 300, "causal": True, "block_m": 48},
    {"seq_len": 777, "sram_elements": 5000, "head_dim": 32, "batch": 2, "heads": 5},
)


@pytest.mark.parametrize("params", GRID, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_formulas_give_the_numbers_and_launches_add_up(case: str, params: dict[str, int]) -> None:
    taken = {param.name for param in CASES[case].params}
    result = predict(case, **{name: value for name, value in params.items() if name in taken})
    names = CASES[case].values(result.params)
    for traffic in (result.requested, result.compulsory, *(launch.requested for launch in result.launches)):
        for formula, value in ((traffic.read_formula, traffic.read_bytes), (traffic.write_formula, traffic.write_bytes)):
            assert evaluate_text(ast.parse(formula, mode="eval").body, names) == value
    assert sum(launch.requested.read_bytes for launch in result.launches) == result.requested.read_bytes
    assert sum(launch.requested.write_bytes for launch in result.launches) == result.requested.write_bytes
    assert sum(launch.flops for launch in result.launches) == result.flops
    assert result.compulsory.read_bytes <= result.requested.read_bytes
    assert result.compulsory.total_bytes <= result.lower_bound_bytes <= result.requested.total_bytes
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["requested"]["read_bytes"] == result.requested.read_bytes


def test_a_formula_for_equal_lengths_has_n_alone() -> None:
    assert "N_k" not in predict("flash2", causal=True).requested.read_formula
    assert "N_k" in predict("flash2", causal=True, kv_len=1000).requested.read_formula
    assert predict("flash2").requested.read_formula == "B*H*e*(2*N*d*ceil(N/B_r) + N*d)"


def test_a_note_has_the_formula_of_the_extra_memory() -> None:
    """FlashAttention needs O(N), chunks of sqrt(N) keys O(sqrt N), a row nothing."""
    notes = {case: predict(case).notes for case in ("standard", "flash1", "chunked", "flash_rowwise")}
    assert "extra memory = B*H*(N**2*e + 4*N**2)" in notes["standard"]
    assert "extra memory = 8*B*H*N" in notes["flash1"]
    assert "extra memory = 4*B*B_r*H*(d + 2)*ceil(N/B_c)" in notes["chunked"]
    assert not any("extra memory" in note for note in notes["flash_rowwise"])
    held = [predict("chunked", seq_len=side**2, block_n=side).extra_memory_bytes for side in (16, 32, 64, 128)]
    assert held == [4 * 64 * (64 + 2) * side for side in (16, 32, 64, 128)]


def test_the_bound_names_its_m() -> None:
    given = predict("flash1", seq_len=2**16, sram_elements=2**14)
    n, d, m = 2**16, 64, 2**14
    assert given.lower_bound_bytes == 2 * (-(-(n * n * d * d) // (m + 4 * d * d)) - m)
    assert any("M = 16384 elements (as given" in note for note in given.notes)
    assert any(
        "M = 116736 elements (the shared memory of each of the 132 SMs of the H200)" in note for note in predict("flash1").notes
    )
    for_a100 = predict("flash1", machine=find_machine("A100"), dtype="float32")
    assert any("M = 41984 elements" in note and "A100" in note for note in for_a100.notes)


def test_a_note_names_the_papers_blocks_and_that_they_exceed_m() -> None:
    notes = "\n".join(predict("flash1", sram_elements=16_384).notes)
    assert "B_c = 64, B_r = 64" in notes
    assert "B_c = ceil(M/(4*d)), B_r = min(ceil(M/(4*d)), d)" in notes
    assert "hold 20608 elements and exceed M" in notes
    assert "fit in M" in "\n".join(predict("flash1", sram_elements=40_000).notes)


@pytest.mark.parametrize(
    ("case", "params"),
    [
        ("flash3", {}),
        ("flash2", {"seqlen": 5}),
        ("flash2", {"seq_len": 0}),
        ("flash2", {"dtype": "int8"}),
        ("flash2", {"heads": 1.5}),
    ],
)
def test_invalid_parameters_are_usage_errors(case: str, params: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        predict(case, **params)


def test_predict_needs_neither_torch_nor_triton() -> None:
    code = (
        "import sys; from ioaware.prediction import predict; predict('flash1'); print({'torch', 'triton'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_formulas_are_printed_in_conventional_order() -> None:
    from sympy import Max, Min, Sum, ceiling, symbols

    i, j, n, b = symbols("i j n b", integer=True)
    assert show(-b + n) == "n - b"
    assert show(Sum(Min(n, b * ceiling(i / b)), (i, 0, n - 1))) == "sum(min(b*ceil(i/b), n) for i in range(n))"
    assert show(Sum(i, (i, 1, n))) == "sum(i for i in range(1, n + 1))"
    assert show(Sum(i * j, (i, 0, j), (j, 1, n))) == "sum(i*j for j in range(1, n + 1) for i in range(j + 1))"
    assert show(Max(n, b) ** 2) == "max(b, n)**2"


def test_every_sm_of_a_machine_may_keep_one_memory_full() -> None:
    """Without a given M each of the H200's 132 SMs has 228 KiB.

    The last part of each may be cheap.
    """
    n, d, m = 65536, 256, 228 * 1024 // 2
    bound = predict("flash2", seq_len=n, head_dim=d).lower_bound_bytes
    assert bound == 2 * (-(-(n * n * d * d) // (m + 4 * d * d)) - 132 * m)


@pytest.mark.parametrize("value", [True, 64.0, "64", 0, -1, 2**24 + 1])
def test_a_size_is_an_integer_in_its_range(value: object) -> None:
    """From Python too, where True is an int."""
    with pytest.raises(UsageError, match=r"seq_len=.* cannot work"):
        predict("flash2", seq_len=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", sorted(CASES))
def test_flops_alone_are_those_of_the_prediction(case: str) -> None:
    """Beyond the defaults: causal, and of two problems."""
    beyond = {"causal": True, "batch": 2, "rows": 7}
    given: dict[str, Any] = {param.name: beyond[param.name] for param in CASES[case].params if param.name in beyond}
    assert given
    assert predicted_flops(case, given) == predict(case, **given).flops
