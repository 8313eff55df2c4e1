"""`ioaware verify [CLAIM...]`: theorems as executable checks.

Each verdict comes with its evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware.cli import exit_codes
from ioaware.cli.options import json_option, output_option, settings, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.analysis.theory.claims.claim import Claim


@verb
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@json_option
@output_option("Write here instead of to stdout.")
def verify(claims: tuple[str, ...], as_json: bool, output: Path | None) -> int:
    """Check CLAIMS (default: all) and print one line a claim.

    The line holds verdict, name, statement and source.

    The evidence follows when one claim is named, or with -v, which also prints every compared number. `verify errata` holds the
    errors of the papers and notes against their corrections. Exits with 0 when every claim holds, 1 when one fails, 3 when the
    evidence does not decide.
    """
    from ioaware.cli.progress import progress_bar
    from ioaware.sweep.verify import verify as judge

    with progress_bar() as step:
        judged = judge(claims, progress=step)
    verbose = settings().verbose
    emit(
        lambda: {"schema": 1, "claims": [claim.to_dict() for claim in judged]},
        lambda: _text(judged, evidence=verbose or len(claims) == 1, points=verbose),
        as_json=as_json,
        output=output,
    )
    return _exit_code(judged)


def _exit_code(claims: Sequence[Claim]) -> int:
    verdicts = {claim.verdict for claim in claims}
    if "fails" in verdicts:
        return exit_codes.FAILS
    return exit_codes.OK if verdicts == {"holds"} else exit_codes.INCONCLUSIVE


PARTS = ("part", "says", "expected", "observed", "verdict")
EXPONENTS = ("quantity", "variable", "exponent", "95 % interval", "theory", "verdict")
POINTS = ("part", "where", "expected", "observed")


def _text(claims: Sequence[Claim], *, evidence: bool, points: bool) -> Iterator[RenderableType]:
    """Yield one line a claim, cut at the width of a terminal.

    The evidence follows on request.
    """
    from rich.text import Text

    from ioaware.cli.terminal_text import printable

    width = max((len(claim.claim) for claim in claims), default=0)
    for claim in claims:
        line = f"{claim.verdict:<12}  {claim.claim:<{width}}  {claim.statement}  [{claim.source}]"
        yield Text(printable(line), no_wrap=not evidence, overflow="fold" if evidence else "ellipsis")
    if evidence:
        for claim in claims:
            yield from _evidence(claim, points=points)


def _evidence(claim: Claim, *, points: bool) -> Iterator[RenderableType]:
    """Yield the checks of a claim, its fitted powers, and its notes.

    On request every compared number is included.
    """
    from rich.text import Text

    from ioaware.cli.render import table
    from ioaware.cli.terminal_text import printable

    evidence = claim.evidence
    yield Text(printable(f"\n{claim.claim}: {claim.verdict}"))
    yield table(PARTS, ([str(part[name]) for name in PARTS] for part in evidence["parts"]), left=len(PARTS))
    if evidence["exponents"]:
        yield Text("")
        yield table(EXPONENTS, map(_exponent_row, evidence["exponents"]), left=2)
    if points and evidence["points"]:
        yield Text("")
        yield table(POINTS, ([str(point[name]) for name in POINTS] for point in evidence["points"]), left=2)
    for note in evidence["notes"]:
        yield Text(printable(f"\nnote: {note}"))


def _exponent_row(power: Mapping[str, Any]) -> list[str]:
    interval = f"{_decimals(power['low'])} to {_decimals(power['high'])}"
    return [
        power["quantity"],
        power["variable"],
        _decimals(power["exponent"]),
        interval,
        f"{power['expected']:g}",
        power["verdict"],
    ]


def _decimals(value: float | str | None) -> str:
    """Return four decimals.

    A number that is not finite in words, an unknown one as a dash.
    """
    from ioaware.display.units import UNKNOWN

    if value is None:
        return UNKNOWN
    return value if isinstance(value, str) else f"{value:.4f}"


command = verify
