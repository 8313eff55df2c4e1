"""The coverage script's own logic: cutting a file down to what is wanted, and the table. No library is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ioaware.instruments.loading import load_file
from ioaware.sweep.study import find_study

SCRIPTS = Path(__file__).parents[2] / "scripts" / "foreign"


@pytest.fixture(scope="module")
def checkout() -> ModuleType:
    return load_file(SCRIPTS / "checkout.py")


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    return load_file(SCRIPTS / "coverage.py")


LIBRARY = {
    "kernels/ops.py": """\
import a_package_nobody_has
from .helpers import scale, unused
from kernels.more import (
    offset as shift,
)

SIZE = 4
if SIZE > 2:
    LIMIT = SIZE * 10
else:
    LIMIT = 0
x = a_package_nobody_has.now()
raise RuntimeError("a benchmark that runs on import")


def wanted(x, by=SIZE):
    return [scale(x + y) + shift for y in range(by)][-1] + LIMIT


def other():
    return a_package_nobody_has.then()
""",
    "kernels/helpers.py": "import another_missing_one as unused\n\n\ndef scale(x):\n    return FACTOR * x\n\n\nFACTOR = 100\n",
    "kernels/more/__init__.py": "offset = 1000\nassert False, 'not wanted'\n",
}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for name, text in LIBRARY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_definition_comes_with_what_it_needs_and_nothing_else(
    checkout: ModuleType, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREIGN_EXAMPLE", str(library))
    module = checkout.Library("example").definitions("kernels/ops.py", "wanted")
    assert module.wanted(1) == 100 * 4 + 1000 + 40
    assert module.wanted.__code__.co_firstlineno == LIBRARY["kernels/ops.py"].splitlines().index("def wanted(x, by=SIZE):") + 1
    assert not hasattr(module, "other")
    assert not hasattr(module, "x")
    assert sys.modules[module.__name__] is module


def test_given_names_stand_in_for_the_library_s(checkout: ModuleType, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREIGN_EXAMPLE", str(library))
    module = checkout.Library("example").definitions("kernels/ops.py", "wanted", given={"scale": lambda x: x, "LIMIT": 7})
    assert module.wanted(1) == 4 + 1000 + 7


def test_a_name_that_is_not_there(checkout: ModuleType, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREIGN_EXAMPLE", str(library))
    with pytest.raises(AttributeError, match="does not define missing"):
        checkout.Library("example").definitions("kernels/ops.py", "missing")


@pytest.mark.parametrize(("value", "said"), [(None, "is not set"), ("/nowhere/at/all", "no folder")])
def test_a_checkout_that_is_not_there(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch, value: str | None, said: str
) -> None:
    monkeypatch.delenv("FOREIGN_EXAMPLE", raising=False)
    if value:
        monkeypatch.setenv("FOREIGN_EXAMPLE", value)
    with pytest.raises(FileNotFoundError, match=said):
        checkout.Library("example").definitions("ops.py", "wanted")


def _launch(kernel: str = "k", read: int | None = 10, write: int = 5, flops: int = 0) -> SimpleNamespace:
    moved = SimpleNamespace(read_bytes=read, write_bytes=write, atomic_bytes=0)
    return SimpleNamespace(kernel=kernel, requested=moved, flops=flops)


def test_compared(coverage: ModuleType) -> None:
    assert coverage.compared(_launch(), _launch()) == "equal"
    assert coverage.compared(_launch(read=12, flops=3), _launch()) == "read 12 against 10; FLOPs 3 against 0"
    assert coverage.compared(_launch(read=None), _launch()) == "depends on data"
    assert coverage.compared(_launch("a"), _launch("b")) == "the trace launches b"


def test_the_table_counts_and_shows_every_outcome(coverage: ModuleType) -> None:
    row = coverage.Row
    rows = [
        row("t.py:one", "k1", "4*n", "2*n", True, "equal"),
        row("t.py:two", "k2", "4*n", "2*n", True, "read 1 against 2"),
        row("unsloth.py:layer_norm", "layernorm_backward", "n", "n", True, "read 1 against 2"),
        row("t.py:three", "k3", "9*n", "n*" * 99, False, "depends on data", "a | b"),
        row("t.py:four", "k4", "n", "n", True, "no trace: nothing interprets it"),
        row("t.py:five", reason="does not compile"),
    ]
    said = coverage.summary(rows)
    assert said.startswith("5 kernels: 4 exact, 1 depend on data")
    assert "1 equal their trace, 1 differ with a known reason, 1 cannot be traced, 1 differ without one. 1 targets" in said
    text = coverage.document({"A library": rows})
    assert "| one | `k1` | `4*n` | `2*n` | yes | equal |" in text
    assert "a formula of 198 characters" in text
    assert "no: a \\| b" in text
    assert "| five | | | | refused | does not compile |" in text


def test_every_target_of_the_study_exists(coverage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCRIPTS.parents[1])
    points = find_study("scripts/foreign/h200-foreign.toml").points
    for point in points:
        file, _, name = point.target.partition(":")
        assert name in coverage.targets_of(Path(file))
    assert len({point.target for point in points}) >= 20
