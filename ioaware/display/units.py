"""Print numbers with their units.

Bytes are in powers of ten, sizes in powers of two.
"""

from __future__ import annotations

import math

BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
COUNT_UNITS = ("", "k", "M", "G", "T", "P")
TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
UNKNOWN = "–"


def bytes_text(value: float | None, digits: int = 4, *, padded: bool = False) -> str:
    """Return `142.6 MB`, with `digits` significant digits.

    MB is 10^6 bytes, as in datasheets.
    """
    if value is None:
        return UNKNOWN
    power = 0 if value < 1000 else min(int(math.log10(value) // 3), len(BYTE_UNITS) - 1)
    if float(f"{value / 1000**power:.{digits}g}") >= 1000 and power < len(BYTE_UNITS) - 1:
        power += 1  # 999.99 kB rounds to 1 MB
    return f"{significant(value / 1000**power, digits, padded=padded and power > 0)} {BYTE_UNITS[power]}"


def count_text(value: float, digits: int = 4) -> str:
    """Return a large count in powers of ten: `549.8 G`, `12`."""
    power = 0 if value < 1000 else min(int(math.log10(value) // 3), len(COUNT_UNITS) - 1)
    if float(f"{value / 1000**power:.{digits}g}") >= 1000 and power < len(COUNT_UNITS) - 1:
        power += 1
    return f"{significant(value / 1000**power, digits)} {COUNT_UNITS[power]}".strip()


def time_text(time_ns: float | None, digits: int = 3, *, padded: bool = False) -> str:
    """Return `1.23 ms` from nanoseconds."""
    if time_ns is None:
        return UNKNOWN
    scale, unit = next(((scale, unit) for scale, unit in TIME_UNITS if time_ns >= scale), TIME_UNITS[-1])
    return f"{significant(time_ns / scale, digits, padded=padded)} {unit}"


def significant(value: float, digits: int = 3, *, padded: bool = False) -> str:
    """Return `digits` significant digits without an exponent: 0.0123, 1.23, 1,234.

    `padded` keeps final zeros.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return UNKNOWN
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and not padded else text


def size_text(value: int) -> str:
    """Return a length or block size: 512, 1Ki, 64Ki.

    In full where it is no multiple of 1,024.
    """
    for power, suffix in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if value >= 2**power and value % 2**power == 0:
            return f"{value >> power}{suffix}"
    return f"{value:,}"


def times_text(ratio: float, digits: int = 3, *, padded: bool = False) -> str:
    """Return a ratio as `8.11×`."""
    return f"{significant(ratio, digits, padded=padded)}×"


def percent_text(fraction: float, digits: int = 2) -> str:
    """Return a deviation in percent.

    It is `0 %` only for exactly zero, else at least `below 0.0001 %`.
    """
    if fraction == 0:
        return "0 %"
    percent = 100 * fraction
    return f"{significant(percent, digits)} %" if abs(percent) >= 1e-4 else "below 0.0001 %"
