"""Unregister operators that a target file registers with torch.

They are unregistered before the file is loaded again.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ioaware._monkeypatch import Patches

_libraries: dict[Path, list[Any]] = {}
"""Instances of `torch.library.Library` that the last import of a file made."""


@contextmanager
def operator_libraries(path: Path) -> Generator[None]:
    """Let a file register again, inside the block, what it registered earlier.

    The block imports `path`.

    Why: torch refuses a second definition of a namespace or operator. What other modules register is left alone, since they
    are imported once.
    """
    import torch.library

    for library in _libraries.pop(path, []):
        library._destroy()
    made = _libraries.setdefault(path, [])

    def initialise(library: Any, *args: Any, **kwargs: Any) -> None:
        plain(library, *args, **kwargs)
        caller: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while caller is not None and caller.f_code.co_filename == torch.library.__file__:
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename == str(path):
            made.append(library)

    with Patches() as patches:
        plain: Any = patches.set(torch.library.Library, "__init__", initialise)
        yield
