"""Provide the `traffic` fixture.

It derives calls on symbolic tensors, compares them with snapshots, and checks their budgets.

A gate that compares nothing fails. Examples are a call without a comparison, a comparison with a failure that the test
swallows, and a marker on a test that never calls `traffic`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from ioaware.errors import UsageError
from ioaware.gate.budgets import NAMES, Judgement, check_budgets
from ioaware.gate.ci.outcome import MISSING, WRITTEN, Outcome
from ioaware.gate.kernel_facts import ALWAYS, FACTS
from ioaware.gate.repository.gate_config import DEFAULT_GPU
from ioaware.gate.snapshot import AND, Snapshot, snapshot_of
from ioaware.gate.source_edit import Edit, Place, find_call, kept_arguments
from ioaware.gate.symbolic_call import Sizes, SymbolicSize, SymbolicTensor, derive_call, strides_of
from ioaware.gate.tuning.configurations import judge_all
from ioaware.gate.verdict import Verdict, worst

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived
    from ioaware.gate.derived_snapshot import Recorded
    from ioaware.gate.tuning.configuration_bytes import AllConfigurations

Mode = Literal["create", "accept"] | None


class TrafficChangedError(AssertionError):
    """The traffic of a test differs from its snapshot or exceeds its budget."""


class Gated:
    """The traffic of one call.

    Compare it with `traffic.snapshot(...)`; `derived` is the whole derivation.
    """

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, traffic: Traffic, derived: Derived, outcome: Outcome, derive: Callable[..., Derived]) -> None:
        self._traffic = traffic
        self._derive = derive
        self._elsewhere: dict[tuple[tuple[str, int], ...], Derived] = {}
        self.derived = derived
        self.outcome = outcome

    def compile(self) -> None:
        """Derive the call again with machine code, for facts that only it tells."""
        self.derived = self._derive({}, machine_code=True)

    def all_configurations(self) -> AllConfigurations:
        """Return the bytes with every configuration of an autotuner."""
        from ioaware.gate.tuning.configuration_bytes import all_configurations

        return all_configurations(self.derived, lambda chosen, at: self._derive(at, machine_code=False, autotune=chosen))

    def judge(self, budgets: Mapping[str, Any]) -> list[Judgement]:
        """Return the verdict on each budget, with every configuration of an autotuner."""
        machine_code = "max_spills" in budgets
        return judge_all(self.derived, lambda chosen: self._derive({}, machine_code=machine_code, autotune=chosen), budgets)

    def derive_at(self, point: Mapping[str, int]) -> Derived:
        """Derive the call at other sizes."""
        key = tuple(sorted(point.items()))
        if key not in self._elsewhere:
            self._elsewhere[key] = self._derive(point, machine_code=False)
        return self._elsewhere[key]

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        if not isinstance(other, Expected):
            raise TypeError(f"traffic is compared with traffic.snapshot(...), not with {type(other).__name__}")
        self._traffic.compare(self, other)
        return True

    def __repr__(self) -> str:
        requested = self.derived.requested
        reads, writes = (requested.read_formula, requested.write_formula) if requested else (None, None)
        return f"<traffic of {self.derived.target}: reads {reads}, writes {writes}>"


class Expected:
    """A snapshot in a test, and its place in the source."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, snapshot: Snapshot, place: Place | None) -> None:
        self.snapshot, self.place = snapshot, place

    def __eq__(self, other: object) -> bool:
        return other == self if isinstance(other, Gated) else NotImplemented

    def __repr__(self) -> str:
        return "traffic.snapshot(...)" if self.snapshot.texts else "traffic.snapshot()"


class Traffic:
    """Fixture of one test.

    `mode` selects the snapshots that it may write; `edits` are pending snapshots.
    """

    def __init__(self, test: str, budgets: Mapping[str, Any], mode: Mode, root: Path, *, cross_toolchain: bool = False) -> None:
        options = dict(budgets)
        self._gpu = options.pop("gpu", DEFAULT_GPU)
        check_budgets(options)
        self._test, self._budgets, self._mode, self._root = test, options, mode, root
        self._cross_toolchain = cross_toolchain
        self._sizes = Sizes()
        self._open: list[object] = []
        self.edits: list[Edit] = []
        self.failures: list[str] = []
        self.kernels: set[str] = set()
        self.outcomes: list[Outcome] = []
        self.gates = 0

    def tensor(
        self,
        *sizes: str | int,
        dtype: str = "float32",
        strides: Sequence[str | int] | None = None,
        **values: int,
    ) -> SymbolicTensor:
        """Return a tensor whose named sizes are the names of the formulas.

        `values` are those at the first point. `strides` are in elements, contiguous ones by default: numbers, names, and
        products such as `"heads*head_dim"`.
        """
        for size in sizes:
            if not isinstance(size, str) and (type(size) is not int or size < 1):
                raise UsageError(
                    f"a size is a name or a positive integer, not {size!r}", 'For example traffic.tensor("rows", 128).'
                )
        laid_out = None if strides is None else strides_of(strides, len(sizes))
        made = SymbolicTensor(sizes, str(dtype).removeprefix("torch."), laid_out)
        self._sizes.add(made.names, values, made.names_of_strides)
        return made

    def size(self, name: str, value: int | None = None) -> SymbolicSize:
        """Return a named size to pass as a number."""
        self._sizes.add([name], {} if value is None else {name: value})
        return SymbolicSize(name)

    def __call__(self, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Gated:  # pragma: no mutate block
        """Derive `function(*args, **kwargs)`, and check the budgets of the test's marker.

        Needs no GPU. `"module:function"` and `"path.py:function"` may need one at import.
        """
        __tracebackhide__ = True
        return self._gated(self._loaded(function), args, kwargs, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]

    def with_backward(self, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Gated:  # pragma: no mutate block
        """Derive a call and the backward pass of what it returns, as one.

        Each floating-point tensor among the arguments gets a gradient.
        """
        __tracebackhide__ = True
        from ioaware.targets.with_backward import with_backward

        function = with_backward(self._loaded(function))
        return self._gated(function, args, kwargs, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]

    def _loaded(self, function: Callable[..., Any] | str) -> Callable[..., Any]:
        __tracebackhide__ = True
        if not isinstance(function, str):
            return function
        with self._remembered():
            return _load(function, self._root)

    def _gated(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], frame: FrameType) -> Gated:
        __tracebackhide__ = True
        sizes = dict(self._sizes.values)

        def derive(point: Mapping[str, int], **options: Any) -> Derived:
            return derive_call(function, args, kwargs, {**sizes, **point}, gpu=self._gpu, **options)

        with self._remembered():
            derived = derive({}, machine_code="max_spills" in self._budgets)
        self.kernels |= kernels_of(derived, self._root)
        gated = Gated(self, derived, self._outcome(derived, frame), derive)
        self.outcomes.append(gated.outcome)
        if self._budgets:
            self._hold(gated, self._budgets)
            gated.outcome.judge(Verdict.SAME, "within its budgets")
            self.gates += 1
        else:
            self._open.append(gated)
        return gated

    def snapshot(self, **given: Any) -> Expected:  # pragma: no mutate block (its caller's frame is read)
        """Return what `traffic(...)` must equal.

        Without formulas it is missing: `pytest --traffic=create` writes it.
        """
        with self._remembered():
            snapshot = snapshot_of(**given)
        expected = Expected(snapshot, find_call(sys._getframe(1)) if self._mode else None)  # pyright: ignore[reportPrivateUsage]
        self._open.append(expected)
        return expected

    @contextmanager
    def _remembered(self) -> Generator[None]:
        """Remember an error, so that a test which swallows it fails."""
        __tracebackhide__ = True
        try:
            yield
        except Exception as error:
            self.failures.append(str(error) or type(error).__name__)
            raise

    def compare(self, gated: Gated, expected: Expected) -> None:
        """Compare a call with a snapshot.

        Raises `TrafficChangedError` unless it is SAME, or may be and is to be written.
        """
        __tracebackhide__ = True
        from ioaware.gate.derived_snapshot import recorded, with_other_constants
        from ioaware.gate.failure import failure_text
        from ioaware.gate.snapshot import judge_snapshot

        self._open = [one for one in self._open if one is not gated and one is not expected]
        self.gates += 1
        snapshot = expected.snapshot
        if snapshot.needs_machine_code and "max_spills" not in self._budgets:
            gated.compile()
        derived = gated.derived
        if snapshot.budgets:
            self._hold(gated, snapshot.budgets)
        now = recorded(derived)
        if derived.exact and (snapshot.holds_configurations or (self._mode and now.choices)):
            now = now.with_configurations(gated.all_configurations())
        found = judge_snapshot(snapshot, now, derived, gated.derive_at, cross_toolchain=self._cross_toolchain)
        if found.verdict is Verdict.SAME:
            gated.outcome.judge(Verdict.SAME, found.reason)
            return
        mode = "create" if snapshot.missing and found.verdict is Verdict.INCOMPARABLE else "accept"
        known = all(now.facts[name] is not None for name in snapshot.facts if name not in ALWAYS)
        if self._mode in ("accept", mode) and derived.exact and known and not now.unknown and expected.place:
            self._write(expected.place, with_other_constants(now, derived, gated.derive_at), snapshot.facts)
            gated.outcome.judge(WRITTEN, f"{self._mode}: the snapshot is written if the test passes")
            return
        command = f"pytest {shlex.quote(self._test)} --traffic={mode}"
        message = failure_text(snapshot, now, found, derived, command, gated.derive_at)
        gated.outcome.judge(MISSING if snapshot.missing else found.verdict, found.reason, message)
        self._fail(message)

    def _outcome(self, derived: Derived, frame: FrameType) -> Outcome:
        """Return how CI shows a call that is not judged yet."""
        requested, floor = derived.requested, derived.compulsory
        return Outcome(
            self._test,
            derived.target,
            frame.f_code.co_filename,
            frame.f_lineno,
            self._gpu,
            reads=(requested and requested.read_formula) or "",
            writes=(requested and requested.write_formula) or "",
            point=", ".join(f"{name}={value}" for name, value in derived.params.items()),
            bytes=requested.total_bytes if requested else None,
            compulsory=floor.total_bytes if floor else None,
        )

    def _write(self, place: Place, now: Recorded, facts: Collection[str]) -> None:
        __tracebackhide__ = True
        edit = Edit(place, (*snapshot_arguments(now, facts), *kept_arguments(place, NAMES)))
        if any(other.place == place and other.arguments != edit.arguments for other in self.edits):
            self._fail(f"{place.path}:{place.line}: one snapshot stands for two different calls; give each its own")
        self.edits.append(edit)

    def _hold(self, gated: Gated, budgets: Mapping[str, Any]) -> None:
        """Raise `TrafficChangedError` for a budget that is not proven to hold.

        This is so in every mode.
        """
        __tracebackhide__ = True
        derived = gated.derived
        over = [one for one in gated.judge(budgets) if one.verdict is not Verdict.SAME]
        if over:
            from ioaware.gate.failure import budget_text

            message = budget_text(over, derived)
            gated.outcome.judge(worst(one.verdict for one in over), f"{over[0].budget}: {over[0].reason}", message)
            self._fail(message)

    def _fail(self, message: str) -> None:
        __tracebackhide__ = True
        self.failures.append(message)
        raise TrafficChangedError(message)

    def unfinished(self) -> str:
        """Return why a test that passed has gated nothing, or has swallowed a failure.

        Empty where neither is so.
        """
        if self.failures:
            return f"the test passed although its gate failed:\n{self.failures[0]}"
        if self._open:
            return "a result of traffic(...) or a traffic.snapshot(...) is compared with nothing"
        if not self.gates:
            return "the test uses traffic and compares nothing (python -O removes assertions)"
        return ""


def _load(target: str, root: Path) -> Callable[..., Any]:
    """Import a function by name. A path is below the root of the tests."""
    from ioaware.targets.loading import load_callable

    source, _, name = target.rpartition(":")
    return load_callable(f"{root / source}:{name}" if source.endswith(".py") else target)


def snapshot_arguments(now: Recorded, facts: Collection[str]) -> list[tuple[str, str]]:
    """Return the arguments of a snapshot as source code, with these facts.

    Sectors and TMA loads are included where there are any.
    """
    arguments = [(kind, _quoted(text)) for kind, text in now.texts.items()]
    points: list[str] = []
    for point, values in now.values:
        if point and None not in values:
            name = ", ".join(f"{size}={value}" for size, value in point.items())
            points.append(f"{_quoted(name)}: ({', '.join(f'{value:_}' for value in values if value is not None)})")
    if points:
        arguments.append(("at", "\n".join(("{", *(f"    {point}," for point in points), "}"))))
    if now.where:
        arguments.append(("where", _quoted(AND.join(now.where))))
    for name in FACTS:
        value = now.facts[name]
        if value is not None and (name in facts or (name in ALWAYS and value)):
            arguments.append((name, _sectors(now, value) if name == "sector_bytes" else f"{value:_}"))
    if now.configurations:
        arguments.append(("configurations", _quoted(now.configurations)))
    arguments.append(("made_with", _quoted(str(now.header))))
    return arguments


def _sectors(now: Recorded, first: int) -> str:
    """Return the sectors at each point; at the first where others are unknown."""
    others = [one for one in now.other_sectors if one is not None]
    written = all(point and None not in values for point, values in now.values)
    if not written or not others or len(others) < len(now.other_sectors):
        return f"{first:_}"
    return f"({', '.join(f'{one:_}' for one in (first, *others))})"


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)


def kernels_of(derived: Derived, root: Path) -> set[str]:
    """Return the kernels that a derivation covers.

    Each is `path.py:function` below the root of the repository.
    """
    found: set[str] = set()
    for kernel, file in zip(derived.kernels, derived.files, strict=True):
        path = Path(file).absolute() if file else None
        if kernel and path and path.is_relative_to(root):
            found.add(f"{path.relative_to(root).as_posix()}:{kernel.kernel}")
    return found
