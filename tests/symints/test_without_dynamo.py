"""A derivation imports torch._dynamo only if host code uses it.

It is then imported completely.
"""

from __future__ import annotations

import subprocess
import sys

from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/uncompiled_targets.py"

UNUSED = f"""
import sys, torch, ioaware
ioaware.derive({f"{TARGETS}:plain"!r})
assert "torch._dynamo" not in sys.modules, "loaded"
assert "_dynamo" not in vars(torch), "the stand-in is still there"
assert "torch.fx.experimental.validator" not in sys.modules, "the stand-in is still there"
before = sys.modules["torch._dynamo.config"]
operators = [function for function in vars(torch._refs).values() if hasattr(function, "__wrapped__")]
assert operators and not any("__dynamo_disable" in vars(function.__wrapped__) for function in operators), "torch keeps it"
import torch._dynamo
assert torch._dynamo.config is before, "the settings module was replaced"
assert torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(2)).tolist() == [1, 1]
ioaware.derive({f"{TARGETS}:plain"!r}, n=9)
assert torch._dynamo is sys.modules["torch._dynamo"], "the real module is replaced"
"""

USED = f"""
from tests.support import SUPPORT
import ioaware, torch
ioaware.derive({f"{TARGETS}:uses_dynamo"!r})
assert not torch._dynamo.config.suppress_errors
torch._dynamo.graph_break
"""


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_dynamo_is_loaded_on_use() -> None:
    done = run_python(UNUSED)
    assert not done.returncode, done.stderr


def test_host_code_gets_the_real_dynamo() -> None:
    done = run_python(USED)
    assert not done.returncode, done.stderr
