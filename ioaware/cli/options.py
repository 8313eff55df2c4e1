"""Define options of the command line.

Each has one meaning for every verb that takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from ioaware._atomic_file import check_writable
from ioaware.params import split_assignments

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(slots=True)
class Settings:
    """Verbosity: `-v` adds details and tracebacks, `-q` silences stderr.

    It silences progress and remarks on stderr.
    """

    verbose: bool = False
    quiet: bool = False
    fork: bool = False
    """Whether this process is the command's own and may fork.

    Nothing returns to a caller then.
    """


def settings() -> Settings:
    """Return the settings of the running command."""
    return click.get_current_context().ensure_object(Settings)


def _remember(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001
        if value:
            setattr(context.ensure_object(Settings), name, True)

    return callback


def verb(function: Callable[..., Any]) -> click.Command:
    """Make a command with `-v` and `-q`.

    Its name is the function's, and its help is the docstring.
    """
    for flags, field, text in (
        (("-q", "--quiet"), "quiet", "Print only errors on stderr."),
        (("-v", "--verbose"), "verbose", "Print more; show tracebacks."),
    ):
        flag = click.option(*flags, is_flag=True, expose_value=False, is_eager=True, callback=_remember(field), help=text)
        function = flag(function)
    name = function.__name__.rstrip("_")
    context = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
    return click.command(name, context_settings=context)(function)


def _assignments(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG001
    flag, example = ("-p", "-p seq_len=4096 -p causal=true") if "-p" in parameter.opts else ("--config", "--config BLOCK=128")
    return split_assignments(value, flag, example)


param_option = click.option(
    "-p", "--param", "given", multiple=True, metavar="NAME=VALUE", callback=_assignments, help="A parameter; repeatable."
)
GPU_NAMES = "H200, A100, a machine file, cuda:90, hip:gfx942"
gpu_option = click.option(
    "--gpu", "--machine", "gpu", metavar="NAME|FILE.toml", default="cuda:90", show_default=True,
    help=f"Compile for this GPU: {GPU_NAMES}.",
)  # fmt: skip
machines_gpu_option = click.option(
    "--gpu", metavar="NAME|FILE.toml", help=f"Compile for this GPU: {GPU_NAMES}.  [default: the machine's]"
)


def machine_option(text: str) -> Callable[[Function], Function]:
    """Return the option `--machine` for the GPU whose memory and rates are taken."""
    return click.option("--machine", metavar="NAME|FILE.toml", default="H200", show_default=True, help=text)


config_option = click.option(
    "--config",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_assignments,
    help="A value of the autotuned configuration to use; repeatable.  [default: the first configuration]",
)
eager_option = click.option("--eager", is_flag=True, help="Run functions of torch.compile uncompiled.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout instead of text.")
summary_option = click.option(
    "--summary", "summary", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Append a Markdown summary here.  [default: $GITHUB_STEP_SUMMARY, where it is set]",
)  # fmt: skip


def writable(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:  # noqa: ARG001
    """Return the path of a file to write, checked before any work begins."""
    if value is not None and not context.resilient_parsing:
        check_writable(value)
    return value


def output_option(text: str, **how: Any) -> Callable[[Function], Function]:
    """Return the option `-o` for a file, which is checked before any work begins."""
    how = {"callback": writable, **how}
    return click.option("-o", "--output", "output", type=click.Path(path_type=Path), help=text, **how)
