"""The coverage script: cutting out definitions, examining kernels, the table.

Definitions are cut out of a library.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ioaware.sweep.study import find_study
from ioaware.targets.loading import load_file
from tests.support import SUPPORT

SCRIPTS = Path(__file__).parents[2] / "scripts" / "foreign"


@pytest.fixture(scope="module")
def checkout() -> ModuleType:
    return load_file(SCRIPTS / "checkout.py")


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    return load_file(SCRIPTS / "derive_coverage.py")


@pytest.fixture(scope="module")
def examine() -> ModuleType:
    return load_file(SCRIPTS / "examine.py")


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
x = an_absent_package.now()
raise RuntimeError("a benchmark that runs on import")


def wanted(x, by=SIZE):
    return [scale(x + y) + shift for y in range(by)][-1] + LIMIT


def other():
    return an_absent_package.then()
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


def test_a_definition_includes_its_dependencies_alone(
    checkout: ModuleType, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREIGN_EXAMPLE", str(library))
    module = checkout.Library("example").definitions("kernels/ops.py", "wanted")
    assert module.wanted(1) == 100 * 4 + 1000 + 40
    assert module.wanted.__code__.co_firstlineno == LIBRARY["kernels/ops.py"].splitlines().index("def wanted(x, by=SIZE):") + 1
    assert not hasattr(module, "other")
    assert not hasattr(module, "x")
    assert sys.modules[module.__name__] is module


def test_given_names_replace_those_of_the_library(checkout: ModuleType, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREIGN_EXAMPLE", str(library))
    module = checkout.Library("example").definitions("kernels/ops.py", "wanted", given={"scale": lambda x: x, "LIMIT": 7})
    assert module.wanted(1) == 4 + 1000 + 7


def test_a_missing_name_is_an_attribute_error(checkout: ModuleType, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREIGN_EXAMPLE", str(library))
    with pytest.raises(AttributeError, match="does not define missing"):
        checkout.Library("example").definitions("kernels/ops.py", "missing")


@pytest.mark.parametrize(("value", "message"), [(None, "is not set"), ("/nowhere/at/all", "no folder")])
def test_a_missing_checkout_is_an_error(
    checkout: ModuleType, monkeypatch: pytest.MonkeyPatch, value: str | None, message: str
) -> None:
    monkeypatch.delenv("FOREIGN_EXAMPLE", raising=False)
    if value:
        monkeypatch.setenv("FOREIGN_EXAMPLE", value)
    with pytest.raises(FileNotFoundError, match=message):
        checkout.Library("example").definitions("ops.py", "wanted")


class _Count:
    """A fake count: a number, or one that depends on data."""

    def __init__(self, value: int | None) -> None:
        self.symbols = frozenset() if value is not None else frozenset({"labels"})
        self.value = value

    def evaluate(self, point: object) -> int | None:
        assert point == {"n": 3}
        return self.value


def _kernel(read: int | None = 10, write: int = 5, flops: int = 0, sectors: int | None = None) -> SimpleNamespace:
    counts = {"read_bytes": read, "write_bytes": write, "atomic_bytes": 0, "flops": flops}
    found = {name: _Count(value) for name, value in counts.items()}
    found["read_sector_bytes"] = found["write_sector_bytes"] = None if sectors is None else _Count(sectors)
    return SimpleNamespace(**found, sectors_exact=True)


def test_compared(examine: ModuleType) -> None:
    moved = SimpleNamespace(read_bytes=10, write_bytes=5, atomic_bytes=0, read_sector_bytes=32, write_sector_bytes=32)
    traced = SimpleNamespace(requested=moved, flops=0)
    assert examine.compared(_kernel(), traced, {"n": 3}) == "equal"
    assert examine.compared(_kernel(sectors=32), traced, {"n": 3}) == "equal"
    assert examine.compared(_kernel(read=12, flops=3), traced, {"n": 3}) == "read 12 against 10; FLOPs 3 against 0"
    assert examine.compared(_kernel(sectors=64), traced, {"n": 3}) == "read sectors 64 against 32; write sectors 64 against 32"
    assert examine.compared(_kernel(read=None), traced, {"n": 3}) == "depends on data"


VALIDITY = SUPPORT / "targets/validity_targets.py"
INDEX_DATA = SUPPORT / "targets/index_data_targets.py"


def test_bytes_at_own_data_are_compared_with_the_trace(examine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = examine.examined(f"{INDEX_DATA}:ragged")
    assert (row.exact, row.traced, row.elsewhere) == (True, "equal", "equal")
    monkeypatch.setattr(examine, "at_own_data", lambda launch, traced: f"{launch.requested.read_bytes - 4} against 0")
    (row,) = examine.examined(f"{INDEX_DATA}:ragged")
    assert "against" in row.traced


def test_a_target_is_examined_at_two_points(examine: ModuleType) -> None:
    (row,) = examine.examined(f"{VALIDITY}:frozen_share")
    assert (row.kernel, row.exact, row.traced, row.elsewhere) == ("share_kernel", True, "equal", "equal")
    assert row.conditions == "ceil(rows/132) == 2"
    assert 132 < int(row.sizes.partition("=")[2]) <= 264
    assert row.sizes != "rows=160"
    (refused,) = examine.examined(f"{VALIDITY.with_name('derived_targets.py')}:broken")
    assert "does not compile" in refused.reason


def test_a_formula_wrong_at_other_sizes_is_found(examine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check of conditions the formula is wrong at other sizes.

    It is right at the given size.
    """
    from ioaware.capture.validity import Validity

    monkeypatch.setattr(Validity, "check", lambda *_: None)
    (row,) = examine.examined(f"{VALIDITY}:branching_grid")
    assert row.traced == "equal"
    assert "against" in row.elsewhere
    assert not row.equal


def test_the_table_counts_and_shows_every_outcome(coverage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "EXPLAINED", {("unsloth.py:layer_norm", "layernorm_backward"): "a load is dropped"})
    row = coverage.Row
    rows = [
        row("t.py:one", "k1", "`4*n`", "`2*n`", "n < 9", True, "equal", "equal", "n=3"),
        row("t.py:two", "k2", "`4*n`", "`2*n`", "", True, "read 1 against 2"),
        row("t.py:other", "k2", "`4*n`", "`2*n`", "", True, "equal", "read 1 against 2", "n=3"),
        row(
            "unsloth.py:layer_norm", "layernorm_backward", "`n`", "`n`", "", True, "read 1 against 2", "read 2 against 3", "n=3"
        ),
        row("t.py:three", "k3", "`9*n`", "`n`", "", False, "depends on data", reason="a | b"),
        row("t.py:four", "k4", "`n`", "`n`", "", True, "no trace: nothing interprets it"),
        row("t.py:five", reason="does not compile"),
    ]
    summary = coverage.summary(rows)
    assert summary.startswith("6 kernels: 5 exact, 1 depend on data")
    assert "1 equal their trace, 1 of them with the same formula at other sizes too; 1 differ with a known reason" in summary
    assert "1 cannot be traced, 2 differ without one. 1 targets were refused." in summary
    text = coverage.document({"liger": rows}, {"liger": "abc"})
    assert "- [Liger-Kernel](https://github.com/linkedin/Liger-Kernel), commit `abc`" in text
    assert "| one | `k1` | `4*n` | `2*n` | `n < 9` | yes | equal | equal (n=3) |" in text
    assert "no: a \\| b" in text
    assert "| five | | | | | refused | does not compile | |" in text


def test_every_target_of_the_study_exists(coverage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCRIPTS.parents[1])
    points = find_study("scripts/foreign/h200-foreign.toml").points
    for point in points:
        file, _, name = point.target.partition(":")
        assert name in coverage.targets_of(Path(file))
    assert len({point.target for point in points}) >= 20


def test_the_summary_counts_the_rows_of_the_committed_table() -> None:
    table = (SCRIPTS.parents[1] / "docs" / "results" / "derive-coverage.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and " | `" in line]
    exact = [row for row in rows if row[5] == "yes"]
    equal = [row for row in exact if row[6] == "equal"]
    elsewhere = [row for row in equal if row[7].startswith("equal (")]
    for counted in (
        f"**{len(rows)} kernels: {len(exact)} exact, {len(rows) - len(exact)} depend on data",
        f"Of the exact ones {len(equal)} equal their trace, {len(elsewhere)} of them with the same formula at other sizes",
    ):
        assert counted in table, counted
    assert len(exact) >= 0.9 * len(rows)
    assert all(row[7].startswith(("equal (", "no parameter is free")) for row in equal)
    assert len(rows) == len(exact) + sum(row[6] == "depends on data" for row in rows)
