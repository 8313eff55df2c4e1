"""The package loads no pickles, evaluates no text and starts no shell.

Ruff holds some of these rules where no `noqa` stands; this test knows no exception.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle", "joblib"}
NAMES = {"eval", "exec", "sympify", "parse_expr", "lambdify"}
METHODS = {
    "sympy": {"sympify", "S", "parse_expr", "lambdify"}, "torch": {"load"}, "yaml": {"load", "unsafe_load", "full_load"},
    "os": {"system", "popen"}, "builtins": {"eval", "exec"},
}  # fmt: skip
SUSPECT = re.compile(
    r"pickle|dill|marshal|shelve|joblib|\b(eval|exec|sympify|parse_expr|lambdify|shell|popen)\b|os\.system|sympy\.S\b|(torch|yaml)\.\w*load"
)
"""What a source has to hold to break a rule: only such sources are parsed."""
PLANTED = {
    "import pickle": "imports pickle",
    "from cloudpickle import loads": "imports cloudpickle",
    "import a, dill.session": "imports dill",
    "eval(text)": "calls eval",
    "builtins.exec(text)": "calls builtins.exec",
    "subprocess.run(text, shell=True)": "starts a shell",
    "Popen(text, shell=flag)": "starts a shell",
    "os.system(text)": "calls os.system",
    "sympify(text)": "calls sympify",
    "sympy.sympify(text)": "calls sympy.sympify",
    "sympy.S(text)": "calls sympy.S",
    "parse_expr(text)": "calls parse_expr",
    "sympy.lambdify([], x)": "calls sympy.lambdify",
    "yaml.load(text)": "calls yaml.load",
    "torch.load(path)": "calls torch.load",
    "np.load(path, allow_pickle=True)": "allows pickles",
    "try:\n    f(lambda: [eval(x) for x in y])\nfinally: ...": "calls eval",
}
ALLOWED = ("model.eval()", "subprocess.run(argv, shell=False)", "json.loads(text)", "sympy.Integer(3)", "np.load(path)")


def broken(source: str) -> Iterator[str]:
    """Yield what a source does that no module of the package may do."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (f"imports {top}" for top in (name.partition(".")[0] for name in named) if top in MODULES)
        elif isinstance(node, ast.Call):
            yield from _broken_by(node)


def _broken_by(call: ast.Call) -> Iterator[str]:
    function = call.func
    if isinstance(function, ast.Name) and function.id in NAMES:
        yield f"calls {function.id}"
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = function.value.id
        if function.attr in METHODS.get(owner, ()):
            yield f"calls {owner}.{function.attr}"
    for keyword in call.keywords:
        value = keyword.value
        on = not (isinstance(value, ast.Constant) and not value.value)
        if keyword.arg == "shell" and on:
            yield "starts a shell"
        if keyword.arg == "allow_pickle" and on:
            yield "allows pickles"


def test_no_module_does_what_is_forbidden() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): problems
        for path in sorted((ROOT / "ioaware").rglob("*.py"))
        if SUSPECT.search(text := path.read_text(encoding="utf-8")) and (problems := list(broken(text)))
    }
    assert found == {}


@pytest.mark.parametrize(("source", "problem"), PLANTED.items())
def test_each_rule_finds_what_is_planted(source: str, problem: str) -> None:
    assert list(broken(source)) == [problem]
    assert SUSPECT.search(source)


@pytest.mark.parametrize("source", ALLOWED)
def test_what_looks_alike_is_allowed(source: str) -> None:
    assert list(broken(source)) == []


def test_it_looks_at_every_module() -> None:
    assert len(list(Path(ROOT / "ioaware").rglob("*.py"))) > 300
