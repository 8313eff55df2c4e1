"""Fingerprints of host code: different wherever behaviour may differ.

Equal ones save the search.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ioaware.capture import capture as capturing
from ioaware.capture.fingerprint import fingerprint
from ioaware.capture.host import host_runner
from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target
from tests.support import SUPPORT

SOURCE = """
SIZE = 3
class Plan:
    rows = 4
    def of(self): return self.rows + inner(1)
def inner(x): return x + 1
def helper(x): return inner(x) * SIZE
def host(n=2, *, wide=False): return helper(n) + Plan().of() + (lambda: elsewhere(n))()
def elsewhere(n): return n
def unused(n): return n
"""
CHANGES = {
    "a number": ("SIZE = 3", "SIZE = 5"),
    "the function": ("helper(n) +", "helper(n) -"),
    "one that it calls": ("inner(x) *", "inner(x) +"),
    "one that those call": ("return x + 1", "return x + 2"),
    "a default": ("n=2", "n=3"),
    "a default by keyword": ("wide=False", "wide=True"),
    "a class": ("rows = 4", "rows = 5"),
    "a method": ("self.rows +", "self.rows -"),
    "one that a lambda calls": ("def elsewhere(n): return n", "def elsewhere(n): return -n"),
    "another line": ("def host", "\ndef host"),
}


def host(source: str = SOURCE) -> Callable[..., object]:
    module = types.ModuleType("host_code_of_a_test")
    exec(compile(source, "host_code_of_a_test.py", "exec"), vars(module))  # noqa: S102 - executes the test's own source
    return vars(module)["host"]


def test_equal_code_has_equal_fingerprints() -> None:
    assert fingerprint(host()) == fingerprint(host())
    assert fingerprint(host()) == fingerprint(host(SOURCE.replace("def unused(n): return n", "def unused(n): return 7")))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_code_has_another_fingerprint(change: tuple[str, str]) -> None:
    assert SOURCE.count(change[0]) >= 1
    assert fingerprint(host()) != fingerprint(host(SOURCE.replace(*change)))


def bound_to(value: Any) -> Callable[[], Any]:
    return lambda: value


@pytest.mark.parametrize("value", [1, 1.0, True, "x", None, (1, [2.0]), {"a": 1}, torch.float16, torch.zeros(2, 3), abs, len])
def test_closure_values_are_part_of_the_fingerprint(value: Any) -> None:
    others = [2, 2.0, False, "y", (1, [3.0]), {"a": 2}, torch.float32, torch.zeros(3, 2)]
    found = fingerprint(bound_to(value))
    if value in (abs, len):  # library functions, whose state is unknown
        assert found is None
        return
    assert found == fingerprint(bound_to(value))
    assert all(found != fingerprint(bound_to(other)) for other in others)


def test_opaque_objects_have_no_fingerprint() -> None:
    assert fingerprint(bound_to(threading.Lock())) is None
    assert fingerprint(bound_to(iter([1]))) is None


TARGETS = SUPPORT / "targets/derived_targets.py"


@pytest.mark.parametrize("name", ["branching", "rounded_up", "flat", "one_launch_each"])
def test_a_cached_search_has_the_same_result_in_two_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, runs = load_target(f"{TARGETS}:{name}"), list[dict[str, int]]()
    plain = host_runner.HostRunner.run

    def run(runner: Any, free: Any) -> Any:
        runs.append(dict(free.values))
        return plain(runner, free)

    monkeypatch.setattr(host_runner.HostRunner, "run", run)
    capturing._search_cache.clear()
    first = derive(target, target.resolve({}))
    searched = len(runs)
    again = derive(target, target.resolve({}))
    assert len(runs) == searched + 2
    assert again.to_dict() == first.to_dict()
    assert again.kernels == first.kernels
    capturing._search_cache.clear()
    derive(target, target.resolve({}))
    assert len(runs) == 2 * searched + 2


def test_other_parameters_are_searched_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    target = load_target(f"{TARGETS}:branching")
    capturing._search_cache.clear()
    assert "mode" not in (derive(target, target.resolve({"mode": 2})).symbols or {})
    assert "mode" in (derive(target, target.resolve({"mode": 3})).symbols or {})
