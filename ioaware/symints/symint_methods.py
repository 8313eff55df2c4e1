"""Replace methods of `torch.SymInt` that torch refuses or specialises.

They are its hash, its text and its bit length.
"""

from __future__ import annotations

from typing import Any

from ioaware.symints.powers_of_two import BitLength
from ioaware.symints.symbols import Symbols, expression_of


def symbolic_hash(value: Any) -> int:
    """Return a hash of a symbolic integer, which torch refuses.

    With it the integer can be the key of a cache without specialising.
    """
    if value.node.is_nested_int():
        return hash(value.node.nested_int())
    decider = _decider(value)
    if decider is None:
        raise TypeError("unhashable type: non-nested SymInt")
    return decider.key(expression_of(value))


def symbolic_text(value: Any, form: str = "") -> str:
    """Return the text of a symbolic number, which torch shows by its symbols."""
    decider = _decider(value)
    return format(str(expression_of(value)), form) if decider is None else decider.text(expression_of(value), form)


def _decider(value: Any) -> Symbols | None:
    """Return what decides about a symbolic number; None for one of torch's compiler."""
    return getattr(value.node.shape_env, "decider", None)


def bit_length(value: Any) -> Any:
    """Return `SymInt.bit_length` as a symbolic integer; torch's own specialises.

    Block sizes are computed by it.
    """
    expr = BitLength(expression_of(value))
    return value.node.shape_env.create_symintnode(expr, hint=None)
