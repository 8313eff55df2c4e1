"""Register the pytest plugin.

It provides the fixture `traffic`, its marker, `--traffic=create|accept`, and the rules of a gate.

Nothing heavy is imported at collection. Snapshots are written at the end, by tests that passed, and only on request of the
command line itself. They are never written by PYTEST_ADDOPTS or a configuration file, in CI, or from several processes.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from ioaware._deferred_gc import deferred_full_gc, end_without_collection
from ioaware.errors import IoawareError
from ioaware.gate.budgets import NAMES
from ioaware.gate.ci.session_report import ATTACHED, SessionReport, TestCalls, properties
from ioaware.gate.plain_imports import import_plainly
from ioaware.gate.repository.gate_config import read_config
from ioaware.gate.repository.ledger import LEDGER, Ledger, read_ledger, write_ledger
from ioaware.gate.repository.ungated_files import may_have_gate
from ioaware.gate.source_edit import Edit, write_edits
from ioaware.gate.traffic_fixture import Traffic

import_plainly()

MARKER = (
    "traffic(max_bytes=, max_reads=, max_writes=, max_torch_bytes=, vs_compulsory=, max_spills=, min_tma_loads=, gpu=): "
    "budgets on what `traffic(...)` derives in this test; no update of a snapshot raises them"
)
WROTE = "wrote"
SESSION = "ioaware traffic session"
_state = pytest.StashKey["_Session"]()
_passed = pytest.StashKey[bool]()
_calls = pytest.StashKey[TestCalls]()


class _Session:
    """Pending edits and passed tests of one session.

    A separate plugin, registered for one configuration.
    """

    def __init__(self, config: pytest.Config, mode: Any, ledger: Ledger | None, gpu: str) -> None:
        self.config, self.mode, self.ledger, self.gpu = config, mode, ledger, gpu
        named = (config.getoption(name) for name in ("--traffic-summary", "--traffic-results"))
        self._shown = SessionReport(config.rootpath, *(config.invocation_params.dir / path if path else None for path in named))
        self.edits: list[Edit] = []
        self.gated: dict[str, set[str]] = {}
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._lines: list[str] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, None]:
        """Leave out a file that cannot be imported, where only gates run and it has none.

        Why: a test that needs a GPU at import is no matter of traffic. A file that may have a gate stays an error.
        """
        outcome = yield
        report: pytest.CollectReport = outcome.get_result()
        if report.failed and self.config.getoption("--traffic-only") and self._ungated(collector):
            report.outcome = "skipped"
            report.longrepr = (str(collector.path), 0, "Skipped: cannot be imported, and has no gate")

    def _ungated(self, collector: pytest.Collector) -> bool:
        """Return whether no test of the ledger is in a file, and it names no gate."""
        root = self.config.rootpath
        if self.ledger is None or not isinstance(collector, pytest.File) or not collector.path.is_relative_to(root):
            return False
        named = {(root / test.partition("::")[0]).resolve() for test in self.ledger.tests}
        plugins: list[str] = self.config.option.plugins
        return collector.path.resolve() not in named and not may_have_gate(collector.path, root, plugins)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the tests that have passed, in the process that reports.

        A test has passed when its teardown has, too.
        """
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
            self._failed.discard(report.nodeid)  # run again
        self._shown.add(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the snapshots and the ledger.

        Fail where a test that the ledger names has not run.
        """
        if hasattr(self.config, "workerinput"):
            return
        if self.config.getoption("--traffic-complete") and self.ledger is not None:
            missing = sorted(self.ledger.tests - (self._passed - self._failed))
            self._lines += [f"{test} did not run and pass, and {LEDGER} names it" for test in missing]
        self._lines += self._unseen()
        try:
            self._lines += [] if self._lines or not self.mode else self._write()
        except (IoawareError, OSError) as error:
            self._lines.append(f"nothing was written: {error}")
        problems = [line for line in self._lines if not line.startswith(WROTE)]
        code = int(session.exitstatus) or int(bool(problems))
        try:
            self._shown.write(code, problems, always=bool(self.config.getoption("--traffic-complete")))
        except IoawareError as error:
            self._lines.append(str(error))
        if any(not line.startswith(WROTE) for line in self._lines):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _unseen(self) -> list[str]:
        """Return what pytest counts as no failure, and the gate does.

        Why: a marker, a conftest or another plugin may turn a failure into something else, or replace the fixture.
        """
        hidden = sorted(self._shown.blocked - self._failed)
        found = [f"{test}: its gate failed, and pytest does not count it as failed" for test in hidden]
        gated = self.ledger.tests & (self._passed - self._failed) if self.ledger is not None else set[str]()
        idle = sorted(gated - self._shown.tests)
        return [*found, *(f"{test} passed without a gate, and {LEDGER} names it" for test in idle)]

    def _write(self) -> list[str]:
        edits, refused = _once(self.edits)
        written = write_edits(edits)
        if not refused and self.ledger is not None and self.ledger.gate(self.gated):
            write_ledger(self.config.rootpath, self.ledger)
            written.append(str(self.config.rootpath / LEDGER))
        return [*(f"{WROTE} {place}" for place in written), *refused]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print what was written, and what the ledger misses; nothing otherwise."""
        for line in self._lines:
            terminalreporter.write_line(f"traffic: {line}", red=not line.startswith(WROTE))
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in self._shown.annotations():
                terminalreporter.write_line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("traffic", "memory traffic of Triton kernels (ioaware)")
    group.addoption(
        "--traffic", choices=("create", "accept"), default=None, help="write missing, or all changed, traffic snapshots"
    )
    group.addoption(
        "--traffic-cross-toolchain",
        action="store_true",
        help="let a snapshot of another Triton or GPU pass, where its formulas are proven equal",
    )
    group.addoption(
        "--traffic-complete", action="store_true", help=f"fail unless every test that {LEDGER} names has run and passed"
    )
    group.addoption("--traffic-only", action="store_true", help="run only the tests that use the fixture `traffic`")
    group.addoption(
        "--traffic-summary",
        metavar="FILE",
        default=None,
        help="append a Markdown summary; in a job of GitHub its own file is used",
    )
    group.addoption("--traffic-results", metavar="FILE", default=None, help="write the run as JSON, for `ioaware history`")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check a request to write snapshots.

    Writing is refused unless the command line of a single process requests it.
    """
    config.addinivalue_line("markers", MARKER)
    mode = config.getoption("--traffic")
    if mode:
        _check_mode(config, mode)
    try:
        ledger = read_ledger(config.rootpath)
        gpu = read_config(config.rootpath).gpu
    except IoawareError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_state] = _Session(config, mode, ledger, gpu)
    if config.pluginmanager.register(config.stash[_state], SESSION) is None:
        raise pytest.UsageError(f"the plugin {SESSION!r} is blocked (-p no:), and with it what fails a run")
    if config.getoption("--traffic-complete") and ledger is None:
        raise pytest.UsageError(f"--traffic-complete needs {config.rootpath / LEDGER}: run `ioaware coverage --write`")


def _check_mode(config: pytest.Config, mode: str) -> None:
    arguments = [str(argument) for argument in config.invocation_params.args]
    if f"--traffic={mode}" not in arguments and "--traffic" not in arguments:
        raise pytest.UsageError(f"--traffic={mode} is taken from the command line only, not from PYTEST_ADDOPTS or a file")
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        raise pytest.UsageError(f"--traffic={mode} writes snapshots, which CI must not do (the environment sets CI)")
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None) or config.getoption("tx", None):
        raise pytest.UsageError(f"--traffic={mode} writes snapshots from one process: leave -n out")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a marker with budgets on a test that does not take the fixture.

    Its budgets would hold nothing.
    """
    for item in items:
        budgets = {name for marker in item.iter_markers("traffic") for name in marker.kwargs} & set(NAMES)
        if budgets and "traffic" not in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid} has the marker traffic, and does not use the fixture `traffic`")
    if config.getoption("--traffic-only"):
        others = [item for item in items if "traffic" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if "traffic" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)


@pytest.fixture
def traffic(request: pytest.FixtureRequest) -> Generator[Traffic]:
    """Derive the memory traffic of kernels without a GPU.

    It is compared with a snapshot in the test.
    """
    if not __debug__:
        pytest.fail("traffic: python -O removes assertions, and with them the gate", pytrace=False)
    node: pytest.Item = request.node
    path, line, _ = node.location
    calls = node.stash[_calls] = TestCalls(node.nodeid, str(request.config.rootpath / path), (line or 0) + 1)
    session = request.config.stash[_state]
    budgets: dict[str, Any] = {"gpu": session.gpu}
    for marker in reversed(list(node.iter_markers("traffic"))):
        if marker.args:
            raise pytest.UsageError(f"{node.nodeid}: the limits of the marker traffic have names, as in max_bytes=...")
        budgets |= marker.kwargs
    cross = bool(request.config.getoption("--traffic-cross-toolchain"))
    made = Traffic(node.nodeid, budgets, session.mode, request.config.rootpath, cross_toolchain=cross)
    calls.outcomes = made.outcomes
    end_without_collection()
    with deferred_full_gc():  # also while the test imports torch
        yield made
    if not node.stash.get(_passed, False):
        return
    if why := made.unfinished() or _stale(session, node.nodeid, made.kernels):
        pytest.fail(f"traffic: {why}", pytrace=False)
    session.edits += made.edits
    session.gated.setdefault(node.nodeid, set()).update(made.kernels)


def _stale(session: _Session, test: str, kernels: set[str]) -> str:
    """Return why the ledger is not right about this test."""
    if session.ledger is None or session.mode:
        return ""
    gone = sorted(session.ledger.kernels_of(test) - kernels)
    if not gone:
        return ""
    launched = ", ".join(sorted(kernels - session.ledger.kernels_of(test)))
    what = f"{LEDGER} says that this test gates {gone[0]}, which it does not launch"
    return f"{what}{f'; it launches {launched}' if launched else ''}; accept with pytest {test} --traffic=accept"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Remember whether the test has passed; attach its calls to its last report."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if call.when == "call":
        item.stash[_passed] = report.passed
    calls = item.stash.get(_calls, None)
    if calls is None:
        return
    calls.skipped = calls.skipped or report.skipped
    if report.failed:
        calls.failure = calls.failure or (str(call.excinfo.value) if call.excinfo else "failed")
    if call.when == "call":
        item.user_properties += properties(calls.outcomes)
    elif call.when == "teardown":
        setattr(report, ATTACHED, [one.to_dict() for one in calls.finished()])


def _once(edits: list[Edit]) -> tuple[list[Edit], list[str]]:
    """Return one edit for each place.

    A place that two tests would write differently has a line that says so instead.
    """
    found: dict[tuple[str, int], list[Edit]] = {}
    for edit in edits:
        found.setdefault((str(edit.place.path), edit.place.start), []).append(edit)
    clear = [same[0] for same in found.values() if len({edit.arguments for edit in same}) == 1]
    refused = [
        f"{first.place.path}:{first.place.line}: not written, one snapshot stands for {len(same)} calls of different traffic. "
        "Give each a snapshot of its own: an `assert` for each parameter, or a test for each."
        for same in found.values()
        if (first := same[0]) not in clear
    ]
    return clear, refused
