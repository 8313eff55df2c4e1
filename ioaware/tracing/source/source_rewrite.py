"""Rewrite a kernel's source so that Python runs it on numpy.

Its module is not changed.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import triton.language as _tl
from triton.runtime import interpreter as _interpreter
from triton.runtime import jit as _jit

from ioaware.tracing.libdevice import interpreted_function
from ioaware.tracing.observer import Observer
from ioaware.tracing.source.boolean_operators import logical_and, logical_not, logical_or
from ioaware.tracing.source.dead_loads import LOADS, LOOP, TEST, Marks, Usage
from ioaware.tracing.source.loop_index import loop_range

interpreter: Any = _interpreter
jit: Any = _jit
tl: Any = _tl


def rewrite(
    kernel: Any, new_loop: Callable[[], Any], observer: Observer | None = None
) -> tuple[Callable[..., Any], Usage | None]:
    """Return a kernel or device function as the interpreter runs it, with its usage.

    It keeps its names and line numbers. The usage of its loads is None for a function without source.

    `new_loop` returns what is called with the local variables at the start of each iteration of a `while` loop.
    `observer` is called for each assignment and iteration.
    Its globals are a copy: the module's, the closure's and `HELPERS`.
    """
    source = kernel.fn
    names = {**source.__globals__, **inspect.getclosurevars(source).nonlocals}
    names = {name: _interpreter_form(value) for name, value in names.items()} | HELPERS
    names["ioaware new_loop"] = new_loop
    names.setdefault("range", loop_range)
    if observer:
        names |= {
            "ioaware iterations": observer.iterations,
            "ioaware while": observer.while_loop,
            "ioaware observed": observer.assigned,
        }
    code, marks = _rewrite_code(source, *_source_text(kernel), observer is not None)
    usage = None if marks is None else Usage(marks)
    if usage is not None:
        names |= {TEST: usage.test, LOOP: usage.loop, LOADS: usage.loads}
    function = types.FunctionType(code, names, source.__name__, source.__defaults__)
    function.__kwdefaults__ = source.__kwdefaults__
    return function, usage


def _source_text(kernel: Any) -> tuple[str, int]:
    """Return the text that Triton compiles, and its first line in the file.

    A library may have replaced the text of the Python function, to specialise a kernel. Without source the text is empty.
    """
    if isinstance(kernel, jit.JITFunction):
        return kernel.src, jit.get_jit_fn_file_line(kernel)[1]
    try:
        lines, first = inspect.getsourcelines(kernel.fn)
    except (OSError, TypeError):
        return "", 1
    return textwrap.dedent("".join(lines)), first


@lru_cache(maxsize=1024)
def _rewrite_code(source: Any, text: str, first: int, observed: bool) -> tuple[types.CodeType, Marks | None]:
    """Return the rewritten code at the original's lines.

    A function without text keeps its code.
    """
    if not text:
        return source.__code__, None
    module = ast.parse(text)
    definition, unchanged = _stripped_definition(module), _stripped_definition(ast.parse(text))
    marks = Marks.mark(definition, unchanged)
    _Rewriter().visit(module)
    if observed:
        _ObservedRewriter().visit(module)
    ast.increment_lineno(ast.fix_missing_locations(module), first - 1)
    compiled = compile(module, source.__code__.co_filename, "exec", dont_inherit=True)
    return next(item for item in compiled.co_consts if isinstance(item, types.CodeType)), marks


class _Rewriter(ast.NodeTransformer):
    """Turns assigned values into tensors, and guards `while` loops.

    Boolean operators become calls of `HELPERS`.
    """

    def __init__(self) -> None:
        self._loops = 0

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _call("assigned", node.value)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        operands: list[ast.expr] = [ast.Lambda(nothing, value) for value in node.values]
        return _call("and" if isinstance(node.op, ast.And) else "or", *operands)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("not", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return _call("value", node.value) if node.attr == "value" and isinstance(node.ctx, ast.Load) else node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        self._loops += 1
        guard = f"ioaware loop {self._loops}"
        begin = ast.copy_location(ast.Assign([ast.Name(guard, ast.Store())], _call("new_loop")), node)
        iteration = ast.Expr(ast.Call(ast.Name(guard, ast.Load()), [_call("locals")], []))
        node.body.insert(0, ast.fix_missing_locations(ast.copy_location(iteration, node)))
        return [begin, node]


class _ObservedRewriter(ast.NodeTransformer):
    """Adds calls of the observer to assignments and loops."""

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        return [node, *(self._report(node, target) for target in node.targets)]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        return [node, self._report(node, node.target)]

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter = ast.copy_location(_call("iterations", ast.Constant(ast.unparse(node.target)), node.iter), node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.With:
        self.generic_visit(node)
        iteration = ast.Expr(ast.Call(ast.Name("ioaware iteration", ast.Load()), [], []))
        node.body.insert(0, iteration)
        context = ast.withitem(_call("while"), ast.Name("ioaware iteration", ast.Store()))
        return ast.copy_location(ast.With([context], [node]), node)

    @staticmethod
    def _report(node: ast.stmt, target: ast.expr) -> ast.stmt:
        """Return a statement that reports the names of an assignment with their values."""
        stored = [each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        named = [name for name in stored if name.isidentifier()]  # the others are this module's own
        pairs = ast.Dict([ast.Constant(name) for name in named], [ast.Name(name, ast.Load()) for name in named])
        return ast.copy_location(ast.Expr(_call("observed", pairs)), node)


def _call(helper: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(f"ioaware {helper}", ast.Load()), list(arguments), [])


def _assigned(value: Any) -> Any:
    """Return an assigned value as the compiler holds it.

    Numbers become tensors, in tuples too.
    """
    if type(value) is tuple:
        return tuple(map(_assigned, cast("tuple[Any, ...]", value)))
    return interpreter.interpreter_semantic.to_tensor(value, False)


def _value(owner: Any) -> Any:
    """Return `owner.value`.

    A constant, which the compiler wraps in a constexpr, is its own value here.
    """
    return owner if isinstance(owner, (bool, int, float, str, tl.dtype)) else owner.value


HELPERS: dict[str, Any] = {
    "ioaware assigned": _assigned,
    "ioaware and": logical_and,
    "ioaware or": logical_or,
    "ioaware not": logical_not,
    "ioaware locals": locals,
    "ioaware value": _value,
}
"""Globals of rewritten functions.

The space keeps them apart from every name in a source.
"""


def _stripped_definition(module: ast.Module) -> ast.FunctionDef:
    """Return the module's function without what runs at definition time.

    It loses decorators, annotations and defaults.
    """
    definition = next(node for node in module.body if isinstance(node, ast.FunctionDef))
    definition.decorator_list = []
    definition.returns = None
    parameters = definition.args
    for parameter in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs):
        parameter.annotation = None
    parameters.defaults = []
    parameters.kw_defaults = [None for _ in parameters.kwonlyargs]
    return definition


def _interpreter_form(value: Any) -> Any:
    """Return a builtin imported by name in its interpreted form.

    A constexpr is returned as its value, and anything else as it is.
    """
    if isinstance(value, tl.constexpr):
        return value.value
    value = interpreted_function(value)
    if not callable(value) or isinstance(value, type) or not tl.core.is_builtin(value):
        return value

    def interpreted_builtin(*args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        return value(*args, _semantic=interpreter.interpreter_semantic, **kwargs)

    return interpreted_builtin
