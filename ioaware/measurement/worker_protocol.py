"""Define the two JSON files between a measurement and its worker.

They are `Spec` in and `Report` out, both validated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ioaware import strict_json
from ioaware.errors import DataError, IoawareError, MachineError, UsageError
from ioaware.measurement.counters.launch_log import TritonLaunch
from ioaware.result import Check, ParamValue, Timing

MAX_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Spec:
    """One point to measure.

    The file `waiting` exists while the worker waits for the GPU. `parent_lock` is the file that the parent keeps locked.
    """

    target: str
    params: Mapping[str, ParamValue]
    timeout_s: float
    lease_timeout_s: float
    budget_s: float
    window_s: float
    waiting: str
    parent_lock: str

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> Spec:
        return Spec(**json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Report:
    """Measurements of a worker.

    `refused` is why its numbers must not be shown, `error` why there are none.
    """

    target: str = ""
    params: Mapping[str, ParamValue] = field(default_factory=dict[str, ParamValue])
    launches: tuple[TritonLaunch, ...] = ()
    check: Check | None = None
    output_norm: float | None = None
    timing: Timing | None = None
    extra_memory_bytes: int | None = None
    telemetry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()
    throttled: tuple[str, ...] = ()
    unstable: tuple[str, ...] = ()
    refused: str | None = None
    error: Mapping[str, str] | None = None

    def write(self, path: Path) -> None:
        """Write atomically, so that a half-written report is never read."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), allow_nan=False), encoding="utf-8")
        partial.replace(path)

    @staticmethod
    def read(path: Path) -> Report | None:
        """Return the report, or None if the worker wrote none.

        Raises `DataError` for an invalid one.
        """
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        try:
            if len(content) > MAX_BYTES:
                raise ValueError(f"longer than {MAX_BYTES} bytes")
            data: Any = strict_json.loads(content)
            check, timing = data.pop("check"), data.pop("timing")
            if timing:
                timing["rounds_ns"] = tuple(timing["rounds_ns"])
            for item in data["launches"]:
                item["grid"] = tuple(item["grid"])
            launches = tuple(TritonLaunch(**item) for item in data.pop("launches"))
            notes, throttled, unstable = (tuple(data.pop(name)) for name in ("notes", "throttled", "unstable"))
            return Report(
                **data,
                launches=launches,
                notes=notes,
                throttled=throttled,
                unstable=unstable,
                check=Check(**check) if check else None,
                timing=Timing(**timing) if timing else None,
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(
                f"the worker's report is not readable ({type(error).__name__}: {error})",
                "Measure again; nothing else may write to its output.",
            ) from error

    def raise_user_error(self) -> None:
        """Raise the user's or the machine's error again.

        Every other point would have it, too.
        """
        kinds: dict[str, type[IoawareError]] = {"UsageError": UsageError, "MachineError": MachineError}
        if self.error is not None and self.error["kind"] in kinds:
            raise kinds[self.error["kind"]](self.error["what"], self.error["remedy"])


def started_marker(report: Path) -> Path:
    """Return the path of the file that a worker creates first.

    It shows that the profiler started the worker.
    """
    return report.with_suffix(".started")


def describe_error(error: BaseException) -> dict[str, str]:
    """Return an exception as the `error` of a report, with bounded length."""
    if isinstance(error, IoawareError):
        return {"kind": type(error).__name__, "what": error.what, "remedy": error.remedy}
    return {"kind": type(error).__name__, "what": str(error)[:2000], "remedy": ""}
