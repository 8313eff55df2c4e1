"""Choose the inputs of a walk.

They are the seed notebook's Q, K and V, or the arrays of an .npz file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ioaware.case import Work
from ioaware.errors import DataError, UsageError
from ioaware.result import ParamValue
from ioaware.targets.target import Target, work_of

SEED = "seed"
NAMES: Mapping[int, tuple[str, ...]] = {1: ("x",), 3: ("q", "k", "v")}
"""Names of a case's inputs by their number, in order."""
Arrays = Mapping[str, NDArray[Any]]


def with_inputs(target: Target, source: str) -> Target:
    """Return the target with the inputs of `source`.

    That is `seed`, or the path of an .npz file.

    `seed` is the notebook's toy example: numpy's generator with seed 42 draws Q, K and V in this order, standard normal, one
    [seq_len, head_dim] matrix each, and S = Q K^T has no scale. A file has `q`, `k` and `v` (`x` for softmax) in the case's
    shapes, or without axes of size 1, and optionally the number `scale`. Raises `UsageError` for a target without such
    inputs, `DataError` for a damaged file.
    """
    arrays = None if source == SEED else _read(Path(source))

    def call(*, device: str, **params: ParamValue) -> object:
        chosen = dict(arrays if arrays is not None else _seed(target, params))
        work = _built(target, device, params, chosen.pop("scale", None))
        _fill(target.name, work, chosen)
        return work

    return replace(target, call=call)


def _built(target: Target, device: str, params: Mapping[str, ParamValue], scale: NDArray[Any] | None) -> Work:
    """Return the work of a target whose inputs can be replaced.

    The scale comes with it, if there is one.
    """
    options = {} if scale is None else {"scale": float(scale)}
    try:
        work = work_of(target.call(device=device, **params, **options))
    except TypeError as error:
        if not options or "'scale'" not in str(error):
            raise
        raise UsageError(f"{target.name} takes no scale", "Inputs with a scale are for forward cases of attention.") from error
    if work is None or len(work.inputs) not in NAMES:
        raise UsageError(f"the inputs of {target.name} cannot be chosen", "--input is for forward cases.")
    return work


def _seed(target: Target, params: Mapping[str, ParamValue]) -> Arrays:
    """Draw the toy example's matrices."""
    sizes = [params.get(name) for name in ("seq_len", "head_dim")]
    one_head = all(params.get(name) in (1, None) for name in ("batch", "heads", "kv_heads"))
    rows, cols = (size if isinstance(size, int) else 0 for size in sizes)
    if not (rows and cols and one_head) or params.get("kv_len") not in (None, rows):
        raise UsageError(
            f"{target.name}: the seed's Q, K and V are one head of [seq_len, head_dim]",
            "Use batch=1, heads=1 and no kv_len; the seed has -p seq_len=6 -p head_dim=2.",
        )
    generator = np.random.RandomState(42)  # the legacy generator is what the notebook used
    drawn = {name: generator.standard_normal((rows, cols)) for name in ("q", "k", "v")}
    return {**drawn, "scale": np.array(1.0)}


def _read(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", "--input takes `seed` or an .npz file with q, k and v.") from None
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DataError(
            f"{path} is no .npz file of plain arrays: {error}", "Write it with numpy.savez(path, q=..., k=..., v=...)."
        ) from error


def _fill(name: str, work: Work, arrays: Arrays) -> None:
    """Copy arrays into the work's inputs."""
    expected = dict(zip(NAMES[len(work.inputs)], work.inputs, strict=True))
    shapes = ", ".join(f"{each} {list(tensor.shape)}" for each, tensor in expected.items())
    if set(arrays) != set(expected):
        raise UsageError(f"{name}: the file has {', '.join(sorted(arrays)) or 'nothing'}", f"The inputs are {shapes}.")
    for each, tensor in expected.items():
        given = arrays[each]
        if given.dtype.kind not in "fiu":
            raise UsageError(f"{name}: {each} holds {given.dtype}, not numbers", f"The inputs are {shapes}.")
        if _without_ones(given.shape) != _without_ones(tensor.shape):
            what = f"{name}: {each} has the shape {list(given.shape)}, not {list(tensor.shape)}"
            raise UsageError(what, "Set seq_len, head_dim and the other sizes with -p.")
        tensor.copy_(torch.tensor(given.astype(np.float64)).reshape(tensor.shape))


def _without_ones(shape: Iterable[int]) -> list[int]:
    return [size for size in shape if size != 1]
