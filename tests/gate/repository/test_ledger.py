"""The ledger: a round trip, damaged files, and the share of gated kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import DataError
from ioaware.gate.repository.coverage import completed, coverage
from ioaware.gate.repository.ledger import LEDGER, Entry, Ledger, ledger_of, missing_tests, read_ledger, write_ledger

KERNELS = "import triton\n" + "".join(f"\n@triton.jit\ndef k{at}(x):\n    pass\n" for at in range(4))
TEST = "tests/test_k.py::TestAll::test_k0[a-b]"


def ledger() -> Ledger:
    return Ledger(
        {"k.py:k0": Entry([TEST]), "k.py:k1": Entry(exempt='data decide: "paged"\n'), "k.py:k2": Entry(pending="since 2026")}
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "k.py").write_text(KERNELS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_k.py").write_text("class TestAll:\n    def test_k0(self, traffic):\n        pass\n")
    return tmp_path


def test_a_ledger_is_written_and_read(tmp_path: Path) -> None:
    assert read_ledger(tmp_path) is None
    write_ledger(tmp_path, ledger())
    assert read_ledger(tmp_path) == ledger()
    assert [entry.state for entry in ledger().kernels.values()] == ["gated", "exempt", "pending"]


def test_a_ledger_truncated_at_every_byte_is_refused(tmp_path: Path) -> None:
    write_ledger(tmp_path, ledger())
    whole = (tmp_path / LEDGER).read_text()
    for length in range(len(whole) - 1):  # without its last newline the file is complete
        with pytest.raises((ValueError, TypeError)):
            ledger_of(whole[:length])
    (tmp_path / LEDGER).write_text(whole[:-5])
    with pytest.raises(DataError) as raised:
        read_ledger(tmp_path)
    assert raised.value.exit_code == 6


@pytest.mark.parametrize(
    "text",
    [
        "", "schema = 2\ncount = 0\n[kernels]", "schema = true\ncount = 0\n[kernels]", "schema = 1\n[kernels]",
        "schema = 1\ncount = nan\n[kernels]", "schema = 1\ncount = 1\n[kernels]", "schema = 1\ncount = 0\nkernels = []",
        "schema = 1\ncount = 0\nmore = 1\n[kernels]", "schema = 1\ncount = 1\n[kernels]\na = 1",
        "schema = 1\ncount = 1\n[kernels]\na = { test = [] }", "schema = 1\ncount = 1\n[kernels]\na = { tests = [1] }",
        "schema = 1\ncount = 1\n[kernels]\na = { tests = ['t'], tests = [] }",
        "schema = 1\ncount = 1\n[kernels]\na = { exempt = '' }",
        "schema = 1\ncount = 1\n[kernels]\na = { exempt = ' ' }", "schema = 1\ncount = 1\n[kernels]\na = { exempt = true }",
        "schema = 1\ncount = 1\n[kernels]\na = { pending = ' ' }", "schema = 1\ncount = 1\n[kernels]\na = { pending = 2026 }",
        "schema = 1\ncount = 2\n[kernels]\na = { tests = [] }\na = { tests = [] }",
    ],
)  # fmt: skip
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        ledger_of(text)


def test_a_ledger_that_is_a_directory_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / LEDGER).mkdir()
    with pytest.raises(DataError) as raised:
        read_ledger(tmp_path)
    assert raised.value.what == f"{tmp_path / LEDGER}: cannot be read (Is a directory)"
    assert raised.value.remedy == "Check the path and its permissions."
    (tmp_path / LEDGER).rmdir()
    write_ledger(tmp_path, Ledger({"k.py:k": Entry(exempt="größer")}))
    size = (tmp_path / LEDGER).stat().st_size
    assert "größer" in (tmp_path / LEDGER).read_text(encoding="utf-8")
    monkeypatch.setattr("ioaware.gate.repository.ledger.LARGEST_BYTES", size)
    assert read_ledger(tmp_path) is not None
    monkeypatch.setattr("ioaware.gate.repository.ledger.LARGEST_BYTES", size - 1)
    with pytest.raises(DataError, match=f"more than {size - 1} bytes"):
        read_ledger(tmp_path)


@pytest.mark.parametrize("reason", ["''", "' '", "true", "[]"])
def test_what_is_pending_without_words_names_its_kernel(reason: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"k\.py:k"):
        ledger_of(f"schema = 1\ncount = 1\n[kernels]\n'k.py:k' = {{ pending = {reason} }}")


def test_the_share(root: Path) -> None:
    listed = completed(ledger(), dict.fromkeys(("k.py:k0", "k.py:k1", "k.py:k2", "k.py:k3"), "today"))
    found = coverage(root, listed)
    assert [(kernel, state) for kernel, state, _ in found.kernels] == [
        ("k.py:k0", "gated"), ("k.py:k1", "exempt"), ("k.py:k2", "pending"), ("k.py:k3", "pending"),
    ]  # fmt: skip
    assert found.share == pytest.approx(100 / 3)
    assert found.stale == ()
    assert coverage(root, None).share == 0


def test_what_is_pending_has_a_date_or_a_reason(root: Path) -> None:
    listed = ledger()
    listed.kernels["k.py:k0"] = Entry()
    assert coverage(root, listed).stale == (
        "k.py:k0 is pending, without a date or a reason: ioaware coverage --write dates it",
        "k.py:k3 is pending, not in the ledger: ioaware coverage --write adds it",
    )
    renewed = completed(listed, dict.fromkeys(listed.kernels.keys() | {"k.py:k3"}, "since today"))
    assert [entry.pending for _, entry in sorted(renewed.kernels.items())] == ["since today", "", "since 2026", "since today"]
    assert coverage(root, renewed).stale == ()
    assert coverage(root, None).stale == ()


@pytest.mark.parametrize(
    "body",
    [
        "",
        "class TestAll:\n    def test_k0(self):\n        pass\n",
        "def test_k0(traffic):\n    pass\n",
        "class TestAll(:",
    ],
)
def test_a_gate_without_its_test_is_no_gate(root: Path, body: str) -> None:
    (root / "tests" / "test_k.py").write_text(body)
    found = coverage(root, completed(ledger(), dict.fromkeys(("k.py:k0", "k.py:k1", "k.py:k2", "k.py:k3"), "today")))
    assert (found.share, found.stale) == (
        0,
        (f"{TEST} does not exist, or does not use traffic: restore it, or take it out of traffic-ledger.toml",),
    )


def test_a_file_or_class_is_no_test(root: Path) -> None:
    (root / "tests" / "test_k.py").write_text("class TestAll:\n    def test_k(self, traffic): ...\n")
    names = ["tests/test_k.py", "tests/test_k.py::TestAll", "tests/test_k.py::TestAll::test_k"]
    assert missing_tests(root, Ledger({"k.py:k0": Entry(names)})) == names[:2]


def test_the_kernels_of_a_test() -> None:
    gated = Ledger({"k.py:a": Entry(["t.py::t", "t.py::u"]), "k.py:b": Entry(["t.py::t"]), "k.py:c": Entry(["t.py::u"])})
    assert gated.kernels_of("t.py::t") == {"k.py:a", "k.py:b"}
    assert gated.kernels_of("t.py::v") == set()


def test_a_removed_kernel_makes_the_ledger_stale(root: Path) -> None:
    (root / "k.py").write_text(KERNELS.replace("k2", "k5").replace("def k3", "def k0"))
    assert coverage(root, ledger()).stale == (
        "k.py:k2 is in the ledger, and no kernel of the repository: ioaware coverage --write removes it",
        "k.py:k5 is pending, not in the ledger: ioaware coverage --write adds it",
    )
    renewed = completed(ledger(), {"k.py:k0": "new", "k.py:k5": "new"})
    assert renewed == Ledger({"k.py:k0": Entry([TEST]), "k.py:k5": Entry(pending="new")})


def test_gates_are_recorded() -> None:
    made = ledger()
    assert made.gate({"t": ["k.py:k2", "new.py:k"], TEST: ["k.py:k1"]})
    states: dict[str, Any] = {kernel: (entry.tests, entry.exempt != "") for kernel, entry in made.kernels.items()}
    assert states == {"k.py:k0": ([], False), "k.py:k1": ([], True), "k.py:k2": (["t"], False), "new.py:k": (["t"], False)}
    assert made.kernels["k.py:k0"].pending == f"{TEST} launches it no more"
    assert made.kernels["k.py:k2"].pending == ""
    assert not made.gate({"t": ["k.py:k2", "new.py:k"]})
