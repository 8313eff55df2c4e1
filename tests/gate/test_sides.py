"""The sides of a difference: requests and answers, revisions, wrong versions.

This is what a worker is asked and answers, revisions of a repository, and code of the wrong version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ioaware
from ioaware.errors import DataError, IoawareError, MachineError, UsageError
from ioaware.gate import side_worker, sides
from ioaware.gate.row import row_of
from ioaware.gate.sides import REMEDY, Request, rows_of_sides
from ioaware.gate.verdict import BaselineError
from tests.support import ROOT
from tests.support.gate_rows import document

REQUEST = Request({"n": "4"}, "cuda:80", {"BLOCK": "64"}, 7.0)


class Worker:
    """A process that prints what a test wants.

    `command` and `options` are those of its last start.
    """

    def __init__(self, code: int = 0, output: bytes = b"", errors: bytes = b"") -> None:
        self.done = SimpleNamespace(returncode=code, stdout=output, stderr=errors)
        self.command: list[str] = []
        self.options: dict[str, Any] = {}

    def __call__(self, command: list[str], **options: Any) -> Any:
        self.command, self.options = command, options
        return self.done


def plain_or(worker: Worker) -> Any:
    """Run git, and the worker for anything else."""
    plain = subprocess.run
    return lambda command, **options: (plain if command[0] == "git" else worker)(command, **options)


def answer(row: Any) -> bytes:
    return b"noise\n" + json.dumps({"row": row}).encode() + b"\n"


def test_a_target_is_derived_in_a_process_of_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(output=answer(document()))
    monkeypatch.setattr(sides.subprocess, "run", worker)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/one", "/with a space"]))
    ((row,),) = rows_of_sides(["add.py:add"], REQUEST)
    assert row.target == "add.py:add"
    assert worker.command[:4] == [sys.executable, "-P", "-m", "ioaware.gate.side_worker"]
    question = {"target": "add.py:add", "params": {"n": "4"}, "gpu": "cuda:80", "config": {"BLOCK": "64"}, "moved": None}
    assert [json.loads(text) for text in worker.command[4:]] == [question]
    package = str(Path(ioaware.__file__).resolve().parents[1])
    assert worker.options["env"]["PYTHONPATH"] == os.pathsep.join([package, "/one", "/with a space"])
    assert worker.options["env"]["PATH"] == os.environ["PATH"]
    assert {name: worker.options[name] for name in ("cwd", "timeout", "capture_output", "check")} == {
        "cwd": Path.cwd(), "timeout": 7.0, "capture_output": True, "check": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("worker", "what", "remedy", "code"),
    [
        (Worker(2, b'{"error": ["there is no x", "Name y.", 2]}'), "there is no x", "Name y.", 2),
        (Worker(5, b'{"error": ["no GPU", "Buy one.", 5]}'), "no GPU", "Buy one.", 5),
        (Worker(3, answer(document())), "a.py:f ended with code 3: no output", "", 2),
        (Worker(-9, b"", b"first\nKilled\n"), "a.py:f ended with code -9: Killed", "", 2),
        (Worker(0, b""), "a.py:f ended with code 0: no output", "", 2),
        (Worker(0, b"[1]"), "a.py:f ended with code 0: no output", "", 2),
        (Worker(0, b'{"row": NaN}'), "a.py:f ended with code 0: no output", "", 2),
    ],
)  # fmt: skip
def test_a_worker_that_fails(worker: Worker, what: str, remedy: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides.subprocess, "run", worker)
    with pytest.raises(IoawareError) as raised:
        rows_of_sides(["a.py:f"], REQUEST)
    assert (raised.value.what, raised.value.remedy, raised.value.exit_code) == (what, remedy, code)


def test_a_worker_that_answers_no_row_or_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides.subprocess, "run", Worker(0, answer({"schema": 9})))
    with pytest.raises(DataError, match=r"a\.py:f: not what"):
        rows_of_sides(["a.py:f"], REQUEST)

    def late(*arguments: Any, **options: Any) -> Any:
        raise subprocess.TimeoutExpired("python", 7)

    monkeypatch.setattr(sides.subprocess, "run", late)
    with pytest.raises(UsageError) as raised:
        rows_of_sides(["a.py:f"], REQUEST)
    assert (raised.value.what, raised.value.remedy) == ("a.py:f took longer than 7.0 s", "Raise --timeout.")


@pytest.mark.parametrize(
    ("side", "found"),
    [
        ("HEAD:k.py:f", ("HEAD", "k.py:f")), ("v1.0:a/k.py:f", ("v1.0", "a/k.py:f")), ("k.py:f", (None, "k.py:f")),
        ("flash2", (None, "flash2")), ("module:f", (None, "module:f")), ("a:b:c", (None, "a:b:c")),
        ("a:b.py:c:d", (None, "a:b.py:c:d")),
    ],
)  # fmt: skip
def test_revisions_in_names(side: str, found: tuple[str | None, str]) -> None:
    assert sides._revision_of(side) == found


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working tree whose file `inner/k.py` is `new` and was `old` in its one commit."""
    top = tmp_path / "tree"
    (top / "inner").mkdir(parents=True)
    (top / "inner" / "k.py").write_text("old")
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run(["git", *author, *arguments], cwd=top, check=True, capture_output=True)
    (top / "inner" / "k.py").write_text("new")
    monkeypatch.chdir(top / "inner")
    return top


def test_a_revision_is_unpacked_and_taken_away(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def derived(spec: str, request: Request, here: Path, moved: tuple[str, str] | None) -> Any:
        assert moved
        copy = Path(moved[1])
        seen.append((spec, request, (here / "k.py").read_text(), here.relative_to(copy), Path(moved[0]), copy))
        assert not list(copy.parent.glob(f"{copy.name}.tar"))
        return "row"

    monkeypatch.setattr(sides, "_derived", derived)
    assert sides._derived_rows("HEAD:k.py:f", REQUEST) == ["row"]
    ((spec, request, text, below, top, copy),) = seen
    assert (spec, request, text, below, top) == ("k.py:f", REQUEST, "old", Path("inner"), tree)
    assert (copy.name.startswith("ioaware-"), copy.exists()) == (True, False)


def test_a_revision_that_cannot_be_unpacked(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as raised:
        sides._derived_rows("nowhere:k.py:f", REQUEST)
    assert (raised.value.what, raised.value.remedy) == ("git rev-parse: no revision nowhere", REMEDY)
    (tree / "new").mkdir()
    monkeypatch.chdir(tree / "new")
    with pytest.raises(UsageError) as raised:
        sides._derived_rows("HEAD:k.py:f", REQUEST)
    assert (raised.value.what, raised.value.remedy) == ("HEAD has no directory new", REMEDY)
    monkeypatch.chdir(tree.parent)
    with pytest.raises(UsageError, match="git rev-parse"):
        sides._derived_rows("HEAD:k.py:f", REQUEST)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MachineError) as missing:
        sides._git("status")
    assert str(missing.value) == "git cannot be run, and a revision needs it\n  Install git, or name two files."


@pytest.mark.usefixtures("tree")
def test_an_error_at_a_revision_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides.subprocess, "run", plain_or(Worker(2, b'{"error": ["there is no x", "Name y.", 2]}')))
    with pytest.raises(IoawareError) as raised:
        sides._derived_rows("HEAD:k.py:f", REQUEST)
    assert str(raised.value) == "HEAD: there is no x\n  Name y."


def test_saved_sides_are_read_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that build msgspec's types of one class end the process."""
    read: list[tuple[str, int]] = []
    monkeypatch.setattr(sides, "_saved_rows", lambda side: read.append((side, threading.get_ident())) or [side])  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(sides, "_derived_rows", lambda side, request: [side])  # pyright: ignore[reportUnknownLambdaType]
    nothing = Request({}, "cuda:90", {})
    assert rows_of_sides(["a.db", "b.json"], nothing) == [["a.db"], ["b.json"]]
    assert read == [("a.db", threading.get_ident()), ("b.json", threading.get_ident())]
    assert rows_of_sides(["a.db", "k.py:f"], REQUEST) == [["a.db"], ["k.py:f"]]
    for request, name in ((REQUEST, "n=4"), (Request({}, "cuda:90", {"BLOCK": "64"}), "BLOCK=64")):
        with pytest.raises(UsageError) as raised:
            rows_of_sides(["a.db", "b.sqlite"], request)
        assert str(raised.value) == f"{name} changes nothing: both sides are saved\n  Leave it out, or name a target."


def test_the_last_line_of_git_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides.subprocess, "run", Worker(128, b"", b"hint: one\nfatal: two \n"))
    with pytest.raises(UsageError, match=r"^git archive: fatal: two"):
        sides._git("archive", "x")


def test_files_that_are_no_side(tmp_path: Path) -> None:
    with pytest.raises(BaselineError) as raised:
        rows_of_sides([str(tmp_path / "a.json")], REQUEST)
    assert str(raised.value) == f"there is no file {tmp_path / 'a.json'}\n  {REMEDY}"
    (tmp_path / "b.json").mkdir()
    with pytest.raises(DataError) as unreadable:
        rows_of_sides([str(tmp_path / "b.json")], REQUEST)
    found = (unreadable.value.what, unreadable.value.remedy)
    assert found == (f"{tmp_path / 'b.json'}: cannot be read (Is a directory)", "Check the path and its permissions.")


def test_a_document_that_is_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = json.dumps(document()).encode()
    monkeypatch.setattr(sides, "LARGEST_DOCUMENT", len(whole))
    assert sides.row_of_text(whole, "here").target == "add.py:add"
    (tmp_path / "row.json").write_bytes(whole + b" ")
    with pytest.raises(DataError) as raised:
        sides.read_row(tmp_path / "row.json")
    what = f"{tmp_path / 'row.json'}: not what `ioaware derive --json` prints (more than {len(whole)} bytes)"
    assert (raised.value.what, raised.value.remedy) == (what, "Derive it again.")


def test_an_error_in_a_store_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Path, Any]] = []

    @contextmanager
    def store(path: Path, **how: Any) -> Generator[Any]:
        opened.append((path, how))
        found = (SimpleNamespace(source=source, to_dict=lambda: {"schema": 9}) for source in sources)
        yield SimpleNamespace(results=lambda: list(found))

    monkeypatch.setattr("ioaware.sweep.store.Store", store)
    sources = ["measure", "derive"]
    with pytest.raises(DataError, match=r"^runs\.db: not what `ioaware derive --json` prints") as raised:
        rows_of_sides(["runs.db"], Request({}, "cuda:90", {}))
    assert raised.value.remedy == "Derive it again."
    sources = ["measure"]
    with pytest.raises(BaselineError) as without:
        rows_of_sides(["runs.db"], Request({}, "cuda:90", {}))
    said = (without.value.what, without.value.remedy)
    assert said == ("runs.db holds no derived result", "Sweep a study with the source derive into it.")
    assert opened == [(Path("runs.db"), {"readonly": True})] * 2


QUESTION = {"target": "k.py:f", "params": {}, "gpu": "cuda:90", "config": {}, "moved": None}


def worked(question: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = side_worker.main([json.dumps(question)])
    output = capfd.readouterr().out
    assert output.startswith("\n")
    assert output.endswith("\n")
    return code, json.loads(output.splitlines()[-1])


def test_the_worker_answers(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(side_worker, "_derive", lambda question: {"of": question["target"]})
    assert worked(QUESTION, capfd) == (0, {"row": {"of": "k.py:f"}})

    def refuse(question: Any) -> Any:
        raise MachineError("no such GPU", "Name another.")

    monkeypatch.setattr(side_worker, "_derive", refuse)
    assert worked(QUESTION, capfd) == (5, {"error": ["no such GPU", "Name another.", 5]})


def test_the_worker_derives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "side_kernel.py").write_text(
        "import torch, triton, triton.language as tl\n\n@triton.jit\ndef k(x, n, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.store(x + at, 1.0, at < n)\n\n"
        'def f(n: int = 64):\n    k[(triton.cdiv(n, 32),)](torch.empty(n, device="cuda"), n, BLOCK=32)\n'
    )
    monkeypatch.chdir(tmp_path)
    found = side_worker._derive({**QUESTION, "target": "side_kernel.py:f", "params": {"n": "48"}, "gpu": "cuda:80"})
    assert (found["params"], found["requested"]["write_formula"]) == ({"n": 48}, "4*n")
    assert found["environment"]["compiled_for"] == "cuda:80"


def test_the_worker_derives_each_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one also loads what it stores."""
    (tmp_path / "tuned_kernel.py").write_text(
        "import torch, triton, triton.language as tl\n\n"
        "C = [triton.Config({'LOAD': load}, num_warps=warps) for load in (0, 1) for warps in (4, 8)]\n\n"
        "@triton.autotune(C, key=[])\n@triton.jit\ndef k(x, LOAD: tl.constexpr):\n    at = tl.arange(0, 32)\n"
        "    value = tl.load(x + at) if LOAD else 1.0\n    tl.store(x + at, value)\n\n"
        'def f():\n    k[(1,)](torch.empty(32, device="cuda"))\n'
    )
    monkeypatch.chdir(tmp_path)
    question = {**QUESTION, "target": "tuned_kernel.py:f", "params": {}, "gpu": "cuda:80", "config": {}}
    found = side_worker._derive(question)
    each = {name: row_of(one, name).total_bytes for name, one in found["by_configuration"].items()}
    assert each == {"k with LOAD=0": 128, "k with LOAD=1": 256}
    assert row_of(found, "f").range_of_bytes == (128, 256)
    assert side_worker._derive({**question, "config": {"LOAD": "0"}})["by_configuration"] == {}


class Python(SimpleNamespace):
    """What a worker sees of its Python: an import path and few modules."""

    def __init__(self, *path: str) -> None:
        super().__init__(path=list(path), modules={}, prefix="/venv", base_prefix="/usr", stdout=sys.stdout)

    def imported(self, name: str, folder: Path) -> ModuleType:
        """Import a module that is made up, from a folder."""
        made = self.modules[name] = ModuleType(name)
        made.__file__ = str(folder / f"{name}.py")
        return made


def test_code_of_the_working_tree_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    python = Python(str(tree), str(tree / "src"), "/elsewhere", str(ROOT))
    monkeypatch.setattr(side_worker, "sys", python)
    monkeypatch.setattr(side_worker, "_derive", lambda question: {})
    moved = {**QUESTION, "moved": [str(tree), str(copy)]}
    assert worked(moved, capfd)[0] == 0
    assert python.path == [str(copy), str(copy / "src"), "/elsewhere", str(ROOT)]
    stale = python.imported("stale_module", tree)
    code, answered = worked(moved, capfd)
    what = "k.py:f imports stale_module from the working tree, not from the revision"
    assert (code, answered["error"][:2]) == (2, [what, "Name the file that holds the kernels, or check both revisions out."])
    stale.__file__ = str(copy / "stale_module.py")
    assert worked(moved, capfd)[0] == 0


def test_ioawares_own_code_is_no_code_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernels may be the target and are not exempt.

    Nor are packages whose name begins like its own.
    """
    python = Python()
    monkeypatch.setattr(side_worker, "sys", python)
    names = [".".join(("ioaware", below, "invented")) for below in ("gate", "kernels")]
    others = ["ioaware_invented", "other_invented"]
    for name in (*names, *others):
        python.imported(name, tmp_path / "tree")
    python.modules["without_a_file"] = ModuleType("without_a_file")
    python.imported("of_another_tree", tmp_path)

    def loaded() -> list[str]:
        return list(side_worker._loaded_from(str(tmp_path / "tree"), str(tmp_path / "copy")))

    assert loaded() == [names[1], *others]
    for prefix in ("prefix", "base_prefix"):  # installed packages, in a .venv of the tree
        with monkeypatch.context() as patch:
            patch.setattr(python, prefix, str(tmp_path))
            assert loaded() == []
