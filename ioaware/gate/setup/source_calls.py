"""Read calls in the source of a repository: their functions and arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ioaware.gate.repository.kernel_finder import launched_name

ACCESSES = ("load", "store", "atomic_", "make_block_ptr", "make_tensor_descriptor")


def called_name(function: ast.expr) -> str:
    """Return the name called.

    It is `f` of `f(...)` and `ops.f(...)`, and `F.apply` of `ops.F.apply(...)`.
    """
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr="apply"):
            return f"{called_name(owner)}.apply"
        case ast.Attribute(attr=name):
            return name
        case _:
            return ""


def parameters_of(function: ast.FunctionDef) -> list[ast.arg]:
    """Return the named parameters of a function, those by keyword last."""
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def passed_on(caller: ast.AST, name: str) -> Iterator[tuple[str, int | str]]:
    """Yield each function or kernel that gets a variable, and as which argument.

    An argument is its position or its keyword.
    """
    for node in ast.walk(caller):
        if isinstance(node, ast.Call):
            function = launched_name(node) or called_name(node.func)
            yield from ((function, at) for at, value in enumerate(node.args) if _is(value, name))
            yield from ((function, given.arg) for given in node.keywords if given.arg and _is(given.value, name))


def parameter_at(function: ast.FunctionDef, argument: int | str) -> str:
    """Return the parameter that an argument is for, empty where there is none."""
    names = [one.arg for one in parameters_of(function)]
    if isinstance(argument, int):
        return names[argument] if argument < len(names) else ""
    return argument if argument in names else ""


def is_kernel(function: ast.FunctionDef) -> bool:
    """Return whether a function is decorated with `jit`."""
    return any(name.split("(")[0].rpartition(".")[2] == "jit" for name in map(ast.unparse, function.decorator_list))


def pointers(kernel: ast.FunctionDef) -> set[str]:
    """Return the variables that a kernel loads from or stores to.

    Of an address it is the first of the summands, `x` of `x + row * cols`, and what that was made of.
    """
    found: set[str] = set()
    made: dict[str, set[str]] = {}
    for node in ast.walk(kernel):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[address, *_]) if name.startswith(ACCESSES):
                found.add(_first(address))
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                made.setdefault(target, set()).add(_first(value))
            case _:
                pass
    pending = list(found)
    while pending:
        new = made.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found - {""}


def _first(value: ast.expr) -> str:
    """Return the variable that a sum begins with."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        value = value.left
    return value.id if isinstance(value, ast.Name) else ""


def _is(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name
