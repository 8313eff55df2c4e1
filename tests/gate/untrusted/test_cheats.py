"""Kernels that evade an evaluator: each is found, by the rule that it breaks."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest

from ioaware.errors import UsageError
from ioaware.gate.untrusted.examine import Untrusted, examine, findings
from ioaware.gate.untrusted.finding import Finding, Outcome, together
from ioaware.gate.untrusted.kernel_evidence import Evidence
from ioaware.gate.untrusted.trials import run_trials
from ioaware.targets.target import load_target
from tests.support import ROOT

FOLDER = ROOT / "tests" / "support" / "untrusted"
VECTOR, MATRIX = {"x": "f32[n=200]"}, {"x": "f32[rows=6, cols=10]"}
REFUSED, SUSPECT, INCOMPLETE = Outcome.REFUSED, Outcome.SUSPECT, Outcome.INCOMPLETE

ONE_PER_RULE: dict[str, tuple[str, Outcome]] = {
    "cached_by_value": ("cached_result", REFUSED),
    "unwritten": ("unwritten_output", REFUSED),
    "no_kernel": ("no_kernel", REFUSED),
    "decoy": ("decoy_kernel", REFUSED),
    "falls_back": ("hidden_failure", SUSPECT),
    "constant": ("constant_output", REFUSED),
    "first_row_only": ("unread_input", REFUSED),
    "half_precision": ("wrong_output", REFUSED),
    "overwrites_its_input": ("changed_input", REFUSED),
    "view_of_its_input": ("aliased_output", SUSPECT),
    "computes_when_used": ("deferred_output", SUSPECT),
    "on_another_stream": ("other_stream", REFUSED),
    "in_a_thread": ("background_thread", REFUSED),
    "patches_events": ("replaced_function", REFUSED),
    "persisting_l2": ("l2_policy", REFUSED),
    "native_code": ("native_code", INCOMPLETE),
    "sets_the_seed": ("seed_set", REFUSED),
    "searches_its_callers": ("callers_examined", SUSPECT),
    "runs_at_exit": ("deferred_code", SUSPECT),
    "cached_while_nothing_changes": ("recalled_result", REFUSED),
}
MORE: dict[str, tuple[str, Outcome]] = {
    "cached_by_address": ("cached_result", REFUSED),
    "cached_by_shape": ("cached_result", REFUSED),
    "stale_with_a_launch": ("cached_result", REFUSED),
    "right_when_checked": ("cached_result", REFUSED),
    "part_of_the_grid": ("unwritten_output", REFUSED),
    "smaller_type": ("wrong_output", REFUSED),
    "at_the_checked_size": ("wrong_output", REFUSED),
    "waits_for_the_wrong_stream": ("other_stream", REFUSED),
    "patches_synchronize": ("replaced_function", REFUSED),
    "patches_the_clock": ("replaced_function", REFUSED),
    "patches_the_comparison_of_numpy": ("replaced_function", REFUSED),
    "patches_the_comparison_of_numpy_tests": ("replaced_function", REFUSED),
    "patches_the_median": ("replaced_function", REFUSED),
    "patches_the_warm_up": ("replaced_function", REFUSED),
    "patches_the_comparison": ("replaced_function", REFUSED),
    "sets_the_seed_of_the_gpu": ("seed_set", REFUSED),
    "sets_the_seed_of_numpy": ("seed_set", REFUSED),
    "access_policy": ("l2_policy", REFUSED),
    "native_access_policy": ("l2_policy", REFUSED),
    "cached_behind_a_launch": ("recalled_result", REFUSED),
    "cached_by_a_kernel": ("recalled_result", REFUSED),
    "kept_on_the_input": ("cached_result", REFUSED),
    "copies_what_torch_computes": ("decoy_kernel", SUSPECT),
    "copies_what_numpy_computes": ("unread_input", REFUSED),
    "every_second_element": ("unread_input", REFUSED),
    "sets_the_default_type": ("replaced_function", REFUSED),
    "enters_a_mode": ("replaced_function", REFUSED),
    "waits_for_an_earlier_event": ("other_stream", REFUSED),
    "restores_an_earlier_state": ("seed_set", REFUSED),
    "searches_the_stack": ("callers_examined", SUSPECT),
    "searches_by_a_traceback": ("callers_examined", SUSPECT),
    "searches_all_objects": ("callers_examined", SUSPECT),
    "searches_the_main_module": ("callers_examined", SUSPECT),
    "starts_a_process": ("background_thread", REFUSED),
    "persisting_l2_where_there_is_a_library": ("cuda_calls", INCOMPLETE),
}
REFERENCES = {"view_of_its_input": "reference_with_its_input"}


def params_of(cheat: str) -> dict[str, str]:
    return MATRIX if cheat == "first_row_only" else VECTOR


def loader(function: str, file: str = "cheats.py") -> partial[object]:
    return partial(load_target, f"{FOLDER / file}:{function}")


@cache
def found_in_trials(cheat: str) -> tuple[Finding, ...]:
    """Return what the rules find in the trials of a cheat, without a derivation."""
    params = loader(cheat)().resolve(params_of(cheat))
    trials = run_trials(loader(cheat), params, reference=loader(REFERENCES.get(cheat, "reference")))
    return tuple(findings(Evidence(cheat, params, params, trials)))


@pytest.mark.parametrize(("cheat", "rule", "outcome"), [(name, *expected) for name, expected in ONE_PER_RULE.items()])
def test_each_rule_finds_its_cheat(cheat: str, rule: str, outcome: Outcome) -> None:
    found = {(one.rule, one.outcome) for one in found_in_trials(cheat)}
    assert (rule, outcome) in found


@pytest.mark.slow
@pytest.mark.parametrize(("cheat", "rule", "outcome"), [(name, *expected) for name, expected in MORE.items()])
def test_more_cheats(cheat: str, rule: str, outcome: Outcome) -> None:
    found = found_in_trials(cheat)
    assert (rule, outcome) in {(one.rule, one.outcome) for one in found}
    assert together(found).exit_code == outcome.exit_code


def test_functions_replaced_at_import_are_found_and_put_back() -> None:
    import time

    import torch

    before = time.perf_counter, torch.cuda.synchronize
    target = Untrusted.named(f"{FOLDER / 'patched_at_import.py'}:double", VECTOR, {}, typed=True)
    assert (time.perf_counter, torch.cuda.synchronize) == before
    trials = run_trials(target.load, target.trial_params)
    assert (time.perf_counter, torch.cuda.synchronize) == before
    assert trials.replaced.keys() == {"time.perf_counter", "torch.cuda.synchronize"}


@pytest.mark.slow
def test_other_code_for_a_derivation_is_found() -> None:
    target = Untrusted.named(f"{FOLDER / 'cheats.py'}:other_code_when_derived", VECTOR, {}, typed=True)
    found = examine(target, reference=loader("reference"))
    assert [one.rule for one in found.findings] == ["other_kernels"]
    assert found.outcome is SUSPECT


def test_what_is_right_at_one_size_only_is_found_at_a_second() -> None:
    target = Untrusted.named(f"{FOLDER / 'cheats.py'}:only_at_the_checked_size", VECTOR, {}, also={"n": "300"}, typed=True)
    found = examine(target, reference=loader("reference"))
    assert {(one.rule, one.outcome, one.where) for one in found.findings} == {
        ("wrong_output", REFUSED, "output 0 at n=300"),
        ("unread_input", REFUSED, "x: 944 of 1,200 B at n=300"),
    }
    assert found.to_dict()["also_params"] == {"x": "float32[n]", "n": 300}


def test_second_sizes_differ_from_the_first() -> None:
    with pytest.raises(UsageError, match="second sizes are those of the first"):
        Untrusted.named(f"{FOLDER / 'cheats.py'}:decoy", VECTOR, {"n": "90"}, also={"n": "90"}, typed=True)


def test_a_second_size_that_cannot_run_is_not_sound(tmp_path: Path) -> None:
    (tmp_path / "fixed.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.support.untrusted.cheats import doubled\n"
        "def double(x):\n    assert x.numel() == 200\n    return doubled(x)\n"
    )
    target = Untrusted.named(f"{tmp_path / 'fixed.py'}:double", VECTOR, {}, also={"n": "300"}, typed=True)
    (found,) = examine(target, reference=loader("reference")).findings
    assert (found.rule, found.outcome) == ("trials", INCOMPLETE)
    assert found.where.endswith("at n=300")
    assert "AssertionError" in found.what
