"""`display` is the lowest layer: it imports no other package of ioaware."""

from __future__ import annotations

import ast
from pathlib import Path

from ioaware import display

FOLDER = Path(display.__file__ or "").parent


def imports(node: ast.AST) -> list[str]:
    """Return the modules imported at run time.

    Imports inside functions count too, those under TYPE_CHECKING do not.
    """
    found: list[str] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom):
            found.append(child.module or "")
        elif isinstance(child, ast.Import):
            found += [alias.name for alias in child.names]
        found += imports(child)
    return found


def test_display_imports_only_itself() -> None:
    names = {name for path in FOLDER.glob("*.py") for name in imports(ast.parse(path.read_text()))}
    assert {name for name in names if name.startswith("ioaware")} <= {
        f"ioaware.display.{path.stem}" for path in FOLDER.glob("*.py")
    }
    assert "html" in names, "no import was found, so the test shows nothing"
