"""Find where host code uses the order of a set.

Texts and objects are in another order in each process, and so may be launches that follow it.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch._C._dynamo import eval_frame

from ioaware.targets.set_expressions import VIEWS, Known, SetExpressions, attributes_of, is_unordered

_frames: Any = eval_frame
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""Code that is part of the function around it, from the middle of its source."""

OF_TORCH = ("networkx", "filelock", "fsspec")
"""Packages that torch's compiler uses.

Why: it loads them on first use, and what they do for it decides no launch.
"""

_SET_OPCODES = frozenset(dis.opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE"))


_COLLECTORS: list[object] = []


@contextmanager
def executed_code(is_library: Callable[[str], bool]) -> Generator[dict[CodeType, dict[str, Any]]]:
    """Collect the code of functions that run inside the block.

    Those of files of libraries, and what other packages do for these, are left out. The values are their global variables.
    Nothing is collected under a debugger.
    """
    codes: dict[CodeType, dict[str, Any]] = {}
    of_libraries: dict[int, CodeType] = {}
    folders = _folders_of_torch()

    def note(frame: FrameType, _event: str, _argument: Any) -> None:
        code = frame.f_code
        if id(code) in of_libraries:
            return
        if not code.co_filename.startswith(folders) and is_library(code.co_filename):  # for any caller
            of_libraries[id(code)] = code
            return
        is_module = "__name__" in frame.f_globals  # other variables of `exec` may hold tensors, which autograd would then copy
        if code not in codes and is_module and not is_library(_acts_for(frame)):
            codes[code] = frame.f_globals

    if sys.gettrace() is not None:
        yield codes
        return
    _leave_to_python(note.__code__)
    sys.settrace(note)
    _COLLECTORS.append(note)
    try:
        yield codes
    finally:
        _COLLECTORS.remove(note)
        sys.settrace(None)


@contextmanager
def code_left_out() -> Generator[None]:
    """Collect no code inside the block: that of kernels takes long."""
    collector = sys.gettrace()
    if collector not in _COLLECTORS:
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(collector)


def _acts_for(frame: FrameType) -> str:
    """Return the file of a frame; the caller's if a package of torch runs for it."""
    folders = _folders_of_torch()
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename.startswith(folders):
        caller = caller.f_back
    return (caller or frame).f_code.co_filename


@lru_cache(maxsize=1)
def _folders_of_torch() -> tuple[str, ...]:
    specs = [importlib.util.find_spec(name) for name in OF_TORCH]
    return tuple(place + os.sep for spec in specs if spec for place in spec.submodule_search_locations or ())


def _leave_to_python(code: CodeType) -> None:
    """Let torch.compile run a function, and what it calls, as they are.

    It would compile a trace function like any other that runs inside a compiled one.
    """
    skip = _frames._FrameAction.SKIP
    _frames.set_code_exec_strategy(code, _frames._FrameExecStrategy(skip, skip))


def lines_in_set_order(codes: Mapping[CodeType, dict[str, Any]]) -> tuple[str, ...]:
    """Return `file.py:12` of each line that uses the order of a set."""
    functions = {code: variables for code, variables in codes.items() if code.co_name not in COMPREHENSIONS}
    known = _known_sets(functions)
    found: dict[str, None] = {}
    for code, variables in functions.items():
        if _may_hold_set(code, variables, known) and (sets := _expressions(code, variables, known)):
            lines = (code.co_firstlineno + node.lineno - 1 for node in sets.used_in_order())
            found |= {f"{Path(code.co_filename).name}:{line}": None for line in lines}
    return tuple(found)


def _known_sets(functions: Mapping[CodeType, dict[str, Any]]) -> Known:
    """Return the attributes that are sets, and the functions that return one."""
    attributes, returning = set[str](), set[str]()
    for code, variables in functions.items():
        attributes |= set(attributes_of(variables[name] for name in code.co_names if name in variables))
        if _may_hold_set(code, variables, Known()) and (sets := _expressions(code, variables, Known())):
            attributes |= set(sets.attributes())
            if sets.returns():
                returning.add(code.co_name)
    return Known(frozenset(attributes), frozenset(returning))


def set_order_notes(lines: Iterable[str]) -> tuple[str, ...]:
    """Return a note on lines that use the order of a set; none without such lines."""
    where = " and ".join(lines)
    return (f"launches may follow the order of a set at {where}, another one in each process: sort it",) if where else ()


def _may_hold_set(code: CodeType, variables: Mapping[str, Any], known: Known) -> bool:
    """Return whether a function makes or names a set, without reading its source."""
    opcodes = set(code.co_code[::2])
    makes = not opcodes.isdisjoint(_SET_OPCODES) or any(isinstance(value, frozenset) for value in code.co_consts)
    names = {"set", "frozenset", *VIEWS, *known.attributes, *known.functions}
    return makes or any(name in names or is_unordered(variables.get(name)) for name in code.co_names)


def _expressions(code: CodeType, variables: Mapping[str, Any], known: Known) -> SetExpressions | None:
    """Return the sets of a function; None without its source."""
    try:
        tree: ast.AST = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError):
        return None
    if code.co_name == "<lambda>":  # its source is the whole statement
        tree = ast.Tuple([node for node in ast.walk(tree) if isinstance(node, ast.Lambda)], ast.Load())
    return SetExpressions(tree, {name: variables[name] for name in code.co_names if name in variables}, known)
