"""Measure the time and the memory of derivations.

Times are of a derivation that is the first, repeated, from the disk cache, and at 100,000 points. Memory is measured after
1,000 derivations.

    python scripts/bench_derive.py -o speed.json
    python scripts/bench_derive.py "flash2 causal=true" "path/to/file.py:function n=4096"
    python scripts/bench_derive.py --foreign triton=PATH --foreign liger=PATH

Without targets: those of this package. Each number is wall clock in a process that does nothing else, after the target's own
module is imported, and torch and triton with it; what derive itself imports is in it. `first` has no caches, neither Triton's
nor ours, `fresh` is another process that finds them on disk, `again` the same process (median of five). `cpu` is the calling
thread's own time in `first`, which others on the machine lengthen least. What `first` is made of is measured in a third
process, one after the other: `imports` of sympy and ioaware's own modules, `formulas` without machine code, and `compile`,
Triton's own compilation of each kernel from its source to machine code. `yard` is a plain Python loop of 5,000,000 rounds just
before: a machine that is shared, throttled or another one shows in it.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MODULE = "ioaware.kernels.attention.targets"
OWN = (
    *("standard", "flash1", "flash2", "flash2 causal=true"),
    *(f"{MODULE}:hopper{case}" for case in ("", " causal=true", "_backward", "_backward causal=true")),
    *(f"{MODULE}:{case}" for case in ("decode", "portable", "portable causal=true", "portable_backward")),
)
AGAIN, POINTS, TIMEOUT_S, POINTS_TIMEOUT_S = 5, 100_000, 300, 60
PARTS = ("cpu", "imports", "formulas", "compile")
LIMITS = {"first": 2.0, "again": 0.1, "fresh": 0.1, "points": 1.0}
"""Seconds."""


def parsed(target: str) -> tuple[str, dict[str, Any]]:
    """`flash2 seq_len=256 causal=true` as a spec and its parameters."""
    from ioaware.targets.signature import infer_value

    spec, *given = shlex.split(target)
    return spec, {name: infer_value(text) for name, _, text in (item.partition("=") for item in given)}


def loaded(spec: str) -> tuple[str | Callable[..., object], Callable[[], complex]]:
    """Return the target with its module imported, and the import time so far.

    The time is that of importing reduced modules of a checkout (see `_now`).

    Files of third-party targets import these modules when they are called.
    """
    from ioaware.cases import CASES
    from ioaware.targets.loading import load_function

    if spec in CASES:
        importlib.import_module(f"ioaware.kernels.attention.{spec}")
        return spec, complex
    function = load_function(spec)
    checkout: Any = sys.modules.get("checkout")
    if checkout is None:
        return function, complex
    spent, plain = [0j], checkout.Library.definitions

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = _now()
        try:
            return plain(*args, **kwargs)
        finally:
            spent[0] += _now() - start

    checkout.Library.definitions = timed
    return function, lambda: spent[0]


def once(stage: str, target: str) -> dict[str, Any]:
    """Measure what one process measures.

    These are `first` and `parts` with empty caches, `fresh` or `points` with those that `first` left, or `memory`.
    """
    import ioaware

    spec, params = parsed(target)
    function, importing = loaded(spec)
    for name in ("torch", "triton"):  # whichever of them the target's module has not imported
        importlib.import_module(name)
    if stage == "parts":
        return _parts(function, params, importing)
    start = _now() - importing()
    derived: Any = ioaware.derive(function, **params)
    seconds, cpu = (taken := _now() - importing() - start).real, taken.imag
    if stage == "memory":
        return _memory(lambda: ioaware.derive(function, **params))
    if stage == "fresh":
        return {"fresh": seconds}
    if stage == "points":
        return _at_points(derived)
    again = [_timed(lambda: ioaware.derive(function, **params)) for _ in range(AGAIN)]
    return {"first": seconds, "cpu": cpu, "again": statistics.median(again)}


def _parts(
    function: str | Callable[..., object], params: Mapping[str, Any], importing: Callable[[], complex]
) -> dict[str, Any]:
    """Return the seconds of imports, of formulas alone, and of Triton's compilation.

    Every kernel is compiled, one after the other.
    """
    imports = _timed(lambda: importlib.import_module("ioaware.derivation.derive"))
    from ioaware.capture.capture import DEFAULT_GPU, capture
    from ioaware.compilation.resource_usage import resources_by_triton
    from ioaware.derivation.derive import derive
    from ioaware.targets.target import load_target

    target, others = load_target(function), importing()
    formulas = _timed(lambda: derive(target, params, machine_code=False)) - (importing() - others).real
    found = capture(target, target.resolve(params))
    kernels = _timed(lambda: [resources_by_triton(launch, found.values, DEFAULT_GPU) for launch in found.launches])
    return {"imports": imports, "formulas": formulas, "compile": kernels}


def _now() -> complex:
    """Return wall-clock seconds, and as imaginary part those this thread has worked."""
    return complex(time.perf_counter(), time.thread_time())


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _rounds(times: int = 5_000_000) -> int:
    total = 0
    for number in range(times):
        total += number
    return total


def _at_points(derived: Any) -> dict[str, Any]:
    """Return the seconds of an evaluation at sizes up to 64 times the given ones.

    Parameters take any sizes from the given ones to 64 times these, where the formulas hold there. Otherwise they are
    multiples, each by factors of its own; else multiples by factors that all have in common; else no other sizes than given.
    """
    import numpy

    from ioaware.errors import UsageError

    if not derived.symbols:
        return {}
    draw = numpy.random.default_rng(0)
    given = derived.symbols.items()
    together = draw.integers(1, 65, POINTS)
    points = {
        "any": {name: draw.integers(value, 64 * value + 1, POINTS) for name, value in given},
        "multiples": {name: value * draw.integers(1, 65, POINTS) for name, value in given},
        "common multiples": {name: value * together for name, value in given},
        "the given sizes": {name: numpy.full(POINTS, value) for name, value in given},
    }
    refused = ""
    for kind, values in points.items():
        try:
            return {"points": _timed(partial(derived.evaluate, **values)), "at": kind}
        except (UsageError, ZeroDivisionError) as error:
            refused = str(error)
    return {"at": refused}


def _memory(work: Callable[[], object], times: int = 1000, settled: int = 1000) -> dict[str, Any]:
    """Return resident bytes after the first `settled` derivations, and their growth.

    The growth is what all derivations together add to the first number.
    """
    for _ in range(settled):
        work()
    before = _resident_bytes()
    start = time.perf_counter()
    for _ in range(times):
        work()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"resident_bytes": before, "growth_bytes": _resident_bytes() - before, "peak_bytes": peak, "each": seconds / times}


def _resident_bytes() -> int:
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def child(stage: str, target: str, caches: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """`once` in a process of its own, with these caches on disk."""
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": f"{caches}/triton",
        "IOAWARE_CACHE_DIR": f"{caches}/ioaware",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH")))),
    }
    command = [sys.executable, str(Path(__file__)), "--once", stage, target]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {timeout_s:.0f} s"}
    if done.returncode:
        return {"failed": " ".join(done.stderr.split("\n")[-3:]).strip()}
    return json.loads(done.stdout.strip().rpartition("\n")[2])


def fastest(target: str, times: int) -> dict[str, Any]:
    """Return the least of each number in so many rounds.

    Others on the machine only ever add to a number.
    """
    best: dict[str, Any] = {}
    for _ in range(times):
        found = measured(target)
        best = {name: min(value, best.get(name, value)) if type(value) is float else value for name, value in found.items()}
        if "failed" in found:
            break
    return best


def measured(target: str) -> dict[str, Any]:
    """All that is asked of one target, but memory."""
    with tempfile.TemporaryDirectory() as caches:
        found = {"target": Path(target).name, "yard": _timed(_rounds), **child("first", target, caches)}
        for stage, timeout_s in (("fresh", TIMEOUT_S), ("points", POINTS_TIMEOUT_S)):
            if "failed" not in found:
                found |= child(stage, target, caches, timeout_s)
    with tempfile.TemporaryDirectory() as caches:
        return found | (child("parts", target, caches) if "failed" not in found else {})


def line(found: Mapping[str, Any]) -> str:
    """A row of the table; what is over its limit has a mark."""
    cells = [
        f"{found[name]:8.3f}{'!' if found[name] > limit else ' '}" if name in found else " " * 9
        for name, limit in LIMITS.items()
    ]
    cells += [f"{found[name]:8.3f} " if name in found else " " * 9 for name in (*PARTS, "yard")]
    name = found["target"].removeprefix(f"{MODULE}:")
    return f"{name:<44}{''.join(cells)} {found.get('failed', found.get('at', ''))}"


def foreign(given: Sequence[str]) -> list[str]:
    """The targets of the libraries whose checkouts are given as `name=PATH`."""
    sys.path.insert(0, str(HERE / "foreign"))
    from derive_coverage import LIBRARIES, targets_of  # pyright: ignore[reportAttributeAccessIssue]

    found: list[str] = []
    for item in given:
        name, _, path = item.partition("=")
        os.environ[f"FOREIGN_{name.upper()}"] = str(Path(path).resolve())
        file = HERE / "foreign" / LIBRARIES[name].file
        found += [f"{file}:{function}" for function in targets_of(file)]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0, even where a limit is missed: a time depends on the machine's load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="a case, file.py:function or module:function, with its parameters")
    parser.add_argument("--foreign", action="append", default=[], metavar="NAME=PATH", help="a library's checkout")
    parser.add_argument("--memory", action="store_true", help="1,000 derivations of each target, and what they leave in memory")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="the fastest of N rounds")
    parser.add_argument("-o", "--output", type=Path, help="write JSON here, too")
    parser.add_argument("--once", nargs=2, metavar=("STAGE", "TARGET"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.once:
        print(json.dumps(once(*given.once)))
        return 0
    targets = [*given.targets, *foreign(given.foreign)] or list(OWN)
    results: list[dict[str, Any]] = []
    if not given.memory:
        print(f"{'seconds':<44}" + "".join(f"{name:>8} " for name in (*LIMITS, *PARTS, "yard")))
    for target in targets:
        with tempfile.TemporaryDirectory() as caches:
            memory = {"target": Path(target).name, **child("memory", target, caches)} if given.memory else {}
        found = memory or fastest(target, given.times)
        results.append(found)
        print(json.dumps(found) if given.memory else line(found), flush=True)
    if given.output:
        given.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
