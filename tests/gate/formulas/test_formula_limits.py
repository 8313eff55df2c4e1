"""Limits of the reader of formulas, reasons of a comparison, sizes tried."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import sympy

from ioaware.errors import UsageError
from ioaware.gate.formulas.formula_names import SIGNS, read_pair, symbols
from ioaware.gate.formulas.formula_order import (
    DRAWS,
    SCALES,
    at_text,
    compare,
    drawn,
    names_of,
    proven_at_most,
    proven_equal,
    value_at,
)
from ioaware.gate.formulas.formula_reader import (
    DEEPEST,
    LARGEST_POWER,
    LONGEST_TEXT,
    MAX_BITS,
    MAX_DIGITS,
    MAX_TERMS,
    read_conditions,
    read_formula,
)
from ioaware.gate.verdict import Verdict

NAMES = symbols(("n", "m"))
n, m = NAMES["n"], NAMES["m"]


def read(text: str) -> Any:
    return read_formula(text, NAMES)


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as raised:
        read(text)
    assert raised.value.remedy
    return raised.value.what.rpartition(" is no formula: ")[2]


def nested(depth: int) -> str:
    return "(" * depth + "n" + ")" * depth


TOO_LARGE = "it has too many terms or too high a power"
LIMITS = [
    (f"n**{LARGEST_POWER}*n**{LARGEST_POWER}", f"n**{LARGEST_POWER}*n**{LARGEST_POWER}*n", TOO_LARGE),
    (f"(n**2)**{LARGEST_POWER}", f"(n**3)**{LARGEST_POWER}", TOO_LARGE),
    (f"n**{LARGEST_POWER}/n**{LARGEST_POWER}*2", f"n**{LARGEST_POWER}/n**{LARGEST_POWER}*n", TOO_LARGE),
    (nested(DEEPEST - 1), nested(DEEPEST), f"it is nested more than {DEEPEST} deep"),
    ("n**0", f"n**{LARGEST_POWER + 1}", f"a power is at most {LARGEST_POWER}"),
    ("n**1", "n**m", "a power is an integer"),
    ("9" * MAX_DIGITS, "9" * (MAX_DIGITS + 1), f"a number has at most {MAX_DIGITS} digits"),
    ("cdiv(n, 2)", "cdiv(n, 2, 3)", "cdiv takes other arguments"),
    ("cdiv(n, m)", "cdiv(n, 0)", "cdiv takes other arguments"),
    ("cdiv(0, n)", "cdiv(n)", "cdiv takes other arguments"),
    ("ceil(n)", "ceil(n, 2)", "ceil takes other arguments"),
    ("floor(n)", "floor(n, 2)", "floor takes other arguments"),
    ("min(n, m)", "min(n)", "min takes other arguments"),
    ("max(n, m, 3)", "max(n)", "max takes other arguments"),
    ("n/m", "n/0", "it divides by zero"),
    ("[n >= m]", "[n != m]", "a bracket has no '!='"),
    ("(1 if n >= m else 2)", "(1 if n != m else 2)", "a case has no condition with '!='"),
    ("(n)", "(n", "')' is expected at the end"),
    ("(n) + 1", "(n m)", "')' is expected before 'm'"),
    ("[n == 1]", "[n]", "a comparison is expected before ']'"),
    ("n + m", "n m", "'m' is not expected"),
    ("n", "q", "'q' is no name here, of m, n"),
    ("n + n", "n +", "it ends too early"),
    ("n - 1", "n $ 1", "'$' is not part of a formula"),
    ("sum(i for i in range(n))", "sum(n)", "a sum names its range: sum(i for i in range(n))"),
    ("sum(i for i in range(1, n))", "sum(i for 3 in range(n))", "'3' is no index"),
]  # fmt: skip


@pytest.mark.parametrize(("largest", "beyond", "why"), LIMITS, ids=range(len(LIMITS)))
def test_what_is_just_read_and_what_is_not(largest: str, beyond: str, why: str) -> None:
    assert read(largest) is not None
    assert refusal(beyond) == why


def test_the_number_of_terms_is_bounded() -> None:
    """Of the expanded form: a sum of k terms to the power p may have k**p."""
    half = "(" + " + ".join(["n"] * 8) + ")"
    assert 8**3 <= MAX_TERMS < 8**16
    read(f"{half}**3")
    read(f"-{half}**2")
    assert refusal(f"{half}**16") == TOO_LARGE
    many = " + ".join(["n"] * 64)
    assert refusal("*".join([f"(-({many}))"] * 8)) == TOO_LARGE
    assert refusal("*".join([f"(({many}))"] * 8)) == TOO_LARGE
    assert refusal(f"({many})*({many})") == TOO_LARGE  # 64*64 terms
    assert 63 * 63 <= MAX_TERMS < 64 * 64
    read(f"({many[4:]})*({many[4:]})")


def test_the_length_of_a_formula_and_its_numbers_are_bounded() -> None:
    assert read("n" + " " * (LONGEST_TEXT - 1)) == n
    with pytest.raises(UsageError) as raised:
        read("n" + " " * LONGEST_TEXT)
    assert raised.value.what == f"a formula of {LONGEST_TEXT + 1} characters is longer than {LONGEST_TEXT}"
    nines = "9" * MAX_DIGITS
    times = MAX_BITS // (10**MAX_DIGITS - 1).bit_length() + 2
    assert refusal("*".join([nines] * times)) == f"a number has more than {MAX_BITS} bits"


def test_how_expressions_are_built() -> None:
    assert read("min(n, 2, 3)").args == sympy.Min(n, 2, 3, evaluate=False).args  # not evaluated: sympy compares all pairs
    assert read("max(n, 2, 3)").args == sympy.Max(n, 2, 3, evaluate=False).args
    assert (read("floor(n/2)"), read("ceil(n/2)"), read("cdiv(n, 2)")) == (sympy.floor(n / 2), *[sympy.ceiling(n / 2)] * 2)
    assert (read("ceil(n)"), read("floor(n)")) == (n, n)  # of integers
    assert read("(1 if n >= m else 2)").args[0].args[1] == sympy.Ge(n, m)
    assert read("(1 if n >= 0 else 2)").args[0].args[1] == sympy.Ge(n, 0, evaluate=False)  # as it is written
    assert read("(1 if n >= m and n < 3 else 2)").args[0].args[1] == sympy.And(n >= m, n < 3)
    assert read("(1 if n > m else unknown)").args == sympy.Piecewise((1, sympy.Gt(n, m, evaluate=False)), evaluate=False).args
    assert [read_conditions(f"n {sign} m", NAMES) for sign in SIGNS] == [[(n, sign, m)] for sign in SIGNS]
    assert [SIGNS[sign](1, 2) for sign in (">=", "<=", "==", "!=", ">", "<")] == [False, True, False, True, False, True]
    assert [SIGNS[sign](2, 2) for sign in (">=", "<=", "==", "!=", ">", "<")] == [True, True, True, False, False, False]


def test_an_index_is_known_in_its_sum_only() -> None:
    assert value_at(read("sum(n for n in range(4)) + n"), {"n": 10}) == 16
    assert refusal("sum(i for i in range(n)) + i") == "'i' is no name here, of m, n"


def test_symbols_are_integers_and_positive_unless_data_decide() -> None:
    known = symbols(("n", "Lock@a.py:3"))
    assert (known["n"].is_integer, known["n"].is_positive) == (True, True)
    assert (known["Lock@a.py:3"].is_integer, known["Lock@a.py:3"].is_positive) == (True, None)
    pair = read_pair("2*Lock@a.py:3", "n", ["n"])
    assert not isinstance(pair, str)
    assert names_of(pair) == {"n", "Lock@a.py:3"}
    deep = "(" * 60 + "n" + ")" * 60
    assert str(read_pair(deep, "n", ["n"])).startswith("the old formula cannot be read: ")


def test_proofs() -> None:
    assert proven_equal(n, n)
    assert proven_equal(read("2*(n + m)"), read("2*n + 2*m"))
    assert proven_equal(read("n/3 + n/3"), read("2*n/3"))  # beyond the engine's algebra: expanded
    assert not proven_equal(read("n"), read("m"))
    assert not proven_equal(read("n/3"), read("m/3"))
    assert proven_equal(read("max(n, m)"), read("max(m, n)"))
    assert not proven_equal(read("(n if n > m else m)"), read("(m if n > m else n)"))
    assert not proven_equal(read("(n/3 if n > m else m/3)"), read("n/3"))
    assert not proven_equal(read("n/3"), read("(n/3 if n > m else m/3)"))
    assert proven_at_most(read("n"), read("2*n"))
    assert not proven_at_most(read("2*n"), read("n"))
    assert not proven_at_most(read("sum(n/3 for i in range(n))"), read("n*n"))  # no form in the algebra: not proven
    assert proven_at_most(read("8 + m"), read("n + m"), {"n": 8})
    assert not proven_at_most(read("8 + m"), read("n + m"), {"m": 8})
    assert not proven_at_most(read("8 + m"), read("n + m"))


def compared(old: str, new: str, *points: dict[str, int], admits: Any = lambda _: True) -> tuple[str, str, Any]:
    found = compare(read(old), read(new), points, admits)
    assert len(found.values) == len(points)
    return str(found.verdict), found.reason, found.witness


def test_reasons_that_depend_on_the_sizes_tried() -> None:
    at = {"n": 8, "m": 4}
    fewer = "n//2 + (n + 1)//2 - [n >= 9]"
    verdict, reason, witness = compared("n", fewer, at)
    assert (verdict, witness) == ("UNSURE", ({"n": 16, "m": 8}, 16, 15))
    tried = 1 + 4 * 2 + 2 + DRAWS  # the point, its multiples (all names; `n`, the one name, alone), neighbours, drawn sizes
    assert reason == f"fewer or equal at {tried} sizes tried, and not proven at others"
    equal = "n//2 + (n + 1)//2"
    assert compared("n", equal, at) == ("INCOMPARABLE", f"equal at {tried} sizes tried, and not proven equal", None)
    few = compared("n", equal, at, admits=lambda point: point["n"] == 16)
    sizes = 1 + sum(one["n"] == 16 for one in drawn(["n"], [at]))
    assert few[1] == f"equal at {sizes} sizes tried, and not proven equal"
    assert compared("n", "min(n, 100)", at) == ("BETTER", "no more at any size", None)
    both = compared("4*n", "n*m", {"n": 8, "m": 4})
    assert both == ("GROWTH", "the same bytes here, another growth: +64 at n=16, m=8", ({"n": 16, "m": 8}, 64, 128))
    falls_first = compared("n*[n >= 9] + 9", "n//2 + (n + 1)//2 - n*[n <= 8] + 9 - [n == 16] + [n == 24]", at)
    assert falls_first[1] == "the same bytes here, another growth: +1 at n=24, m=12"


def test_the_sizes_that_are_tried() -> None:
    point = {"n": 8, "m": 1}
    found = list(drawn(["n", "q"], [point]))
    multiples = [one for factor in (2, 3, 16, 1024) for one in (
        {"n": 8 * factor, "m": factor}, {"n": 8 * factor, "m": 1}, {"n": 8, "m": 1, "q": factor},
    )]  # fmt: skip
    assert found[:12] == multiples
    assert found[12:14] == [{"n": 9, "m": 2}, {"n": 7, "m": 1}]
    rest = found[14:]
    assert len(rest) == DRAWS
    assert all(one["m"] == 1 and one["n"] in SCALES and one["q"] in SCALES for one in rest)
    assert {one["n"] for one in rest} == set(SCALES)
    assert rest == list(islice(drawn(["n", "q"], [point]), 14, None))  # a fixed sequence
    two = list(drawn(["n"], [{"n": 8}, {"n": 5, "k": 3}]))
    assert all("k" not in one for one in two[-DRAWS:])  # a name that no formula has keeps the first point's value
    assert at_text({}) == "these sizes"
    assert at_text(point) == "n=8, m=1"


def test_values_that_cannot_be_computed() -> None:
    assert value_at(read("n/2"), {"n": 3}) is None
    assert value_at(read("n/2"), {"n": 4}) == 2
    assert value_at(read("n % m"), {"n": 4, "m": 0}) is None
    assert compare(read("n"), read("n/7"), [{"n": 7}]).verdict is Verdict.BETTER
    assert compare(read("n"), read("n/7"), [{"n": 7}, {"n": 8}]).verdict is Verdict.INCOMPARABLE
