"""Show what each GPU of a group exchanges, as derived from the host code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from ioaware.cli.render import table
from ioaware.cli.terminal_text import printable
from ioaware.result import Params

if TYPE_CHECKING:
    from ioaware.derivation.exchanges import RankExchange


def ranks_data(target: str, params: Params, found: Sequence[RankExchange]) -> dict[str, Any]:
    """Return what `--json` prints."""
    over = {"gpus": len(found), "ranks": [one.to_dict() for one in found]}
    return {"schema": 1, "source": "derive", "target": target, "params": dict(params), "exact": True, "over_gpus": over}


def ranks_text(target: str, params: Params, found: Sequence[RankExchange]) -> Iterator[RenderableType]:
    """Yield a row for each GPU, in bytes."""
    given = " ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in params.items())
    yield Text(printable(f"derive {target}  {given}\n"))
    columns = ("GPU", "received, bytes", "sent, bytes", "messages sent")
    rows = [
        (str(one.rank), f"{one.received_bytes:,}", f"{one.sent_bytes:,}", f"{sum(map(len, one.sends.values())):,}")
        for one in found
    ]
    yield table(columns, rows)
    yield Text(
        f"\nnote: exact: every send and receive that the host code starts on {len(found)} GPUs, each with its counterpart"
    )
    gathered = max(one.gathered_bytes for one in found)
    if gathered:
        yield Text(f"note: beside them each GPU gathers {gathered:,} bytes of the host's numbers from the others")
