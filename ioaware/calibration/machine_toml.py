"""Write a calibration as a machine file.

Every command accepts it as `--machine FILE.toml`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from ioaware.calibration.run_probes import Calibrated
from ioaware.machine.model import reach
from ioaware.machine.presets import find_machine

HBM_RATES = ("read", "write", "copy", "triad")
L2_RATES = ("l2_read_bytes_per_s", "l2_shared_read_bytes_per_s", "l2_matmul_read_bytes_per_s")
"""Requested bytes per second of programs that read the same memory, or not.

Those of a matmul copy it to shared memory. The largest one is the ceiling: requests for the same memory are merged before they
reach the L2.
"""


def machine_toml(found: Calibrated, preset: str, *, day: date | None = None) -> str:
    """Return the text of the machine file; `preset` has what is not measured here."""
    day = day or datetime.now(UTC).date()
    source = f"calibrated {day.isoformat()}, driver {found.environment.get('driver', 'unknown')}"
    return "\n".join(_lines(found, preset, source)) + "\n"


def _lines(found: Calibrated, preset: str, source: str) -> Iterator[str]:
    fit, rates = found.calibration, found.rates
    ways = find_machine(preset).l2_model.ways
    capacity = fit.usable_l2_bytes / reach(ways)
    yield f"preset = {_text(preset)}"
    yield f"name = {_text(f'{preset}, calibrated')}"
    yield from _table("levels.hbm", {
        "bandwidth_bytes_per_s": rates["hbm_copy_bytes_per_s"],
        **{f"{name}_bytes_per_s": rates[f"hbm_{name}_bytes_per_s"] for name in HBM_RATES},
        "source": source,
    })  # fmt: skip
    yield from _table("levels.l2", {
        "capacity_bytes": round(capacity), "bandwidth_bytes_per_s": max(rates[name] for name in L2_RATES), "source": source,
    })  # fmt: skip
    for dtype in ("float16", "bfloat16"):
        yield from _table(f"peaks.{dtype}", {"flops_per_s": rates[f"matmul_{dtype}_flops_per_s"], "source": source})
    yield from _table("l2_model", {
        "partitions": fit.partitions,
        "dirty_share": min(1.0, fit.largest_dirty_bytes / capacity),
        "capacity_spread": min(0.9, fit.l2_shared.spread),
        "skew_spread": min(1.0, rates["drift"]),
        "ways": ways,
        "source": source,
    })  # fmt: skip
    measured: dict[str, Any] = {
        **{name: rates[name] for name in L2_RATES},
        "l2_private_bytes": fit.l2_private.capacity_bytes,
        "l2_private_spread": fit.l2_private.spread,
        **{f"dirty_after_{kernel}_bytes": value for kernel, value in fit.dirty_bytes.items()},
    }
    for kernel, one in fit.l1.items():
        if one is not None:
            measured |= {f"{kernel}_bytes": one.capacity_bytes, f"{kernel}_spread": one.spread}
    yield from _table("calibration", measured)
    yield from _table("calibration.environment", {key: str(value) for key, value in sorted(found.environment.items())})


def _table(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"[{name}]"
    for key, value in values.items():
        yield f"{key} = {_text(value) if isinstance(value, str) else repr(value)}"


def _text(value: str) -> str:
    """Return a TOML basic string: JSON's escapes are among TOML's."""
    return json.dumps(value, ensure_ascii=True)
