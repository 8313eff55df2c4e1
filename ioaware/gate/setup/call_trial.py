"""Try calls of a host function in this process, and print the first that works.

Its JSON is the last line. So is, while others are tried, that of the best so far.

    python -P -m ioaware.gate.setup.call_trial '{"target": "scale.py:scale", "root": ..., "gpu": ..., "guesses": [...]}'

A call works if its kernels stay within their tensors at small sizes and their bytes are exact.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware.errors import IoawareError, UsageError

MOST_WORKING = 4
MOST_SECONDS = 240.0
"""Time after which no further call is tried, unless another one is given."""
NAME = re.compile(r"[A-Za-z_]\w*")

if TYPE_CHECKING:
    from ioaware.result import ParamValue
    from ioaware.targets.target import Target


def main(arguments: Sequence[str]) -> int:
    """Answer one question."""
    question: dict[str, Any] = json.loads(arguments[0])
    root, options = Path(question["root"]), {"backward": question["backward"], "most_s": question["most_s"]}
    _print(try_calls(question["target"], root, question["gpu"], question["guesses"], report=_print, **options))
    return 0


def _print(answer: Mapping[str, Any]) -> None:
    sys.stdout.flush()
    os.write(1, b"\n" + json.dumps(answer).encode() + b"\n")


def try_calls(
    target: str,
    root: Path,
    gpu: str,
    guesses: Sequence[Mapping[str, Any]],
    *,
    backward: bool = False,
    most_s: float = MOST_SECONDS,
    report: Callable[[Mapping[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Return the number of the best guess that works, its formulas and its kernels.

    Else why the last one does not. Best is the one that launches the most kernels, and whose formulas have the most sizes: one
    with constants for sizes shows no growth. The search ends where they have all of the guess, or after some that work. With
    `backward` each call that works is tried with its backward pass too, and the answer says whether that works.
    `report` receives each answer that is the best so far, since the process may not live to give the last.
    """
    from ioaware.targets.loading import load_function
    from ioaware.targets.target import load_target
    from ioaware.targets.with_backward import with_backward

    why = "no call could be guessed"
    try:
        function, whole = load_function(target), load_target(target)
    except IoawareError as error:
        return {"why": error.what}
    best: dict[str, Any] = {}
    most, works = (-1, -1), 0
    end = time.monotonic() + most_s
    for number, guess in enumerate(guesses):
        if time.monotonic() > end:
            break
        nothing = [name for name, value in guess["params"].items() if value is None]
        called = _with_nothing(function, nothing, target)
        try:
            found = _tried(load_target(called) if nothing else whole, root, gpu, guess)
        except IoawareError as error:
            why = error.what
            continue
        if backward:
            with suppress(IoawareError):
                found |= {**_tried(load_target(with_backward(called)), root, gpu, guess), "backward": True}
        works += 1
        used = len(guess["sizes"].keys() & {*NAME.findall(found["reads"]), *NAME.findall(found["writes"])})
        rank = (len(found["kernels"]), used)
        if rank > most:
            best, most = {"guess": number, **found}, rank
            if report:
                report(best)
        if (used == len(guess["sizes"]) and ("backward" in found) == backward) or works == MOST_WORKING:
            break
    return best or {"why": why}


def _with_nothing(function: Callable[..., Any], names: Sequence[str], target: str) -> Callable[..., Any]:
    """Return a function without these parameters, which are None.

    It has the name of a target.

    Why: None is no value of a parameter that has no default.
    """
    if not names:
        return function
    signature = inspect.signature(function)

    @wraps(function)
    def call(**given: Any) -> Any:
        return function(**given, **dict.fromkeys(names))

    others = [one for one in signature.parameters.values() if one.name not in names]
    call.__module__, _, call.__qualname__ = target.rpartition(":")
    call.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return call


def _tried(loaded: Target, root: Path, gpu: str, guess: Mapping[str, Any]) -> dict[str, Any]:
    from ioaware._deferred_gc import deferred_full_gc
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.derive import derive
    from ioaware.gate.traffic_fixture import kernels_of
    from ioaware.tracing.trace import trace

    with deferred_full_gc():
        trace(loaded, _params(loaded, guess["params"], guess["small"]))
        derived = derive(loaded, _params(loaded, guess["params"], guess["sizes"]), gpu=find_gpu(gpu), machine_code=False)
    if not derived.exact or derived.requested is None:
        raise UsageError("its bytes are not exact", "See ioaware derive; make the kernel exempt in the ledger.")
    return {
        "reads": derived.requested.read_formula or "",
        "writes": derived.requested.write_formula or "",
        "kernels": sorted(kernels_of(derived, root)),
    }


def _params(loaded: Target, given: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, ParamValue]:
    texts = {name: str(value) for name, value in (*given.items(), *sizes.items()) if value is not None}
    return dict(loaded.resolve(texts, typed=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
