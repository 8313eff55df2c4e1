"""Describe one version of a target as the gate compares it.

It holds formulas, values, and what its kernels take of the GPU.

A row is made from the JSON of `ioaware derive`, so that a saved document, a record of a store and a fresh derivation are one
thing. Everything in the document is checked: a number that is missing or of another type makes the row unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ioaware.errors import DataError

FIELDS: Mapping[str, str] = {
    "reads": "read_bytes",
    "writes": "write_bytes",
    "atomics": "atomic_bytes",
    "read_sectors": "read_sector_bytes",
    "write_sectors": "write_sector_bytes",
}
OPERATORS: Mapping[str, tuple[str, str]] = {
    "torch reads": ("read_bytes", "read_formula"),
    "torch writes": ("write_bytes", "write_formula"),
}
"""Bytes of torch's own operators, which a derivation has beside those of kernels."""
RESOURCES: Mapping[str, str] = {
    "shared_bytes": "shared memory",
    "registers": "registers",
    "local_bytes": "spills",
    "tma_loads": "TMA loads",
    "tma_stores": "TMA stores",
}


@dataclass(frozen=True, slots=True)
class Header:
    """What a formula was derived with.

    That is Triton's version, the GPU compiled for, and a hash of IR, arguments and grids.
    """

    triton: str
    gpu: str
    ir: str

    def __str__(self) -> str:
        return f"triton {self.triton}, {self.gpu}, ir {self.ir}"

    @property
    def toolchain(self) -> tuple[str, str]:
        """Return what may change a formula while the kernel stays as it is."""
        return self.triton, self.gpu


@dataclass(frozen=True, slots=True)
class Row:
    """A target's requested bytes and the resources of its kernels.

    Bytes have formulas where known; resources are the largest of its launches.
    """

    target: str
    params: Mapping[str, Any]
    exact: bool
    bytes: Mapping[str, int | None]
    formulas: Mapping[str, str]
    resources: Mapping[str, int | None]
    compulsory: int | None
    header: Header
    conditions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    by_configuration: Mapping[str, Row] | None = field(default_factory=dict[str, "Row"])
    """The target with each configuration that may move other bytes, by name.

    They are those of its autotuned kernels. None where only the derived one is known.
    """

    @property
    def range_of_bytes(self) -> tuple[int, int] | None:
        """Return the fewest and the most bytes of any configuration.

        None where some are unknown.
        """
        if self.by_configuration is None:
            return None
        each = [one.total_bytes if one.exact else None for one in (self, *self.by_configuration.values())]
        known = [one for one in each if one is not None]
        return (min(known), max(known)) if len(known) == len(each) else None

    @property
    def sizes(self) -> dict[str, int]:
        """Return the parameters that are integers: the point at which the bytes are."""
        return {name: value for name, value in self.params.items() if type(value) is int}

    @property
    def total_bytes(self) -> int | None:
        """Return reads, writes and atomics together."""
        reads, writes = self.bytes["reads"], self.bytes["writes"]
        return None if reads is None or writes is None else reads + writes + (self.bytes["atomics"] or 0)


def row_of(document: object, where: str) -> Row:
    """Return the row of a document that `ioaware derive --json` printed.

    Raises `DataError` for any other.
    """
    try:
        return _row(document)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where}: not what `ioaware derive --json` prints ({str(error)[:200]})", "Derive it again.") from error


def _row(document: object) -> Row:
    data = _table(document)
    if type(data.get("schema")) is not int or data["schema"] != 1 or data.get("source") != "derive":
        raise ValueError(
            f"schema {data.get('schema')!r} of source {data.get('source')!r}; this version reads schema 1 of derive"
        )
    requested, compulsory = _table(data["requested"]), data.get("compulsory")
    keys = (("reads", "read_formula"), ("writes", "write_formula"))
    holds = _truth_value(data.get("formulas_exact", True))  # otherwise the bytes alone are compared
    formulas = {kind: _text(requested[key]) for kind, key in keys} if holds else {}
    launches = [_table(launch) for launch in cast("list[object]", data["launches"]) if _is_triton(launch)]
    if not launches:
        raise ValueError("no launch")
    environment = _table(data["environment"])
    floor = _table(compulsory) if compulsory is not None else None
    assumed = _table(data.get("assumed", {}))
    moved: dict[str, int | None] = dict.fromkeys(OPERATORS, 0)
    if assumed:
        moved = {kind: _count(assumed, field) for kind, (field, _) in OPERATORS.items()}
    if holds:
        texts = assumed or {key: "0" for _, key in OPERATORS.values()}
        formulas |= {kind: _text(texts[key]) for kind, (_, key) in OPERATORS.items() if key in texts}
    return Row(
        target=_text(data["target"]),
        params=_params(data.get("params", {})),
        exact=_truth_value(data["exact"]),
        bytes={kind: _count(requested, field) for kind, field in FIELDS.items()} | moved,
        formulas=formulas,
        resources={name: _largest(launches, name) for name in RESOURCES},
        compulsory=None if floor is None else sum(_required(floor, field) for field in ("read_bytes", "write_bytes")),
        header=Header(
            _text(environment["triton"]),
            _text(environment["compiled_for"]),
            joined_hash([_text(one["ir_hash"]) for one in launches]),
        ),
        conditions=tuple(map(_text, data.get("conditions", ()))),
        notes=tuple(map(_text, data.get("notes", ()))),
        by_configuration=_by_configuration(data, launches),
    )


def _by_configuration(data: Mapping[str, Any], launches: Sequence[Mapping[str, Any]]) -> dict[str, Row] | None:
    """Return the rows of each configuration.

    A saved derivation holds only the one of each launch.
    """
    if "by_configuration" in data:
        return {name: replace(_row(one), by_configuration={}) for name, one in _table(data["by_configuration"]).items()}
    return None if any(launch.get("configuration") for launch in launches) else {}


def joined_hash(hashes: Sequence[str]) -> str:
    """Return one hash for the launches of a target, in their order."""
    import hashlib

    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()[: len(hashes[0])]


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{str(value)[:40]!r} is no object")
    return cast("dict[str, Any]", value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is no text")
    return value


def _truth_value(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{str(value)[:40]!r} is neither true nor false")
    return value


def _params(value: object) -> dict[str, Any]:
    params = _table(value)
    if any(type(item) not in (int, float, bool, str, type(None)) for item in params.values()):
        raise TypeError("a parameter is a number, text, true or false")
    return params


def _count(table: Mapping[str, Any], name: str) -> int | None:
    return None if name not in table else _required(table, name)


def _required(table: Mapping[str, Any], name: str) -> int:
    value = table[name]
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a non-negative integer, not {str(value)[:40]!r}")
    return value


def _is_triton(launch: object) -> bool:
    return _table(launch).get("origin", "triton") == "triton"


def _largest(launches: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """Return the sum of TMA instructions, the largest of the other resources.

    None where one launch's is unknown.
    """
    found = [_count(launch, name) for launch in launches]
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return None
    return sum(known) if name.startswith("tma") else max(known)
