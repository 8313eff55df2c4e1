"""The state that a run leaves in a library's caches does not reach the next run.

Such state is tensors without memory, fake device properties, or workspaces.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from pathlib import Path

import pytest

import ioaware
from ioaware.targets.loading import is_library
from ioaware.targets.module_state import module_state_restored

SOURCE = """
    import functools
    import torch
    import triton
    import triton.language as tl

    WORKSPACES = {}
    FIRST = True
    ORDER = []

    def memoised(function):
        last = None
        def wrapper(n):
            nonlocal last
            if last is None:
                last = function(n)
            return last
        return wrapper

    @functools.lru_cache
    def zeros(n):
        return torch.zeros(n, device="cuda")

    @memoised
    def ones(n):
        return torch.ones(n, device="cuda")

    @triton.jit
    def add_kernel(x, y, z, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside) + tl.load(z + at, inside), inside)

    def work(n: int = 100):
        global FIRST
        FIRST = False
        ORDER.append(n)
        if "out" not in WORKSPACES:
            WORKSPACES["out"] = torch.empty(n, device="cuda")
        work.count = getattr(work, "count", 0) + 1
        out, x, y, z = WORKSPACES["out"], zeros(n), ones(n), torch.rand(n, device="cuda")
        def run():
            add_kernel[(triton.cdiv(n, 64),)](x, y, z, out, n, BLOCK=64)
            return out
        return run
    """


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"caching_library_{tmp_path.name}".replace("-", "_").replace("[", "_").replace("]", "_")
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


@pytest.mark.parametrize("verbs", list(itertools.permutations(("derive", "trace", "trace"), 3))[:4])
def test_verbs_share_no_state_in_a_library_s_caches(library: str, verbs: tuple[str, ...]) -> None:
    for verb in verbs:
        result = getattr(ioaware, verb)(f"{library}:work", n=100)
        assert (result.requested.read_bytes, result.requested.write_bytes) == (1200, 400)
        module = sys.modules[library]
        assert module.FIRST is True
        assert module.WORKSPACES == {}
        assert module.ORDER == []
        assert not hasattr(module.work, "count")
        assert module.zeros.cache_info().currsize == 0
        assert module.ones.__closure__[1].cell_contents is None
        assert len(ioaware.trace(f"{library}:work").launches) == 1


def test_containers_are_restored_in_place(library: str) -> None:
    module = importlib.import_module(library)
    workspaces, order = module.WORKSPACES, module.ORDER
    workspaces["kept"] = 1
    order[:] = [1, 2]
    with module_state_restored():
        workspaces.clear()
        workspaces["new"] = 2
        order.append(3)
        module.WORKSPACES = {}
        module.LATER = 1
    assert module.WORKSPACES is workspaces
    assert workspaces == {"kept": 1}
    assert order == [1, 2]
    assert not hasattr(module, "LATER")


def test_a_cache_of_ioaware_that_host_code_imports_stays(library: str) -> None:
    """Emptied in each run, it made every later derivation slower."""
    module = importlib.import_module(library)
    module.is_library = is_library
    is_library(__file__)
    with module_state_restored():
        assert is_library.cache_info().currsize
    assert is_library.cache_info().currsize


def test_an_equal_value_under_another_name_is_restored(library: str) -> None:
    module = importlib.import_module(library)
    module.LAST = 1
    with module_state_restored():
        del module.LAST
        module.OTHER = 1
    assert module.LAST == 1
    assert not hasattr(module, "OTHER")


def test_a_module_that_turns_to_torch_is_restored_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    name = "plain_library_that_turns"
    (tmp_path / f"{name}.py").write_text("CACHE = {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module(name)
    try:
        with module_state_restored():
            module.CACHE["first"] = 1
        assert module.CACHE == {"first": 1}  # not scanned: it cannot hold a tensor of the run
        module.tensor = torch.tensor
        with module_state_restored():
            module.CACHE["second"] = 2
        assert module.CACHE == {"first": 1}
    finally:
        del sys.modules[name]
