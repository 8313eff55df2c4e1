"""Let a target import its own neighbours, when it is loaded and when called.

Two files may import modules of one name, such as `utils`, from their own folders. Python imports such a name once in a
process, and the second file would be given the first one's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

_IMPORTED: dict[Path, dict[str, ModuleType]] = {}
"""Modules that targets imported from their folders, by folder and name."""
KEPT = ("__main__", "ioaware", "torch", "triton", "numpy", "sympy")


@contextmanager
def own_siblings(folder: Path) -> Generator[None]:
    """Import names inside the block from this folder where it has them.

    The folder is first on the import path. Modules of the same names that are another target's are forgotten, and those that
    this folder gave before are back. Those that other code imported are put back when the block ends.
    """
    names = {name: name.partition(".")[0] for name in list(sys.modules)}
    shadows = {top for top in _names_of(folder).intersection(names.values()) if _is_shadow(top, folder)}
    taken = {name: sys.modules.pop(name) for name, top in names.items() if top in shadows}
    of_targets = {id(module) for modules in _IMPORTED.values() for module in modules.values()}
    others = {name: module for name, module in taken.items() if id(module) not in of_targets}
    own = _IMPORTED.setdefault(folder, {})
    sys.modules.update({name: module for name, module in own.items() if name.partition(".")[0] in shadows})
    before = set(sys.modules)
    try:
        with import_path(folder):
            yield
    finally:
        new = {name: sys.modules[name] for name in sys.modules.keys() - before}
        own.update({name: module for name, module in new.items() if _is_in(module, folder)})
        sys.modules.update(others)


@dataclass(frozen=True, slots=True)
class ImportingFrom:
    """A call of host code, which imports its neighbours from a folder."""

    folder: str
    run: Callable[[], Any]

    def __call__(self) -> Any:
        """Run it."""
        with own_siblings(Path(self.folder)):
            return self.run()


@contextmanager
def import_path(directory: Path) -> Generator[None]:
    """Put a directory first on the import path inside the block."""
    entry = str(directory)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)


def _names_of(folder: Path) -> set[str]:
    """Return the names that a folder, which may be missing, could have modules of."""
    return {path.name.removesuffix(".py") for path in folder.iterdir()} if folder.is_dir() else set()


def _is_shadow(top: str, folder: Path) -> bool:
    """Return whether a module of no package hides one of this folder.

    One of Python, of ioaware or of an installed library is meant as it is.
    """
    if top in KEPT or top in sys.stdlib_module_names:
        return False
    own = [path for path in (folder / top / "__init__.py", folder / f"{top}.py") if path.is_file()]
    file = _file(sys.modules.get(top))
    return bool(own) and file is not None and "site-packages" not in file.parts and file != own[0].resolve()


def _is_in(module: ModuleType, folder: Path) -> bool:
    file = _file(module)
    return file is not None and file.is_relative_to(folder) and "site-packages" not in file.parts


def _file(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if isinstance(name, str) else None
