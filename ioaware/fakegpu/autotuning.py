"""Run autotuned kernels with one configuration: the user's or the first after pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from triton.runtime import autotuner as _autotuner

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.result import ParamValue

autotuner: Any = _autotuner

TUNED = "autotuned over"
"""Prefix of the note that names the chosen configuration."""


class ConfigurationError(Exception):
    """The kernel cannot run with this configuration: it does not compile, or needs too much of the GPU."""


def patch_autotuners(patches: Patches, run: Callable[..., Any]) -> None:
    """Replace `Autotuner.run`, and those of its subclasses, by `run(plain, tuner, args, kwargs)`; no kernel is timed.

    Subclasses that a later import defines are patched too.
    """

    def replacement(plain: Callable[..., Any]) -> Callable[..., Any]:
        def tuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            return run(plain, tuner, args, kwargs)

        return tuned

    def replace(kind: type) -> None:
        if "run" in vars(kind):
            patches.set(kind, "run", replacement(vars(kind)["run"]))
        if "_bench" in vars(kind):
            patches.set(kind, "_bench", lambda *_, **__: [1.0, 1.0, 1.0])  # pyright: ignore[reportUnknownLambdaType]

    for kind in autotuner_kinds():
        replace(kind)
    patches.set(autotuner.Autotuner, "__init_subclass__", classmethod(replace))


def autotuner_kinds(kind: type = autotuner.Autotuner) -> Iterator[type]:
    """Yield Triton's autotuner and every subclass that there is."""
    yield kind
    for subclass in kind.__subclasses__():
        yield from autotuner_kinds(subclass)


def configuration_values(values: Mapping[str, Any]) -> dict[str, ParamValue]:
    """Return the values of a configuration that a record can hold, defaults left out."""
    plain = {name: value for name, value in values.items() if isinstance(value, (int, float, str))}
    return {name: value for name, value in plain.items() if (name, value) != ("num_ctas", 1)}


def _required_of(kernel: str, required: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are required of this kernel: those of any, and those of `kernel:NAME`."""
    parts = [(name.rpartition(":"), value) for name, value in required.items()]
    return {name: value for (owner, _, name), value in parts if owner in ("", kernel)}


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

    It takes the first configuration that has the values of `required` and launches without `ConfigurationError`, as Triton's
    autotuner does. `add_note` receives a note that names it ("traced with ..."). Raises `UsageError` when there is none.
    """
    name = tuner.base_fn.__name__
    required = _required_of(name, required)
    if len(tuner.configs) == 1 and required.items() <= tuner.configs[0].all_kwargs().items():
        return plain(tuner, *args, **kwargs)  # nothing to choose, or chosen before: a subclass calls its base
    everything = tuner.configs
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    candidates = [config for config in tuner.prune_configs(kwargs) if required.items() <= config.all_kwargs().items()]
    if not candidates:
        raise UsageError(
            f"{name} has no configuration with {dict(required)}",
            "Its configurations: " + "; ".join(map(format_config, everything)),
        )
    refused = ""
    try:
        for config in candidates:
            tuner.configs = [config]
            add_note(f"{TUNED} {len(everything)} configurations; {verb} with {format_config(config)}{refused}")
            try:
                return plain(tuner, *args, **kwargs)
            except ConfigurationError as error:
                refused += f"; {format_config(config)} is passed over: {error}"
    finally:
        tuner.configs = everything
    raise UsageError(f"{name} runs with none of its {len(candidates)} configurations{refused}")


def format_config(configuration: Any) -> str:
    """Return the values of a configuration as text, defaults left out: `BLOCK=64, num_warps=4`."""
    values = {name: value for name, value in configuration.all_kwargs().items() if value is not None}
    return ", ".join(f"{name}={value}" for name, value in values.items() if (name, value) != ("num_ctas", 1))
