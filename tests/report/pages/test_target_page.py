"""The page of a target: structure under hostile texts, policy, data.

Unusual targets are tested too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import pytest
import sympy
from sympy import Integer, Symbol

from ioaware.analysis.formulas.functions import Holds
from ioaware.analysis.ir import Access, Count, KernelTraffic
from ioaware.cli.options import Settings
from ioaware.cli.reports.target_report import findings_of
from ioaware.derivation.annotated_source import AnnotatedSource
from ioaware.derivation.derived import Derived
from ioaware.derivation.launch_formulas import Formulas
from ioaware.derivation.line_report import Explanation, Line, Section
from ioaware.display.units import time_text
from ioaware.machine import PRESETS
from ioaware.machine.time_bound import fastest_hbm
from ioaware.report.inline_text import digest
from ioaware.report.pages.document import PAGE, Document, render, write_document
from ioaware.report.pages.figure_set import figures_of, launches, side_by_side
from ioaware.report.pages.findings import Compared, Findings
from ioaware.report.pages.formula_rows import FormulaTable, formula_row, formula_tables
from ioaware.report.pages.over import Curve, Span, curve
from ioaware.report.pages.over_figure import over_parameters
from ioaware.report.pages.shared_lines import SharedBytes, SharedLines
from ioaware.report.pages.target_page import target_page
from ioaware.result import Launch, Result, Traffic
from ioaware.simulation.simulation_result import LaunchSimulation, Simulated, SpilledBytes
from tests.support.hostile_texts import PAYLOADS, RAW_NEVER, Structure
from tests.support.page_data import page_data

ZERO = Count(Integer(0))


def page_text(page: Document) -> str:
    """Return the page with spaces where no line may end as plain ones."""
    return render(page).replace("\u00a0", " ")


def kernel_of(text: str) -> KernelTraffic:
    count = Count(4 * Symbol(text, integer=True, positive=True))
    return KernelTraffic(text, (), count, count, ZERO, count, count, count, notes=(text,))


def findings(texts: Sequence[str], **changes: Any) -> Findings:
    """Return findings with each text in every field that holds text."""
    name, other = texts[0], texts[-1]
    symbols = {name: 64, other: 8}
    kernels = tuple(kernel_of(text) for text in texts)
    total = Count(Symbol(name, integer=True, positive=True) * 4)
    formulas = Formulas(total, total, ZERO, total, total, total)
    launches = tuple(
        Launch(text, (1, 2, 3), requested=Traffic(256, 256, 0, 256, 256), flops=5, notes=(text,), exact=False) for text in texts
    )
    derived = Derived(
        "derive", name, {text: text for text in texts} | cast("dict[str, Any]", symbols), Traffic(256, 256, 0, 256, 256),
        compulsory=Traffic(64, 64), flops=10**6, exact=False, notes=tuple(texts), conditions=tuple(texts), launches=launches,
        formulas=formulas, kernels=kernels, symbols=symbols, holds=((),) * len(texts),
    )  # fmt: skip
    accesses = (Access("read", name, name, total, 4, total, total, ("k.py:3",)),)
    lines = tuple(Line(number, text, accesses if number < 5 else ()) for number, text in enumerate(texts))
    sections = (*(Section(text, f"{text}.py", lines[:6]) for text in texts[:4]), Section("all", "k.py", lines))
    source = AnnotatedSource(derived, (Explanation(name, sections, total), Explanation(other, sections, total, launches=3)))
    measured = tuple(
        Compared(Result("measure", text, {text: text}, Traffic(1, 1), environment={"gpu": text}, time_ns=5.0), 2)
        for text in texts
    )
    fields: dict[str, Any] = {
        "words": other, "source": source, "machine": PRESETS["H200"], "simulated": None, "why_not_simulated": name,
        "lower_bound_bytes": 100, "curves": (curve(derived, Span(name, 1, 64)),), "measured": measured,
    }  # fmt: skip
    return Findings(**{**fields, **changes})


@pytest.fixture(scope="module")
def hostile() -> str:
    pages = [page_text(target_page(findings(PAYLOADS[at:] + PAYLOADS[:at]))) for at in (0, 1, 13, 40)]
    return b"\n".join(page.encode() for page in pages).decode()  # as it is written: a lone surrogate would be an error


def test_the_structure_is_that_of_harmless_text(hostile: str) -> None:
    harmless = [f"harmless {number}" for number in range(len(PAYLOADS))]
    plain = page_text(target_page(findings(harmless)))
    # names are divided by an empty element
    assert {tag for tag, _ in Structure(hostile).tags} - {"wbr"} == {tag for tag, _ in Structure(plain).tags}
    assert {names for _, names in Structure(hostile).tags} == {names for _, names in Structure(plain).tags}


def test_no_payload_is_unescaped(hostile: str) -> None:
    assert [payload for payload in RAW_NEVER if payload in hostile] == []


def test_no_link_leaves_the_page(hostile: str) -> None:
    assert all(link.startswith("#") or re.fullmatch(r"[a-z]+\.png", link) for link in Structure(hostile).links)


def test_the_policy_admits_this_style_and_this_script_alone() -> None:
    page = page_text(target_page(findings(["n", "m"])))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    css, script = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0], page.split("<script>")[1].split("</script>")[0]
    allowed = dict(part.split(" ", 1) for part in policy.replace("&#39;", "'").split("; "))
    assert allowed == {
        "default-src": "'none'", "script-src": f"'{digest(script)}'", "style-src": f"'{digest(css)}'", "base-uri": "'none'",
        "form-action": "'none'",
    }  # fmt: skip
    assert "style=" not in page.replace(script, "")


def test_the_data_of_every_figure_are_in_the_page() -> None:
    page = page_text(target_page(findings(["n", "m"])))
    data = page_data(page)
    assert set(data) == {"bytes", "over", "roofline", "launches"} == set(re.findall(r'data-figure="(\w+)"', page))
    assert ["requested by the kernels", 512, "512 B (4.00×)"] in [
        [row[0], row[1], " ".join(row[2].split())] for row in data["bytes"]["rows"]
    ]
    points = {(row[2], row[3]): row[4] for row in data["over"]["rows"]}
    assert points["requested", 64.0] == 2 * 4 * 64
    assert {figure["command"] for figure in data.values()} == {"ioaware report m"}
    given = page_data(page_text(target_page(findings(["n", "m"], ranges_given=True))))
    assert given["over"]["command"] == "ioaware report m --over n=1..64"


def test_without_source_no_text_of_a_line_is_shown() -> None:
    texts = ["name_of_it", "secret_text_of_a_line", "third"]
    shown = page_text(target_page(findings(texts)))
    held = findings(texts)
    lines = (Line(3, "a_private_line", (Access("read", "x", "x", ZERO, 4, ZERO, ZERO, ("k.py:3",)),)),)
    source = AnnotatedSource(held.derived, (Explanation("k", (Section("k", "k.py", lines),), ZERO),))
    private = findings(texts, source=source)
    assert "secret_text_of_a_line" in shown
    assert "a_private_line" in page_text(target_page(private))
    assert "a_private_line" not in page_text(target_page(private, with_text=False))


def test_bytes_that_depend_on_data_are_not_zero() -> None:
    open_ = findings(["n", "m"])
    derived = Derived("derive", "k.py:f", {}, Traffic(), exact=False, formulas=open_.derived.formulas, symbols={})
    page = page_text(target_page(findings(["n", "m"], source=AnnotatedSource(derived, ()), curves=(), measured=())))
    assert "depends on data" in page
    assert "Requested bytes: not exact" in page
    assert 'id="over"' not in page


def test_a_formula_that_depends_on_data_has_the_bytes_of_the_targets_own() -> None:
    count = Count(4 * Symbol("label@k.py:3", integer=True), at_most=True)
    kernel = KernelTraffic("k", (), count, count, ZERO, None, None, ZERO)
    for exact, sign in ((True, ""), (False, "≤ ")):
        launch = Launch("k", (1,), requested=Traffic(1234, 1234, 0), exact=exact)
        derived = Derived(
            "derive", "k.py:f", {}, Traffic(1234, 1234, 0), exact=exact, launches=(launch,), kernels=(kernel,),
            formulas=Formulas(count, count, ZERO, None, None, ZERO), symbols={}, holds=((),),
        )  # fmt: skip
        ((table,), _) = formula_tables(derived)
        assert [row.value for row in table.rows] == [f"{sign}1.234 kB"] * 2
        found = findings(["n"], source=AnnotatedSource(derived, ()), curves=(), measured=())
        assert found.at_most is not exact
        assert ("The kernels request at most 2.468 kB" in page_text(target_page(found))) is not exact


def test_bytes_that_are_all_unknown_are_no_figure() -> None:
    held = findings(["n", "m"]).source.result
    derived = Derived("derive", "k.py:f", {}, Traffic(), exact=False, formulas=held.formulas, symbols={})
    unknown = findings(["n", "m"], source=AnnotatedSource(derived, ()), curves=(), measured=(), lower_bound_bytes=None)
    page = page_text(target_page(unknown))
    assert 'href="#bytes"' not in page
    assert "bytes" not in page_data(page)
    assert "None" not in page


def test_formulas_without_a_variable_are_numbers() -> None:
    row = formula_row("reads", "12 B", sympy.Integer(12))
    assert row.constant
    assert FormulaTable("kernel", (row,), ()).constant
    assert not FormulaTable("kernel", (row, formula_row("writes", "8 B", 2 * sympy.Symbol("n", positive=True))), ()).constant


def test_a_leading_term_in_data_that_is_longer_than_the_formula_is_not_shown() -> None:
    names = ("rows", "pid_0", "ends[pid_0]@k.py:4", "ends[pid_0 + 1]@k.py:4")
    rows, pid, low, high = (Symbol(name, integer=True) for name in names)
    length = sympy.Max(0, high - low)
    assert not formula_row("reads", "", sympy.Sum(length, (pid, 0, rows - 1)) + 8 * rows).leading
    assert formula_row("reads", "", sympy.ceiling(rows / 64) * 64 + 8 * rows).leading


def test_a_condition_in_brackets_is_explained() -> None:
    size, said = Symbol("n", integer=True, positive=True), "A condition in brackets is 1 where it holds, else 0."
    found = findings(["n", "m"])
    for expr, explained in ((size, False), (size * Holds(size - 9), True)):
        derived = replace(
            found.derived, formulas=replace(found.derived.formulas or Formulas(*6 * [ZERO]), read_bytes=Count(expr))
        )
        page = page_text(target_page(replace(found, source=replace(found.source, result=derived))))
        assert (said in page) is explained


def test_a_page_and_its_pngs_are_written(tmp_path: Path) -> None:
    path = write_document(target_page(findings(["n", "m"])), tmp_path / "out")
    assert path == tmp_path / "out" / PAGE
    assert {one.name for one in path.parent.iterdir()} == {PAGE, "bytes.png", "over.png", "roofline.png", "launches.png"}
    assert all(one.read_bytes().startswith(b"\x89PNG") for one in path.parent.glob("*.png"))
    assert path.stat().st_size < 200_000


def test_a_line_has_its_bytes_of_shared_memory() -> None:
    texts = ["n", "m", "third", "fourth"]
    shared = SharedLines(
        {"n": {("k.py", 3): SharedBytes(10, 20)}}, why_not=("shared memory of m is not counted: its launches differ",)
    )
    page, without = page_text(target_page(findings(texts, shared=shared))), page_text(target_page(findings(texts)))
    assert "in 10 B, out 20 B" in page
    assert "its launches differ" in page
    assert ">shared memory</th>" not in without.partition("<h2>Source")[2]


def test_equal_launches_are_one_bar() -> None:
    found = findings(["a", "b"])
    one = found.derived.launches[0]
    assert one.requested is not None
    moved = one.requested.total_bytes
    assert moved is not None
    other = replace(one, kernel="other", requested=Traffic(10 * moved, 0))
    derived = replace(found.derived, launches=(one, one, other, one))
    figure = launches(replace(found, source=replace(found.source, result=derived)))
    assert [(bar.name, bar.value) for bar in figure.bars] == [
        ("3. other", 10 * moved),
        (f"1. {one.kernel}, 3 launches", 3 * moved),
    ]
    assert "Equal launches are one bar." in figure.caption


def test_a_launch_that_the_l2_binds_says_so() -> None:
    """What programs request bounds the time through the L2."""
    found = findings(["a"])
    many = Traffic(10**11, 0, 0, 10**12, 0)
    derived = replace(found.derived, requested=many, launches=(replace(found.derived.launches[0], requested=many),))
    given = replace(found, source=replace(found.source, result=derived))
    l2 = given.machine.level("l2").bandwidth_bytes_per_s
    assert l2 is not None
    assert (given.simulated_bound.binds, given.launch_bounds[0].binds) == ("L2", "L2")
    assert given.simulated_bound.time_ns == pytest.approx(1e21 / l2)
    page = page_text(target_page(given))
    assert "bound by L2" in page
    assert "L2 bytes ÷ rate" in page, "sectors, not the requested bytes"


def test_bytes_that_data_decide_bound_the_time_by_their_low_end() -> None:
    """The low end passes HBM whatever the data are; compulsory bytes are fewer."""
    found = findings(["a"])
    low, high = 10**10, 10**12
    how = LaunchSimulation(1, 1, "warps", 1, (), (low, high), (0, 0), 0, data_dependent=("x",))
    launch = replace(found.derived.launches[0], hbm=Traffic(low, 0))
    simulated = Simulated(
        "simulate", "a", {}, hbm=launch.hbm, launches=(launch,), simulations=(how,), read_range=(low, high), write_range=(0, 0)
    )  # fmt: skip
    given = replace(found, simulated=simulated)
    assert given.hbm_bytes is None
    least = low / (fastest_hbm(given.machine) or 0) * 1e9
    assert [one.hbm_ns for one in (given.simulated_bound, *given.launch_bounds)] == [pytest.approx(least)] * 2
    page = page_text(target_page(given))
    assert f"take at least {time_text(least)}, bound by HBM" in page
    assert "requested bytes, least HBM bytes simulated on" in page
    without = replace(simulated, read_range=(0, high), launches=(), simulations=())
    assert replace(found, simulated=without).least_hbm == found.derived.compulsory


def test_a_products_least_time_is_that_of_its_arithmetic() -> None:
    """Torch's own operators have their share of all least times, by bytes or by FLOPs."""
    found = findings(["a"])
    product = Launch("aten.mm", origin="torch", requested=Traffic(10**6, 10**6), flops=10**12, exact=False)
    copy = Launch("aten.copy_", origin="torch", requested=Traffic(10**9, 10**9), exact=False)
    derived = replace(found.derived, launches=(product, copy), assumed=Traffic(10**9, 10**9))
    given = replace(found, source=replace(found.source, result=derived), simulated=None)
    fastest = max(peak.flops_per_s for peak in given.machine.peaks.values())
    assert [one.time_ns for one in given.launch_bounds] == [
        pytest.approx(1e21 / fastest),
        pytest.approx(2e18 / (fastest_hbm(given.machine) or 0)),
    ]
    page = page_text(target_page(given))
    assert "arithmetic in 1 launch, HBM in 1 launch" in page
    assert "2 operators of torch move at least 2.000 GB" in page


def test_a_model_of_torch_operators_alone_has_a_page(tmp_path: Path) -> None:
    """It shows no bytes of kernels, formulas or source, for there are none."""
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\n"
        "def layer(rows: int = 64, width: int = 32, device: str = 'cuda'):\n"
        "    layer = torch.nn.Linear(width, width, device=device, dtype=torch.float16)\n"
        "    x = torch.ones(rows, width, device=device, dtype=torch.float16)\n"
        "    return lambda: layer(x)\n"
    )
    with click.Context(click.Command("report"), obj=Settings(quiet=True)):
        found = findings_of(f"{path}:layer", {}, config={})
    page = page_text(target_page(found))
    assert found.launch_bounds[0].arithmetic_ns == pytest.approx(2 * 64 * 32 * 32 / 989e3, rel=1e-6)
    assert "No Triton kernel runs. 1 operator of torch moves at least" in page
    two = replace(found.derived, launches=found.derived.launches * 2)
    (drawn,) = figures_of(replace(found, source=replace(found.source, result=two)))
    assert drawn.command == f"ioaware report {found.words}"
    assert "one launch after the other, torch" in page.split('id="time"')[1].split("</section>")[0]
    assert not [name for name in ("bytes", "formulas", "source") if f'id="{name}"' in page]


def test_hot_lines_stand_without_their_indentation() -> None:
    page = page_text(target_page(findings(["a", "b", "c", "        deep(a)", "d"]), with_text=True))
    hot, source = (page.split(f'id="{name}"')[1].split("</section>")[0] for name in ("hot", "source"))
    assert ("<code>deep(a)</code>" in hot, "<code>        deep(a)</code>" in source) == (True, True)


def test_the_notes_are_those_of_the_drawn_range() -> None:
    wide = "HBM reads are uncertain: 0 to 9,999 bytes over the possible capacities and skews"
    seen = Simulated(
        "simulate", "k", {}, requested=Traffic(64, 0, read_sector_bytes=64, write_sector_bytes=0), hbm=Traffic(64, 0),
        notes=(wide,), read_range=(0, 9999), write_range=(0, 0),
    )  # fmt: skip
    page = page_text(target_page(findings(["k", "b"], simulated=seen)))
    assert "HBM bytes are uncertain: 0 to 64;" in page
    assert wide not in page


def test_notes_that_differ_in_an_index_are_one() -> None:
    found = findings(["k", "b"])
    alike = tuple(f"k: p[16*i + {at}] decides the lanes" for at in range(3))
    derived = replace(found.derived, notes=(*alike, "k: 16 lanes", "k: 17 lanes"))
    notes = re.findall("<li>(.*?)</li>", page_text(target_page(replace(found, source=replace(found.source, result=derived)))))
    assert notes[:3] == [f"{alike[0]} (2 more notes differ from this in the index alone)", "k: 16 lanes", "k: 17 lanes"]


def test_requested_bytes_in_sectors_include_atomics() -> None:
    found = findings(["k", "b"])
    with_atomics = replace(found.derived, requested=Traffic(256, 256, 64, 256, 256))
    bars = side_by_side(replace(found, source=replace(found.source, result=with_atomics))).bars
    assert [bar.value for bar in bars if bar.name.startswith("requested")] == [576]


def test_bytes_of_spilled_registers_are_named() -> None:
    how = LaunchSimulation(1, 1, "warps", 1, (), (9000, 9000), (0, 0), 0, spills=SpilledBytes(64, 64, 64, 64))
    seen = Simulated(
        "simulate", "k", {}, requested=Traffic(512, 0), hbm=Traffic(9000, 0), launches=(Launch("k", (1,)),), simulations=(how,),
        read_range=(9000, 9000), write_range=(0, 0),
    )  # fmt: skip
    page = page_text(target_page(findings(["k", "b"], simulated=seen, curves=())))
    assert "9.000 kB pass HBM on H200, by simulation, spilled registers included" in page
    assert "registers that spill, which requested bytes leave out" in page
    assert "HBM with spills, simulated" in page
    plain = replace(seen, simulations=(replace(how, spills=None),))
    assert "spill" not in page_text(target_page(findings(["k", "b"], simulated=plain, curves=())))


def test_values_left_out_for_one_reason_are_one_note() -> None:
    curves = tuple(Curve(Span(name, 1, 64), (), (1, 2), "/folder/k.py:5 wraps around") for name in ("n", "m"))
    page = page_text(target_page(findings(["k", "b"], curves=curves)))
    assert "values left out, 2 of n, 2 of m: k.py:5 wraps around" in page


def test_the_table_of_measured_points_is_in_order_and_explained() -> None:
    found = findings(["k", "b"], curves=())

    def point(number: int, **changes: Any) -> Compared:
        fields: dict[str, Any] = {"requested": Traffic(90, 0), "hbm": Traffic(50, 0), "compulsory": Traffic(60, 0)}
        return Compared(Result("measure", "k", {"k": number}, **{**fields, **changes}), 100)

    measured = (point(512), point(64, status="throttled"), point(1024))
    page = page_text(target_page(replace(found, measured=measured)))
    assert page.index(">k=512<") < page.index(">k=1024<")
    for words in ("the GPU lowered its clocks", "L1s served reads", "HBM below compulsory"):
        assert words in page
    plain = page_text(target_page(replace(found, measured=(point(64, requested=Traffic(100, 0), hbm=None),))))
    assert "lowered its clocks" not in plain
    assert "HBM below compulsory" not in plain
    assert "L1s served" not in plain


def test_a_caption_speaks_of_dots_where_some_are_drawn() -> None:
    """Measured points of other sizes are in the table alone."""
    found = findings(["k", "b"])
    along = Compared(Result("measure", "k", {"k": 32, "b": 8}, Traffic(100, 0)), 100)
    other = Compared(Result("measure", "k", {"k": 32, "b": 16}, Traffic(100, 0)), 100)
    captions = [over_parameters(replace(found, measured=(one,))) for one in (along, other)]
    assert [("Dots are measured" in figure.caption) for figure in captions if figure] == [True, False]


def test_launches_one_after_the_other_take_no_less_than_together() -> None:
    """Where data decide, a launch alone counts the low end of its HBM bytes."""
    found = findings(["a", "b"], curves=())
    one = found.derived.launches[0]
    how = LaunchSimulation(1, 1, "warps", 1, (), (10**9, 10**9), (0, 0), 0)
    vague = replace(how, read_range=(10**6, 10**8), data_dependent=("x",))
    launches = (replace(one, hbm=Traffic(10**9, 0)), replace(one, hbm=Traffic(5 * 10**7, 0)))
    simulated = Simulated(
        "simulate", "a", {}, hbm=Traffic(105 * 10**7, 0), launches=launches, simulations=(how, vague),
        read_range=(1001 * 10**6, 11 * 10**8), write_range=(0, 0),
    )  # fmt: skip
    given = replace(found, simulated=simulated)
    assert (given.launch_by_launch_ns or 0) < (given.simulated_bound.time_ns or 0)
    page = target_page(given)
    *_, (*_, together) = page.values["floors"]
    assert together["value"] == pytest.approx(given.simulated_bound.time_ns, rel=1e-5)
