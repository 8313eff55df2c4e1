"""Read which constants the callers of a host function give its parameters.

A caller is any function of the repository, such as `forward` of an autograd function: its own defaults count as values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ioaware.gate.repository.kernel_finder import python_files, tree_of
from ioaware.gate.setup.host_functions import HostFunction
from ioaware.gate.setup.host_params import Constant
from ioaware.gate.setup.source_calls import called_name

Names = Mapping[str, Constant]


def read_call_values(root: Path, functions: Sequence[HostFunction]) -> None:
    """Add the constants of all calls below a directory to the functions' parameters."""
    wanted = {function.name: function for function in functions}
    shared = {name for name in wanted if sum(function.name == name for function in functions) > 1}
    for path in python_files(root):
        source = path.read_bytes()
        named = any(name.partition(".")[0].encode() in source for name in wanted)
        tree = tree_of(source) if named else None
        if tree is None:
            continue
        place = path.relative_to(root).as_posix()
        here = {function.name: function for function in functions if function.path == place}
        for name, call, known in _calls(tree, {}):
            function = here.get(name) or (None if name in shared else wanted.get(name))
            if function:
                _read_call(function, call, known)


def _calls(node: ast.AST, known: Names) -> Iterator[tuple[str, ast.Call, Names]]:
    """Yield each call with the name called, and the names that are constants there."""
    if isinstance(node, ast.ClassDef):
        known = {**known, **_saved(node)}
    elif isinstance(node, ast.FunctionDef):
        known = {**known, **_defaults(node)}
    elif isinstance(node, ast.Call):
        yield called_name(node.func), node, known
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, known)


def _defaults(function: ast.FunctionDef) -> dict[str, Constant]:
    """Return the parameters of a function whose defaults are constants."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {argument.arg: value[0] for argument, default in pairs if default and (value := _constant(default, {}))}


def _saved(owner: ast.ClassDef) -> dict[str, Constant]:
    """Return what methods save as `ctx.name = name` of their parameters, by `.name`."""
    found: dict[str, Constant] = {}
    for method in owner.body:
        if isinstance(method, ast.FunctionDef):
            defaults = _defaults(method)
            for node in ast.walk(method):
                match node:
                    case ast.Assign(targets=[ast.Attribute(value=ast.Name(), attr=name)], value=value):
                        if constant := _constant(value, defaults):
                            found[f".{name}"] = constant[0]
                    case _:
                        pass
    return found


def _read_call(function: HostFunction, call: ast.Call, known: Names) -> None:
    given = dict(zip((param.name for param in function.params if not param.keyword_only), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    for param in function.params:
        value = _constant(given[param.name], known) if param.name in given else None
        if value:
            param.add_value(value[0])


def _constant(node: ast.expr, known: Names) -> tuple[Constant] | None:
    """Return the constant that an expression is; None where it is no constant."""
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, (bool, int, float, str)):
            return (value,)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if isinstance(value, (int, float)):
            return (-value,)
        case ast.Name(id=name) if name in known:
            return (known[name],)
        case ast.Attribute(value=ast.Name(), attr=name) if f".{name}" in known:
            return (known[f".{name}"],)
        case _:
            return None
