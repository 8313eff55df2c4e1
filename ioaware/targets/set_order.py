"""Find where host code uses the order of a set.

Texts and objects are in another order in each process, and so may be launches that follow it.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import linecache
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from inspect import getblock
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch._C._dynamo import eval_frame

from ioaware.targets.seen_sets import MOST_CALLS, SeenSets, is_unordered
from ioaware.targets.set_expressions import VIEWS, Known, SetExpressions, attributes_of

_frames: Any = eval_frame
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""Code that is part of the function around it, from the middle of its source."""

OF_TORCH = ("networkx", "filelock", "fsspec")
"""Packages that torch's compiler uses.

Why: it loads them on first use, and what they do for it decides no launch.
"""

_SET_OPCODES = frozenset(dis.opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE"))


_COLLECTORS: list[object] = []


@dataclass(frozen=True, slots=True)
class Executed:
    """Host code that ran, with its global variables, and the sets that it held."""

    codes: dict[CodeType, dict[str, Any]] = field(default_factory=dict[CodeType, dict[str, Any]])
    sets: SeenSets = field(default_factory=SeenSets)


@contextmanager
def executed_code(is_library: Callable[[str], bool]) -> Generator[Executed]:
    """Collect the code of functions that run inside the block.

    Those of files of libraries, and what other packages do for these, are left out. Nothing is collected under a debugger.
    """
    executed = Executed()
    codes, sets = executed.codes, executed.sets
    calls: Counter[CodeType] = Counter()
    of_libraries: dict[int, CodeType] = {}
    folders = _folders_of_torch()

    def enter(frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if id(code) in of_libraries:
            return None
        if not code.co_filename.startswith(folders) and is_library(code.co_filename):  # for any caller
            of_libraries[id(code)] = code
            return None
        if code not in codes:
            is_module = "__name__" in frame.f_globals  # other variables of `exec` may hold tensors, which autograd then copies
            if not is_module or is_library(_acts_for(frame)) or _serves_an_import(frame):
                return None
            codes[code] = frame.f_globals
        if code.co_filename.startswith(folders):  # what these packages do with their own sets decides no launch
            return None
        calls[code] += 1
        if calls[code] > MOST_CALLS:
            return None
        sets.enter(code, frame.f_locals)
        frame.f_trace_lines = False
        return leave

    def leave(frame: FrameType, event: str, result: Any) -> Callable[..., Any]:
        if event == "return":
            sets.leave(frame.f_code, frame.f_locals, result)
        return leave

    if sys.gettrace() is not None:
        yield executed
        return
    _leave_to_python(enter.__code__)
    _leave_to_python(leave.__code__)
    sys.settrace(enter)
    _COLLECTORS.append(enter)
    try:
        yield executed
    finally:
        _COLLECTORS.remove(enter)
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


def _serves_an_import(frame: FrameType) -> bool:
    """Return whether a frame is of a hook that finds or loads modules."""
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_name != "<module>":
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            return True
        caller = caller.f_back
    return False


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


def lines_in_set_order(executed: Executed) -> tuple[str, ...]:
    """Return `file.py:12` of each line that uses the order of a set."""
    functions = {code: variables for code, variables in executed.codes.items() if code.co_name not in COMPREHENSIONS}
    known = _known_sets(functions, executed.sets)
    found: dict[str, None] = {}
    for code, variables in functions.items():
        held = known.inside(executed.sets, code)
        if _may_hold_set(code, variables, held) and (sets := _expressions(code, variables, held)):
            lines = (code.co_firstlineno + node.lineno - 1 for node in sets.used_in_order())
            found |= {f"{Path(code.co_filename).name}:{line}": None for line in lines}
    return tuple(found)


def _known_sets(functions: Mapping[CodeType, dict[str, Any]], seen: SeenSets) -> Known:
    """Return the attributes that are sets, and the functions that return one."""
    known = Known(
        frozenset(seen.attributes.sets),
        frozenset(seen.functions.sets),
        frozenset(seen.attributes.holders),
        frozenset(seen.functions.holders),
        host_functions=frozenset(name for code in functions for name in (code.co_name, *_class_of(code))),
    )
    attributes, returning = set(known.attributes), set(known.functions)
    for code, variables in functions.items():
        attributes |= set(attributes_of(variables[name] for name in code.co_names if name in variables))
        if _may_hold_set(code, variables, Known()) and (sets := _expressions(code, variables, Known())):
            attributes |= set(sets.attributes())
            if sets.returns():
                returning.add(code.co_name)
    return replace(known, attributes=frozenset(attributes), functions=frozenset(returning))


def _class_of(code: CodeType) -> tuple[str, ...]:
    """Return the class whose initialiser a code is."""
    parts = code.co_qualname.split(".")
    return (parts[-2],) if len(parts) > 1 and parts[-1] in ("__init__", "__post_init__") else ()


def set_order_notes(lines: Iterable[str]) -> tuple[str, ...]:
    """Return a note on lines that use the order of a set; none without such lines."""
    where = " and ".join(lines)
    return (f"launches may follow the order of a set at {where}, another one in each process: sort it",) if where else ()


def _may_hold_set(code: CodeType, variables: Mapping[str, Any], known: Known) -> bool:
    """Return whether a function makes or names a set, without reading its source."""
    opcodes = set(code.co_code[::2])
    makes = not opcodes.isdisjoint(_SET_OPCODES) or any(isinstance(value, frozenset) for value in code.co_consts)
    names = {"set", "frozenset", *VIEWS, *known.attributes, *known.functions, *known.attribute_holders, *known.function_holders}
    return makes or known.has_variables or any(name in names or is_unordered(variables.get(name)) for name in code.co_names)


@lru_cache(maxsize=4096)
def _source(code: CodeType) -> str:
    """Return the source of a function, without its indentation.

    Why not by `inspect`: it looks for the module among all modules at each call, which took two thirds of a derivation.
    Raises `SyntaxError` where there is none.
    """
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise SyntaxError(f"no source of {code.co_name}")
    return (
        "".join(lines) if code.co_name == "<module>" else textwrap.dedent("".join(getblock(lines[code.co_firstlineno - 1 :])))
    )


def _expressions(code: CodeType, variables: Mapping[str, Any], known: Known) -> SetExpressions | None:
    """Return the sets of a function; None without its source."""
    linecache.checkcache(code.co_filename)
    linecache.lazycache(code.co_filename, dict(variables))  # a module in an archive has its source from its loader
    try:
        tree: ast.AST = ast.parse(_source(code))
    except SyntaxError:
        return None
    if code.co_name == "<lambda>":  # its source is the whole statement
        tree = ast.Tuple([node for node in ast.walk(tree) if isinstance(node, ast.Lambda)], ast.Load())
    return SetExpressions(tree, {name: variables[name] for name in code.co_names if name in variables}, known)
