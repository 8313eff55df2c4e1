"""Growth by a size that is a constant of the kernel: a formula does not show it.

The call is derived again at a second point.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate.constant_sizes import bytes_at, compared_elsewhere, constants_of, is_elsewhere, other_point
from ioaware.gate.formulas.formula_order import Comparison
from ioaware.gate.verdict import Verdict
from tests.gate.test_pytest_plugin import repository  # noqa: F401 (fixtures)  # pyright: ignore[reportUnusedImport]
from tests.support.gate_runs import Repository

CONSTANT = (
    ("cols, BLOCK: tl.constexpr", "cols: tl.constexpr, BLOCK: tl.constexpr"),
    ("range(0, cols, BLOCK)", "tl.static_range(0, cols, BLOCK)"),
)
HERE = {"rows": 4096, "cols": 2048}
THERE = {"rows": 6151, "cols": 3079}


@pytest.fixture
def constant(repository: Repository) -> Repository:  # noqa: F811
    """The example repository, whose kernel has the number of columns as a constant."""
    for old, new in CONSTANT:
        repository.change(repository.kernel, old, new)
    assert repository.pytest("--traffic=create").code == 0
    return repository


def test_the_second_point_is_derived_again(constant: Repository) -> None:
    text = constant.test.read_text()
    assert 'reads="8192*rows"' in text
    assert '"rows=6151, cols=3079": (75_755_716, 37_877_858)' in text
    assert "sector_bytes=(50_331_648, 115_220_448)" in text
    assert constant.pytest().code == 0


def test_growth_by_the_constant_is_growth(constant: Repository) -> None:
    line = "    if cols > 2048:\n        tl.store(out + row, tl.load(w + row % cols))\n    for start"
    constant.change(constant.kernel, "    for start", line)
    ran = constant.pytest()
    assert ran.code == 1
    assert "GROWTH: scale:scale: the same bytes here, another growth" in ran.output
    assert "reads: +12,302 at rows=6151, cols=3079, where a constant of the kernel is another" in ran.output
    assert ": tl.store(out + row, tl.load(w + row % cols))" in ran.output.partition("from  ")[2].partition("\n")[0]
    assert constant.pytest("--traffic=accept").code == 0
    assert constant.pytest().code == 0


def test_a_point_of_a_snapshot_that_cannot_be_derived_any_more(constant: Repository) -> None:
    constant.change(constant.kernel, "    out = torch", "    assert x.shape[1] < 3000\n    out = torch")
    ran = constant.pytest()
    assert ran.code == 1
    assert "INCOMPARABLE" in ran.output
    assert "cannot be derived at rows=6151, cols=3079" in ran.output


def derived(**more: Any) -> Any:
    return SimpleNamespace(params=HERE, symbols={"rows": 4096}, exact=True, exact_here_only=False, **more)


def test_constants_are_sizes_that_no_formula_has() -> None:
    assert constants_of(derived()) == {"cols": 2048}
    assert [is_elsewhere(point, {"cols": 2048}) for point in (HERE, THERE, {"rows": 1})] == [False, True, False]


def test_no_other_point_is_one_without_constants_or_where_nothing_can_be_derived() -> None:
    everywhere: Any = SimpleNamespace(params=HERE, symbols=HERE, exact_here_only=False)
    assert other_point(everywhere, lambda _: everywhere, ["reads"]) is None

    def fails(point: Any) -> Any:
        raise UsageError(f"not at {point['cols']}", "")

    assert bytes_at(fails, THERE) == "not at 3079"
    assert other_point(derived(), fails, ["reads"]) is None
    assert bytes_at(lambda _: SimpleNamespace(exact=False), THERE) == "the bytes are not exact there"  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("here", "new", "verdict"),
    [
        (Verdict.SAME, 8, Verdict.SAME),
        (Verdict.SAME, 9, Verdict.GROWTH),
        (Verdict.SAME, 7, Verdict.BETTER),
        (Verdict.BETTER, 9, Verdict.GROWTH),
        (Verdict.SAME, None, Verdict.INCOMPARABLE),
        (Verdict.WORSE, 7, Verdict.WORSE),
        (Verdict.UNSURE, 8, Verdict.UNSURE),
        (Verdict.UNSURE, 9, Verdict.GROWTH),
    ],
)
def test_the_verdict_of_both_points(here: Verdict, new: int | None, verdict: Verdict) -> None:
    assert compared_elsewhere(Comparison(here, ""), THERE, 8, new).verdict is verdict
