"""Derived formulas equal hand counts, traces and the papers' closed forms."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import sympy

import ioaware
from ioaware.analysis.theory.counting import B, B_c, B_r, H, N, N_k, d, e
from ioaware.analysis.theory.counts import flash1, flash2, standard
from ioaware.compilation.triton_ir import find_gpu
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import DataError, UsageError
from ioaware.prediction import predict
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT
from tests.support.kernel_zoo.zoo_files import zoo

TARGETS = SUPPORT / "targets/derived_targets.py"
UNDEFINED_LINE = next(number for number, line in enumerate(TARGETS.read_text().splitlines(), 1) if "undefined" in line)


def derive_target(name: str, *, file: Path = TARGETS, autotune: dict[str, object] | None = None, **params: object) -> Derived:
    target = load_target(f"{file}:{name}")
    return derive(target, target.resolve(params), autotune=autotune, machine_code=False)


def formulas(result: Derived) -> list[tuple[str | None, str | None]]:
    return [(launch.requested.read_formula, launch.requested.write_formula) for launch in result.launches if launch.requested]


def has_note(result: Derived, *words: str) -> bool:
    return any(all(word in note for word in words) for note in result.notes)


def test_sizes_from_views_stay_symbolic() -> None:
    result = derive_target("flat", rows=7, columns=30)
    assert formulas(result) == [("2*columns*rows", "2*columns*rows")]
    assert result.requested is not None
    assert (result.requested.read_bytes, result.requested.write_bytes, result.requested.atomic_bytes) == (420, 420, 0)
    assert result.launches[0].grid == (4, 1, 1)
    assert result.exact


def test_a_host_loop_pins_its_count_and_nothing_else() -> None:
    result = derive_target("one_launch_each", n=100, times=3)
    triton = [launch for launch in result.launches if launch.origin == "triton"]
    assert [launch.requested.read_formula for launch in triton if launch.requested] == ["4*n"] * 3
    assert has_note(result, "times specialised to 3", "derived_targets.py:")
    assert has_note(result, "block specialised to 64", "constexpr BLOCK")
    assert not has_note(result, "n specialised")


def test_power_of_two_leaves_its_parameter_symbolic_with_a_condition() -> None:
    result = derive_target("rounded_up", rows=20, columns=100)
    assert formulas(result)[1:] == [("4*columns*rows", "4*columns*rows")]
    assert result.conditions == result.launches[-1].conditions == ("next_power_of_2(columns) == 128",)
    assert has_note(result, "assumes next_power_of_2(columns) == 128 (constexpr BLOCK)")


def test_branches_pin_or_are_assumed() -> None:
    result = derive_target("branching")
    assert has_note(result, "mode specialised to 2", "branch at derived_targets.py:")
    assert has_note(result, "assumes n < 4096", "branch at derived_targets.py:")
    assert len([launch for launch in result.launches if launch.origin == "triton"]) == 2
    assert len([launch for launch in derive_target("branching", mode=3).launches if launch.origin == "triton"]) == 1


def test_code_that_checks_for_integers_accepts_symbols() -> None:
    result = derive_target("integers_only", n=70, block=32)
    assert has_note(result, "block specialised to 32", "constexpr BLOCK")
    assert result.requested is not None
    assert result.requested.read_formula == "4*n"


@pytest.mark.parametrize(("batch", "launches"), [(1, 2), (2, 1)])
def test_size_one_is_not_generalised(batch: int, launches: int) -> None:
    result = derive_target("singular", batch=batch)
    assert len([launch for launch in result.launches if launch.origin == "triton"]) == launches
    assert has_note(result, "batch specialised to 1") == (batch == 1)


def test_forward_and_backward_with_the_operators_between() -> None:
    result = derive_target("forward_and_backward", n=100)
    assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["scale_kernel"] * 2
    assert result.requested is not None
    assert result.requested.read_formula == "8*n"
    assert result.assumed is not None
    assert (result.assumed.read_bytes, result.assumed.read_formula) == (800, "8*n")  # gradient * x reads both


def test_custom_operators_allocate_where_their_operands_are() -> None:
    result = derive_target("custom_operator", n=100)
    assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["scale_kernel"] * 2
    assert result.requested is not None
    assert result.requested.read_formula == "8*n"


def test_the_configuration_is_named_and_can_be_chosen() -> None:
    first, second = derive_target("tuned"), derive_target("tuned", autotune={"BLOCK": 128})
    assert "derived with BLOCK=32" in first.launches[-1].notes[0]
    assert "derived with BLOCK=128" in second.launches[-1].notes[0]
    assert formulas(first)[-1] == ("2*n", "2*n")
    assert formulas(second)[-1] == ("2*n", "2*n")
    assert has_note(first, "assumes n % 32 == 0 (constexpr EVEN)")
    with pytest.raises(UsageError, match="no configuration"):
        derive_target("tuned", autotune={"BLOCK": 7})


@pytest.mark.parametrize(
    ("name", "reads"),
    [("described", "4*columns*rows"), ("paired", "4*min(16, m) + 4*min(16, n)"), ("local", "4*n")],
)
def test_argument_kinds(name: str, reads: str) -> None:
    result = derive_target(name)
    assert result.requested is not None
    assert result.requested.read_formula == reads


def test_a_warmup_by_types_launches_nothing() -> None:
    result = derive_target("warmed_up_by_types")
    assert result.exact
    assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["scale_kernel"]


def test_a_grid_from_what_the_compiled_kernel_uses() -> None:
    result = derive_target("occupied")
    assert result.launches[-1].grid[0] % 132 == 0
    assert has_note(result, "read the GPU's properties")


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("flat", (420, 420)), ("described", (3840, 3840)), ("one_launch_each", (400, 400)), ("in_place", (400, 400)),
        ("half", None), ("summed_by_torch", None),
    ],
)  # fmt: skip
def test_compulsory_is_every_input_and_output_once(name: str, floor: tuple[int, int] | None) -> None:
    result = derive_target(name)
    found = result.compulsory and (result.compulsory.read_bytes, result.compulsory.write_bytes)
    assert found == floor
    assert floor or has_note(result, "compulsory is unknown")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("branches_on_a_kernels_output", ("reads what a kernel computed", "derived_targets.py:")),
        ("broken", ("broken_kernel does not compile for cuda:90", "undefined", f"at derived_targets.py:{UNDEFINED_LINE}")),
        ("misspelt", ("scale_kernel", "BLOK")),
        ("incomplete", ("missing a required argument", "derived_targets.py:")),
        ("idle", ("launched no Triton kernel",)),
    ],
)
def test_bad_targets_give_one_sentence(name: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        derive_target(name)
    assert all(word in str(caught.value) for word in words), caught.value
    assert caught.value.exit_code == 2


def test_host_reads_of_data_are_replayed_and_noted() -> None:
    result = derive_target("reads_lengths", n=100)
    triton = [launch for launch in result.launches if launch.origin == "triton"]
    assert [launch.requested.read_bytes for launch in triton if launch.requested] == [400, 40, 80, 120, 400]
    assert result.requested is not None
    assert result.requested.read_formula == "8*n + 240"
    for words in (" is 30", " is True", " is [10, 20, 30]"):
        assert has_note(result, "assumes that the data read at derived_targets.py:", words)
    assert len([launch for launch in derive_target("branches_on_data").launches if launch.origin == "triton"]) == 1


SAME = (
    *("masked_add", "all_work", "strided", "transpose", "scalar", "same_address", "descriptor", "gather", "softmax"),
    *("occupied", "tuned", "forward_and_backward", "torch_between", "matmul", "batched_dot", "half_written", "enclosing"),
)


@pytest.mark.parametrize("name", SAME)
def test_derived_is_traced(name: str) -> None:
    """The kernel zoo: derived from the IR and traced.

    Compared are bytes, atomics, FLOPs and torch operators.
    """
    target = load_target(zoo(name))
    result, seen = derive(target, target.resolve({}), machine_code=False), trace(target, target.resolve({}))
    assert result.requested
    assert seen.requested
    for field in ("read_bytes", "write_bytes", "atomic_bytes"):
        assert getattr(result.requested, field) == getattr(seen.requested, field), field
    assert result.flops == seen.flops
    assert result.exact
    both = [one.assumed and (one.assumed.read_bytes, one.assumed.write_bytes) for one in (result, seen)]
    assert both[0] == both[1]


@pytest.mark.parametrize("name", ["histogram", "scan"])
def test_data_dependence_is_not_guessed(name: str) -> None:
    result = derive_target(name, file=Path(zoo(name).rpartition(":")[0]))
    assert result.exact == (name == "scan")  # the host wrote its bound, so its bytes are exact
    assert result.requested is not None
    assert (None in (result.requested.read_bytes, result.requested.atomic_bytes)) == (name != "scan")
    assert result.unknowns
    assert any("zoo" in note and ".py:" in note for launch in result.launches for note in launch.notes)


@pytest.mark.parametrize(
    ("name", "reads"),
    [("persistent", "4*columns*rows"), ("shares", "4*rows*min(128, columns)")],
)
def test_min_and_max_of_symbols_do_not_branch(name: str, reads: str) -> None:
    """The grid `min(processors, tiles)` holds on both sides.

    Each tile is processed once.
    """
    target = load_target(f"{TARGETS}:{name}")
    result = derive(target, target.resolve({}), machine_code=False)
    assert formulas(result)[-1] == (reads, reads)
    assert not has_note(result, "assumes")
    for rows, columns in ((1, 1), (16, 80), (33, 17), (65, 100)):
        seen = trace(target, target.resolve({"rows": rows, "columns": columns})).requested
        assert seen is not None
        found = result.evaluate(rows=rows, columns=columns)
        assert (found["read_bytes"], found["write_bytes"]) == (seen.read_bytes, seen.write_bytes), (rows, columns)


COUNTS = {"standard": standard.counts, "flash1": flash1.counts, "flash2": flash2.counts}


@pytest.mark.parametrize("case", COUNTS)
def test_sympy_proves_the_papers_closed_form(case: str) -> None:
    """The derived formula minus the paper's is zero where the blocks divide.

    This holds for all N and N_k that the blocks divide.
    """
    target = load_target(case)
    params = {"seq_len": 512, "kv_len": 256, "head_dim": 64, "block_m": 64, "block_n": 32}
    result = derive(target, target.resolve(params), machine_code=False)
    blocks, keys = sympy.symbols("T_r T_c", integer=True, positive=True)
    seq_len, kv_len, batch, heads = sympy.symbols("seq_len kv_len batch heads", integer=True, positive=True)
    counts = COUNTS[case](causal=False)
    paper = {N: 64 * blocks, N_k: 32 * keys, d: 64, B_r: 64, B_c: 32, e: 2, B: batch, H: heads, standard.c: 1}
    assert result.formulas is not None
    for found, closed in (
        (result.formulas.read_bytes, counts.reads.bytes),
        (result.formulas.write_bytes, counts.writes.bytes),
        (result.formulas.flops, counts.flops),
    ):
        general = found.expr.subs({seq_len: 64 * blocks, kv_len: 32 * keys})
        if case == "standard":  # a row of S fits in one block here, which a note states
            general = general.subs(sympy.Min(256, 32 * keys), 32 * keys)
        assert sympy.simplify(general - (B * H * closed).subs(paper)) == 0


STRUCTURES = [
    {"block_m": block_m, "block_n": block_n, "head_dim": head_dim, "dtype": dtype, "causal": causal}
    for block_m, block_n, head_dim, dtype, causal in (
        (64, 64, 64, "float16", False),
        (16, 32, 32, "float32", False),
        (48, 20, 80, "bfloat16", False),
        (32, 16, 16, "float16", True),
    )
]


@pytest.mark.parametrize("structure", range(len(STRUCTURES)))
@pytest.mark.parametrize("case", ["flash1", "flash2"])
def test_formulas_agree_with_the_papers_at_random_sizes(case: str, structure: int) -> None:
    """One formula, derived once, equals the closed form.

    This holds at sizes that no block divides.
    """
    given = STRUCTURES[structure]
    target = load_target(case)
    result = derive(target, target.resolve({**given, "seq_len": 100, "kv_len": 130}), machine_code=False)
    draw = random.Random(structure)
    for _ in range(40):
        sizes = {name: draw.randint(1, 400) for name in ("seq_len", "kv_len")}
        sizes |= {name: draw.randint(1, 4) for name in ("batch", "heads")}
        predicted = predict(case, **given, **sizes).requested
        assert predicted is not None
        found = result.evaluate(**sizes)
        assert (found["read_bytes"], found["write_bytes"]) == (predicted.read_bytes, predicted.write_bytes), sizes


@pytest.mark.parametrize("case", COUNTS)
def test_derived_is_traced_and_predicted(case: str) -> None:
    params = {"seq_len": 50, "kv_len": 70, "head_dim": 32, "block_m": 16, "block_n": 32, "causal": True, "heads": 2}
    target = load_target(case)
    values = target.resolve(params)
    result, seen, closed = derive(target, values, machine_code=False), trace(target, values), predict(case, **params)
    bytes_of = [(one.requested.read_bytes, one.requested.write_bytes) for one in (result, seen, closed) if one.requested]
    assert bytes_of[0] == bytes_of[1] == bytes_of[2]
    assert result.flops == seen.flops
    assert result.compulsory == seen.compulsory


def test_evaluation_at_many_points() -> None:
    result = derive_target("flat")
    rows = np.arange(1, 100_001)
    found = result.evaluate(rows=rows)["read_bytes"]
    assert np.array_equal(np.asarray(found), 60 * rows)
    with pytest.raises(UsageError, match="no symbolic parameter lines"):
        result.evaluate(lines=3)


def test_registers_and_shared_memory() -> None:
    target = load_target("flash2")
    (launch,) = derive(target, target.resolve({})).launches
    assert launch.shared_bytes is not None
    assert launch.shared_bytes >= 64 * 64 * 2 * 3
    assert launch.registers is not None
    assert 32 <= launch.registers <= 255


def test_a_newer_gpu_compiles_what_an_older_one_cannot() -> None:
    target = load_target(zoo("host_descriptor"))
    with pytest.raises(UsageError, match=r"does not compile for cuda:90: ptxas: .*requires \.target sm_100"):
        derive(target, target.resolve({}))
    assert derive(target, target.resolve({}), gpu=find_gpu("cuda:100")).launches[-1].registers


@pytest.mark.parametrize("name", ["h900", "", "cuda:", "cuda:x", "rocm:90", "H200:90"])
def test_unknown_gpu_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no GPU"):
        find_gpu(name)


@pytest.mark.parametrize(
    ("name", "arch"), [("cuda:90", 90), ("h200", 90), ("NVIDIA H200", 90), ("A100", 80), ("l40s", 89), ("B200", 100)]
)
def test_a_gpu_has_the_names_of_the_machines(name: str, arch: int) -> None:
    assert find_gpu(name).arch == arch


def test_a_gpu_is_named_by_a_machine_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('preset = "A100"')
    assert find_gpu(str(tmp_path / "mine.toml")).arch == 80
    (tmp_path / "mine.toml").write_text("preset = 3")
    with pytest.raises(DataError, match=r"mine\.toml"):
        find_gpu(str(tmp_path / "mine.toml"))


def test_the_result_is_a_record(tmp_path: Path) -> None:
    from ioaware.result_file import read_jsonl, write_jsonl

    result = derive_target("flat")
    write_jsonl(tmp_path / "derived.jsonl", [result])
    (read,) = read_jsonl(tmp_path / "derived.jsonl")
    assert read.to_dict() == result.to_dict()
    assert {"formulas", "kernels", "symbols"}.isdisjoint(result.to_dict())


def test_a_function_as_the_target() -> None:
    sys.path.insert(0, str(TARGETS.parent))
    try:
        import derived_targets
    finally:
        sys.path.remove(str(TARGETS.parent))
    assert ioaware.derive(derived_targets.flat, rows=3).requested == derive_target("flat", rows=3).requested


def test_kernels_decorated_for_the_interpreter_are_refused() -> None:
    with pytest.raises(UsageError, match="Unset TRITON_INTERPRET"):
        derive_target("interpreted")
