"""Gather what the page of a target shows from the words of a command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware.cli.output import progress
from ioaware.result import Result

if TYPE_CHECKING:
    from ioaware.report.pages.document import Document
    from ioaware.report.pages.findings import Findings

DEFAULT = "H200"
"""The machine of a page without `--machine`."""


def findings_of(
    target: str,
    given: Mapping[str, str],
    *,
    over: Sequence[str] = (),
    machine: str = DEFAULT,
    gpu: str | None = None,
    config: Mapping[str, str],
    recorded: Iterable[Result] | None = None,
    store: Path | None = None,
) -> Findings:
    """Derive and simulate a target.

    Measured points are `recorded` or those of `store`, or those that ship with ioaware.

    Raises `UsageError` for a target, parameter, range or machine that does not exist.
    """
    from ioaware.compilation.triton_ir import gpu_or_machines
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.machine import find_machine_or_file
    from ioaware.report.pages.findings import find
    from ioaware.report.pages.over import parse_span
    from ioaware.sweep.claim_evidence import recorded as shipped
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    spans = [parse_span(text) for text in over]
    where = find_machine_or_file(machine)
    compiled_for = gpu_or_machines(gpu, where)
    loaded = load_target(target, compiled_for)
    named, data = split_unknowns(dict(given))
    return find(
        loaded,
        loaded.resolve(named, typed=True),
        words=shlex.join([target, *_options(given, config, machine, gpu), *(("--store", str(store)) if store else ())]),
        machine=where,
        gpu=compiled_for,
        autotune={name: infer_value(text) for name, text in config.items()},
        data=data,
        over=spans,
        recorded=stored(store) if store else shipped() if recorded is None else recorded,
        progress=progress,
    )


def compared(old: str, new: str, given: Mapping[str, str], *, with_text: bool, **how: Any) -> Document:
    """Return the page of two versions of a target at the same parameters."""
    from ioaware.report.pages.compare_page import compare_page

    before, after = (findings_of(target, given, recorded=(), **how) for target in (old, new))
    words = ["--compare", old, new, *_options(given, how["config"], how.get("machine", DEFAULT), how.get("gpu"))]
    return compare_page(before, after, f"ioaware report {shlex.join(words)}", with_text=with_text)


def stored(path: Path) -> list[Result]:
    """Return the results of a store.

    Raises `DataError` or `UsageError` for a file that is none.
    """
    from ioaware.sweep.store import Store

    with Store(path, readonly=True) as store:
        return store.results()


def _options(given: Mapping[str, str], config: Mapping[str, str], machine: str, gpu: str | None) -> list[str]:
    """Return the parameters, the configuration and the machine as words."""
    pairs = [
        (flag, f"{name}={text}") for flag, several in (("-p", given), ("--config", config)) for name, text in several.items()
    ]
    pairs += [("--machine", machine), *([("--gpu", gpu)] if gpu else [])]
    return [word for pair in pairs for word in pair]
