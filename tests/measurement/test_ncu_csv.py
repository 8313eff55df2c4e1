"""ncu's CSV: real H200 output is read exactly.

Every ambiguous number is refused.
"""

import csv
import io
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.errors import DataError
from ioaware.measurement.counters import kernel_attribution
from ioaware.measurement.counters.kernel_attribution import (
    HBM_READS,
    HBM_WRITES,
    METRICS,
    REQUESTED_READS,
    SHARED_DYNAMIC,
    TIME,
    attribute,
)
from ioaware.measurement.counters.launch_log import TritonLaunch
from ioaware.measurement.counters.ncu_csv import MAX_CHARACTERS, Metric, read_table
from tests.support.fakes import FIXTURES

REAL = (FIXTURES / "h200_two_launches.csv").read_text()
COPY = TritonLaunch("copy_kernel", "copy_kernel", (65536,))
SOFTMAX = "cunn_SoftMaxForward"
RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"

Table = list[list[str]]


def edit_table(change: Callable[[Table], object], text: str = REAL) -> str:
    """Return the real CSV with its table (header, units, kernels) changed."""
    start = text.index('"ID",')
    table = list(csv.reader(io.StringIO(text[start:], newline="")))
    change(table)
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    return text[:start] + out.getvalue()


def cell(row: int, column: str, value: str) -> Callable[[Table], object]:
    """Return an edit of one cell.

    Row 0 is the header, 1 the units, 2 the first kernel.
    """

    def change(table: Table) -> None:
        table[row][table[0].index(column)] = value

    return change


def both(*changes: Callable[[Table], object]) -> Callable[[Table], object]:
    return lambda table: [change(table) for change in changes]


def without(column: str) -> Callable[[Table], object]:
    def change(table: Table) -> None:
        index = table[0].index(column)
        for row in table:
            del row[index]

    return change


@pytest.mark.parametrize("name", ["h200_two_launches.csv", "h200_no_separators.csv"])
def test_real_output_is_read_exactly(name: str) -> None:
    table = read_table((FIXTURES / name).read_text(), METRICS)
    assert table.has_ranges
    assert [row.launch_index for row in table.rows] == [0, None, 1, None]
    first = table.rows[0]
    assert (first.kernel, first.grid) == ("copy_kernel", (65536, 1, 1))
    assert first.values[REQUESTED_READS] == 134_217_728  # 2**26 elements of two bytes, as the kernel reads
    assert first.values[TIME] in (61_952, 62_784)
    assert SOFTMAX in table.rows[1].kernel


def test_real_launches_are_attributed() -> None:
    launches = attribute(read_table(REAL, METRICS), [COPY, COPY])
    assert [launch.origin for launch in launches] == ["triton", "torch", "triton", "torch"]
    copy, softmax = launches[:2]
    assert copy.requested is not None
    assert copy.hbm is not None
    assert (copy.requested.read_bytes, copy.requested.write_bytes) == (2**27, 2**27)
    assert copy.requested.read_sector_bytes == 2**27
    assert copy.hbm.read_bytes == 134_237_952
    assert (copy.registers, copy.shared_bytes, copy.time_ns) == (16, 0, 61_952.0)
    assert softmax.shared_bytes == 128


@pytest.mark.parametrize(
    ("metric", "unit", "text", "value"),
    [
        (HBM_READS, "Kbyte", "134.24", 134_240),
        (HBM_READS, "Mbyte", "134.24", 134_240_000),
        (HBM_READS, "Gbyte", "1.5", 1_500_000_000),
        (HBM_READS, "Tbyte", "2", 2 * 10**12),
        (HBM_READS, "Mbyte", "1,024.25", 1_024_250_000),
        (SHARED_DYNAMIC, "Kbyte/block", "16.896", 16_896),
        (TIME, "nsecond", "61,952", 61_952),
        (TIME, "us", "61.95", 61_950),
        (TIME, "usecond", "61.95", 61_950),
        (TIME, "ms", "1.5", 1_500_000),
        (TIME, "msecond", "1.5", 1_500_000),
        (TIME, "s", "2", 2 * 10**9),
        (TIME, "second", "2", 2 * 10**9),
    ],
)
def test_prefixed_units_are_decimal(metric: str, unit: str, text: str, value: int) -> None:
    changed = edit_table(both(cell(1, metric, unit), *(cell(row, metric, text) for row in range(2, 6))))
    assert read_table(changed, METRICS).rows[0].values[metric] == value


@pytest.mark.parametrize("unit", ["inst", "register/thread", "sector"])
def test_counts_have_the_unit_of_what_is_counted(unit: str) -> None:
    """ncu 2025.3 gives the unit "inst" to instructions that access shared memory."""
    name = kernel_attribution.REGISTERS
    changed = edit_table(both(cell(1, name, unit), *(cell(row, name, "4,096") for row in range(2, 6))))
    assert read_table(changed, METRICS).rows[0].values[name] == 4096


def test_messages_around_the_table_are_skipped() -> None:
    assert len(read_table(f"{REAL}==WARNING== something, printed late\n", METRICS).rows) == 4


REFUSED = {
    "empty": ("", "no table"),
    "only messages": ((FIXTURES / "no_kernels.csv").read_text(), "no table"),
    "program failed": ((FIXTURES / "program_failed.csv").read_text(), "no table"),
    "metric this GPU does not know": (
        (FIXTURES / "h200_unknown_metric.csv").read_text(),
        "dram__bytes_write.sum, lts__t_sectors_srcunit_tex_op_read.sum: this GPU or this ncu does not know",
    ),
    "column gone": (edit_table(without(REQUESTED_READS)), "no column l1tex__m_xbar2l1tex_read_bytes.sum"),
    "column twice": (edit_table(cell(0, "dram__bytes_read.avg", HBM_READS)), "is there twice"),
    "n/a": (edit_table(cell(2, HBM_READS, "n/a")), "kernel row 0, dram__bytes_read.sum: the cell 'n/a' is not a number"),
    "n/a in the last kernel": (edit_table(cell(5, TIME, "n/a")), "kernel row 3"),
    "empty cell": (edit_table(cell(2, HBM_READS, "")), "not a number"),
    "nan": (edit_table(cell(2, HBM_READS, "nan")), "not a number"),
    "negative": (edit_table(cell(2, HBM_READS, "-1")), "not a number"),
    "unit KB": (edit_table(cell(1, HBM_READS, "KB")), "has the unit 'KB'"),
    "unit of another dimension": (edit_table(cell(1, HBM_READS, "ns")), "has the unit 'ns'"),
    "bytes without a unit": (edit_table(cell(1, HBM_READS, "")), "has the unit ''"),
    "decimal comma": (edit_table(cell(2, HBM_READS, "134,24")), "not a number"),
    "decimal comma, three places": (
        edit_table(both(cell(1, HBM_READS, "Mbyte"), cell(2, HBM_READS, "134,238"))),
        "decimal comma",
    ),
    "dots as separators": (edit_table(cell(2, HBM_READS, "134.237.952")), "not a number"),
    "one dot as a separator": (edit_table(cell(2, HBM_READS, "1.024")), "not a whole number"),
    "half a byte": (edit_table(cell(2, HBM_READS, "134237952.5")), "not a whole number"),
    "no unit row": (edit_table(lambda table: table.pop(1)), "row of units"),
    "short unit row": (edit_table(lambda table: table[1].pop()), "row of units"),
    "short row": (edit_table(lambda table: table[3].pop()), "truncated"),
    "cut in a cell": (REAL[: len(REAL) - 10], "truncated"),
    "grid": (edit_table(cell(2, "Grid Size", "65536")), "grid size"),
    "too long": ("x" * (MAX_CHARACTERS + 1), "characters"),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_ambiguous_output_is_refused(text: str, why: str) -> None:
    with pytest.raises(DataError) as refusal:
        read_table(text, METRICS)
    assert why in refusal.value.what


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.integers(0, len(REAL)), st.text(max_size=8))
def test_damage_is_refused_or_harmless(at: int, junk: str) -> None:
    """Any text overwritten at any place gives a DataError or a table.

    It never gives another error.
    """
    with suppress(DataError):
        attribute(read_table(REAL[:at] + junk + REAL[at + len(junk) :], METRICS), [COPY, COPY])


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, len(REAL) - 2))
def test_truncation_is_always_detected(length: int) -> None:
    with pytest.raises(DataError):
        attribute(read_table(REAL[:length], METRICS), [COPY, COPY, TritonLaunch("last", "last")])


def test_a_launch_without_its_kernel_is_refused() -> None:
    table = read_table(edit_table(lambda table: table.pop(4)), METRICS)
    with pytest.raises(DataError, match=r"launch 1 \(copy_kernel\) has 0 kernels"):
        attribute(table, [COPY, COPY])


def test_a_kernel_of_an_unknown_launch_is_refused() -> None:
    with pytest.raises(DataError, match="profiled launch 1"):
        attribute(read_table(REAL, METRICS), [COPY])


def test_a_hooks_torch_kernel_in_a_launchs_range_is_torchs() -> None:
    inside = edit_table(cell(3, RANGES, '470  "<default domain>:ioaware:1:none:none:none:none:none:none" '))
    origins = [launch.origin for launch in attribute(read_table(inside, METRICS), [COPY, COPY])]
    assert origins == ["triton", "torch", "triton", "torch"]


def test_an_empty_grid_runs_no_kernel() -> None:
    launches = attribute(read_table(REAL, METRICS), [COPY, COPY, TritonLaunch("nothing", "nothing", (0, 4))])
    assert len(launches) == 4


def test_kernels_of_one_name_are_separated_by_their_ranges() -> None:
    """Each launch is reported under its Python name.

    Both kernels have one name on the GPU.
    """
    launches = attribute(
        read_table(REAL, METRICS), [TritonLaunch("first", "copy_kernel"), TritonLaunch("second", "copy_kernel")]
    )
    assert [launch.kernel for launch in launches if launch.origin == "triton"] == ["first", "second"]


def test_without_ranges_the_order_decides_where_it_is_certain() -> None:
    unranged = read_table(edit_table(without(RANGES)), METRICS)
    assert not unranged.has_ranges
    assert [launch.origin for launch in attribute(unranged, [COPY, COPY])] == ["triton", "torch", "triton", "torch"]
    with pytest.raises(DataError, match="would be a guess"):
        attribute(unranged, [COPY])
    with pytest.raises(DataError, match="would be a guess"):
        attribute(unranged, [COPY, TritonLaunch("other", "other")])


def test_the_fixtures_have_every_requested_metric() -> None:
    assert {metric.name for metric in METRICS} >= {
        HBM_READS,
        HBM_WRITES,
        REQUESTED_READS,
        kernel_attribution.REQUESTED_WRITES,
        SHARED_DYNAMIC,
    }
    assert read_table(REAL, [Metric(metric.name, metric.dimension) for metric in METRICS]).rows


@pytest.mark.parametrize("order", [(0, 3), (3, 0), (0, 1, 3)])
def test_a_kernel_in_nested_ranges_belongs_to_the_innermost(order: tuple[int, ...]) -> None:
    """A launch in another launch's pre-run hook.

    Indices grow as ranges open, whatever ncu's column order.
    """
    text = " ".join(f'"{index}:ioaware:{launch}:none:none:none:none"' for index, launch in enumerate(order))
    table = read_table(edit_table(cell(2, RANGES, text)), METRICS)
    assert table.rows[0].launch_index == max(order)
