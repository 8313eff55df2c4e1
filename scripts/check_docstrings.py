"""Refuse docstrings whose first line is longer than 80 characters.

    python scripts/check_docstrings.py [PATH ...]

Prints `file:line: N characters` for each, and exits with 1 where it finds any. The string below a constant or a field counts as
its docstring. Ruff's pydocstyle rules check the form of the first line, but not its length.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("ioaware", "scripts", "tests")
LONGEST = 80
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, its classes, functions and constants."""
    for node in ast.walk(tree):
        if isinstance(node, Documented):
            for before, statement in pairwise([None, *node.body]):
                text = _text(statement)
                if text and (before is None or isinstance(before, ast.Assign | ast.AnnAssign)):
                    yield text


def _text(statement: ast.stmt | None) -> ast.Constant | None:
    """Return the string that a statement consists of, if it is one."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
        return statement.value
    return None


def findings(path: Path) -> Iterator[str]:
    """Yield one line for each docstring of a file with a first line that is too long."""
    for text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
        first = str(text.value).partition("\n")[0].strip()
        if len(first) > LONGEST:
            yield f"{path}:{text.lineno}: {len(first)} characters in a docstring's first line, at most {LONGEST} are allowed"


def main(arguments: list[str]) -> int:
    """Check the given paths, or the whole repository; return the exit code."""
    places = [Path(name) for name in arguments] or [ROOT / name for name in PLACES]
    files = (path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*.py"))))
    found = [line for path in files if path.suffix == ".py" for line in findings(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
