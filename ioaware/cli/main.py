"""Run the command line: a table of verbs, and one place that reports errors.

Each verb is imported when used.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ioaware import __version__
from ioaware._deferred_gc import deferred_full_gc, end_without_collection
from ioaware.cli import signals
from ioaware.cli.exit_codes import BROKEN_PIPE, ENVIRONMENT, INTERNAL, INTERRUPTED, MEANINGS, OK, USAGE
from ioaware.cli.options import Settings
from ioaware.cli.terminal_text import printable
from ioaware.display.text import shorten
from ioaware.errors import IoawareError, UsageError

COMPLETION = "_IOAWARE_COMPLETE"
"""Set by the shell's completion script, as click names it."""
LONGEST_WORD, LONGEST_MESSAGE, LONGEST_TRACEBACK = 250, 2_000, 50_000
"""Most characters of a message.

An exception of a user's target may carry megabytes.
"""
EVERYWHERE = ("-q", "--quiet", "-v", "--verbose", "--json")
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb before its module is imported: what `ioaware --help` prints."""

    module: str
    summary: str


VERBS: Mapping[str, Verb] = {
    "list": Verb("ioaware.cli.commands.list", "Cases, studies and machines, with their parameters."),
    "doctor": Verb("ioaware.cli.commands.doctor", "What this machine can do, and the remedy for what it cannot."),
    "predict": Verb("ioaware.cli.commands.target_verbs.predict", "Bytes by the closed form, and the ratio to the lower bound."),
    "derive": Verb(
        "ioaware.cli.commands.target_verbs.derive", "Exact formulas of the bytes, from the kernels' compiled IR; needs no GPU."
    ),
    "explain": Verb(
        "ioaware.cli.commands.target_verbs.explain", "The kernels' source, each line with its share of the bytes; needs no GPU."
    ),
    "trace": Verb(
        "ioaware.cli.commands.target_verbs.trace", "Bytes by running the kernels in Triton's interpreter; needs no GPU."
    ),
    "walk": Verb(
        "ioaware.cli.commands.target_verbs.walk", "The kernels step by step: tiles between HBM and chip; needs no GPU."
    ),
    "simulate": Verb(
        "ioaware.cli.commands.target_verbs.simulate",
        "Bytes at HBM by a model of the L2 and the order of programs; needs no GPU.",
    ),
    "advise": Verb(
        "ioaware.cli.commands.target_verbs.advise",
        "The order, blocks or configuration that move the fewest bytes; needs no GPU.",
    ),
    "calibrate": Verb("ioaware.cli.commands.calibrate", "This GPU's ceilings and caches, measured, as a machine file."),
    "accuracy": Verb("ioaware.cli.commands.accuracy", "Predicted bytes against every recorded counter."),
    "measure": Verb(
        "ioaware.cli.commands.target_verbs.measure", "Bytes, time and telemetry by the hardware counters of a GPU."
    ),
    "bench": Verb("ioaware.cli.commands.bench", "The speed of attention against every other back end, in one interleaved run."),
    "sweep": Verb("ioaware.cli.commands.sweep", "Run a study into a store; an interrupted sweep continues."),
    "verify": Verb("ioaware.cli.commands.verify", "Theorems as executable checks: verdict and evidence."),
    "fuse": Verb("ioaware.cli.commands.fuse", "Reductions that use each other's results in one pass, or why not."),
    "check": Verb(
        "ioaware.cli.commands.gate_verbs.budget_check", "Budgets on the bytes of a target, for scripts; needs no GPU."
    ),
    "diff": Verb(
        "ioaware.cli.commands.gate_verbs.diff", "Two versions of a kernel side by side; exits with 1 where bytes grow."
    ),
    "compare": Verb("ioaware.cli.commands.gate_verbs.compare", "Two runs of measured points: bytes exactly, times by rank."),
    "coverage": Verb(
        "ioaware.cli.commands.gate_verbs.coverage_report", "The share of a repository's kernels that a test gates."
    ),
    "init": Verb("ioaware.cli.commands.gate_verbs.init", "Tests, configuration and workflows of the gate in a repository."),
    "history": Verb("ioaware.cli.commands.gate_verbs.history", "The bytes of every kernel over stored runs, as a page."),
    "verdict": Verb(
        "ioaware.cli.commands.gate_verbs.kernel_verdict", "Whether an untrusted kernel does its work; needs no GPU."
    ),
    "report": Verb("ioaware.cli.commands.report", "The HTML report with its figures."),
    "export": Verb("ioaware.cli.commands.export", "A store as CSV, JSONL or Parquet."),
}


class Verbs(click.Group):
    """A command group that imports the module of a verb only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        verb = VERBS.get(cmd_name)
        return importlib.import_module(verb.module).command if verb else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name, VERBS, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise UsageError(f"there is no verb {name!r}", f"{hint}Verbs: {', '.join(VERBS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in MEANINGS.items()])


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="ioaware", message="%(prog)s %(version)s")
def ioaware() -> None:
    """Predict, derive, trace and measure the memory traffic of GPU kernels.

    The traffic is compared with theory.

    TARGET is a case of `ioaware list`, or a function of your own that launches Triton kernels: file.py:function or
    module:function.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    _prepare_streams()
    signals.install()
    end_without_collection()
    settings = Settings(fork=True)
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments), settings))


def run(arguments: list[str], settings: Settings) -> int:
    """Run one command; return its exit code after reporting an error on stderr."""
    try:
        code = _invoke(arguments, settings)
    except (Exception, KeyboardInterrupt, signals.Terminated) as error:
        terminated = signals.termination_code()
        return _code_of(error, settings) if terminated is None else terminated
    terminated = signals.termination_code()
    return code if terminated is None else terminated


def _invoke(arguments: list[str], settings: Settings) -> int:
    if instruction := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        return shell_complete(ioaware, {}, "ioaware", COMPLETION, instruction)
    given = _verb_first(arguments)
    context = ioaware.make_context("ioaware", given, obj=settings)  # click's own main() hides EPIPE
    with context, deferred_full_gc():  # loaded libraries and kept results would be searched again and again
        code = ioaware.invoke(context)
    sys.stdout.flush()
    return code if isinstance(code, int) else OK


def _code_of(error: BaseException, settings: Settings) -> int:
    """Report an error on stderr and return its exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, IoawareError) and (error.exit_code == INTERRUPTED or not signals.interrupted()):
        _report(error.what, error.remedy, traceback=settings.verbose)
        return error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort)) or signals.interrupted():
        _report("interrupted")
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        _report(_without_full_stop(error.format_message()), _help_of(error))
        return USAGE
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return _unexpected(error, settings)


def _verb_first(arguments: list[str]) -> list[str]:
    """Turn `ioaware -q derive flash2` into `ioaware derive -q flash2`.

    Common flags may come first.
    """
    flags = list(itertools.takewhile(EVERYWHERE.__contains__, arguments))
    verb, *rest = arguments[len(flags) :] or ["--help"]
    return [verb, *([] if verb.startswith("-") else flags), *rest]


def _unexpected(error: BaseException, settings: Settings) -> int:
    """Report an exception that is not an `IoawareError`.

    It is output that cannot be written, else a bug of ioaware.
    """
    if isinstance(error, OSError) and error.errno in CANNOT_WRITE and error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _report(f"the output cannot be written ({error.strerror})", traceback=settings.verbose)
        return ENVIRONMENT
    remedy = "This is a bug of ioaware" + ("." if settings.verbose else "; run the command with -v for the traceback.")
    _report(f"unexpected {type(error).__name__}: {error}", remedy, traceback=settings.verbose)
    return INTERNAL


def _report(what: str, remedy: str = "", *, traceback: bool = False) -> None:
    """Print one message on stderr; control characters in it are spelt out."""
    if traceback:
        import traceback as tracebacks

        click.echo(printable(shorten(tracebacks.format_exc(), LONGEST_TRACEBACK)), err=True)
    indented = "\n".join(f"  {line}" for line in _bounded(remedy).splitlines())
    click.echo(printable(f"ioaware: {_bounded(what)}" + (f"\n{indented}" if indented else "")), err=True)


def _bounded(message: str) -> str:
    """Return a message of bounded length, in which every word is, too."""
    short = shorten(message, LONGEST_MESSAGE)
    return " ".join(shorten(word, LONGEST_WORD) for word in short.split(" "))


def _without_full_stop(message: str) -> str:
    return message.removesuffix(".")


def _help_of(error: click.ClickException) -> str:
    context: Any = getattr(error, "ctx", None)
    if context is not None and context.command is ioaware:
        return "Options follow their verb: ioaware VERB [OPTIONS]. See ioaware --help."
    return f"See {context.command_path} --help." if context else ""


def _prepare_streams() -> None:
    """Replace a closed stream by /dev/null.

    Spell out characters that a stream cannot encode.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (open until the process ends)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
