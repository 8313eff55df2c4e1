"""The installed files, the public names, and the pinned dependencies."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import ioaware
from ioaware import api

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\d[\w.]*)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names in the wheel, built offline."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: make venv installs it")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_one_top_level_package_is_installed(wheel: list[str]) -> None:
    """`kernels` and `analysis` at the root are links for readers.

    Installed, they would overwrite the Hub's `kernels`.
    """
    top = {name.split("/")[0] for name in wheel}
    assert top == {"ioaware", f"ioaware-{ioaware.__version__}.dist-info"}


def test_everything_of_the_package_is_installed(wheel: list[str]) -> None:
    """Templates, studies and recorded measurements as well as code."""
    listed = subprocess.run(
        ["git", "ls-files", "ioaware"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    there = {name for name in listed if (ROOT / name).exists()}
    assert there - set(wheel) == set()
    assert any(name.endswith("templates/attention.html") for name in wheel)
    assert any(name.startswith("ioaware/studies/") for name in wheel)


def test_the_links_at_the_root_lead_into_the_package() -> None:
    for name in ("kernels", "analysis"):
        assert (ROOT / name).is_symlink()
        assert (ROOT / name).resolve() == ROOT / "ioaware" / name


def test_versions_agree() -> None:
    assert PROJECT["version"] == ioaware.__version__


@pytest.mark.parametrize("name", [name for name in ioaware.__all__ if name != "__version__"])
def test_public_names_are_functions_of_the_api(name: str) -> None:
    assert getattr(ioaware, name) is getattr(api, name)
    assert getattr(api, name).__doc__


def test_all_public_functions_are_exported() -> None:
    defined = {name for name, item in vars(api).items() if callable(item) and getattr(item, "__module__", "") == api.__name__}
    assert {name for name in defined if not name.startswith("_") and name[0].islower()} == set(ioaware.__all__) - {
        "__version__"
    }


def test_public_functions_stay_functions_when_modules_are_imported() -> None:
    """A module with the name of a public function would replace it when imported."""
    modules = {path.stem for path in (ROOT / "ioaware").glob("*.py")} | {
        path.name for path in (ROOT / "ioaware").iterdir() if path.is_dir()
    }
    assert modules & set(ioaware.__all__) == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'prdict'"):
        _ = ioaware.prdict  # pyright: ignore


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    matches = [PIN.fullmatch(line) for line in lines]
    assert all(matches), [line for line, match in zip(lines, matches, strict=True) if not match]
    return {_canonical(match["name"]): match["version"] for match in matches if match}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_pinned() -> None:
    extras = PROJECT["optional-dependencies"]
    requirements = [*PROJECT["dependencies"], *(item for group in extras.values() for item in group), "hatchling", "editables"]
    names = {_canonical(re.split(r"[\[<>=!;~ ]", requirement)[0]) for requirement in requirements}
    assert names - set(pins()) == set()


def test_constraints_are_exact_and_free_of_this_machine() -> None:
    """No local version such as +cpu, no address, no path.

    The file must work on any machine.
    """
    text = (ROOT / "constraints.txt").read_text()
    assert pins()["torch"] == "2.13.0"
    assert not any(word in text for word in ("+", "://", "@", "file:"))


def test_dir_lists_the_public_names() -> None:
    """In a fresh interpreter, since a used name is already an attribute."""
    code = "import ioaware; print(*dir(ioaware))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(ioaware.__all__) <= set(done.stdout.split())
