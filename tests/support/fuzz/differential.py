"""Differential test of derive against the reference interpreter.

The formulas of one program are tested.

Points differ from the one at which the program is derived.
"""

from __future__ import annotations

import importlib.util
import re
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.targets.target import load_target
from tests.support.fuzz.reference_interpreter import Tally, TooLongError, count

BYTES = ("read_bytes", "write_bytes", "atomic_bytes", "flops")
SECTORS = ("read_sector_bytes", "write_sector_bytes")
POOL = (1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 23, 32, 33, 40)
SECONDS = 20


@dataclass(frozen=True)
class Verdict:
    """The values of `outcome` and `sectors`.

    `outcome`: equal, inexact, refused, skipped, slow, invalid, WRONG, CRASH; `sectors`: exact, bound, unknown, -.
    """

    outcome: str
    why: str = ""
    sectors: str = "-"

    @property
    def bug(self) -> bool:
        return self.outcome in ("WRONG", "CRASH")


class SlowError(Exception):
    """Derivation exceeds its time limit."""


@contextmanager
def time_limit(seconds: int) -> Generator[None]:
    def late(*_: object) -> None:
        raise SlowError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # seconds of CPU time
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def load(text: str, directory: Path, name: str) -> ModuleType:
    """Import the program as a module. Triton reads its source from the file."""
    path = directory / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def check_program(text: str, directory: Path, name: str, *, points: int = 5, seed: int = 0) -> Verdict:
    """Return the verdict on a program."""
    module = load(text, directory, name)
    try:
        with time_limit(SECONDS):
            return check_host(module.host, sample_points(Random(seed), points))
    except SlowError:
        return Verdict("slow", traceback.format_exc())
    finally:
        del sys.modules[name]


def sample_points(rng: Random, points: int) -> list[dict[str, int]]:
    chosen = [{"n": rng.choice(POOL), "m": rng.choice(POOL[:-4]), "k": rng.choice(POOL[:-6])} for _ in range(points)]
    return [{"n": 37, "m": 11, "k": 5}, *chosen]


def check_host(host: Callable[..., object], points: list[dict[str, int]]) -> Verdict:
    """Derive at the first point and compare at all points."""
    counts: list[tuple[dict[str, int], Tally]] = []
    for point in points:
        try:
            counts.append((point, count(host, **point)))
        except TooLongError:
            continue
    if not counts:
        return Verdict("skipped", "it takes too long to run")
    try:
        derived = derive(load_target(host), points[0], machine_code=False)
    except UsageError as error:
        invalid = "does not compile" in str(error)
        return Verdict("invalid" if invalid else "refused", str(error))
    except SlowError:
        raise
    except Exception:
        return Verdict("CRASH", traceback.format_exc())
    return compare(derived, counts)


def compare(derived: Derived, counts: list[tuple[dict[str, int], Tally]]) -> Verdict:
    """Compare the formulas at each point where their conditions hold."""
    sectors = "unknown" if None in (derived.formulas.read_sector_bytes, derived.formulas.write_sector_bytes) else "bound"  # type: ignore[union-attr]
    if all(kernel.sectors_exact for kernel in derived.kernels if kernel):
        sectors = "exact"
    points = 0
    for point, tally in counts:
        try:
            why = _difference(derived, point, tally, exact_sectors=sectors == "exact")
        except SlowError:
            raise
        except UsageError as error:
            if "do not hold" in str(error):
                continue
            return Verdict("CRASH", traceback.format_exc(), sectors)
        except Exception:
            return Verdict("CRASH", traceback.format_exc(), sectors)
        if why:
            return Verdict("WRONG", f"{why} at {point}\n" + "\n".join(derived.notes), sectors)
        points += 1
    if not points:
        return Verdict("skipped", "it holds at no point")
    return Verdict("equal" if derived.exact else "inexact", reasons(derived), sectors)


def reasons(derived: Derived) -> str:
    notes = [note for launch in derived.launches for note in launch.notes if "sectors" not in note]
    return "; ".join(re.sub(r"\d+", "#", note) for note in notes[:1])


def _difference(derived: Derived, point: Mapping[str, int], tally: Tally, *, exact_sectors: bool) -> str:
    """Describe the first wrong count.

    A bound is wrong below the true count. Return "" for none.
    """
    known = {name: value for name, value in point.items() if name in (derived.symbols or {})}
    if any(derived.params[name] != value for name, value in point.items() if name not in known):
        return ""
    if derived.validity:
        derived.validity.check(known)
    if derived.exact and point == derived.params and (why := _difference_here(derived, tally)):
        return why
    formulas: Any = derived.formulas
    for name in (*BYTES, *SECTORS):
        formula = getattr(formulas, name)
        is_exact = derived.exact and not derived.exact_here_only if name in BYTES else exact_sectors
        if formula is None or (not is_exact and formula.symbols - known.keys()):
            continue
        try:
            found = formula.evaluate(known)
        except Exception as error:
            if type(error).__name__ == "OutsideFormulaError" and name in SECTORS:
                continue
            raise
        true = getattr(tally, name)
        if found != true and (is_exact or found < true):
            return f"{name} is {found} {'' if is_exact else 'at most '}by {formula}, not {true}"
    return ""


def _difference_here(derived: Derived, tally: Tally) -> str:
    """Describe the first wrong number at the point of the derivation.

    Data may decide what is exact there.
    """
    for name in BYTES:
        found, true = getattr(derived if name == "flops" else derived.requested, name), getattr(tally, name)
        if found is not None and found != true:
            return f"{name} is {found} at its own point, not {true}"
    return ""
