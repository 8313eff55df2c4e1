"""Code that runs is collected, also beside torch.compile."""

from __future__ import annotations

import functools
import importlib
import operator
import sys
import weakref
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
    with executed_code(is_library) as executed:
        assert run(torch.ones(4, 8)).shape == (4, 2, 2)
    assert not lines_in_set_order(executed)


def test_variables_of_exec_are_not_kept() -> None:
    """A tensor that something else holds is copied by autograd, a launch more."""

    class Held:
        pass

    held = Held()
    alive = weakref.ref(held)
    with executed_code(lambda _: False) as executed:
        exec("n + 1", {"n": 1, "held": held})  # noqa: S102
        (lambda: None)()
        del held
        assert alive() is None
    assert "<lambda>" in {code.co_name for code in executed.codes}


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
    with executed_code(lambda file: file != __file__) as executed:
        use()
    (line,) = lines_in_set_order(executed)
    assert 2 <= int(line.rpartition(":")[2]) - use.__code__.co_firstlineno <= 3


def first_of(*names: set[str]) -> str:
    return next(iter(names[0]))


def an_argument(names: frozenset[str] = frozenset({"a", "b"})) -> list[str]:
    # of an argument
    return [name + "c" for name in names]


def an_argument_replaced(names: Any = frozenset({"a", "b"})) -> list[str]:
    # The name is a list at the end.
    names = list(names)
    names.reverse()
    return names


def in_a_table() -> list[str]:
    names = {"of": {"a", "b"}}
    return list(names["of"])


def of_a_default() -> list[str]:
    names = defaultdict[str, set[str]](set)
    names["of"] |= {"a", "b"}; return list(names["of"])  # fmt: skip # noqa: E702


def beside_a_number() -> tuple[int, set[str]]:
    return 1, {"a", "b"}


def one_of_two_results() -> list[str]:
    _, names = beside_a_number()
    return list(names)


def of_each_table() -> list[str]:
    for names in [{"a", "b"}]:
        return list(names)
    return []


def yielded() -> Iterator[str]:
    # by a generator
    yield from {"a", "b"}


def all_that_is_yielded() -> list[str]:
    return list(yielded())


def reduced() -> str:
    names = {"a", "b"}
    return functools.reduce(operator.add, names)


def added() -> list[str]:
    names = ["c"]
    names += {"a", "b"}; return names  # fmt: skip # noqa: E702


def the_last_after_a_check() -> str:
    name = ""
    for name in {"a", "b"}:
        assert name
    return name


VALUES = [an_argument, an_argument_replaced, in_a_table, of_a_default, one_of_two_results, of_each_table, reduced, added]


@pytest.mark.parametrize("use", [*VALUES, the_last_after_a_check])
def test_a_set_is_found_by_its_value(use: Callable[[], object]) -> None:
    """The source of the function does not show it."""
    with executed_code(lambda file: file != __file__) as executed:
        use()
    (line,) = lines_in_set_order(executed)
    assert line == f"test_set_order.py:{use.__code__.co_firstlineno + 2}"


def test_a_set_is_found_in_the_function_that_uses_it() -> None:
    with executed_code(lambda file: file != __file__) as executed:
        first_of({"a", "b"})
        all_that_is_yielded()
    lines = {function.__code__.co_firstlineno + at for function, at in ((first_of, 1), (yielded, 2))}
    assert set(lines_in_set_order(executed)) == {f"test_set_order.py:{line}" for line in lines}


def test_hooks_of_imports_are_no_host_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_while_watched.py").write_text("def f():\n    return 1\n\n\nVALUE = f()\n")

    class Finder:
        places = frozenset({"a", "b"})

        def find_spec(self, *_: object) -> None:
            list(self.places)

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.syspath_prepend(tmp_path)
    with executed_code(host_caller.is_library) as executed:
        importlib.import_module("imported_while_watched")
    assert {code.co_name for code in executed.codes} >= {"<module>", "f"}
    assert not lines_in_set_order(executed)


def sorted_first(names: Any = frozenset({"a", "b"})) -> list[str]:
    names = sorted(names)
    return list(names)


def one_item(names: frozenset[str] = frozenset({"a"})) -> list[str]:
    return list(names)


def passed_on(names: frozenset[str] = frozenset({"a", "b"})) -> bool:
    return one_item(names=names & {"a"}) == ["a"]


@pytest.mark.parametrize("use", [sorted_first, one_item, passed_on])
def test_arguments_whose_order_is_not_used(use: Callable[[], object]) -> None:
    with executed_code(lambda file: file != __file__) as executed:
        use()
    assert not lines_in_set_order(executed)


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
    with executed_code(lambda file: file != __file__) as executed:
        use()
    assert not lines_in_set_order(executed)


@pytest.mark.parametrize("use", [popped, joined, extended, keys, listed])
def test_a_use_of_the_order_is_found(use: Callable[[], object]) -> None:
    with executed_code(lambda file: file != __file__) as executed:
        use()
    assert lines_in_set_order(executed) == (f"test_set_order.py:{use.__code__.co_firstlineno + 2}",)


def test_sorted_names_have_one_order() -> None:
    with executed_code(lambda file: file != __file__) as executed:
        in_order()
    assert not lines_in_set_order(executed)


def test_what_torch_has_another_package_do_is_not_host_code() -> None:
    with executed_code(host_caller.is_library) as executed:
        tree_map(flatten, [{"a": 1}])
    assert flatten.__code__ not in executed.codes


def test_what_host_code_has_that_package_do_is_host_code() -> None:
    with executed_code(host_caller.is_library) as executed:
        flatten([1])
    assert flatten.__code__ in executed.codes


IN_A_FILE = "def use(names):\n{body}    return {result}\n"


def lines_of(file: Path, module: Any) -> tuple[str, ...]:
    with executed_code(lambda name: not name.startswith(str(file))) as executed:
        module["use"]({"a", "b"})
    return lines_in_set_order(executed)


def test_a_file_that_was_edited_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "host.py"
    for body, result, lines in (("", "sorted(names)", ()), ("    names = set(names)\n", "list(names)", ("host.py:3",))):
        file.write_text(IN_A_FILE.format(body=body, result=result))
        module: dict[str, Any] = {"__name__": "host", "__file__": str(file)}
        exec(compile(file.read_text(), file, "exec"), module)  # noqa: S102
        assert lines_of(file, module) == lines


def test_a_module_in_an_archive_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "host.zip"
    with zipfile.ZipFile(archive, "w") as into:
        into.writestr("host_in_an_archive.py", IN_A_FILE.format(body="", result="list(names)"))
    monkeypatch.syspath_prepend(str(archive))
    module = importlib.import_module("host_in_an_archive")
    monkeypatch.delitem(sys.modules, "host_in_an_archive")
    assert lines_of(archive, vars(module)) == ("host_in_an_archive.py:2",)
