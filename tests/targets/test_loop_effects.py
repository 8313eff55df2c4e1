"""Loops whose effect is the same in any order of their items."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from ioaware.targets.loop_effects import commutes


def in_any_order(source: str) -> bool:
    """Whether the first loop of a function's source commutes."""
    nodes = list(ast.walk(ast.parse(dedent(source))))
    return commutes(next(node for node in nodes if isinstance(node, ast.For)), nodes)


SAME = {
    "checked": """
        for name in names:
            if name.startswith("q"):
                continue
            assert name in known
    """,
    "counted": """
        for name in names:
            total += len(name) - 1
    """,
    "counted in a loop": """
        for name in names:
            for _ in range(3):
                total += 1
    """,
    "looked for": """
        for name in names:
            if name in known:
                found = True
                break
        else:
            total += 1
    """,
    "any of them": """
        for name in names:
            if name.endswith("q"):
                return True
        return False
    """,
    "a flag": """
        for name in names:
            if name in known:
                found = True
    """,
    "another set": """
        seen = set()
        for name in names:
            seen.add(name.lower())
    """,
    "the name is bound again": """
        for name in names:
            assert name in known
        for name in sorted(names):
            launch(name)
    """,
}
OTHERS = {
    "the last item is read": """
        for name in names:
            assert name in known
        launch(name)
    """,
    "a call in a check": "for name in names:\n    assert launch(name)",
    "a call": "for name in names:\n    launch(name)",
    "the last item is kept": "for name in names:\n    last = name",
    "texts are added": "for name in names:\n    text += name",
    "something unknown is added": "for name in names:\n    total += size(name)",
    "counted until found": """
        for name in names:
            total += 1
            if name in known:
                break
    """,
    "a flag until found": """
        for name in names:
            if name.endswith("q"):
                found = True
            if name in known:
                break
    """,
    "one of two results": """
        for name in names:
            if name in known:
                return 1
            if name in others:
                return 2
    """,
    "one of two flags": """
        for name in names:
            if name in known:
                found = 1
            if name in others:
                found = 2
    """,
    "a check until found": """
        for name in names:
            assert name in known
            if name in others:
                return True
    """,
    "a count decides": """
        for name in names:
            if total < 2:
                size += len(name)
            total += 1
    """,
    "items that are returned": "for name in names:\n    return name",
    "something else than a set is filled": "for name in names:\n    group.add(name)",
    "a set with an order of calls": "seen = set()\nfor name in names:\n    seen.add(launch(name))",
}


@pytest.mark.parametrize("source", SAME.values(), ids=SAME)
def test_loops_with_one_effect(source: str) -> None:
    assert in_any_order(source)


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS)
def test_loops_whose_order_matters(source: str) -> None:
    assert not in_any_order(source)
