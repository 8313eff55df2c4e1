"""Delta debugging: minimise a program that derive gets wrong.

The kind of error is kept.

`python -m tests.support.fuzz.reduce SEED|FILE [small] [data]`
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("IOAWARE_CACHE_DIR", "")

from tests.support.fuzz.differential import Verdict, check_program
from tests.support.fuzz.grammar import program


def minimise(text: str, still: Callable[[str], bool]) -> str:
    """Return the smallest program for which `still` is true.

    It is found by single deletions and simplifications.
    """
    text = ast.unparse(ast.parse(text))
    progress = True
    while progress:
        progress = False
        at = 0
        while True:
            candidate = _apply_edit(text, at)
            if candidate is None:
                break
            if candidate != text and still(candidate):
                text, progress = candidate, True
            else:
                at += 1
    return text


def _apply_edit(text: str, wanted: int) -> str | None:
    """Return the program after edit number `wanted`, or None if there are fewer edits."""
    tree = ast.parse(text)
    for at, edit in enumerate(_edits(tree)):
        if at == wanted:
            edit()
            return ast.unparse(ast.fix_missing_locations(tree))
    return None


def _edits(tree: ast.Module) -> Iterator[Callable[[], object]]:
    """Yield the edits, large ones first."""
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield from _of_block(block, may_be_empty=field == "orelse")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.keywords:
            yield from (lambda n=node, k=k: n.keywords.remove(k) for k in node.keywords if k.arg in ("mask", "num_stages"))
        for field, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            for at, child in enumerate(values):
                for simpler in _simpler(child):
                    yield (
                        lambda n=node, f=field, v=value, at=at, s=simpler: (
                            v.__setitem__(at, s) if isinstance(v, list) else setattr(n, f, s)
                        )
                    )


def _of_block(block: list[ast.stmt], *, may_be_empty: bool) -> Iterator[Callable[[], object]]:
    for at, statement in enumerate(block):
        if len(block) > 1 or may_be_empty:
            yield lambda at=at: block.pop(at)
        for inner in (getattr(statement, "body", None), getattr(statement, "orelse", None)):
            if isinstance(inner, list) and inner and isinstance(statement, (ast.For, ast.If, ast.While)):
                yield lambda at=at, inner=inner: block.__setitem__(slice(at, at + 1), inner)


def _simpler(node: object) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
        "min",
        "max",
        "tl.cdiv",
        "tl.minimum",
        "tl.where",
        "first",
        "total",
    ):
        yield from node.args
    if isinstance(node, (ast.BinOp, ast.Call)) and "lanes" not in ast.unparse(node) and "tl.l" not in ast.unparse(node):
        yield ast.Constant(0)
        yield ast.Constant(1)
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 16:
        yield ast.Constant(node.value // 1000 * 1000 if node.value % 1000 else 0)


def same_kind(one: Verdict, other: Verdict) -> bool:
    """Return whether the same count is wrong, or the error has the same type."""
    if one.outcome != other.outcome:
        return False
    if one.outcome == "WRONG":
        return one.why.split()[0] == other.why.split()[0] and (" at most " in one.why) == (" at most " in other.why)
    return one.why.strip().splitlines()[-1].split(":")[0] == other.why.strip().splitlines()[-1].split(":")[0]


def main() -> None:
    source = sys.argv[1]
    text = (
        program(int(source), data="data" in sys.argv, small="small" in sys.argv)
        if source.isdigit()
        else Path(source).read_text()
    )
    with TemporaryDirectory() as directory:
        tried = 0

        def verdict(candidate: str) -> Verdict:
            nonlocal tried
            tried += 1
            try:
                return check_program(candidate, Path(directory), f"reduced{tried}", seed=int(source) if source.isdigit() else 0)
            except Exception as error:
                return Verdict("invalid", repr(error))

        wrong = verdict(text)
        print(wrong.outcome, wrong.why[:300], flush=True)
        small = minimise(text, lambda candidate: same_kind(wrong, verdict(candidate)))
        print(small)
        print(verdict(small).why[:1500], tried)


if __name__ == "__main__":
    main()
