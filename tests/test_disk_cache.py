"""The disk cache of derivations: values are found again.

Damage is detected, and the cache can be off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ioaware import disk_cache
from ioaware.compilation import launch_traffic, resource_usage, traffic_cache
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.targets.target import load_target
from tests.support import SUPPORT

TARGET = f"{SUPPORT / 'targets/uncompiled_targets.py'}:plain"


@pytest.fixture
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("IOAWARE_CACHE_DIR", str(tmp_path / "kept"))
    disk_cache.evict_oldest.cache_clear()
    yield tmp_path / "kept"
    clear_memory_caches()


def clear_memory_caches() -> None:
    """Clear the caches in memory, as in a new process."""
    launch_traffic.cached_traffic.cache_clear()
    resource_usage.resource_cache.clear()


def derive_anew() -> Derived:
    clear_memory_caches()
    target = load_target(TARGET)
    return derive(target, target.resolve({}))


def test_a_second_process_computes_nothing(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = derive_anew()
    assert len(list(cache_directory.iterdir())) == 3

    def never(*_: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(launch_traffic, "analyse", never)
    monkeypatch.setattr(resource_usage, "fresh_ir", never)
    second = derive_anew()
    assert second.to_dict() == first.to_dict()
    assert second.kernels == first.kernels


def test_the_value_on_disk_is_used(cache_directory: Path) -> None:
    """Without this the test above could not fail."""
    (kernel,) = filter(None, derive_anew().kernels)
    name = next(path.stem for path in cache_directory.iterdir() if traffic_cache.find(path.stem) == kernel)
    traffic_cache.keep(name, replace(kernel, notes=("planted",)))
    assert "planted" in derive_anew().launches[-1].notes


def test_damaged_files_are_replaced(cache_directory: Path) -> None:
    first = derive_anew().to_dict()
    whole = {path: path.read_bytes() for path in cache_directory.iterdir()}
    for path, data in whole.items():
        middle = len(data) // 2
        for damaged in (b"", data[:middle], data[:-1], b"[]", b"\xff" + data, data[:middle] + b"7" + data[middle + 1 :]):
            path.write_bytes(damaged)
            assert derive_anew().to_dict() == first
    assert {path: path.read_bytes() for path in cache_directory.iterdir()} == whole


def test_a_changed_value_is_not_believed(cache_directory: Path) -> None:
    disk_cache.store("mine", [1, 2])
    (file,) = cache_directory.iterdir()
    text = json.loads(file.read_text())
    file.write_text(json.dumps(text | {"value": text["value"].replace("1", "7")}))
    assert disk_cache.load("mine") is None


@pytest.mark.parametrize("value", [None, [], {}, [1], ["a", "b"], {"nodes": [["sin", 0]]}, {"nodes": [], "counts": [0]}])
def test_a_value_of_another_shape_is_computed_again(cache_directory: Path, value: object) -> None:
    first = derive_anew().to_dict()
    for path in cache_directory.iterdir():
        disk_cache.store(path.stem, value)
        assert derive_anew().to_dict() == first


def test_an_empty_setting_turns_the_cache_off(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOAWARE_CACHE_DIR", "")
    derive_anew()
    assert not cache_directory.exists()


def test_a_directory_that_cannot_be_written_stores_nothing(cache_directory: Path) -> None:
    cache_directory.write_text("a file")
    assert derive_anew().exact


def test_another_compiler_setting_has_another_key(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    derive_anew()
    before = len(list(cache_directory.iterdir()))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    derive_anew()
    assert len(list(cache_directory.iterdir())) > before


def test_the_oldest_values_are_evicted(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "LARGEST_BYTES", 4000)
    cache_directory.mkdir()
    for age in range(10):
        (cache_directory / f"{age}.json").write_text(" " * 1000)
        os.utime(cache_directory / f"{age}.json", (1000 - age, 1000 - age))
    disk_cache.store("new", "value")
    left = {path.stem for path in cache_directory.iterdir()}
    assert left == {"new", "0"}
    assert disk_cache.load("new") == "value"


def test_the_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(disk_cache.sys, "platform", "linux")
    assert disk_cache.directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "ioaware"
    assert disk_cache.directory({}) == Path("~/.cache/ioaware").expanduser()
    assert disk_cache.directory({"IOAWARE_CACHE_DIR": "here", "XDG_CACHE_HOME": str(tmp_path)}) == Path("here")
    assert disk_cache.directory({"IOAWARE_CACHE_DIR": ""}) is None


def test_a_value_too_large_is_not_stored(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "LARGEST_FILE_BYTES", 100)
    disk_cache.store("large", "x" * 200)
    assert disk_cache.load("large") is None
    assert json.dumps(sorted(map(str, cache_directory.glob("*")))) == "[]"
