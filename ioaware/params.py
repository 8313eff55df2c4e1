"""Parameters of cases: parse them from text, check them, fill in defaults."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from ioaware.display.text import shorten
from ioaware.errors import UsageError
from ioaware.result import ParamValue

ELEMENT_BYTES: Mapping[str, int] = {"float16": 2, "bfloat16": 2, "float32": 4}
DTYPE_ALIASES: Mapping[str, str] = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
}
TRUE_WORDS, FALSE_WORDS = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True, slots=True)
class Param:
    """A named parameter of a case: its kind, default and valid range."""

    name: str
    kind: Literal["int", "bool", "dtype", "choice"]
    default: ParamValue
    help: str
    minimum: int = 1
    maximum: int = 2**24
    choices: tuple[str, ...] = ()
    """Values of a parameter of kind "choice"."""

    def parse(self, text: str) -> ParamValue:
        """Return the value of a user's text.

        Raises `UsageError` that lists the valid ones.
        """
        word = text.strip().lower()
        if self.kind == "bool" and word in TRUE_WORDS | FALSE_WORDS:
            return word in TRUE_WORDS
        if self.kind == "dtype":
            return self.check(DTYPE_ALIASES.get(word, word))
        if self.kind == "choice":
            return self.check(word)
        if self.kind == "int":
            try:
                return self.check(int(word.replace("_", "")))
            except ValueError:
                pass
        raise self._refusal(text)

    def check(self, value: ParamValue) -> ParamValue:
        """Return the value if it is valid. Raises `UsageError` otherwise."""
        if value is None and self.default is None:
            return None
        if self.kind == "bool" and isinstance(value, bool):
            return value
        if self.kind == "dtype" and isinstance(value, str):
            name = DTYPE_ALIASES.get(value, value)
            if name in ELEMENT_BYTES:
                return name
        if self.kind == "choice" and value in self.choices:
            return value
        if self.kind == "int" and type(value) is int and self.minimum <= value <= self.maximum:
            return value
        raise self._refusal(value)

    def _refusal(self, value: object) -> UsageError:
        choices = {
            "int": f"an integer from {self.minimum} to {self.maximum}",
            "bool": "true or false",
            "dtype": " or ".join(ELEMENT_BYTES),
            "choice": " or ".join(self.choices),
        }[self.kind]
        return UsageError(f"{self.name}={shorten(repr(value), 60)} cannot work: {self.name} takes {choices}")


STANDARD_PARAMS: Mapping[str, Param] = {
    param.name: param
    for param in (
        Param("batch", "int", 1, "sequences in the batch", maximum=2**16),
        Param("heads", "int", 1, "query heads", maximum=2**16),
        Param("seq_len", "int", 1024, "queries N"),
        Param("kv_len", "int", None, "keys and values; seq_len unless given"),
        Param("head_dim", "int", 64, "d", maximum=256),
        Param("dtype", "dtype", "float16", "element type of Q, K, V and O"),
        Param("causal", "bool", False, "mask keys after the query, aligned bottom-right"),
        Param("block_m", "int", 64, "rows of Q in a tile, B_r", maximum=1024),
        Param("block_n", "int", 64, "rows of K and V in a tile, B_c", maximum=1024),
        Param(
            "sram_elements", "int", None, "M: elements on chip; sets both blocks as the paper does", minimum=16, maximum=2**20
        ),
    )
}


class Declared(Protocol):
    """A parameter of a case (`Param`) or of a user's function."""

    @property
    def name(self) -> str: ...
    @property
    def default(self) -> ParamValue: ...
    def parse(self, text: str) -> ParamValue: ...
    def check(self, value: ParamValue) -> ParamValue: ...


def resolve(
    declared: Iterable[Declared], given: Mapping[str, ParamValue | str], what: str, *, typed: bool = False
) -> dict[str, ParamValue]:
    """Return all parameters of `what`: defaults filled in, every value checked.

    `typed`: strings in `given` are text from a user. Raises `UsageError`.
    """
    known = {param.name: param for param in declared}
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise UsageError(f"{what} has no parameter {name!r}", f"{hint}It takes: {', '.join(known)}.")
    values: dict[str, ParamValue] = {}
    for name, param in known.items():
        value = given.get(name, param.default)
        values[name] = param.parse(value) if typed and name in given and isinstance(value, str) else param.check(value)
    return values


def split_assignments(assignments: Iterable[str], flag: str = "-p", example: str = "-p seq_len=4096") -> dict[str, str]:
    """Parse `["seq_len=512", ...]`, given with this flag, into a mapping.

    Raises `UsageError` for an item without a name or an equals sign, and for a repeated name.
    """
    pairs: dict[str, str] = {}
    for item in assignments:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {item!r} is not name=value", f"For example: {example}")
        if name in pairs:
            raise UsageError(f"{flag} {name} is given twice", "Leave one of them out.")
        pairs[name] = value
    return pairs
