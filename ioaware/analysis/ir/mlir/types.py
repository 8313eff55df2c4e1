"""Parse types of the IR; a scalar is a tensor without dimensions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ioaware.analysis.ir.mlir.parser import split_top

_TENSOR = re.compile(r"(?:tensor|!ttg\.memdesc|!tt\.tensordesc)?<(.*)>$", re.DOTALL)
_SHAPE = re.compile(r"((?:\d+x)*)(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Type:
    """Shape and element type, `element` as the IR prints it: i32, bf16, !tt.ptr<f16>."""

    shape: tuple[int, ...]
    element: str

    @property
    def is_pointer(self) -> bool:
        return self.element.startswith("!tt.ptr")

    @property
    def is_integer(self) -> bool:
        """Return whether elements are integers or truth values."""
        return re.fullmatch(r"u?i\d+|index", self.element) is not None

    @property
    def pointee(self) -> str:
        """Return the element type behind a pointer."""
        return re.sub(r"^!tt\.ptr<(.*?)(?:, \d+)?>$", r"\1", self.element)

    @property
    def element_bytes(self) -> int:
        """Return the bytes of an element, or of the element behind a pointer.

        A boolean takes one.
        """
        element = self.pointee if self.is_pointer else self.element
        if element.startswith("!tt.ptr"):
            return 8
        bits = re.search(r"\d+", element)
        return max(1, int(bits[0]) // 8) if bits else 8

    def of(self, element: str) -> Type:
        """Return the same shape with other elements."""
        return Type(self.shape, element)


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """Parse types such as `i32`.

    Others are `tensor<64x1x!tt.ptr<f16>, #layout>` and `!tt.tensordesc<tensor<16x16xf32>>`.
    """
    text = text.strip()
    while not text.startswith("!tt.ptr") and (found := _TENSOR.fullmatch(text)):
        text = split_top(found[1])[0]
    shape, element = _SHAPE.match(text).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return Type(tuple(int(size) for size in shape.split("x") if size), element)


def result_types(types: str) -> list[Type]:
    """Return the types after `->`, after `to`, or else the last of the types."""
    if "->" in types:
        after = types.rsplit("->", 1)[1].strip()
        after = after[1:-1] if after.startswith("(") else after
        return [parse_type(part) for part in split_top(after)]
    parts = split_top(types)
    if not parts:
        return []
    return [parse_type(parts[-1].rsplit(" to ", 1)[-1])]
