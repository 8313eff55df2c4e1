"""Calls on symbolic tensors: arguments of every kind reach the function.

Sizes are checked, and warnings stay inside.
"""

from __future__ import annotations

from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate.symbolic_call import DEFAULT_SIZES, Sizes, SymbolicSize, SymbolicTensor, derive_call


def scaled(pair: Any, *, options: dict[str, Any], factor: int, plain: str) -> Any:
    import torch

    from tests.support.gate_repository import scale as example

    x, (w,) = pair
    assert (plain, factor, options["text"]) == ("as it is", 3, ["a", 4])
    assert x.device.type == options["w"].device.type == w.device.type == "cuda"
    assert x.shape[0] == options["rows"]
    assert (x.dtype, w.dtype, options["w"].dtype) == (torch.float16, torch.float32, torch.float32)
    return example.scale(x, w)


def test_arguments_of_every_kind() -> None:
    x, w = SymbolicTensor(("rows", 512), "float16"), SymbolicTensor((512,), "float32")
    options = {"w": w, "rows": SymbolicSize("rows"), "text": ["a", 4]}
    derived = derive_call(
        scaled,
        ((x, [w]),),
        {"options": options, "factor": 3, "plain": "as it is"},
        {"rows": 64, "unused": 5},
        gpu="cuda:90",
        machine_code=False,
    )
    assert derived.target == f"{__name__}:scaled"
    assert dict(derived.params) == {"rows": 64}
    assert derived.formulas
    assert (str(derived.formulas.read_bytes), str(derived.formulas.write_bytes)) == ("3072*rows", "1024*rows")
    assert derived.launches[0].registers is None
    assert derived.environment
    assert derived.environment["compiled_for"] == "cuda:90"


def test_sizes() -> None:
    sizes = Sizes()
    sizes.add(["rows", "cols", "rows"], {"cols": 7})
    assert sizes.values == {"rows": DEFAULT_SIZES[0], "cols": 7}
    sizes.add(["depth", "cols"], {"cols": 7})
    assert sizes.values == {"rows": DEFAULT_SIZES[0], "cols": 7, "depth": DEFAULT_SIZES[1]}
    for given, what in (({"cols": 8}, "cols is 7 and 8"), ({"b": 1, "a": 2}, "no size of this tensor is named a, b")):
        with pytest.raises(UsageError) as raised:
            sizes.add(["cols"], given)
        assert raised.value.what == what
    many = Sizes()
    many.add([f"n{at}" for at in range(10)], {})
    assert list(many.values.values()) == [*DEFAULT_SIZES, 56, 63]


EXAMPLE = 'For example traffic.tensor("rows", "cols", dtype="float16", rows=8192).'


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_a_size_that_is_no_number(value: Any) -> None:
    with pytest.raises(UsageError) as raised:
        Sizes().add(["rows"], {"rows": value})
    assert (raised.value.what, raised.value.remedy) == (f"rows must be a positive integer, not {value!r}", EXAMPLE)


@pytest.mark.parametrize("name", ["min", "for", "a b", "größe", "", "1a"])
def test_a_name_that_no_formula_can_have(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        Sizes().add([name], {})
    assert (raised.value.what, raised.value.remedy) == (f"{name!r} cannot name a size in a formula", EXAMPLE)
