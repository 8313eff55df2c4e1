"""Write the first tests of a repository.

One for each host function, with a snapshot that pytest fills in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ioaware.gate.setup.call_guesses import Guess
from ioaware.gate.setup.gated_calls import GatedCall

HEAD = '''"""The memory traffic of the kernels of this repository, as formulas over the sizes of their tensors.

A test fails where a formula changes. `pytest --traffic=accept` accepts the new formula.
"""
'''


def tests_text(calls: Sequence[GatedCall]) -> str:
    """Return a file of tests for calls that work.

    Names that several modules have are imported under others.
    """
    counts = Counter(_imported(call) for call in calls)
    names = {
        call.target: _imported(call) if counts[_imported(call)] == 1 else f"{_words(call)}_{_imported(call)}" for call in calls
    }
    parts = [HEAD, "\n".join(_imports(calls, names)) + "\n"]
    parts += ["\n" + "\n".join(_test(call, names[call.target])) + "\n" for call in calls]
    return "\n".join(parts)


def _imported(call: GatedCall) -> str:
    """Return the name to import: of `Class.apply` the class."""
    return call.function.name.partition(".")[0]


def _words(call: GatedCall) -> str:
    """Return the module as a part of a name; the path where it has none."""
    return re.sub(r"\W+", "_", call.module or call.function.path.removesuffix(".py"))


def _imports(calls: Sequence[GatedCall], names: Mapping[str, str]) -> Iterator[str]:
    """Yield one import for each module, sorted."""
    calls = [call for call in calls if call.importable]
    for module in sorted({call.module for call in calls}):
        here = sorted((_imported(call), names[call.target]) for call in calls if call.module == module)
        yield f"from {module} import {', '.join(old if old == new else f'{old} as {new}' for old, new in here)}"


def _test(call: GatedCall, name: str) -> Iterator[str]:
    guess = call.guess
    assert guess is not None  # noqa: S101 - only calls that work have a test
    yield f"def test_{name.strip('_')}(traffic):"
    method = call.function.name.removeprefix(_imported(call))
    given: list[str] = []
    seen: set[str] = set()
    for param in call.function.params:
        value = guess.arguments[param.name]
        text = repr(value)
        if isinstance(value, tuple):
            text = f"{param.name}_" if param.name in (name, "traffic") else param.name
            yield f"    {text} = {_tensor(value, guess.dtypes[param.name], guess, seen)}"
        given.append(f"{param.name}={text}" if param.keyword_only else text)
    called = name + method if call.importable else f'"{call.by_name}"'
    derived = "traffic.with_backward" if call.backward else "traffic"
    yield f"    assert {derived}({', '.join([called, *given])}) == traffic.snapshot()"


def _tensor(sizes: tuple[str, ...], dtype: str, guess: Guess, seen: set[str]) -> str:
    """Return the tensor as source, with the values of sizes that are new."""
    new = [f"{size}={guess.sizes[size]}" for size in sizes if size not in seen]
    seen.update(sizes)
    arguments = [*(f'"{size}"' for size in sizes), f'dtype="{dtype}"', *new]
    return f"traffic.tensor({', '.join(arguments)})"
