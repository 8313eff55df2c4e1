"""The formula reader reads back printed formulas and refuses other text.

Nothing is executed.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import sympy

from ioaware.analysis.formulas.printing import show
from ioaware.errors import UsageError
from ioaware.gate.formulas.formula_names import symbols
from ioaware.gate.formulas.formula_reader import LONGEST_TEXT, read_conditions, read_formula
from tests.support import ROOT

RECORDED = ROOT / "tests" / "analysis" / "ir" / "formulas.json"
NAMES = symbols(("n", "m", "rows", "cols"))


def printed_formulas() -> list[str]:
    """Return the recorded formulas of the compiled kernels, bounds without their sign.

    Long ones are recorded as hashes only.
    """
    kernels = json.loads(RECORDED.read_text(encoding="utf-8"))
    texts = {text for launches in kernels.values() for launch in launches for text in launch.values()}
    return sorted(text.removeprefix("<= ") for text in texts if text and "sha256" not in text)


def read(text: str, names: Any = NAMES) -> Any:
    return read_formula(text, names)


def test_printed_formulas_are_read_back() -> None:
    """Printing gives the same text, except for three formulas.

    In these, sympy writes [i == 0] as [i <= 0].
    """
    changed = 0
    texts = printed_formulas()
    for text in texts:
        names = set(re.findall(r"[A-Za-z_]\w*(?:@[^\s()*]+)?'*", text))
        changed += show(read_formula(text, symbols(names))) != text
    assert len(texts) > 140
    assert changed <= 3


@pytest.mark.parametrize(
    ("text", "at", "value"),
    [
        ("2*rows*cols + 2*cols", {"rows": 3, "cols": 5}, 40),
        ("cdiv(n, 128) - -n//3 + n % 7", {"n": 1000}, 8 + 333 + 1 + 6),
        ("-(n - 1)**2 * 2", {"n": 4}, -18),
        ("max(n, m, 7) - min(n, m)", {"n": 3, "m": 5}, 4),
        ("ceil(n/128) + floor((n + 1)/2)", {"n": 129}, 67),
        ("[n >= m] + [n == m]", {"n": 4, "m": 4}, 2),
        ("(n if m % 8 == 0 and n >= 3 else 2*n)", {"n": 4, "m": 9}, 8),
        ("(n if m % 8 == 0 and n >= 3 else 2*n)", {"n": 4, "m": 16}, 4),
        ("sum(i*j for j in range(m) for i in range(j, n))", {"n": 5, "m": 3}, 0 + 1 * (1 + 2 + 3 + 4) + 2 * (2 + 3 + 4)),
        ("sum(i*j for i in range(j, n) for j in range(m))", {"n": 5, "m": 3}, 0 + 1 * (1 + 2 + 3 + 4) + 2 * (2 + 3 + 4)),
        ("2**3 + n", {"n": 1}, 9),
        ("--n", {"n": 5}, 5),
    ],
)
def test_values(text: str, at: dict[str, int], value: int) -> None:
    from ioaware.analysis.formulas.evaluate import evaluate

    assert evaluate(read(text), at) == value


HOSTILE = [
    "__import__('os').system('true')", "().__class__.__bases__[0].__subclasses__()", "n.__class__", "n.subs(n, 1)", "lambda: n",
    "n if n else m", "[x for x in n]", "f'{n}'", "exec('n')", "eval('n')", "open('/etc/passwd')", "n; m", "n\nm = 2", "n := 3",
    "9**9**9", "((9**16)**16)**16", "(((n + m + rows + cols)**16)**16)", "n**17", "n**-1", "n**m", "n**(1)", "2**0.5",
    "(" * 10_000 + "n" + ")" * 10_000, "[" * 10_000, "sum(" * 5_000, "-" * 30_000 + "n", "n" * (LONGEST_TEXT + 1), "9" * 31,
    "ｎ + 1", "n\u200b", "п", "n²", "1e9", "0x10", "1_000", "n m", "n^2", "n!", "n**", "*n", "", "   ", "()", "n,", "min()",
    "max(n)", "cdiv(n)", "cdiv(n, 0)", "n//0", "n % 0", "n/0", "sum(n)", "sum(i for i in range(n)",
    "sum(if for if in range(n))", "sum(i for i in range(j) for j in range(i))", "sum(i for i in range(i))",
    "nan", "inf", "None", "True", "q*n", "range(n)", "min", "[n]", "[n != m]", "(n if n != 3 else 2)", "\x00", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read(text)


@pytest.mark.parametrize("value", [None, 3, float("nan"), True, b"n", ["n"]])
def test_a_formula_is_text(value: Any) -> None:
    with pytest.raises(UsageError, match="is text"):
        read(value)


def test_a_name_that_is_code_stays_a_name() -> None:
    """sympy's lambdify executes code in a symbol's name. The reader compiles no names."""
    unknown = "Lock@layer_norm.py:179"
    assert read_formula(f"4*{unknown}*n", symbols(("n", unknown))).free_symbols == set(symbols(("n", unknown)).values())


def test_conditions() -> None:
    (left, sign, right), other = read_conditions("n % 128 == 0 and m >= n + 1", NAMES)
    assert (str(left), sign, right) == ("Mod(n, 128)", "==", sympy.S.Zero)
    assert other[1] == ">="
    with pytest.raises(UsageError):
        read_conditions("next_power_of_2(n) == 8", NAMES)
