"""Call a file that torch's compiler wrote.

Its function `call` takes a list of inputs, which it empties.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from ioaware.errors import UsageError
from ioaware.targets.signature import Argument


def is_generated_call(function: Any) -> bool:
    """Return whether a function is `call` of a file of torch's compiler."""
    return "AsyncCompile" in _globals(function) and getattr(function, "__name__", "") == "call"


def generated_inputs(function: Any) -> Callable[[], list[Any]] | None:
    """Return the file's function that makes the inputs; None where it has none."""
    return _globals(function).get("get_args")


def input_arguments(function: Callable[..., Any], name: str) -> tuple[Argument, ...]:
    """Return the inputs of `call` by their names in its code, `arg0_1, arg1_1 = args`.

    Raises `UsageError` where its code has no such line.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == "args":
            targets = [target for target in node.targets if isinstance(target, ast.Tuple)]
            return tuple(
                Argument(each.id, "any", required=True)
                for target in targets
                for each in target.elts
                if isinstance(each, ast.Name)
            )
    raise UsageError(f"{name} does not name its inputs", "Give a file that torch's compiler wrote, as it wrote it.")


def generated_work(function: Callable[..., Any], inputs: list[Any]) -> Callable[[], object]:
    """Return the call with fresh lists of these inputs."""
    return lambda: function(list(inputs))


def check_sizes(function: Callable[..., Any]) -> None:
    """Let the file's code check the sizes of its inputs.

    A size that differs from the code's is refused; equal names become conditions of the formulas.
    """
    _globals(function)["assert_size_stride"] = _assert_size


def _assert_size(tensor: Any, size: tuple[Any, ...], *_: Any) -> None:
    if len(tensor.shape) != len(size) or any(bool(given != wanted) for given, wanted in zip(tensor.shape, size, strict=True)):
        given, wanted = ([int(one) for one in sizes] for sizes in (tensor.shape, size))
        raise UsageError(
            f"an input has the sizes {given}, and the code was compiled for {wanted}", "Give the input these sizes."
        )


def in_order(arguments: tuple[Argument, ...], values: Mapping[str, Any]) -> list[Any]:
    """Return the values of the arguments as a list."""
    return [values[argument.name] for argument in arguments]


def _globals(function: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(getattr(function, "__func__", function), "__globals__", {})
    return found


__all__ = ["check_sizes", "generated_inputs", "generated_work", "in_order", "input_arguments", "is_generated_call"]
