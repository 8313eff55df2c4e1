"""Derive one side of a difference in this process.

Its JSON is printed as the last line.

    python -P -m ioaware.gate.side_worker '{"target": ..., "params": ..., "gpu": ..., "config": ..., "moved": [tree, copy]}'

`moved` names a working tree and the unpacked revision that replaces it on the import path.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ioaware.errors import IoawareError, UsageError

OWN_KERNELS = "ioaware.kernels"


def main(arguments: Sequence[str]) -> int:
    """Answer one question; return the exit code of an error."""
    question: dict[str, Any] = json.loads(arguments[0])
    answer, code = _answer(question)
    sys.stdout.flush()
    os.write(1, b"\n" + json.dumps(answer).encode() + b"\n")
    return code


def _answer(question: dict[str, Any]) -> tuple[dict[str, Any], int]:
    try:
        moved = question["moved"]
        if moved:
            sys.path[:] = list(_moved_paths(sys.path, *moved))
        document = _derive(question)
        if moved and (stale := list(_loaded_from(*moved))):
            raise UsageError(
                f"{question['target']} imports {stale[0]} from the working tree, not from the revision",
                "Name the file that holds the kernels, or check both revisions out.",
            )
    except IoawareError as error:
        return {"error": [error.what, error.remedy, error.exit_code]}, error.exit_code
    return {"row": document}, 0


def _derive(question: dict[str, Any]) -> dict[str, Any]:
    from ioaware._deferred_gc import deferred_full_gc
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.derivation.derive import derive
    from ioaware.gate.tuning.configuration_bytes import each_configuration
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    with deferred_full_gc():
        gpu = find_gpu(question["gpu"])
        loaded = load_target(question["target"], gpu)
        named, data = split_unknowns(question["params"])
        chosen = {name: infer_value(text) for name, text in question["config"].items()}
        params = loaded.resolve(named, typed=True)
        deriving = partial(derive, loaded, params, gpu=gpu, data=data)
        derived = deriving(autotune=chosen)
        each = each_configuration(derived, lambda one: deriving(autotune={**chosen, **one}, machine_code=False), chosen)
        others = {name: other.to_dict() for _, name, _, other in each if other}
        return derived.to_dict() | {"by_configuration": others}


def _moved_paths(paths: Sequence[str], tree: str, copy: str) -> Iterator[str]:
    """Yield the import path with entries of the working tree replaced by the copy's."""
    top, package = Path(tree).resolve(), Path(__file__).resolve().parents[2]
    for entry in paths:
        place = Path(entry).resolve()
        inside = place.is_relative_to(top) and place != package
        yield str(Path(copy) / place.relative_to(top)) if inside else entry


def _loaded_from(tree: str, copy: str) -> Iterator[str]:
    """Yield the modules whose file is in the working tree, ioaware's own code apart."""
    top, own = Path(tree).resolve(), Path(copy).resolve()
    installed = [Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or (name.startswith("ioaware") and not name.startswith((OWN_KERNELS, "ioaware_"))):
            continue
        place = Path(file).resolve()
        below = place.is_relative_to(top) and not place.is_relative_to(own)
        if below and not any(place.is_relative_to(prefix) for prefix in installed):
            yield name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
