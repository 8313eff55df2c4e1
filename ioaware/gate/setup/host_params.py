"""Read what the source of a host function says of its parameters.

It says which are tensors, the names of their sizes, and their types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ioaware.gate.setup.source_calls import is_kernel, parameter_at, passed_on, pointers

Constant = float | bool | str | None
Kind = Literal["tensor", "float", "int", "bool", "text", "device", "unknown"]
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
INDEX = re.compile(r"(^|_)(ids?|idx|index|indices|labels?|positions?)$")
"""Names of tensors that likely hold integers."""
Find = Callable[[str], "ast.FunctionDef | None"]
DEVICE = "device"
"""The parameter that receives the GPU, as one of a target does."""
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


def params_of(function: ast.FunctionDef, find: Find) -> Iterator[HostParam]:
    """Yield the parameters of a function without a default.

    `find` returns the source of a function or kernel that it calls.
    """
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    only = [one for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    for argument in (*required, *only):
        if argument.arg == DEVICE:
            yield HostParam(DEVICE, "device", argument in only, values=["cuda"])
            continue
        param = HostParam(argument.arg, _annotated(argument.annotation), argument in only)
        _read_uses(param, argument.arg, function, find, {function.name})
        if param.kind == "int" and param.name in LAST:
            param.add_value(-1)
        if param.kind == "tensor" and not param.dtype and INDEX.search(param.name):
            param.dtype = "int64"
        yield param


def _annotated(annotation: ast.expr | None) -> Kind:
    """Return the kind that an annotation names, also one of several beside None."""
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return ANNOTATIONS.get(name, "unknown")
        case ast.Constant(value=str(text)):
            return _annotated_text(text)
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inner):
            return _annotated(inner)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            kinds: set[Kind] = {kind for one in (left, right) if (kind := _annotated(one)) != "unknown"}
            return kinds.pop() if len(kinds) == 1 else "unknown"
        case _:
            return "unknown"


def _annotated_text(text: str) -> Kind:
    try:
        return _annotated(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return "unknown"


def _read_uses(param: HostParam, name: str, function: ast.FunctionDef, find: Find, seen: set[str]) -> None:
    """Record what a function does with a variable.

    What it is passed on to is read too. A kernel says that it is a tensor, by the addresses that it accesses.
    """
    for node in ast.walk(function):
        _read_use(param, name, node)
    for called, argument in passed_on(function, name):
        callee = find(called)
        if callee is None or called in seen or not (there := parameter_at(callee, argument)):
            continue
        if not is_kernel(callee):
            _read_uses(param, there, callee, find, seen | {called})
        elif param.kind == "unknown" and there in pointers(callee):
            param.kind = "tensor"


def _read_use(param: HostParam, name: str, node: ast.AST) -> None:
    match node:
        case ast.Assign(targets=[target], value=value):
            _read_assignment(param, name, target, value)
        case ast.Call(func=ast.Attribute(attr=called), args=[ast.Name(id=used), *_]) if used == name:
            if called.endswith("_like"):
                param.kind = "tensor"
        case ast.Attribute(value=ast.Name(id=used)) if used == name:
            param.kind = "tensor"
        case ast.Compare(left=ast.Name(id=used), comparators=[ast.Constant(value=str(text))]) if used == name:
            param.add_value(text)
        case ast.Compare(left=ast.Attribute(value=ast.Name(id=used), attr="dtype"), comparators=[other]) if used == name:
            param.dtype = param.dtype or _dtype(other)
        case _:
            pass
    if isinstance(node, ast.expr) and (dimension := _dimension(name, node)) is not None:
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


def _read_assignment(param: HostParam, own: str, target: ast.expr, value: ast.expr) -> None:
    """Read the names of sizes in `M, N = x.shape`, `n = x.shape[0]`, `n = x.numel()`.

    Tuples are read element by element.
    """
    match target, value:
        case ast.Tuple(elts=names), _ if _all_sizes(own, value) and all(isinstance(one, ast.Name) for one in names):
            param.rank = param.rank or len(names)
            for dimension, one in enumerate(names):
                param.has_size(dimension, one.id if isinstance(one, ast.Name) else "")
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            for one, each in zip(names, values, strict=True):
                _read_assignment(param, own, one, each)
        case ast.Name(id=name), ast.Call(func=ast.Attribute(value=ast.Name(id=used), attr="numel")) if used == own:
            param.has_size(0, name)
        case ast.Name(id=name), _ if (dimension := _dimension(own, value)) is not None and dimension >= 0:
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
