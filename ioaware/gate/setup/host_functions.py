"""Find the host functions of a repository's kernels without importing it.

The source of a function also says which of its parameters are tensors, and the names of their sizes.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ioaware.gate.repository.kernel_finder import find_kernels, launched_names, python_files

Constant = float | bool | str | None
Kind = Literal["tensor", "float", "int", "bool", "text", "unknown"]
ANNOTATIONS: dict[str, Kind] = {"Tensor": "tensor", "float": "float", "int": "int", "bool": "bool", "str": "text"}
MOST_VALUES = 3
DTYPES = {
    "float16": "float16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float": "float32",
    "float64": "float64",
    "double": "float64",
}
"""Attributes of torch that name the type of a tensor of numbers."""
LAST = ("dim", "axis")
"""Parameters whose value is likely the last dimension, -1."""


@dataclass(slots=True)
class HostParam:
    """A parameter without a default.

    `sizes` are the names of its sizes by dimension, and `dtype` the first that it is compared with, as far as the source
    has them. `values` are constants that callers give it.
    """

    name: str
    kind: Kind = "unknown"
    keyword_only: bool = False
    rank: int | None = None
    sizes: dict[int, str] = field(default_factory=dict[int, str])
    least_rank: int = 0
    dtype: str = ""
    values: list[Constant] = field(default_factory=list[Constant])

    def add_value(self, value: Constant) -> None:
        """Record a value that the parameter takes, at most some."""
        known = any(type(value) is type(one) and value == one for one in self.values)
        if not known and len(self.values) < MOST_VALUES:
            self.values.append(value)

    def has_size(self, dimension: int, name: str = "") -> None:
        """Record that the source uses a size of this tensor, and its name there."""
        self.kind = "tensor"
        self.least_rank = max(self.least_rank, dimension + 1)
        if name and not name.startswith("_"):
            self.sizes.setdefault(dimension, name)


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A function that launches kernels: of a module, or `Class.apply` of autograd.

    Its file below the root, its name and its parameters.
    """

    path: str
    name: str
    line: int
    params: tuple[HostParam, ...]
    kernels: tuple[str, ...]

    @property
    def place(self) -> str:
        """Return `path.py:function`."""
        return f"{self.path}:{self.name}"


def find_host_functions(root: Path) -> list[HostFunction]:
    """Return the functions below a directory that launch its kernels, by path.

    Among them are those that call an autograd function whose `forward` tells no call. Raises `DataError` as `find_kernels`
    does.
    """
    kernels = {kernel.rpartition(":")[2] for kernel in find_kernels(root)}
    found: list[HostFunction] = []
    opaque: dict[str, set[str]] = {}
    for place, tree in _parsed(root, kernels):
        opaque |= _opaque_classes(tree, kernels)
        for name, node in _functions(tree):
            launched = kernels & set(launched_names(node))
            if launched and not _is_test(place, name):
                found.append(_host_function(place, name, node, launched))
    for place, tree in _parsed(root, opaque.keys()) if opaque else ():
        for name, node in _functions(tree):
            called = {kernel for applied in _applied(node) for kernel in opaque.get(applied, ())}
            if called and not _is_test(place, name):
                found.append(_host_function(place, name, node, called))
    return sorted(found, key=lambda one: (one.path, one.line))


def _parsed(root: Path, names: Collection[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Yield each file below a directory that holds one of these names, parsed."""
    for path in python_files(root):
        source = path.read_bytes()
        if any(name.encode() in source for name in names):
            yield path.relative_to(root), ast.parse(source)


def _host_function(place: Path, name: str, node: ast.FunctionDef, launched: Collection[str]) -> HostFunction:
    params = tuple(_params(node))["." in name :]
    return HostFunction(place.as_posix(), name, node.lineno, params, tuple(sorted(launched)))


def _opaque_classes(tree: ast.Module, kernels: Collection[str]) -> dict[str, set[str]]:
    """Return the kernels of autograd functions whose `forward` tells no call.

    It has no named parameters, or launches by other methods. Calls are guessed from the functions that call its `apply`.
    """
    return {
        node.name: launched
        for node in tree.body
        if isinstance(node, ast.ClassDef) and _is_autograd(node)
        if (launched := set(launched_names(node)) & set(kernels))
        if any(_is_opaque(one, launched) for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "forward")
    }


def _is_opaque(forward: ast.FunctionDef, kernels: set[str]) -> bool:
    only_context = len(_named(forward)) <= 1
    return only_context or kernels.isdisjoint(launched_names(forward))


def _named(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _applied(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the class of each call `module.Class.apply(...)`."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="apply", value=ast.Name(id=name) | ast.Attribute(attr=name))):
                yield name
            case _:
                pass


def _is_autograd(node: ast.ClassDef) -> bool:
    return any(getattr(base, "attr", getattr(base, "id", "")) == "Function" for base in node.bases)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of a module by name.

    `forward` of an autograd function has the name of its `apply`.
    """
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and _is_autograd(node):
            yield from (
                (f"{node.name}.apply", one) for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "forward"
            )


def _is_test(path: Path, name: str) -> bool:
    return name.startswith(("test_", "bench")) or path.name.startswith("test_") or path.stem in ("conftest", "setup")


def _params(function: ast.FunctionDef) -> Iterator[HostParam]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    only = [one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    for argument in (*required, *only):
        param = HostParam(argument.arg, _annotated(argument.annotation), argument in only)
        _read_uses(param, function)
        if param.kind == "int" and param.name in LAST:
            param.add_value(-1)
        yield param


def _annotated(annotation: ast.expr | None) -> Kind:
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return ANNOTATIONS.get(name.rpartition(".")[2], "unknown")
        case _:
            return "unknown"


def _read_uses(param: HostParam, function: ast.FunctionDef) -> None:
    """Record what a function does with a parameter."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[target], value=value):
                _read_assignment(param, target, value)
            case ast.Call(func=ast.Attribute(attr=name), args=[ast.Name(id=used), *_]) if used == param.name:
                if name.endswith("_like"):
                    param.kind = "tensor"
            case ast.Attribute(value=ast.Name(id=used)) if used == param.name:
                param.kind = "tensor"
            case ast.Compare(left=ast.Name(id=used), comparators=[ast.Constant(value=str(text))]) if used == param.name:
                param.add_value(text)
            case ast.Compare(left=ast.Attribute(value=ast.Name(id=used), attr="dtype"), comparators=[other]) if (
                used == param.name
            ):
                param.dtype = param.dtype or _dtype(other)
            case _:
                pass
        if isinstance(node, ast.expr) and (dimension := _dimension(param.name, node)) is not None:
            param.has_size(max(dimension, 0))


def _dtype(value: ast.expr) -> str:
    """Return the type that `torch.float32` names, or the first of several.

    Empty for any other expression.
    """
    match value:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return DTYPES.get(name, "")
        case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]) | ast.Set(elts=[first, *_]):
            return _dtype(first)
        case _:
            return ""


def _read_assignment(param: HostParam, target: ast.expr, value: ast.expr) -> None:
    """Read the names of sizes in `M, N = x.shape`, `n = x.shape[0]`, `n = x.numel()`.

    Tuples are read element by element.
    """
    match target, value:
        case ast.Tuple(elts=names), _ if _all_sizes(param.name, value) and all(isinstance(one, ast.Name) for one in names):
            param.rank = len(names)
            for dimension, one in enumerate(names):
                param.has_size(dimension, one.id if isinstance(one, ast.Name) else "")
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            for one, each in zip(names, values, strict=True):
                _read_assignment(param, one, each)
        case ast.Name(id=name), ast.Call(func=ast.Attribute(value=ast.Name(id=used), attr="numel")) if used == param.name:
            param.has_size(0, name)
        case ast.Name(id=name), _ if (dimension := _dimension(param.name, value)) is not None and dimension >= 0:
            param.has_size(dimension, name)
        case _:
            pass


def _all_sizes(name: str, value: ast.expr) -> bool:
    """Return whether an expression is `name.shape` or `name.size()`."""
    match value:
        case ast.Attribute(value=ast.Name(id=used), attr="shape"):
            return used == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=used), attr="size"), args=[]):
            return used == name
        case _:
            return False


def _dimension(name: str, value: ast.expr) -> int | None:
    """Return d of `name.shape[d]`, `name.size(d)` and `name.stride(d)`.

    None for another expression.
    """
    match value:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=used), attr="shape"), slice=index) if used == name:
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id=used), attr="size" | "stride"), args=[index]) if used == name:
            pass
        case _:
            return None
    match index:
        case ast.Constant(value=int(dimension)):
            return dimension
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(dimension))):
            return -dimension
        case _:
            return None
