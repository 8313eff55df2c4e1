"""`ioaware fuse FILE:FUNCTION`: consecutive reductions as one pass.

The alternative is why no finite state can do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioaware.cli.options import json_option, output_option, settings, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.analysis.fusion.answer import Fusion


@verb
@click.argument("program", metavar="FILE:FUNCTION")
@click.option("--kernel", type=click.Path(path_type=Path), help="Write the Triton kernels to this file.")
@json_option
@output_option("Write here instead of to stdout.")
def fuse(program: str, kernel: Path | None, as_json: bool, output: Path | None) -> None:
    """Find the combiner for reductions that use each other's results.

    It lets one pass over the data compute them.

    FUNCTION takes sequences and is written with ioaware.fusion (exp, reduce_max, reduce_sum, ...). The answer is the state, the
    combiner, its guards and a proof. Or it is a certificate that no finite state can do it. Both exit with 0, and with 3 if
    neither is proven. --kernel writes Triton kernels that `ioaware derive`, `trace` and `measure` take; -v prints them.
    Example: ioaware fuse attention.py:attention --kernel attention_kernel.py
    """
    from ioaware.analysis.fusion.answer import fuse as find
    from ioaware.targets.loading import folder_of, load_function
    from ioaware.targets.sibling_modules import own_siblings

    function = load_function(program)
    with own_siblings(Path(folder_of(program))):
        fusion = find(function)
    if kernel:
        emit(dict, lambda: _source(fusion), as_json=False, output=kernel)
    verbose = settings().verbose
    emit(fusion.to_dict, lambda: _text(fusion, kernel, verbose=verbose), as_json=as_json, output=output)


def _source(fusion: Fusion) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(fusion.kernel.rstrip("\n"))


def _text(fusion: Fusion, kernel: Path | None, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield the answer first, then its basis."""
    from rich.text import Text

    from ioaware.cli.render import table
    from ioaware.cli.terminal_text import printable

    def lines(title: str, text: str) -> Text:
        return Text(printable(f"\n{title}\n" + "\n".join(f"  {line}" for line in text.splitlines())))

    yield Text(printable(f"{fusion.program.name}: {_verdict(fusion)}\n"))
    numbers = fusion.state
    yield table(("state", "is", "of no elements"), ([n.name, n.meaning, n.neutral] for n in numbers), left=2)
    yield lines("combiner C", fusion.combine)
    if fusion.guards:
        yield lines("guards", "\n".join(fusion.guards))
    yield lines("proof" if fusion.fusable else "certificate", fusion.certificate)
    yield lines("bytes of [rows, length] inputs, e bytes an element", _bytes(fusion))
    if kernel:
        targets = "one_kernel, as_written" + (", split" if fusion.fusable else "")
        yield Text(printable(f"\nTriton kernels in {kernel}: {targets} are targets, as in ioaware derive {kernel}:one_kernel"))
    if verbose:
        yield lines("kernels", fusion.kernel)


def _verdict(fusion: Fusion) -> str:
    before, after = fusion.passes_before, fusion.passes_after
    if before == 1:
        return "one pass, as it is written"
    if fusion.fusable:
        numbers = "one number" if len(fusion.state) == 1 else f"{len(fusion.state)} numbers"
        return f"one pass instead of {before}, with a state of {numbers}"
    fewer = f", {after} are enough instead of {before}" if after < before else f", {after} passes as it is written"
    return f"no state of finitely many numbers makes it one pass{fewer}"


def _bytes(fusion: Fusion) -> str:
    formulas, (before, after) = fusion.bytes_formulas, fusion.reads
    saved = f", {before - after} of {before} reads saved" if after < before else ""
    return (
        f"reads as written {formulas['read_before']}\nreads with C     {formulas['read_after']}{saved}\n"
        f"writes           {formulas['write']}"
    )


command = fuse
