"""Represent a point.

It is one source, one target, one set of parameters, with a canonical key.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ioaware.cases import CASES, find_case
from ioaware.errors import UsageError
from ioaware.params import resolve
from ioaware.result import Params, ParamValue, Source

SOURCES: tuple[Source, ...] = ("predict", "derive", "trace", "measure")
"""Sources of a study in the order a sweep runs them: cheap ones first."""

_MODULE_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One run of a source.

    `params` are canonical: checked, defaults filled in, in the target's order.

    `revision` is the digest of a `file.py:function` target's file: an edited kernel is a new point.
    """

    source: Source
    target: str
    params: Params
    revision: str = ""
    autotune: Params = field(default_factory=dict[str, ParamValue])
    """The configurations of autotuned kernels that were measured at this point.

    Not part of its key.
    """
    machine: str = ""
    """The driver's name of the only GPU on which to measure it; empty for any.

    Not part of its key: a store keeps the records of each GPU apart.
    """

    key: str = field(init=False, repr=False)
    """Canonical JSON, equal for equal points whatever their spelling."""

    def __post_init__(self) -> None:
        known = {name: value for name, value in self.params.items() if value is not None}
        key = json.dumps([self.source, self.target, self.revision, known], sort_keys=True, separators=(",", ":"))
        object.__setattr__(self, "key", key)

    @property
    def label(self) -> str:
        """Source, target and the parameters that differ from their default, for messages."""
        defaults = {param.name: param.default for param in CASES[self.target].params} if self.target in CASES else {}
        assignments = (f"{name}={_spell(value)}" for name, value in self.params.items() if value != defaults.get(name))
        return " ".join((self.source, self.target, *assignments))

    @property
    def need(self) -> str:
        """What a machine must be able to do.

        It is the source, and the GPU where the point names one.
        """
        return f"{self.source} on {self.machine}" if self.machine else self.source

    def to_job(self) -> dict[str, Any]:
        """Return what the worker process needs, as JSON."""
        return {"source": self.source, "target": self.target, "params": dict(self.params), "autotune": dict(self.autotune)}

    def of(self, source: Source) -> Point:
        """Return the point of another source at the same parameters."""
        return replace(self, source=source, autotune={}, machine="")


def make_point(source: Source, target: str, given: Mapping[str, ParamValue]) -> Point:
    """Return the canonical point.

    The target's file is read for its digest and not imported.

    Raises `UsageError` for a target that does not exist, an invalid parameter, or `predict` of a target that is no case.
    """
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name}={value} cannot work: parameters are finite numbers", "Give a finite one.")
    if ":" not in target:
        return Point(source, target, resolve(find_case(target).params, given, target))
    if source == "predict":
        raise UsageError(f"predict needs a case, not {target!r}", f"Cases with a closed form: {', '.join(CASES)}.")
    return Point(source, target, dict(given), target_digest(target))


def target_digest(target: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of the target's file.

    Empty for `module:function`.
    """
    place, _, function = target.rpartition(":")
    if not place.endswith(".py"):
        if _MODULE_TARGET.fullmatch(target):
            return ""
        raise UsageError(f"{target!r} is not a target", "Targets: a case, file.py:function or module:function.")
    if not function.isidentifier():
        raise UsageError(f"{target!r} names no function", "For example: mykernel.py:attention")
    try:
        return hashlib.sha256(Path(place).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise UsageError(
            f"target file {place}: cannot be read ({error.strerror})", "Paths start at the working directory."
        ) from error


def _spell(value: ParamValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
