"""The package tree: small folders and unambiguous module names.

Strings that name modules name real ones.
"""

from __future__ import annotations

import ast
import pkgutil
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGE = ROOT / "ioaware"
MAX_MODULES = 18
SAME_MEANING = {
    *(
        "derive",
        "explain",
        "trace",
        "measure",
        "verify",
        "doctor",
        "export",
        "simulate",
        "advise",
        "fuse",
        "walk",
    ),  # a verb and the command of that name
    *("standard", "flash1", "flash2", "backward"),  # an algorithm's kernel and its counts
    *("forward", "backward", "kernels"),  # the parts of each implementation of attention
    *("exponents", "reference", "work", "accuracy"),
}
MISSING_ON_PURPOSE = {"tests/targets/test_target.py", "scripts/unchanged/layouts.py"}
"""Files that may name modules that do not exist.

One tests the error for a target that does not exist. The other has the names that modules had before they moved.
"""
MODULE = re.compile(r"ioaware(?:\.[a-z_0-9]+)+(?::[A-Za-z_0-9.]+)?")
QUOTED = re.compile(r"""["']ioaware\.""")


def modules() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]


def test_no_folder_has_more_than_18_modules() -> None:
    counts = Counter(path.parent for path in modules())
    assert {folder: count for folder, count in counts.items() if count > MAX_MODULES} == {}


def test_files_that_the_package_names_exist() -> None:
    from ioaware.capture.data_reads.interception import LAUNCHING, MODE_FILES

    own = [name for name in (*MODE_FILES, *LAUNCHING) if name.split("/")[0] in ("capture", "fakegpu")]
    assert own
    assert [name for name in own if not (PACKAGE / name).is_file()] == []


def test_a_module_name_has_one_meaning() -> None:
    places: defaultdict[str, list[Path]] = defaultdict(list)
    for path in modules():
        places[path.stem].append(path.relative_to(PACKAGE))
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in repeated.items() if not describes_a_case(found) and name not in SAME_MEANING} == {}


def describes_a_case(paths: list[Path]) -> bool:
    """Return whether the files are a kernel and the counts of the same algorithm."""
    return sorted(path.parts[0] for path in paths) == ["analysis", "kernels"]


def strings() -> Iterator[tuple[str, str]]:
    """Yield (file, text) of the strings that name a module or its attribute.

    The strings are in code and studies.
    """
    for folder in ("ioaware", "scripts", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if QUOTED.search(text) else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value):
                    yield str(path.relative_to(ROOT)), node.value
    for path in sorted((PACKAGE / "studies").glob("*.toml")):
        for text in MODULE.findall(path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT)), text


NAMED = sorted(set(strings()))


@pytest.mark.parametrize(("file", "text"), NAMED, ids=[f"{file}: {text}" for file, text in NAMED])
def test_a_module_named_by_a_string_exists(file: str, text: str) -> None:
    try:
        pkgutil.resolve_name(text)
    except (ImportError, AttributeError):
        assert file in MISSING_ON_PURPOSE, f"{text} does not exist"


def test_some_modules_are_named_by_strings() -> None:
    assert len(NAMED) >= 30
    assert any(file.endswith(".toml") for file, _ in NAMED)


def test_the_architecture_names_every_package() -> None:
    described = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert {name for name in folders if f"`{name}/" not in described} == set()
