"""A compiled target beside its eager run, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ioaware.cli.render import assignments, table
from ioaware.display.units import bytes_text, percent_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.derivation.against_eager import AgainstEager

ROWS = (
    ("Triton kernels", "triton_launches"),
    ("library kernels", "library_launches"),
    ("reads", "read_bytes"),
    ("writes", "write_bytes"),
    ("total", "total_bytes"),
)


def against_eager_text(found: AgainstEager) -> Iterator[RenderableType]:
    """Yield the launches and bytes of both runs, and what the compiler saves."""
    compiled, eager = (side.to_dict() for side in found.sides)
    yield f"derive {found.compiled.target}  {assignments(found.compiled.params)}".rstrip()
    yield ""
    cells = [(name, *_row(eager[key], compiled[key], is_bytes=key.endswith("bytes"))) for name, key in ROWS]
    yield table(("", "eager", "compiled", "saved"), cells)
    yield ""
    if not found.compiled.exact:
        yield "note: the compiled kernels are not exact; derive without --against-eager says why"
    yield "note: library kernels are assumed to read operands once and to write results once; caches are left out"


def _row(eager: int, compiled: int, *, is_bytes: bool) -> tuple[str, str, str]:
    if not is_bytes:
        return f"{eager}", f"{compiled}", f"{eager - compiled}"
    share = f" ({percent_text((eager - compiled) / eager)})" if eager else ""
    return bytes_text(eager), bytes_text(compiled), bytes_text(eager - compiled) + share
