"""Derive one third-party target at two sizes, and count each launch again.

The second count is by plain interpretation. The time it takes is reported.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import _bootstrap  # pyright: ignore[reportAttributeAccessIssue]
from pathlib import Path
from typing import Any

from examine import SCALES, line, table_formula

from ioaware._monkeypatch import Patches

CHECK = "check: "
CONFIRMED, WRONG, UNCHECKED = "agrees", "WRONG", "not checked"
FORMULA, DATA, BOUND, RANDOM, REFUSED, CRASH = "formula", "own data", "no", "random data", "refused", "crash"


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """One kernel of one target.

    Without a kernel the target was refused or crashed: `reason` says why.
    """

    target: str
    kernel: str = ""
    reads: str = ""
    writes: str = ""
    conditions: str = ""
    exact: str = REFUSED
    """`formula`, `own data`, `random data`, `no`, `refused` or `crash`.

    `own data` means bytes at the index tensors that the target builds.
    """
    reason: str = ""
    here: str = ""
    """What plain interpretation says of the numbers at the target's sizes."""
    elsewhere: str = ""
    """What plain interpretation says of the numbers at other sizes.

    The first formulas must give the numbers there that a derivation there gives.
    """
    sizes: str = ""
    seconds: float = 0.0
    """CPU time of deriving the whole target, compilers included and checks left out."""


def examined(spec: str) -> list[CheckedRow]:
    """Derive and check one target, in this process."""
    from ioaware.errors import IoawareError

    name = Path(spec).name
    try:
        first, seconds = _derived(spec, {}, machine_code=True)
    except IoawareError as error:
        return [CheckedRow(name, reason=line(str(error)))]
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {line(str(error))}"
        return [CheckedRow(name, exact=CRASH, reason=text)]
    sizes, there = _elsewhere(spec, first)
    rows: dict[str, CheckedRow] = {}
    for at, (launch, kernel) in enumerate(_kernels(first)):
        exact, reason = _exactness(launch)
        row = CheckedRow(
            name,
            launch.kernel,
            table_formula(kernel.read_bytes),
            table_formula(kernel.write_bytes),
            " and ".join(launch.conditions),
            exact,
            reason,
            _check(launch),
            there[at] if at < len(there) else "",
            sizes,
            round(seconds, 2),
        )
        known = rows.get(launch.kernel)
        if known is None or _badness(row) > _badness(known):  # of several launches the worst
            rows[launch.kernel] = row
    return list(rows.values())


def _derived(spec: str, values: Mapping[str, Any], *, machine_code: bool) -> tuple[Any, float]:
    """Return a checked derivation, and its CPU seconds without checks and imports."""
    from ioaware.derivation import check
    from ioaware.derivation.derive import derive
    from ioaware.targets.target import load_target

    target = load_target(spec)
    with _left_out((check, "check_launch"), (_bootstrap, "_find_and_load")) as left_out:
        start = _cpu_seconds()
        found = derive(target, target.resolve(values), machine_code=machine_code, check=True)
        return found, _cpu_seconds() - start - sum(left_out)


@contextmanager
def _left_out(*functions: tuple[Any, str]) -> Generator[list[float]]:
    """Give the CPU seconds of calls of some functions.

    Calls inside such a call, as an import by a check, count once.
    """
    spent: list[float] = []
    inside = threading.local()

    def timed(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if getattr(inside, "one", False):
                return plain(*args)
            inside.one, start = True, _cpu_seconds()
            try:
                return plain(*args)
            finally:
                inside.one = False
                spent.append(_cpu_seconds() - start)

        return call

    with Patches() as patches:
        for owner, name in functions:
            patches.set(owner, name, timed(getattr(owner, name)))
        yield spent


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _kernels(derived: Any) -> list[tuple[Any, Any]]:
    return [(launch, kernel) for launch, kernel in zip(derived.launches, derived.kernels, strict=True) if kernel]


def _exactness(launch: Any) -> tuple[str, str]:
    own = next((note for note in launch.notes if note.startswith("bytes for the contents of")), None)
    notes = [note for note in launch.notes if not note.startswith((CHECK, "autotuned over"))]
    if launch.exact:
        return (DATA, line(own)) if own else (FORMULA, "")
    return (RANDOM if own else BOUND), line(own or (notes[0] if notes else ""))


def _check(launch: Any) -> str:
    note = next((note for note in launch.notes if note.startswith(CHECK)), "").removeprefix(CHECK)
    if note.startswith("counted again"):
        return CONFIRMED
    return line(note)


def _badness(row: CheckedRow) -> int:
    order = (FORMULA, DATA, RANDOM, BOUND)
    return 10 * (WRONG in row.here + row.elsewhere) + 2 * order.index(row.exact) + (row.here != CONFIRMED)


def _elsewhere(spec: str, first: Any) -> tuple[str, list[str]]:
    """Return other sizes at which the target runs, and the numbers of each launch.

    The numbers are what a derivation there and the formulas say.
    """
    from ioaware.errors import IoawareError

    for values in _other_sizes(first):
        sizes = ", ".join(f"{name}={value}" for name, value in values.items())
        try:
            there, _ = _derived(spec, {**first.params, **values}, machine_code=False)
        except IoawareError:
            continue
        names = [launch.kernel for launch, _ in _kernels(first)]
        if [launch.kernel for launch, _ in _kernels(there)] != names:
            continue
        point = {**first.symbols, **values} if first.symbols else {}  # formulas of specialised sizes hold at them alone
        pairs = zip(_kernels(first), _kernels(there), strict=True)
        return sizes, [_compared(*one, other, point) for one, (other, _) in pairs]
    return "", []


def _other_sizes(derived: Any) -> Iterator[dict[str, int]]:
    """Yield sizes at which the formulas hold.

    Where no parameter is symbolic, other sizes of any parameter.
    """
    from ioaware.errors import UsageError

    symbols = dict(derived.symbols) or {name: value for name, value in derived.params.items() if type(value) is int}
    moved = [{name: max(1, value * a // b + c) for name, value in symbols.items()} for a, b, c in SCALES]
    single = [{name: values[name]} for values in moved for name in symbols]
    for values in (*moved, *single):
        changed = {name: value for name, value in values.items() if value != symbols[name]}
        if not changed:
            continue
        if derived.symbols:
            try:
                derived.validity.check({**derived.symbols, **changed})
            except UsageError:
                continue
        yield changed


def _compared(launch: Any, kernel: Any, other: Any, point: Mapping[str, int]) -> str:
    """Return what the check at other sizes says, and where the formulas differ.

    The first formulas differ where they give other numbers at those sizes.
    """
    found: list[str] = []
    if kernel.exact and launch.exact and other.exact and other.requested and point:  # else formulas are bounds
        for name in ("read_bytes", "write_bytes", "atomic_bytes"):
            count, number = getattr(kernel, name), getattr(other.requested, name)
            if count.symbols <= point.keys() and number is not None and int(count.evaluate(point)) != number:
                found.append(f"{name} by the formula {int(count.evaluate(point))}, derived there {number}")
    return f"{WRONG}: {'; '.join(found)}" if found else _check(other)


def counted(rows: Sequence[CheckedRow], *kinds: str) -> int:
    """Return how many rows are of these kinds."""
    return sum(row.exact in kinds for row in rows)
