"""Find the host functions of a repository's kernels without importing it.

They are functions that launch kernels, autograd functions whose passes do, and functions that call these.
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from ioaware.gate.repository.kernel_finder import find_kernels, launched_names, python_files, tree_of
from ioaware.gate.setup.host_params import HostParam, params_of
from ioaware.gate.setup.source_calls import called_name, parameters_of

MOST_ROUNDS = 4
"""Most calls between a function and the one that launches."""
APPLY = ".apply"


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A function that launches kernels: of a module, or `Class.apply` of autograd.

    Its file below the root, its name and its parameters. `kernels` are those that it launches, and those of the functions
    that it calls.
    """

    path: str
    name: str
    line: int
    params: tuple[HostParam, ...]
    kernels: tuple[str, ...]
    calls: frozenset[str] = frozenset()
    """The places of the host functions that it calls."""
    backward: bool = False
    """Whether it has a backward pass."""
    indirect: bool = False
    """Whether it only calls others that launch.

    It is worth a call where these have none.
    """

    @property
    def place(self) -> str:
        """Return `path.py:function`."""
        return f"{self.path}:{self.name}"


@dataclass
class _Source:
    """One function of the repository, or one autograd class, and what it reaches."""

    path: str
    name: str
    node: ast.FunctionDef
    """The function, or `forward` of the class."""
    body: ast.AST
    """The function, or the class."""
    launched: set[str] = field(default_factory=set[str])
    kernels: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])

    @property
    def place(self) -> str:
        return f"{self.path}:{self.name}"

    @cached_property
    def names(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names that it launches, and those that it calls."""
        calls = (node for node in ast.walk(self.body) if isinstance(node, ast.Call))
        return frozenset(launched_names(self.body)), frozenset(called_name(node.func) for node in calls)


def find_host_functions(root: Path) -> list[HostFunction]:
    """Return the functions below a directory that launch its kernels.

    Autograd functions come first, then those that launch themselves, then those that call these. Of each, those in the
    fewest folders come first: back ends for other devices lie deeper. Then they are by path. Raises `DataError`
    as `find_kernels` does.
    """
    kernels = find_kernels(root)
    found = _Sources(root, kernels)
    usable = [source for source in found.reaching() if not _is_test(source)]
    functions = [_host_function(source, found) for source in usable if not _is_opaque(source)]
    order = sorted(functions, key=_first_to_try)
    return [one for one in order if one.kernels]


def _first_to_try(one: HostFunction) -> tuple[bool, bool, int, str, int]:
    return one.indirect, not one.name.endswith(APPLY), one.path.count("/"), one.path, one.line


class _Sources:
    """The functions of a repository that reach its kernels, and their sources by name."""

    def __init__(self, root: Path, kernels: Collection[str]) -> None:
        self._kernels = kernels
        self._named: defaultdict[str, list[str]] = defaultdict(list)
        for kernel in sorted(kernels):
            self._named[kernel.rpartition(":")[2]].append(kernel)
        self._sources: dict[str, _Source] = {}
        self._nodes: dict[str, ast.FunctionDef] = {}
        self._read(root)

    def _read(self, root: Path) -> None:
        """Parse files that name a kernel, or a function that reaches one."""
        texts = {path: path.read_bytes() for path in python_files(root)}
        wanted = set(self._named)
        for _ in range(MOST_ROUNDS):
            new = {path: text for path, text in texts.items() if any(name.encode() in text for name in wanted)}
            for path, text in new.items():
                del texts[path]
                if tree := tree_of(text):
                    self._add(path.relative_to(root).as_posix(), tree)
            self._connect()
            wanted = {source.name.partition(".")[0] for source in self.reaching()}

    def _add(self, path: str, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self._nodes[f"{path}:{node.name}"] = node
                if f"{path}:{node.name}" not in self._kernels:
                    self._sources[f"{path}:{node.name}"] = _Source(path, node.name, node, node)
            elif isinstance(node, ast.ClassDef) and _is_autograd(node):
                name = f"{node.name}{APPLY}"
                forward = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "forward"]
                if forward:
                    self._nodes[f"{path}:{name}"] = _without_context(forward[0])
                    self._sources[f"{path}:{name}"] = _Source(path, name, forward[0], node)

    def _connect(self) -> None:
        """Find out what each function calls and launches, directly or not."""
        named: defaultdict[str, list[str]] = defaultdict(list)
        for source in self._sources.values():
            named[source.name].append(source.place)
        for source in self._sources.values():
            launched, called = source.names
            source.launched = {one for name in launched if (one := _resolved(name, source.path, self._named))}
            source.calls = {one for name in called if (one := _resolved(name, source.path, named))} - {source.place}
            source.kernels = set(source.launched)
        for _ in range(MOST_ROUNDS):
            for source in self._sources.values():
                for place in tuple(source.calls):
                    source.kernels |= self._sources[place].kernels
                    source.calls |= self._sources[place].calls - {source.place}

    def reaching(self) -> list[_Source]:
        """Return the functions that reach a kernel."""
        return [source for source in self._sources.values() if source.kernels]

    def reaches(self, place: str) -> bool:
        """Return whether a function reaches a kernel."""
        return bool(self._sources[place].kernels)

    def find(self, path: str, name: str) -> ast.FunctionDef | None:
        """Return the source of what code of a file calls by this name."""
        if (own := self._nodes.get(f"{path}:{name}")) is not None:
            return own
        places = [place for place in self._nodes if place.endswith(f":{name}")]
        return self._nodes[places[0]] if len(places) == 1 else None


def _resolved(name: str, path: str, named: defaultdict[str, list[str]]) -> str:
    """Return the place of a name in a file.

    It is the file's own, or the only one that the repository has.
    """
    places = named.get(name, [])
    own = f"{path}:{name}"
    return own if own in places else places[0] if len(places) == 1 else ""


def _host_function(source: _Source, sources: _Sources) -> HostFunction:
    find: Callable[[str], ast.FunctionDef | None] = partial(sources.find, source.path)
    is_apply = source.name.endswith(APPLY)
    params = tuple(params_of(source.node, find))[is_apply:]
    methods = [one.name for one in ast.iter_child_nodes(source.body) if isinstance(one, ast.FunctionDef)]
    return HostFunction(
        path=source.path,
        name=source.name,
        line=source.node.lineno,
        params=params,
        kernels=tuple(sorted(source.kernels)),
        calls=frozenset(place for place in source.calls if sources.reaches(place)),
        backward=is_apply and "backward" in methods,
        indirect=not is_apply and not source.launched,
    )


def _is_opaque(source: _Source) -> bool:
    """Return whether `forward` of an autograd function tells no call.

    It names no parameter beside its context.
    """
    return source.name.endswith(APPLY) and len(parameters_of(source.node)) <= 1


def _without_context(forward: ast.FunctionDef) -> ast.FunctionDef:
    """Return `forward` with the parameters that `apply` takes."""
    taken = copy.copy(forward)
    taken.args = copy.copy(forward.args)
    taken.args.args = forward.args.args[1:]
    return taken


def _is_autograd(node: ast.ClassDef) -> bool:
    return any(getattr(base, "attr", getattr(base, "id", "")) == "Function" for base in node.bases)


def _is_test(source: _Source) -> bool:
    path = Path(source.path)
    named = source.name.startswith(("test_", "bench")) or path.name.startswith("test_")
    return (
        named or path.stem in ("conftest", "setup") or bool({"test", "tests", "benchmark", "benchmarks"} & {*path.parts[:-1]})
    )
