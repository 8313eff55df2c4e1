"""Parse the loads and stores of a compiled kernel.

Layouts come from its TTGIR, instruction widths from its PTX.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from ioaware.analysis.ir.mlir.locations import frames
from ioaware.compilation.layouts import Layout, accumulator, blocked, registers_per_thread

WIDEST_BYTES = 16
ELEMENT_BYTES = {
    **dict.fromkeys(("i1", "i8", "f8E4M3FN", "f8E5M2"), 1),
    **dict.fromkeys(("i16", "f16", "bf16"), 2),
    **dict.fromkeys(("i32", "f32"), 4),
    **dict.fromkeys(("i64", "f64"), 8),
}
Kind = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Access:
    """Memory operation of the TTGIR.

    It has its call stack, its tile shape (empty for a scalar), and its instructions.

    `once`: threads with copies of an element do not access it, as in stores and asynchronous copies. `past_l1`: a copy of 16
    bytes per lane, which bypasses the L1.
    """

    kind: Kind
    frames: tuple[str, ...]
    shape: tuple[int, ...]
    layout: Layout | None
    vector: int
    warps: int
    once: bool
    past_l1: bool = False
    element_bytes: int = 1
    arms: tuple[tuple[int, int], ...] = ()
    """The `scf.if`s around it by their numbers.

    Each has 0 for its first arm and 1 for its `else`.
    """

    def excludes(self, other: Access) -> bool:
        """Return whether the two are in different arms of one `scf.if`."""
        arms = dict(other.arms)
        return any(arms.get(number, arm) != arm for number, arm in self.arms)


_BLOCKED = re.compile(
    r"^(#\w+) = #ttg\.blocked<\{sizePerThread = \[(.*?)\], threadsPerWarp = \[(.*?)\], "
    r"warpsPerCTA = \[(.*?)\], order = \[(.*?)\]",
    re.MULTILINE,
)
_ACCUMULATOR = re.compile(r"^(#\w+) = #ttg\.nvidia_mma<\{.*?warpsPerCTA = \[(.*?)\].*?instrShape = \[(.*?)\]", re.MULTILINE)
LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_MEMORY = re.compile(
    r"(?P<op>tt\.load|tt\.store|ttg\.async_copy_global_to_local) .*? : "
    r"(?:tensor<(?P<shape>(?:\d+x)+)!tt\.ptr<(?P<element>\w+)>, (?P<layout>#\w+|#ttg\.slice<.*?\}>)>"
    r"|!tt\.ptr<(?P<scalar>\w+)>).*loc\((?P<loc>#loc\d*)\)"
)
_IF = re.compile(r"\bscf\.if\b.*\{$")
_POSITION = re.compile(r'"[^"]*":(\d+):(\d+)')
_PTX_LINE = re.compile(r"^\s*\.loc\s+\d+ (\d+) (\d+)")
_PTX_ACCESS = re.compile(r"\b(ld|st)\.global\S*?(?:\.v(\d+))?\.b(\d+) |\bcp\.async\.\w+\.shared\.global.*\], (0x\w+)")


def laid_out(ttgir: str, ptx: str, kind: Kind) -> list[Access] | None:
    """Return the tiles that a compiled kernel loads or stores.

    None where the layout or the width of one is unknown.
    """
    try:
        return [one for one in accesses(ttgir, ptx, kinds=(kind,)) if one.layout is not None]
    except ValueError:
        return None


def accesses(ttgir: str, ptx: str, kinds: Collection[Kind] = ("read", "write")) -> list[Access]:
    """Return the loads and stores of a compiled kernel.

    Raises `ValueError` for an unknown layout or width.
    """
    layouts = {name: blocked(*(_numbers(group) for group in groups)) for name, *groups in _BLOCKED.findall(ttgir)}
    layouts |= {name: accumulator(_numbers(warps), _numbers(size)[1]) for name, warps, size in _ACCUMULATOR.findall(ttgir)}
    if "read" in kinds and "ttg.warp_specialize" in ttgir and any(match["scalar"] for match in _MEMORY.finditer(ttgir)):
        raise ValueError("a scalar access in a warp-specialised kernel: the number of warps that execute it is unknown")
    locations = dict(LOCATION.findall(ttgir))
    num_warps = re.search(r'"ttg\.num-warps" = (\d+)', ttgir)
    if num_warps is None:
        raise ValueError("the TTGIR has no ttg.num-warps")
    warps = int(num_warps[1])
    widths, arms = _widths(ptx), _arms(ttgir)
    parsed: list[Access] = []
    for match in _MEMORY.finditer(ttgir):
        kind: Kind = "write" if match["op"] == "tt.store" else "read"
        if kind not in kinds:
            continue
        line, column = _position(match["loc"], locations)
        shape = _numbers(match["shape"].rstrip("x"), "x") if match["shape"] else ()
        layout = _layout(match["layout"], layouts) if shape else None
        element = _element_bytes(match["element"] or match["scalar"])
        held = element * (registers_per_thread(layout, shape) if layout else 1)
        width = _take_width(widths[kind, line, column], held, line)
        is_async_copy = match["op"] == "ttg.async_copy_global_to_local"
        parsed.append(
            Access(
                kind,
                frames(match["loc"], locations),
                shape,
                layout,
                max(1, width // element),
                warps,
                kind == "write" or is_async_copy,
                is_async_copy and width == WIDEST_BYTES,
                element,
                arms.get(ttgir.count("\n", 0, match.start()), ()),
            )
        )
    return parsed


def _arms(ttgir: str) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return the arms of `scf.if`s around each line of a TTGIR.

    Lines outside are left out. An operation and its closing brace have one indentation.
    """
    found: dict[int, tuple[tuple[int, int], ...]] = {}
    stack: list[tuple[int, int, int]] = []
    for number, line in enumerate(ttgir.splitlines()):
        indent = len(line) - len(line.lstrip())
        if stack and indent == stack[-1][0] and line.lstrip().startswith("}"):
            _, opened, _ = stack.pop()
            if "} else {" in line:
                stack.append((indent, opened, 1))
        elif _IF.search(line):
            stack.append((indent, number, 0))
        if stack:
            found[number] = tuple((opened, arm) for _, opened, arm in stack)
    return found


def _take_width(widths: list[int], held: int, line: int) -> int:
    """Pop the instructions of an operation that moves `held` bytes per thread.

    Return their common width.
    """
    first = widths[0] if widths else 0
    count = max(1, held // first) if first else 0
    if not first or len(widths) < count or {*widths[:count]} != {first}:
        raise ValueError(f"line {line}: {held} bytes per thread, by instructions of {widths[:8]} bytes")
    del widths[:count]
    return first


def _element_bytes(kind: str) -> int:
    if kind not in ELEMENT_BYTES:
        raise ValueError(f"elements of type {kind}")
    return ELEMENT_BYTES[kind]


def _layout(text: str, layouts: Mapping[str, Layout]) -> Layout:
    if text in layouts:
        return layouts[text]
    cut = re.fullmatch(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>", text)
    if cut is None:
        raise ValueError(f"no rule for the layout {text}")
    return _layout(cut[2], layouts).sliced(int(cut[1]))


def _numbers(text: str, separator: str = ",") -> tuple[int, ...]:
    return tuple(map(int, text.split(separator)))


def _position(name: str, locations: Mapping[str, str]) -> tuple[int, int]:
    """Return line and column of a location; of a call site, those in the callee."""
    text = locations.get(name, "unknown")
    match = _POSITION.search(text)
    if match:
        return int(match[1]), int(match[2])
    inner = re.search(r"#loc\d*", text)
    if inner is None:
        raise ValueError(f"{name} is {text}: no line of the source")
    return _position(inner[0], locations)


def _widths(ptx: str) -> Mapping[tuple[str, int, int], list[int]]:
    """Return bytes per thread of each global-memory instruction, in order.

    They are by source line and column.

    An access is inline assembly of several lines. Its first location holds for all, since LLVM may increment the others.
    """
    widths: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    place, inside, located = (0, 0), False, False
    for text in ptx.splitlines():
        if "inline asm" in text:
            inside, located = "begin" in text, False
        at = _PTX_LINE.match(text)
        if at and not located:
            place, located = (int(at[1]), int(at[2])), inside
        for way, count, bits, copied in _PTX_ACCESS.findall(text):
            moved = int(copied, 16) if copied else int(count or 1) * int(bits) // 8
            widths["write" if way == "st" else "read", *place].append(moved)
    return widths
