"""Load a user's function from `file.py:function` or `module:function`."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ioaware._monkeypatch import Patches
from ioaware.errors import IoawareError, UsageError
from ioaware.targets.operator_libraries import operator_libraries
from ioaware.targets.sibling_modules import import_path, own_siblings

PREFIX = "ioaware_target_"
"""How the names of modules begin that are loaded by their path."""


def load_function(spec: str) -> Callable[..., Any]:
    """Return the function that `spec` names, with named parameters.

    Raise `UsageError` if it or its module cannot be loaded.
    """
    return by_keyword(load_callable(spec))


def load_callable(spec: str) -> Callable[..., Any]:
    """Return the function that `spec` names as it is.

    Its module may need a GPU at import: without one it sees a fake one.

    Raise `UsageError` if it or its module cannot be loaded.
    """
    source, _, name = spec.rpartition(":")
    if not source or not name:
        raise UsageError(f"{spec!r} names no function", "A target is a case, path/to/file.py:function or module:function.")
    module = load_file(Path(source)) if source.endswith(".py") else load_module(source)
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if function is None:
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {source}:{close[0]}?" if close else f"It has: {', '.join(names) or 'no functions'}."
        raise UsageError(f"{source} has no function {name!r}", hint)
    return function


def folder_of(spec: str) -> str:
    """Return the folder from which a target imports its neighbours.

    It is that of its file, and the current one for a module.
    """
    source = Path(spec.rpartition(":")[0])
    return str(source.resolve().parent if source.suffix == ".py" else Path.cwd())


def folder_of_function(function: Callable[..., Any]) -> str:
    """Return the folder of a function that `load_file` loaded; empty for others."""
    name = str(getattr(function, "__module__", ""))
    file = getattr(sys.modules.get(name), "__file__", None) if name.startswith(PREFIX) else None
    return str(Path(file).parent) if file else ""


def by_keyword(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose parameters have names.

    That is the function itself, but for `apply` of an autograd function: it takes those of `forward` by position only. A custom
    operator takes those of the function that `torch.library.custom_op` decorates.
    """
    torch: Any = sys.modules.get("torch")
    owner: object = getattr(function, "__self__", None)
    if torch is not None and isinstance(function, torch.library.CustomOpDef):
        return _operator_by_keyword(function)
    if torch is None or not isinstance(owner, type) or not issubclass(owner, torch.autograd.Function):
        return function
    kind: Any = owner
    parameters = list(inspect.signature(kind.forward).parameters.values())
    has_context = kind.setup_context is torch.autograd.Function.setup_context
    signature = inspect.Signature(parameters[has_context:])

    def apply(**given: Any) -> Any:
        bound = signature.bind(**given)
        bound.apply_defaults()
        return function(*bound.args)

    apply.__signature__ = signature  # type: ignore[attr-defined]
    apply.__module__, apply.__qualname__ = kind.__module__, f"{kind.__qualname__}.apply"
    return apply


def _operator_by_keyword(operator: Any) -> Callable[..., Any]:
    """Return a function with named parameters that calls a custom operator."""

    def call(**given: Any) -> Any:
        return operator(**given)

    call.__signature__ = inspect.signature(_decorated(operator._init_fn))  # type: ignore[attr-defined]
    return call


def _decorated(function: Any) -> Callable[..., Any]:
    """Return the user's function of a custom operator.

    `torch.library.triton_op` puts it into a function that passes any arguments on.
    """
    inner = inspect.getclosurevars(function).nonlocals.get("fn")
    passes_on = all(
        one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in inspect.signature(function).parameters.values()
    )
    return inner if passes_on and callable(inner) else function


def load_file(path: Path) -> ModuleType:
    """Import a file as a new module with a unique name.

    Its directory is on the import path meanwhile.
    """
    try:
        found = path.is_file()
    except OSError as error:  # a name that is too long for a file
        raise UsageError(f"{path}: cannot be read ({error.strerror})", "Check the path.") from error
    if not found:
        raise UsageError(f"there is no file {path}", "Check the path; it is relative to the current directory.")
    path = path.resolve()
    name = f"{PREFIX}{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", "Name a file that ends with .py.")
    module = importlib.util.module_from_spec(spec)
    linecache.checkcache(str(path))
    sys.modules.pop(name, None)
    with (
        own_siblings(path.parent),
        _import_errors(path.name, path),
        operator_libraries(path),
        _generated(path),
    ):
        sys.modules[name] = module  # dataclasses and Triton look a module up by name
        spec.loader.exec_module(module)
    return module


@contextmanager
def _generated(path: Path) -> Generator[None]:
    """Let a file that torch's compiler wrote, or parts of one, load.

    Its kernels want a GPU.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    if not any(line in text for line in GENERATED):
        yield
        return
    from ioaware.fakegpu.generated_code import generated_code_loads

    with generated_code_loads():
        yield


def load_module(name: str) -> ModuleType:
    """Import a module by its dotted name.

    The current directory is on the import path as for `python -m`.
    """
    with import_path(Path.cwd()), _import_errors(name, None):
        return importlib.import_module(name)


@contextmanager
def _import_errors(name: str, path: Path | None) -> Generator[None]:
    """Turn any failure of an import into a `UsageError` with its line.

    `sys.exit` is included.
    """
    try:
        with own_arguments(name if path is None else str(path)), _fake_gpu():
            yield
    except IoawareError:
        raise
    except (Exception, SystemExit) as error:
        where = f" at {line}" if (line := failing_line(error, path)) else ""
        raise UsageError(
            f"{name} cannot be imported: {type(error).__name__}{where}: {first_line(error)}",
            "Make it importable, or install what it imports.",
        ) from error


@contextmanager
def own_arguments(script: str) -> Generator[None]:
    """Give code inside the block a command line without arguments.

    ioaware's are not for a user's parser.
    """
    with Patches() as patches:
        patches.set(sys, "argv", [script])
        yield


@contextmanager
def _fake_gpu() -> Generator[None]:
    """Let a module query the GPU and launch kernels while it is imported.

    On a machine without a GPU it sees the fake one, and launches are skipped.
    """
    import torch

    if torch.cuda.is_available():
        yield
        return
    from ioaware.fakegpu.fake_cuda import cuda_on_cpu
    from ioaware.targets.import_launches import launches_skipped

    with cuda_on_cpu(), launches_skipped():
        yield


def remedy_of(error: BaseException) -> str:
    """Return what to do about an exception of a target's code."""
    if re.search(r"\" not implemented for '|from the 'CPU' backend", str(error)):
        return (
            "Here torch computes on the CPU, which lacks this operator for these types: convert its operands, or use another."
        )
    return "The function must run by itself first."


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message: torch appends a C++ stack."""
    return str(error).strip().partition("\n")[0]


def what_raised(name: str, error: BaseException) -> str:
    """Return a sentence on an exception of a target's code, with its line and message."""
    line, message = failing_line(error), first_line(error)
    return f"{name} raised {type(error).__name__}" + (f" at {line}" if line else "") + (f": {message}" if message else "")


GENERATED = (
    "from torch._inductor.async_compile import AsyncCompile",
    "_cuda_getCurrentRawStream as get_raw_stream",
    "torch._C._dynamo.guards._empty_strided_cuda",
)
"""Lines of files that torch's compiler writes.

The first is in each; the others stay where kernels are copied.
"""
LIBRARIES = ("torch", "triton", "numpy")
OWN_PACKAGES = (
    "targets",
    "fakegpu",
    "torchcompile",
    "symints",
    "capture",
    "compilation",
    "derivation",
    "tracing",
    "measurement",
)
OWN_FOLDERS = tuple(str(Path(__file__).parents[1] / name) + os.sep for name in OWN_PACKAGES)
STANDARD_LIBRARY = sysconfig.get_path("stdlib")


def failing_line(error: BaseException, path: Path | None = None) -> str | None:
    """Return `file.py:12`, the deepest line of the user's code in a traceback.

    It is in `path` if any line is, else outside libraries.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_library(frame.filename)]
    own = [frame for frame in frames if path is not None and frame.filename == str(path)] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else None


@lru_cache(maxsize=1)
def _library_folders() -> tuple[str, ...]:
    """Return the folders of torch, Triton and NumPy, found without an import.

    Why: a user's folder may have their names, as `ops/triton`.
    """
    specs = [importlib.util.find_spec(name) for name in LIBRARIES]
    return tuple(place + os.sep for spec in specs if spec for place in spec.submodule_search_locations or ())


@lru_cache(maxsize=16_384)
def is_library(filename: str) -> bool:
    """Return whether a file is not the user's.

    It belongs to Python, torch, Triton or ioaware then.
    """
    if filename.startswith(("<", *OWN_FOLDERS)) or (filename.startswith(STANDARD_LIBRARY) and "site-packages" not in filename):
        return True
    return filename.startswith(_library_folders())
