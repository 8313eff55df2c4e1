"""Autotuned kernels where nothing is timed: one configuration, the user's or the first that survives pruning, and its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ioaware.errors import UsageError

TUNED = "autotuned over"
"""How a note begins that names the chosen configuration."""


def run_one_configuration(
    plain: Callable[..., Any],
    tuner: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    wanted: Mapping[str, Any],
    verb: str,
    say: Callable[[str], None],
) -> Any:
    """`Autotuner.run` (`plain`) with one configuration left to choose from, which it then runs without timing.

    It is the first whose values include those of `wanted`; `say` gets a note that names it ("traced with ...").
    Raises `UsageError` when there is none such.
    """
    everything = tuner.configs
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    candidates = [config for config in tuner.prune_configs(kwargs) if wanted.items() <= config.all_kwargs().items()]
    name = tuner.base_fn.__name__
    if not candidates:
        raise UsageError(
            f"{name} has no configuration with {dict(wanted)}", "Its configurations: " + "; ".join(map(named, everything))
        )
    if len(everything) > 1:
        say(f"{TUNED} {len(everything)} configurations; {verb} with {named(candidates[0])}")
    tuner.configs = candidates[:1]
    try:
        return plain(tuner, *args, **kwargs)
    finally:
        tuner.configs = everything


def named(configuration: Any) -> str:
    """The values of a configuration as they are chosen, without those that say nothing: `BLOCK=64, num_warps=4`."""
    values = {name: value for name, value in configuration.all_kwargs().items() if value is not None}
    return ", ".join(f"{name}={value}" for name, value in values.items() if (name, value) != ("num_ctas", 1))
