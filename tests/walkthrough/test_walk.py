"""Steps of a walk: bytes sum to the totals of trace and predict.

Tiles are the papers'.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ioaware
from ioaware.cases import CASES
from ioaware.walkthrough import walk as walk_module
from ioaware.walkthrough.walk import Walk
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/walked_targets.py"
TOY = {"seq_len": 6, "head_dim": 2, "sram_elements": 20, "dtype": "float32"}
"""Sizes of the seed notebook: M = 20 elements, so B_c = 3 and B_r = 2."""
SMALL: dict[str, Any] = {**TOY, "splits": 2, "block_m": 2, "block_n": 3, "rows": 3, "cols": 5}
FORWARD = [name for name in CASES if "_bwd" not in name]


def small(name: str) -> dict[str, Any]:
    """Return toy parameters of a case, with blocks from M if it has M."""
    names = {param.name for param in CASES[name].params}
    dropped = {"block_m", "block_n"} if "sram_elements" in names else set[str]()
    return {key: value for key, value in SMALL.items() if key in names - dropped}


def test_every_forward_case_of_attention_takes_m() -> None:
    assert all("sram_elements" in small(name) for name in FORWARD if not name.startswith("softmax"))


def moves(walk: Walk, step: int) -> list[str]:
    return [f"{move.kind} {move.tile.label}" for move in walk.steps[step].moves]


@pytest.mark.parametrize("name", FORWARD)
def test_every_forward_case_ends_at_the_predicted_total(name: str) -> None:
    walk = ioaware.walk(name, **small(name))
    assert walk.agrees
    assert (
        walk.running_bytes[-1]
        == walk.total_bytes
        == walk.predicted_bytes
        == ioaware.predict(name, **small(name)).requested.total_bytes
    )
    assert walk.traced.check is not None
    assert walk.traced.check.passed
    assert all(move.tile.tensor for step in walk.steps for move in step.moves)


def test_a_backward_case_is_walked_without_the_kernels_that_build_its_inputs() -> None:
    walk = ioaware.walk("flash2_bwd", **TOY)
    assert walk.agrees
    assert {launch.kernel for launch in walk.launches}.isdisjoint({"flash2_kernel"})


def test_causal_and_ragged_blocks_and_several_heads() -> None:
    sizes = {"batch": 1, "heads": 2, "seq_len": 5, "kv_len": 7, "head_dim": 3, "causal": True, "block_m": 2, "block_n": 4}
    for name in ("flash1", "flash2", "flash_rowwise", "block_sparse", "chunked", "square_tiling", "standard"):
        names = {param.name for param in CASES[name].params}
        walk = ioaware.walk(name, **{key: value for key, value in sizes.items() if key in names})
        assert walk.agrees
        assert walk.traced.check is not None
        assert walk.traced.check.passed
    assert any("Q[1, 4, :]" in move for step in range(len(walk.steps)) for move in moves(walk, step))


def test_flash1_reads_and_writes_o_l_m_at_every_step() -> None:
    """Algorithm 1 with 3 row blocks and 2 column blocks.

    O, l, m are initialised, then 2 x (K_j, V_j, 3 row blocks).
    """
    walk = ioaware.walk("flash1", **TOY)
    assert [(step.program, step.loop_text) for step in walk.steps[:4]] == [
        *(((row, 0, 0), "") for row in range(3)),
        ((0, 0, 0), "j=0"),
    ]
    assert [step.loop_text for step in walk.steps[4:]] == [f"j=0, i={i}" for i in range(3)] + ["j=1"] + [
        f"j=1, i={i}" for i in range(3)
    ]
    assert moves(walk, 3) == ["read K[0:3, :]", "read V[0:3, :]"]
    assert moves(walk, 5) == [
        *("read Q[2:4, :]", "read O[2:4, :]", "read L[2:4]", "read M[2:4]"),
        *("write O[2:4, :]", "write L[2:4]", "write M[2:4]"),
    ]
    assert walk.steps[5].bytes == 4 * (3 * 4 + 4 * 2)
    assert walk.total_bytes == 4 * (3 * 12 + 12 + 2 * (3 * 12 + 4 * 6))  # theory: 3 N d + 2 N + T_c (3 N d + 4 N) elements


def test_tensors_of_splits_have_names() -> None:
    walk = ioaware.walk("split_kv", **small("split_kv"))
    assert [tensor.name for tensor in walk.tensors] == ["Q", "K", "V", "O_split", "Lse_split", "O", "Lse"]
    assert moves(walk, len(walk.steps) - 1) == ["write O[5, :]", "write Lse[5]"]


def test_values_are_what_the_kernel_computes() -> None:
    """S, m and l of the last column block in natural units.

    flash2 holds S in units of log 2.
    """
    for name in ("flash2", "flash_lse", "flash1"):
        walk = ioaware.walk(name, source="seed", values=True, **TOY)
        q, k, v = (launch_values(walk, tensor) for tensor in ("Q", "K", "V"))
        scores = q @ k.T
        steps = [step for step in walk.steps if "s" in step.assigned]
        assert steps
        for step in steps:
            rows, keys = (next(m.tile.ranges[0] for m in walk_moves(walk, step) if m.tile.tensor.name == t) for t in ("Q", "K"))
            np.testing.assert_allclose(step.on_chip["s"], scores[slice(*rows), slice(*keys)], rtol=1e-5)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        np.testing.assert_allclose(final(walk, "O"), weights / weights.sum(1, keepdims=True) @ v, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["flash2", "flash1"])
def test_padding_is_cut_off_whatever_the_dtype(name: str, dtype: str) -> None:
    half, single = (ioaware.walk(name, source="seed", values=True, **{**TOY, "dtype": each}) for each in (dtype, "float32"))

    def shapes(walk: Walk) -> list[dict[str, tuple[int, ...]]]:
        return [{each: values.shape for each, values in step.on_chip.items()} for step in walk.steps]

    assert shapes(half) == shapes(single)


def launch_values(walk: Walk, name: str) -> Any:
    """Return a tensor's values before the first launch that uses it."""
    return next(v for one in walk.launches for t, v in zip(one.tensors, one.contents, strict=True) if t.name == name)


def walk_moves(walk: Walk, step: Any) -> Any:
    """Yield the reads of the step, then those of earlier steps of its program.

    These are the tiles on chip.
    """
    at = walk.steps.index(step)
    for earlier in reversed(walk.steps[: at + 1]):
        if (earlier.launch, earlier.program) != (step.launch, step.program):
            return
        yield from earlier.moves


def final(walk: Walk, name: str) -> Any:
    """Return a tensor's values after the walk, from its writes."""
    values = launch_values(walk, name).copy()
    for step in walk.steps:
        for move in step.moves:
            if move.tile.tensor and move.tile.tensor.name == name:
                for row, column, value in move.cells:
                    values[row, column] = value
    return values


def test_a_users_kernel_with_a_while_loop_a_call_and_atomics() -> None:
    walk = ioaware.walk(f"{TARGETS}:while_loop", values=True)
    assert [step.loop_text for step in walk.steps] == ["iteration=0", "iteration=1"]
    assert moves(walk, 1) == ["read X[4:6]", "write Y[4:6]", "atomic total"]
    assert walk.predicted_bytes is None
    assert walk.moved == (24, 24, 8)
    assert walk.steps[1].on_chip["y"].tolist() == [8, 10]  # without the padding of four lanes
    assert "twice" not in walk.steps[0].on_chip  # its function has returned


@pytest.mark.parametrize(("every", "label"), [(1, "read X[:, :]"), (2, "read X[:, 0:7] (16 of 28)")])
def test_views_and_strided_accesses(every: int, label: str) -> None:
    assert moves(ioaware.walk(f"{TARGETS}:transposed", every=every), 0)[0] == label


def test_a_difference_from_the_byte_counter_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = walk_module.trace

    def one_launch_less(*args: Any, **options: Any) -> Any:
        result = plain(*args, **options)
        options["observer"].steps.pop()
        return result

    monkeypatch.setattr(walk_module, "trace", one_launch_less)
    with pytest.raises(RuntimeError, match="the byte counter has"):
        ioaware.walk("flash2", **TOY)


def test_a_different_prediction_does_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = walk_module.predict
    monkeypatch.setattr(walk_module, "predict", lambda case, **params: plain(case, **{**params, "seq_len": 7}))
    assert not ioaware.walk("flash2", **TOY).agrees


def test_a_walk_has_html_and_json() -> None:
    walk = ioaware.walk("flash1", **TOY)
    assert "K[0:3, :]" in walk._repr_html_()
    assert walk.to_dict(steps=2)["number_of_steps"] == 11
    assert len(walk.to_dict(steps=2)["steps"]) == 2
