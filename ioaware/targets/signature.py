"""Read a function's parameters from its signature.

It gives kinds, defaults, and the parsing of command-line text.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ioaware.display.text import shorten
from ioaware.errors import UsageError
from ioaware.params import DTYPE_ALIASES, FALSE_WORDS, TRUE_WORDS
from ioaware.result import ParamValue

Kind = Literal["int", "float", "bool", "str", "dtype", "any"]
KINDS: dict[type, Kind] = {bool: "bool", int: "int", float: "float", str: "str"}
CHOICES = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "dtype": "the name of a torch dtype, such as float16",
    "any": "a number, true, false or text",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a function.

    `kind` comes from its annotation or default; "any" infers the type from the text.
    """

    name: str
    kind: Kind
    default: ParamValue = None
    required: bool = False

    @property
    def help(self) -> str:
        """Accepted values, for a listing."""
        return f"{CHOICES[self.kind]}, required" if self.required else CHOICES[self.kind]

    def parse(self, text: str) -> ParamValue:
        """Return the value of a user's text. Raises `UsageError` with the accepted values."""
        word = text.strip().lower()
        if word == "none" and not self.required and self.default is None:
            return None
        if self.kind == "any":
            return self.check(infer_value(text))
        if self.kind == "bool" and word in TRUE_WORDS | FALSE_WORDS:
            return word in TRUE_WORDS
        if self.kind in ("str", "dtype"):
            return self.check(text)
        number = _number(word)
        if type(number) is int or (self.kind == "float" and number is not None):
            return self.check(number)
        raise self._refusal(text)

    def check(self, value: ParamValue) -> ParamValue:
        """Return the value if it is acceptable. Raises `UsageError` otherwise."""
        if value is None:
            if self.required:
                raise UsageError(f"{self.name} has no default and was not given", f"Give it: -p {self.name}=...")
            if self.default is None:
                return None
        if self.kind == "dtype":
            return self._dtype_name(value)
        if type(value) is float and not math.isfinite(value):
            raise UsageError(f"{self.name}={value} cannot work: parameters are finite numbers", "Give a finite one.")
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise UsageError(
                f"{self.name}={shorten(str(value), 60)} cannot work: integers have at most 64 bits", "Give a smaller one."
            )
        if self.kind == "float" and type(value) is int:
            return float(value)
        if self.kind == "any" or KINDS.get(type(value)) == self.kind:
            return value
        raise self._refusal(value)

    def value(self, checked: ParamValue) -> Any:
        """Return what to pass to the function.

        It is the checked value, a dtype as `torch.dtype`.
        """
        if self.kind != "dtype" or checked is None:
            return checked
        import torch

        return getattr(torch, str(checked))

    def _dtype_name(self, value: ParamValue) -> str:
        import torch

        name = DTYPE_ALIASES.get(str(value), str(value)).removeprefix("torch.")
        if not isinstance(getattr(torch, name, None), torch.dtype):
            raise self._refusal(value)
        return name

    def _refusal(self, value: object) -> UsageError:
        return UsageError(f"{self.name}={shorten(repr(value), 60)} cannot work: {self.name} takes {CHOICES[self.kind]}")


def _number(word: str) -> int | float | None:
    """Return an integer if the text is one, else a float, else None."""
    for kind in (int, float):
        try:
            return kind(word.replace("_", ""))
        except ValueError:
            continue
    return None


def infer_value(text: str) -> ParamValue:
    """Return a number, a boolean or the text itself, for a parameter without a type."""
    number = _number(text)
    if number is not None:
        return number
    word = text.strip().lower()
    return word in TRUE_WORDS if word in TRUE_WORDS | FALSE_WORDS else text


def arguments_of(function: Callable[..., Any], name: str) -> tuple[Argument, ...]:
    """Return the parameters of a target without `device`, which ioaware chooses.

    Raises `UsageError` for a function that cannot be called by keyword.
    """
    try:
        parameters = inspect.signature(function, eval_str=False).parameters.values()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} has no signature", "Wrap it in a Python function.") from error
    arguments: list[Argument] = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name == "device":
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(f"{name} takes {parameter.name} by position only", "A target takes its parameters by keyword.")
        if (argument := _argument(parameter)) is not None:
            arguments.append(argument)
    return tuple(arguments)


def takes_device(function: Callable[..., Any]) -> bool:
    """Return whether the function has a parameter `device`."""
    return "device" in inspect.signature(function).parameters


def _argument(parameter: inspect.Parameter) -> Argument | None:
    """Return the declared parameter, or None.

    It is None for a default that text cannot replace (a tuple).
    """
    default = parameter.default
    if default is parameter.empty:
        return Argument(parameter.name, _kind(parameter.annotation, None), required=True)
    if type(default).__module__ == "torch" and type(default).__name__ == "dtype":
        return Argument(parameter.name, "dtype", str(default).removeprefix("torch."))
    if default is not None and type(default) not in KINDS:
        return None
    return Argument(parameter.name, _kind(parameter.annotation, default), default)


def _kind(annotation: Any, default: object) -> Kind:
    """Return the kind from the annotation, else from the default's type.

    An annotation is a type, `int | None`, or a string.
    """
    if isinstance(annotation, str):
        words = {word.strip().rpartition(".")[2] for word in annotation.split("|")} - {"None"}
    else:
        words = {getattr(item, "__name__", "") for item in get_args(annotation) or (annotation,)} - {"NoneType"}
    named: dict[str, Kind] = {**{kind.__name__: name for kind, name in KINDS.items()}, "dtype": "dtype"}
    if len(words) == 1 and (word := words.pop()) in named:
        return named[word]
    return KINDS.get(type(default), "any")
