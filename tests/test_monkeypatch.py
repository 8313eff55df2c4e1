"""Patches, their temporary absence, and what is imported meanwhile."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import SimpleNamespace

import pytest

from ioaware._monkeypatch import Patches, imported_unpatched, unpatched


def test_unpatched_restores_all_patches_and_takes_that_back() -> None:
    owner = SimpleNamespace(kept=1, twice=2)
    with Patches() as outer, Patches() as inner:
        outer.set(owner, "kept", 10)
        outer.set(owner, "new", 30)
        outer.set(owner, "twice", 20)
        inner.set(owner, "twice", 21)
        with unpatched():
            assert vars(owner) == {"kept": 1, "twice": 2}
        assert vars(owner) == {"kept": 10, "new": 30, "twice": 21}
    assert vars(owner) == {"kept": 1, "twice": 2}


def test_a_package_imported_unpatched_keeps_the_real_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "keeps_functions_in_tables"
    package.mkdir()
    (package / "__init__.py").write_text("from . import tables\n")
    (package / "tables.py").write_text("import math\nkept = {math.sqrt}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with imported_unpatched(package.name), Patches() as patches:
        plain = patches.set(math, "sqrt", abs)
        imported = importlib.import_module(package.name)
        assert math.sqrt is abs
    assert imported.tables.kept == {plain}
    assert imported.__spec__ is not None
    assert imported.__loader__ is imported.__spec__.loader
    assert isinstance(imported.__loader__, SourceFileLoader)


@pytest.mark.slow
@pytest.mark.parametrize("load", ["import torch._dynamo", "torch.compiler.disable(lambda: None)", "torch.compile(torch.sin)"])
def test_the_compiler_of_torch_holds_no_function_of_the_fake_gpu(load: str) -> None:
    code = f"""
import torch
from ioaware.fakegpu.fake_cuda import cuda_on_cpu
with cuda_on_cpu():
    {load}
from torch._dynamo.variables.torch import constant_fold_functions
assert {{torch.is_autocast_enabled, torch.cuda.is_available}} <= constant_fold_functions.keys()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
