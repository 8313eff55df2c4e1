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
    from ioaware.derivation.derived import Derived
    from ioaware.derivation.exchanges import RankExchange


def ranks_data(target: str, params: Params, found: Sequence[RankExchange], kernels: Sequence[Derived | str]) -> dict[str, Any]:
    """Return what `--json` prints; `exact` is that of the exchanged bytes."""
    ranks = [one.to_dict() | _kernels_data(derived) for one, derived in zip(found, kernels, strict=True)]
    over = {"gpus": len(found), "ranks": ranks}
    return {"schema": 1, "source": "derive", "target": target, "params": dict(params), "exact": True, "over_gpus": over}


def _kernels_data(derived: Derived | str) -> dict[str, Any]:
    if isinstance(derived, str):
        return {"not_derived": derived}
    data, hbm = derived.to_dict(), derived.hbm_of_kernels
    return {
        "kernels": {
            "exact": data["exact"],
            **{name: data[name] for name in ("requested", "compulsory", "notes") if name in data},
            **({"hbm": {"read_bytes": hbm.read_bytes, "write_bytes": hbm.write_bytes}} if hbm else {}),
        }
    }


def ranks_text(
    target: str, params: Params, found: Sequence[RankExchange], kernels: Sequence[Derived | str]
) -> Iterator[RenderableType]:
    """Yield a row for each GPU, in bytes."""
    given = " ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in params.items())
    yield Text(printable(f"derive {target}  {given}\n"))
    columns = (
        *("GPU", "received, bytes", "sent, bytes", "messages sent", "requested reads", "requested writes"),
        *("hbm reads", "hbm writes", "compulsory"),
    )
    rows = [
        (
            *(str(one.rank), f"{one.received_bytes:,}", f"{one.sent_bytes:,}", f"{sum(map(len, one.sends.values())):,}"),
            *_requested(derived),
            *_hbm(derived),
            _compulsory(derived),
        )
        for one, derived in zip(found, kernels, strict=True)
    ]
    yield table(columns, rows)
    yield Text(
        f"\nnote: exact: every send and receive that the host code starts on {len(found)} GPUs, each with its counterpart"
    )
    gathered = max(one.gathered_bytes for one in found)
    if gathered:
        yield Text(f"note: beside them each GPU gathers {gathered:,} bytes of the host's numbers from the others")
    yield from _kernel_notes(kernels)


def _requested(derived: Derived | str) -> tuple[str, str]:
    """Return the bytes that a rank's kernels read and write.

    "about" stands before those that are not exact.
    """
    if isinstance(derived, str) or derived.requested is None:
        return "unknown", "unknown"
    about = "" if derived.exact else "about "
    return f"{about}{derived.requested.read_bytes:,}", f"{about}{derived.requested.write_bytes:,}"


def _hbm(derived: Derived | str) -> tuple[str, str]:
    """Return HBM reads and writes of a rank's kernels, each with a cold L2."""
    moved = None if isinstance(derived, str) else derived.hbm_of_kernels
    return ("unknown", "unknown") if moved is None else (f"{moved.read_bytes:,}", f"{moved.write_bytes:,}")


def _compulsory(derived: Derived | str) -> str:
    """Return the least bytes that a rank's kernels read and write at HBM."""
    floor = None if isinstance(derived, str) else derived.compulsory
    if floor is None or floor.read_bytes is None or floor.write_bytes is None:
        return "unknown"
    return f"{floor.read_bytes + floor.write_bytes:,}"


def _kernel_notes(kernels: Sequence[Derived | str]) -> Iterator[RenderableType]:
    """Yield what the requested bytes are, or why they are unknown."""
    for problem in dict.fromkeys(one for one in kernels if isinstance(one, str)):
        yield Text(printable(f"note: requested bytes are unknown: {problem}"))
    known = [one for one in kernels if not isinstance(one, str)]
    if known:
        exact = "exact" if all(one.exact for one in known) else "not exact"
        yield Text(f"note: requested: {exact}: the Triton and Gluon kernels of each GPU, as `derive` counts them")
        if any(one.requested and one.requested.atomic_bytes for one in known):
            yield Text("note: atomic operations come on top; --json has them")
        if any(one.hbm_of_kernels for one in known):
            yield Text(
                "note: hbm, at its least: each kernel alone, with a cold L2, reads and writes every tensor once; "
                "atomics are writes"
            )
        if not all(one.hbm_of_kernels for one in known):
            yield Text("note: hbm is unknown: data decide a kernel's bytes, or it accesses a part of a tensor")
        for note in dict.fromkeys(note for one in known for note in one.notes if note.startswith("compulsory")):
            yield Text(printable(f"note: {note}"))
