"""Let a file that is loaded as a target import its own neighbours.

Two files may import modules of one name, such as `utils`, from their own folders. Python imports such a name once in a
process, and the second file would be given the first one's.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

_OF_TARGETS: dict[str, ModuleType] = {}
"""Modules that loaded files imported from their folders, by name."""
KEPT = ("__main__", "ioaware", "torch", "triton", "numpy", "sympy")


@contextmanager
def own_siblings(folder: Path) -> Generator[None]:
    """Import names inside the block from this folder where it has them.

    Modules of the same names that are another target's are forgotten. Those that other code imported are put back.
    """
    names = {name: name.partition(".")[0] for name in list(sys.modules)}
    shadows = {top for top in set(names.values()) if _is_shadow(top, folder)}
    taken = {name: sys.modules.pop(name) for name, top in names.items() if top in shadows}
    others = {name: module for name, module in taken.items() if _OF_TARGETS.get(name) is not module}
    before = set(sys.modules)
    try:
        yield
    finally:
        new = {name: sys.modules[name] for name in sys.modules.keys() - before}
        _OF_TARGETS.update({name: module for name, module in new.items() if _is_in(module, folder)})
        sys.modules.update(others)


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
    return file is not None and file.is_relative_to(folder)


def _file(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    return Path(name).resolve() if isinstance(name, str) else None
