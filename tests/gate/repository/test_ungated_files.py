"""Files that `--traffic-only` may leave out when they cannot be imported.

Every way in which such a file may have a gate keeps it an error.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.gate.repository.ledger import LEDGER
from ioaware.gate.repository.ungated_files import may_have_gate
from tests.gate.test_pytest_plugin import gated, repository  # noqa: F401 (fixtures)
from tests.support.gate_runs import Repository

BROKEN = "import torch_of_another_machine\n\n\ndef test_speed():\n    assert torch_of_another_machine\n"
GATE = "def test_gate(traffic):\n    assert traffic(1) == traffic.snapshot()\n"
FIXTURE = "import pytest\n\n\n@pytest.fixture\ndef moved(traffic):\n    return traffic\n"


def written(root: Path, files: dict[str, str]) -> bool:
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return may_have_gate(root / "tests" / "test_speed.py", root)


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"traffic_model.py": GATE},
        {"tests/conftest.py": "import pytest\n", "kernels.py": "'''Less memory traffic.'''\n"},
        {"elsewhere/conftest.py": FIXTURE},
    ],
)
def test_a_file_that_names_no_gate(tmp_path: Path, others: dict[str, str]) -> None:
    speed = BROKEN + "import kernels\nmodel.eval()\n'no traffic here'\n"
    assert not written(tmp_path, {"tests/test_speed.py": speed, **others})


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (BROKEN + GATE, {}),
        (BROKEN + GATE.replace("traffic", "\uff54raffic"), {}),
        (BROKEN + "@pytest.mark.usefixtures('traffic')\ndef test(): ...\n", {}),
        (BROKEN + "def test(request):\n    request.getfixturevalue('traffic')\n", {}),
        (BROKEN + "@pytest.mark.traffic(max_bytes=1)\ndef test(moved): ...\n", {}),
        (BROKEN + "def test(moved): ...\n", {"tests/conftest.py": FIXTURE}),
        (BROKEN + "def test(moved): ...\n", {"conftest.py": FIXTURE}),
        (BROKEN + "def test(moved): ...\n", {"conftest.py": "pytest_plugins = ['lib.shared']\n", "lib/shared.py": FIXTURE}),
        (BROKEN + "from shared import *\n", {"tests/shared.py": GATE}),
        (BROKEN + "from .shared import *\n", {"tests/shared.py": GATE}),
        (BROKEN + "from . import shared\n", {"tests/shared.py": GATE}),
        (BROKEN + "import lib.shared as one\n", {"deep/er/lib/shared.py": GATE}),
        (BROKEN + "from shared import *\n", {"tests/shared.py": "import further\n", "further/__init__.py": GATE}),
        (BROKEN + "exec(open('gates').read())\n", {}),
        (BROKEN + "globals().update(vars(importlib.import_module('gates')))\n", {}),
        (BROKEN + "def test(:\n", {}),
        (BROKEN + "from shared import *\n", {"tests/shared.py": "def (:\n"}),
        (BROKEN, {"tests/__init__.py": GATE}),
    ],
)
def test_a_file_that_may_have_a_gate(tmp_path: Path, text: str, others: dict[str, str]) -> None:
    assert written(tmp_path, {"tests/test_speed.py": text, **others})


def test_a_plugin_of_the_command_line(tmp_path: Path) -> None:
    assert not written(tmp_path, {"tests/test_speed.py": BROKEN, "shared.py": FIXTURE})
    assert may_have_gate(tmp_path / "tests" / "test_speed.py", tmp_path, ["shared"])


def test_only_gates_are_run_where_another_file_cannot_be_imported(gated: Repository) -> None:  # noqa: F811
    other = gated.root / "gate_speed.py"
    other.write_text(BROKEN)
    assert gated.pytest("--traffic-only").code == 2, "without a ledger, any file may have a gate"
    assert run(["coverage", str(gated.root), "--write"], Settings()) == 0
    ran = gated.pytest("--traffic-only")
    assert (ran.code, "1 passed, 1 skipped" in ran.output) == (0, True)
    assert gated.pytest().code == 2, "other runs collect everything"
    other.write_text(BROKEN + GATE)
    assert gated.pytest("--traffic-only").code == 2


def test_a_file_of_the_ledger_is_never_left_out(gated: Repository) -> None:  # noqa: F811
    other = gated.root / "gate_speed.py"
    other.write_text(BROKEN)
    assert run(["coverage", str(gated.root), "--write"], Settings()) == 0
    ledger = gated.root / LEDGER
    ledger.write_text(re.sub('pending = "[^"]*"', 'tests = ["gate_speed.py::test_speed"]', ledger.read_text()))
    assert gated.pytest("--traffic-only").code == 2
