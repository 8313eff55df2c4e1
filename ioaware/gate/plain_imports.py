"""Import this package's modules without pytest's rewriting.

pytest rewrites the assertions of all modules of a plugin's package, and keeps the result apart from Python's own bytecode. The
package has hundreds of modules and no assertion that a user reads: where nothing is kept, as in a new checkout, this takes
longer than a test.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PACKAGE = __name__.partition(".")[0]


def import_plainly() -> None:
    """Find the package's modules as Python does from now on."""
    if not any(isinstance(finder, _OwnModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OwnModules())


class _OwnModules(MetaPathFinder):
    """Find the modules below the package on its path, and no others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification with Python's own loader."""
        return PathFinder.find_spec(fullname, path, target) if fullname.startswith(f"{PACKAGE}.") else None
