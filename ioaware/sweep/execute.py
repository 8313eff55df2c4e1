"""Run one point: call its source, in this process or in a worker."""

from __future__ import annotations

import json
from typing import Any, cast

from ioaware.errors import IoawareError
from ioaware.result import Params, Result, Source
from ioaware.result_file import encode


def run_source(
    source: Source, target: str, params: Params, *, timeout_s: float = 300.0, autotune: Params | None = None
) -> Result:
    """Call the source; its exceptions pass through.

    `autotune` holds configurations for `derive` and `trace`. `timeout_s` is for `measure`, whose workers have their own limit.
    """
    if source == "predict":
        from ioaware.prediction import predict

        return predict(target, **cast("dict[str, Any]", params))  # no parameter is called machine
    if source == "derive":
        from ioaware.derivation.derive import derive
        from ioaware.targets.target import load_target

        found = load_target(target)
        return derive(found, found.resolve(params), machine_code=False, autotune=autotune)
    if source == "trace":
        from ioaware.targets.target import load_target
        from ioaware.tracing.trace import trace

        return trace(load_target(target), params, autotune=autotune)
    if source == "measure":
        from ioaware.derivation.measured_flops import with_derived_flops
        from ioaware.measurement.measure import Options, measure

        return with_derived_flops(measure(target, params, options=Options(timeout_s=timeout_s)))
    raise ValueError(f"no source {source!r}")


def execute(job: dict[str, Any]) -> str:
    """Run a `Point.to_job()` in a worker process.

    Return a record, or an error, as JSON.
    """
    try:
        source, target, params = job["source"], job["target"], job["params"]
        return encode(run_source(source, target, params, timeout_s=job["timeout_s"], autotune=job.get("autotune")))
    except IoawareError as error:
        return json.dumps({"error": str(error), "exit_code": error.exit_code})
