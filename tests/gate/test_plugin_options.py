"""Options of the pytest plugin, and the tests that it selects."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.gate import pytest_plugin
from ioaware.gate.pytest_plugin import pytest_addoption, pytest_collection_modifyitems, pytest_configure
from ioaware.gate.repository.ledger import LEDGER
from ioaware.gate.source_edit import Edit, Place

HELP = {
    "--traffic": "write missing, or all changed, traffic snapshots",
    "--traffic-cross-toolchain": "let a snapshot of another Triton or GPU pass, where its formulas are proven equal",
    "--traffic-complete": "fail unless every test that traffic-ledger.toml names has run and passed",
    "--traffic-only": "run only the tests that use the fixture `traffic`",
    "--traffic-summary": "append a Markdown summary; in a job of GitHub its own file is used",
    "--traffic-results": "write the run as JSON, for `ioaware history`",
}


def test_options_are_off_and_say_what_they_do() -> None:
    options: dict[str, dict[str, Any]] = {}
    groups: list[tuple[str, str]] = []

    def getgroup(*given: str) -> Any:
        groups.append((given[0], given[1]))
        return SimpleNamespace(addoption=lambda name, **more: options.update({name: more}))

    parser: Any = SimpleNamespace(getgroup=getgroup)
    pytest_addoption(parser)
    assert groups == [("traffic", "memory traffic of Triton kernels (ioaware)")]
    assert {name: one["help"] for name, one in options.items()} == HELP
    assert options["--traffic"]["choices"] == ("create", "accept")
    assert all(one.get("default") is None for one in options.values())
    flags = {name for name, one in options.items() if one.get("action") == "store_true"}
    assert flags == {"--traffic-cross-toolchain", "--traffic-complete", "--traffic-only"}
    assert {name for name, one in options.items() if one.get("metavar") == "FILE"} == {"--traffic-summary", "--traffic-results"}


class Item(SimpleNamespace):
    """A test with its fixtures and the budgets of its marker."""

    def iter_markers(self, name: str) -> list[Any]:
        assert name == "traffic"
        return [SimpleNamespace(kwargs=one) for one in self.markers]


def item(*fixtures: str, **budgets: Any) -> Any:
    return Item(nodeid="t.py::test", fixturenames=fixtures, markers=[budgets] if budgets else [])


@pytest.mark.parametrize("only", [True, False])
def test_gates_alone_are_kept_where_only_they_run(only: bool) -> None:
    deselected: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    config: Any = SimpleNamespace(hook=hook, getoption=lambda name: only and name == "--traffic-only")
    gates, others = [item("traffic"), item("tmp_path", "traffic", max_bytes=3)], [item("tmp_path"), item(gpu="cuda:80")]
    document: Any = Item(nodeid="README.md", markers=[])  # it has no fixtures
    items = [gates[0], *others, document, gates[1]]
    pytest_collection_modifyitems(config, items)
    assert items == (gates if only else [gates[0], *others, document, gates[1]])
    assert deselected == ([*others, document] if only else [])


def test_budgets_without_the_fixture_are_refused() -> None:
    config: Any = SimpleNamespace(getoption=lambda name: False)
    said = "t.py::test has the marker traffic, and does not use the fixture `traffic`"
    with pytest.raises(pytest.UsageError, match=said):
        pytest_collection_modifyitems(config, [item("tmp_path", max_bytes=3)])


def configured(root: Path, *arguments: str, **more: Any) -> Any:
    """Return a configuration of pytest with these arguments; `more` are its options."""
    invocation = SimpleNamespace(args=arguments, dir=root)
    added: list[str] = []
    return SimpleNamespace(
        rootpath=root, invocation_params=invocation, addinivalue_line=lambda *line: added.append(line[0]),
        getoption=lambda name, default=None: more.get(name.removeprefix("--").replace("-", "_"), default),
        stash={}, pluginmanager=SimpleNamespace(register=lambda plugin, name: None if more.get("blocked") else name),
    )  # fmt: skip


def test_a_ledger_that_cannot_be_read_ends_pytest_with_its_error(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text("schema = 2")
    with pytest.raises(pytest.UsageError) as raised:
        pytest_configure(configured(tmp_path))
    what, remedy = str(raised.value).splitlines()
    assert what == f"{tmp_path / LEDGER}: not a ledger (schema 2, this version reads schema 1)"
    assert remedy.strip()


def test_a_run_that_could_not_be_held_is_refused(tmp_path: Path) -> None:
    pytest_configure(configured(tmp_path))
    for more, said in (
        ({"blocked": True}, "the plugin 'ioaware traffic session' is blocked (-p no:), and with it what fails a run"),
        ({"traffic_complete": True}, f"--traffic-complete needs {tmp_path / LEDGER}: run `ioaware coverage --write`"),
    ):
        with pytest.raises(pytest.UsageError) as raised:
            pytest_configure(configured(tmp_path, **more))
        assert str(raised.value) == said


def test_a_request_of_a_file_or_in_ci_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*arguments: str) -> str:
        with pytest.raises(pytest.UsageError) as raised:
            pytest_configure(configured(tmp_path, *arguments, traffic="accept"))
        return str(raised.value)

    monkeypatch.delenv("CI", raising=False)
    of_a_file = "--traffic=accept is taken from the command line only, not from PYTEST_ADDOPTS or a file"
    assert said() == said("--traffic=create") == of_a_file
    for arguments in (("--traffic=accept",), ("--traffic", "accept")):
        monkeypatch.setenv("CI", "true")
        assert said(*arguments) == "--traffic=accept writes snapshots, which CI must not do (the environment sets CI)"
        monkeypatch.setenv("CI", "False")
        pytest_configure(configured(tmp_path, *arguments, traffic="accept"))


@pytest.mark.parametrize("more", [{"numprocesses": 2}, {"tx": ["popen"]}, {"workerinput": {}}], ids=str)
def test_only_a_single_process_writes_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    check: Any = vars(pytest_plugin)["_check_mode"]
    monkeypatch.delenv("CI", raising=False)
    config = configured(tmp_path, "--traffic=create", **more)
    if "workerinput" in more:  # which pytest-xdist sets in each of its workers
        config.workerinput = more["workerinput"]
    with pytest.raises(pytest.UsageError) as raised:
        check(config, "create")
    assert str(raised.value) == "--traffic=create writes snapshots from one process: leave -n out"
    check(configured(tmp_path, "--traffic=create"), "create")


def test_a_place_is_written_once_or_not_at_all() -> None:
    """Calls with the same traffic may share a snapshot, also those of two tests."""
    content = b"t.snapshot()\nt.snapshot()\n"

    def edit(path: str, line: int, reads: str) -> Edit:
        start = 13 * (line - 1)
        return Edit(Place(Path(path), content, start, start + 12, line, ""), (("reads", reads),))

    once: Any = vars(pytest_plugin)["_once"]
    shared = [edit("a.py", 1, "n"), edit("a.py", 1, "n")]
    apart = [edit("a.py", 2, "m"), edit("b.py", 1, "k")]
    assert once([*shared, *apart]) == ([shared[0], *apart], [])
    differing = [edit("c.py", 2, "n"), edit("c.py", 2, "n"), edit("c.py", 2, "m")]
    clear, refused = once([*differing, *apart])
    assert clear == apart
    assert refused == [
        "c.py:2: not written, one snapshot stands for 3 calls of different traffic. "
        "Give each a snapshot of its own: an `assert` for each parameter, or a test for each."
    ]
