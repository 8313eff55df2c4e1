"""Run autotuned kernels with one configuration: the user's or the first after pruning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ioaware.errors import UsageError

TUNED = "autotuned over"
"""Prefix of the note that names the chosen configuration."""


def run_one_configuration(
    plain: Callable[..., Any],
    tuner: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    required: Mapping[str, Any],
    verb: str,
    add_note: Callable[[str], None],
) -> Any:
    """Call `Autotuner.run` (`plain`) with a single configuration, which it runs without timing.

    It is the first whose values include those of `required`; `add_note` receives a note that names it ("traced with ...").
    Raises `UsageError` when no configuration has those values.
    """
    everything = tuner.configs
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    candidates = [config for config in tuner.prune_configs(kwargs) if required.items() <= config.all_kwargs().items()]
    name = tuner.base_fn.__name__
    if not candidates:
        raise UsageError(
            f"{name} has no configuration with {dict(required)}",
            "Its configurations: " + "; ".join(map(format_config, everything)),
        )
    if len(everything) > 1:
        add_note(f"{TUNED} {len(everything)} configurations; {verb} with {format_config(candidates[0])}")
    tuner.configs = candidates[:1]
    try:
        return plain(tuner, *args, **kwargs)
    finally:
        tuner.configs = everything


def format_config(configuration: Any) -> str:
    """Return the values of a configuration as text, defaults left out: `BLOCK=64, num_warps=4`."""
    values = {name: value for name, value in configuration.all_kwargs().items() if value is not None}
    return ", ".join(f"{name}={value}" for name, value in values.items() if (name, value) != ("num_ctas", 1))
