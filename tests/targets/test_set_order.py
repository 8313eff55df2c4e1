"""Code that runs is collected, also beside torch.compile."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from networkx.utils.misc import flatten
from torch import Tensor
from torch.utils._pytree import tree_map

from ioaware.fakegpu import host_caller
from ioaware.targets.set_order import executed_code, lines_in_set_order


class Heads(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        query, key = x.chunk(2, dim=-1)
        return query.unflatten(-1, (2, -1)) + key.unflatten(-1, (2, -1))


def is_library(file: str) -> bool:
    """As the one of host code: torch.compile cannot put it into a graph."""
    torch._dynamo.graph_break()
    return file != __file__


@pytest.mark.parametrize("compiled", [False, True])
def test_a_module_runs_while_code_is_collected(compiled: bool) -> None:
    run = torch.compile(Heads(), fullgraph=True, backend="eager") if compiled else Heads()
    with executed_code(is_library) as codes:
        assert run(torch.ones(4, 8)).shape == (4, 2, 2)
    assert not lines_in_set_order(codes)


def test_variables_of_exec_are_not_kept() -> None:
    """A tensor that something else holds is copied by autograd, a launch more."""

    class Held:
        pass

    held = Held()
    alive = weakref.ref(held)
    with executed_code(lambda _: False) as codes:
        exec("n + 1", {"n": 1, "held": held})  # noqa: S102
        (lambda: None)()
        del held
        assert alive() is None
    assert "<lambda>" in {code.co_name for code in codes}


def popped() -> str:
    names = {"a", "b", "c"}
    return names.pop()


def joined() -> str:
    names = {"a", "b", "c"}
    return "".join(names)


def extended() -> list[str]:
    names = {"a", "b", "c"}
    (found := ["d"]).extend(names)
    return found


def keys() -> dict[str, None]:
    names = {"a", "b", "c"}
    return dict.fromkeys(names)


def listed() -> list[str]:
    names = {"a", "b", "c"}
    return list(names)


def in_order() -> list[str]:
    names = {"a", "b", "c"}
    return sorted(names)


class Options:
    kinds = frozenset({"a", "b"})

    def __init__(self) -> None:
        self.names = {"a", "b"}


OPTIONS = Options()


def both_names() -> set[str]:
    return {"a", "b"}


def filled() -> list[str]:
    names: set[str] = set()
    names.add("a")
    return list(names)


def annotated() -> list[str]:
    names: set[str] = {"a", "b"}
    return list(names)


def unpacked() -> list[str]:
    names, _ = {"a", "b"}, 1
    return list(names)


def named() -> list[str]:
    # an expression names it
    return list(names) if (names := {"a", "b"}) else []


def grown() -> list[str]:
    names = set[str]() or {"a"}
    names |= {"b"}
    return list(names)


def chosen() -> list[str]:
    names = {"a", "b"} if OPTIONS else both_names()
    return list(names)


def of_a_class() -> list[str]:
    # of a class
    return list(Options.kinds)


def of_an_object() -> list[str]:
    # of an object of the module
    return list(OPTIONS.names)


def of_a_new_object() -> list[str]:
    options = Options()
    return list(options.names)


def of_a_function() -> list[str]:
    names = both_names()
    return list(names)


def of_keys() -> list[str]:
    sizes = {"a": 1}
    return list(sizes.keys() | {"b"})


FORMS = [filled, annotated, unpacked, named, grown, chosen, of_a_class, of_an_object, of_a_new_object, of_a_function, of_keys]


@pytest.mark.parametrize("use", FORMS)
def test_a_set_of_any_form_is_found(use: Callable[[], object]) -> None:
    with executed_code(lambda file: file != __file__) as codes:
        use()
    (line,) = lines_in_set_order(codes)
    assert 2 <= int(line.rpartition(":")[2]) - use.__code__.co_firstlineno <= 3


def numbers() -> list[int]:
    sizes: set[int] = set()
    sizes.add(64)
    return list(sizes)


def members() -> bool:
    seen: set[str] = set()
    seen.add("a")
    return "b" in seen and len(seen) > 1


@pytest.mark.parametrize("use", [numbers, members])
def test_an_order_that_is_the_same_or_not_used_is_not_found(use: Callable[[], object]) -> None:
    with executed_code(lambda file: file != __file__) as codes:
        use()
    assert not lines_in_set_order(codes)


@pytest.mark.parametrize("use", [popped, joined, extended, keys, listed])
def test_a_use_of_the_order_is_found(use: Callable[[], object]) -> None:
    with executed_code(lambda file: file != __file__) as codes:
        use()
    assert lines_in_set_order(codes) == (f"test_set_order.py:{use.__code__.co_firstlineno + 2}",)


def test_sorted_names_have_one_order() -> None:
    with executed_code(lambda file: file != __file__) as codes:
        in_order()
    assert not lines_in_set_order(codes)


def test_what_torch_has_another_package_do_is_not_host_code() -> None:
    with executed_code(host_caller.is_library) as codes:
        tree_map(flatten, [{"a": 1}])
    assert flatten.__code__ not in codes


def test_what_host_code_has_that_package_do_is_host_code() -> None:
    with executed_code(host_caller.is_library) as codes:
        flatten([1])
    assert flatten.__code__ in codes
