"""What a kernel's warps ask of their L1, as counters of a GPU see it: from the layouts and widths it was compiled with.

`derive` counts the sectors of an access of a whole tile once. A warp asks for the sectors of each of its instructions: more,
where a row that is not aligned splits into narrow accesses, where several instructions or warps share a sector, where every
warp loads the same scalar. Layouts are read from the TTGIR, widths from the PTX, addresses from the IR that formulas are of.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

LANES = 32
SECTOR_BYTES = 32
TMA_ROW_BYTES = 128
"""The widest row of a box in shared memory: a wider tile is copied in several."""
LINE_BYTES = 128
WIDEST_BYTES = 16
ELEMENT_BYTES = {
    **dict.fromkeys(("i1", "i8", "f8E4M3FN", "f8E5M2"), 1),
    **dict.fromkeys(("i16", "f16", "bf16"), 2),
    **dict.fromkeys(("i32", "f32"), 4),
    **dict.fromkeys(("i64", "f64"), 8),
}
Kind = Literal["read", "write"]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which element each register of each thread holds, as Triton's linear layouts say it: where each bit of the number of
    a register, a lane and a warp moves it, dimension by dimension. `order` names the fastest dimension first."""

    registers: tuple[tuple[int, ...], ...]
    lanes: tuple[tuple[int, ...], ...]
    warps: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]

    def sliced(self, dimension: int) -> Layout:
        """Without a dimension."""
        registers, lanes, warps = (
            tuple(basis[:dimension] + basis[dimension + 1 :] for basis in bases)
            for bases in (self.registers, self.lanes, self.warps)
        )
        order = tuple(dim - (dim > dimension) for dim in self.order if dim != dimension)
        return Layout(registers, lanes, warps, order)


def blocked(per_thread: Sequence[int], lanes: Sequence[int], warps: Sequence[int], order: Sequence[int]) -> Layout:
    """Triton's blocked layout: so many elements a thread, threads a warp and warps along each dimension."""
    step = [1] * len(order)
    found: list[tuple[tuple[int, ...], ...]] = []
    for counts in (per_thread, lanes, warps):
        bases: list[tuple[int, ...]] = []
        for dim in order:
            end = step[dim] * counts[dim]
            while step[dim] < end:
                bases.append(_unit(dim, step[dim], len(order)))
                step[dim] *= 2
        found.append(tuple(bases))
    return Layout(found[0], found[1], found[2], tuple(order))


def accumulator(warps: Sequence[int], columns: int) -> Layout:
    """What tensor cores accumulate, of 16 rows a warp (the PTX manual's m16n8 and wgmma fragments)."""
    registers = [(0, 1), (8, 0), *((0, column) for column in _powers(8, columns))]
    lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    along = [
        *((row, 0) for row in _powers(16, 16 * warps[0])),
        *((0, column) for column in _powers(columns, columns * warps[1])),
    ]
    return Layout(tuple(registers), lanes, tuple(along), (1, 0))


def _unit(dim: int, step: int, rank: int) -> tuple[int, ...]:
    return tuple(step if d == dim else 0 for d in range(rank))


def _powers(start: int, end: int) -> list[int]:
    found: list[int] = []
    while start < end:
        found.append(start)
        start *= 2
    return found


@dataclass(frozen=True, slots=True)
class Access:
    """An operation of the TTGIR: where it stands, its tile (empty: a scalar), and how its instructions divide it.

    `once`: threads that hold copies of what others do take no part, as in stores and asynchronous copies. `lanes` share a
    sector that they ask for together: all of a warp's, or 8 at a time, 128 bytes, in copies that pass the L1 by.
    """

    kind: Kind
    line: int
    shape: tuple[int, ...]
    layout: Layout | None
    vector: int
    warps: int
    once: bool
    lanes: int = LANES


@dataclass(slots=True)
class Asked:
    """What the instructions of a launch ask for: sectors and bytes of loads and stores, bytes of TMA."""

    read_sectors: int = 0
    read_bytes: int = 0
    write_sectors: int = 0
    write_bytes: int = 0
    tma_read_bytes: int = 0
    tma_write_bytes: int = 0


@lru_cache(maxsize=256)
def requests(layout: Layout, shape: tuple[int, ...], vector: int, once: bool) -> Indices:
    """[instructions, 32 * vector]: the elements of a tile, by their place in it, that each instruction of a warp touches.

    A tile larger than the layout takes more registers, one that is smaller is held by several threads; `once` leaves out the
    warps that hold nothing but copies.
    """
    registers = [basis for basis in layout.registers if any(basis) and _inside(basis, shape)]
    covered = [1] * len(shape)
    for basis in (*layout.registers, *layout.lanes, *layout.warps):
        covered = [max(size, 2 * at) for size, at in zip(covered, basis, strict=True)]
    for dim in layout.order:
        registers += [_unit(dim, step, len(shape)) for step in _powers(covered[dim], shape[dim])]
    lanes = [basis if _inside(basis, shape) else (0,) * len(shape) for basis in layout.lanes]
    warps = [basis for basis in layout.warps if _inside(basis, shape) or not once]
    if once:
        warps = [basis for basis in warps if any(basis)]
    warps = [basis if _inside(basis, shape) else (0,) * len(shape) for basis in warps]
    register, lane, warp = (_places(bases, shape) for bases in (registers, lanes, warps))
    place = warp[:, None, None] + register[None, :, None] + lane[None, None, :]
    grouped = place.reshape(len(warp), -1, vector, len(lane)).swapaxes(2, 3)
    return np.ascontiguousarray(grouped.reshape(-1, len(lane) * vector))


def _registers(layout: Layout, shape: tuple[int, ...]) -> int:
    """How many different elements a thread holds."""
    return requests(layout, shape, 1, once=True).shape[0] // len(
        _places([b for b in layout.warps if any(b) and _inside(b, shape)], shape)
    )


def _inside(basis: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(at < size for at, size in zip(basis, shape, strict=True))


def _places(bases: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> Indices:
    """Where each number, its bits moving it as `bases` say, is in a tile in row-major order. Bases never share a bit."""
    places = np.zeros(1, dtype=np.int64)
    for basis in bases:
        step = 0
        for at, size in zip(basis, shape, strict=True):
            step = step * size + at
        places = np.concatenate((places, places + step))
    return places


def touched(addresses: Indices, mask: Mask, access: Access, element_bytes: int) -> tuple[int, int]:
    """Sectors, and distinct bytes, of all instructions of one execution of an access; `addresses` in bytes, of its tile."""
    if access.layout is None:
        times = int(mask.all()) * (1 if access.once else access.warps)
        return times, times * element_bytes
    chosen = requests(access.layout, access.shape, access.vector, access.once)
    active = mask.ravel()[chosen]
    elements = np.where(active, addresses.ravel()[chosen], -1)
    if element_bytes > 1 and (addresses % element_bytes).any():
        raise ValueError("an element may lie in two sectors")
    together = np.where(active, elements // SECTOR_BYTES, -1).reshape(-1, access.lanes * access.vector)
    return _distinct(together), _distinct(elements) * element_bytes


def _distinct(rows: Indices) -> int:
    """Distinct numbers of each row, those below 0 left out, over all rows."""
    ordered = np.sort(rows, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return int(np.count_nonzero(new))


def boxes(addresses: Indices, mask: Mask, element_bytes: int) -> int:
    """Bytes of the sectors that a TMA store writes, a box of at most 128 bytes a row at a time; [rows, columns]."""
    columns = TMA_ROW_BYTES // element_bytes
    split = addresses.reshape(-1, min(columns, addresses.shape[-1]))
    return SECTOR_BYTES * _distinct(np.where(mask.reshape(split.shape), split // SECTOR_BYTES, -1))


_BLOCKED = re.compile(
    r"^(#\w+) = #ttg\.blocked<\{sizePerThread = \[(.*?)\], threadsPerWarp = \[(.*?)\], "
    r"warpsPerCTA = \[(.*?)\], order = \[(.*?)\]",
    re.MULTILINE,
)
_ACCUMULATOR = re.compile(r"^(#\w+) = #ttg\.nvidia_mma<\{.*?warpsPerCTA = \[(.*?)\].*?instrShape = \[(.*?)\]", re.MULTILINE)
_LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_MEMORY = re.compile(
    r"(?P<op>tt\.load|tt\.store|ttg\.async_copy_global_to_local) .*? : "
    r"(?:tensor<(?P<shape>(?:\d+x)+)!tt\.ptr<(?P<element>\w+)>, (?P<layout>#\w+|#ttg\.slice<.*?\}>)>"
    r"|!tt\.ptr<(?P<scalar>\w+)>).*loc\((?P<loc>#loc\d*)\)"
)
_POSITION = re.compile(r'"[^"]*":(\d+):(\d+)')
_PTX_LINE = re.compile(r"^\s*\.loc\s+\d+ (\d+) (\d+)")
_PTX_ACCESS = re.compile(r"\b(ld|st)\.global\S*?(?:\.v(\d+))?\.b(\d+) |\bcp\.async\.\w+\.shared\.global.*\], (0x\w+)")


def accesses(ttgir: str, ptx: str) -> list[Access]:
    """The loads and stores of a compiled kernel. Raises `ValueError` for a layout or a width that is not understood."""
    layouts = {name: blocked(*(_numbers(group) for group in groups)) for name, *groups in _BLOCKED.findall(ttgir)}
    layouts |= {name: accumulator(_numbers(warps), _numbers(size)[1]) for name, warps, size in _ACCUMULATOR.findall(ttgir)}
    locations = dict(_LOCATION.findall(ttgir))
    warps = int(re.search(r'"ttg\.num-warps" = (\d+)', ttgir)[1])  # pyright: ignore[reportOptionalSubscript]
    widths = _widths(ptx)
    found: list[Access] = []
    for match in _MEMORY.finditer(ttgir):
        kind: Kind = "write" if match["op"] == "tt.store" else "read"
        line, column = _position(match["loc"], locations)
        shape = _numbers(match["shape"].rstrip("x"), "x") if match["shape"] else ()
        layout = _layout(match["layout"], layouts) if shape else None
        element = ELEMENT_BYTES[match["element"] or match["scalar"]]
        held = element * (_registers(layout, shape) if layout else 1)
        width = _taken(widths[kind, line, column], held, line)
        past = match["op"] == "ttg.async_copy_global_to_local"
        lanes = LINE_BYTES // width if past and width == WIDEST_BYTES else LANES
        found.append(Access(kind, line, shape, layout, max(1, width // element), warps, kind == "write" or past, lanes))
    return found


def _taken(widths: list[int], held: int, line: int) -> int:
    """Takes, from the front, the instructions of an operation that moves `held` bytes a thread; the width of all of them."""
    first = widths[0] if widths else 0
    count = max(1, held // first) if first else 0
    if not first or len(widths) < count or {*widths[:count]} != {first}:
        raise ValueError(f"line {line}: {held} bytes a thread, by instructions of {widths[:8]} bytes")
    del widths[:count]
    return first


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
    """Line and column: of a name its location, of a call the place in the function that is called."""
    text = locations[name]
    match = _POSITION.search(text)
    if match:
        return int(match[1]), int(match[2])
    inner = re.search(r"#loc\d*", text)
    if inner is None:
        raise ValueError(f"{name} has no position")
    return _position(inner[0], locations)


def _widths(ptx: str) -> Mapping[tuple[str, int, int], list[int]]:
    """Bytes a thread moves by each instruction that touches global memory, in order, by line and column of the source."""
    found: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    place = (0, 0)
    for text in ptx.splitlines():
        at = _PTX_LINE.match(text)
        if at:
            place = int(at[1]), int(at[2])
        for way, count, bits, copied in _PTX_ACCESS.findall(text):
            moved = int(copied, 16) if copied else int(count or 1) * int(bits) // 8
            found["write" if way == "st" else "read", *place].append(moved)
    return found


def asked(touches: Sequence[Any], programs: Any, known: Sequence[Access]) -> Asked:
    """The touches of a launch, each by the operation that stands on its line. Raises `ValueError` where there is no telling."""
    from ioaware.analysis.ir.executions import alike

    total = Asked()
    for touch in touches:
        if touch.kind == "atomic":
            continue
        by_tma = touch.operation.startswith("tt.descriptor")
        compiled_as = [] if by_tma else _operations(touch, touches, known)
        for case in alike(touch, programs) if by_tma or compiled_as else ():
            if by_tma and touch.kind == "read":  # boxes come whole, what lies outside the tensor as zeros
                total.tma_read_bytes += case.times * case.addresses.size * touch.element_bytes
            elif by_tma:
                total.tma_write_bytes += case.times * boxes(case.addresses, case.mask, touch.element_bytes)
            for access in compiled_as:
                sectors, bytes_ = touched(case.addresses, case.mask, access, touch.element_bytes)
                if touch.kind == "read":
                    total.read_sectors += case.times * sectors
                    total.read_bytes += case.times * bytes_
                else:
                    total.write_sectors += case.times * sectors
                    total.write_bytes += case.times * bytes_
    return total


def _operations(touch: Any, touches: Sequence[Any], known: Sequence[Access]) -> list[Access]:
    """How it was compiled: once for each layout that its result is wanted in, not at all where nobody wants it.

    Raises `ValueError` where several accesses of a line are compiled in several ways: whose is which cannot be told.
    """
    key = _place(touch)
    here = [one for one in known if (one.kind, one.line, prod(one.shape)) == key]
    ways = list(dict.fromkeys(here))
    if len(ways) > 1 and sum(_place(other) == key for other in touches) > 1:
        raise ValueError(f"line {key[1]}: {key[0]}s compiled in several ways")
    return ways


def _place(touch: Any) -> tuple[str, int, int]:
    return touch.kind, int(touch.frames[0].rpartition(":")[2]), prod(touch.shape)


def asked_by_target(target: Any, params: Mapping[str, Any], gpu: str = "cuda:90") -> list[Asked | str]:
    """What each launch of a target asks for; where that cannot be told, why."""
    from ioaware.instruments.capture import capture
    from ioaware.instruments.compile import compiled, find_gpu
    from ioaware.instruments.launch_traffic import launch_touches

    captured, chip = capture(target, params), find_gpu(gpu)
    found: list[Asked | str] = []
    for launch in captured.launches:
        asm = compiled(launch, captured.values, chip).asm
        try:
            found.append(asked(*launch_touches(launch, captured.values, chip), accesses(asm["ttgir"], asm["ptx"])))
        except ValueError as error:
            found.append(str(error))
    return found


if __name__ == "__main__":
    from ioaware.instruments.target import load_target

    chosen_target = load_target(sys.argv[1])
    given = chosen_target.resolve(dict(pair.split("=") for pair in sys.argv[2:]), typed=True)
    for row in asked_by_target(chosen_target, given):
        print(row)
