"""The comparison of two checkouts: differences, allowed changes, and its keys.

The differences are those reported.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioaware.targets.loading import load_file

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module", autouse=True)
def _path() -> Iterator[None]:
    """Put the script's folder on the path, since its files import one another by name."""
    sys.path.insert(0, str(SCRIPTS / "unchanged"))
    yield
    sys.path.remove(str(SCRIPTS / "unchanged"))


@pytest.fixture(scope="module")
def differences() -> ModuleType:
    return load_file(SCRIPTS / "unchanged" / "differences.py")


@pytest.fixture(scope="module")
def questions() -> ModuleType:
    return load_file(SCRIPTS / "unchanged" / "questions.py")


@pytest.fixture(scope="module")
def dumping() -> ModuleType:
    return load_file(SCRIPTS / "unchanged" / "dumping.py")


@pytest.fixture(scope="module")
def cubins() -> ModuleType:
    return load_file(SCRIPTS / "unchanged" / "cubins.py")


@pytest.fixture(scope="module")
def unchanged() -> ModuleType:
    return load_file(SCRIPTS / "unchanged.py")


def answer(kernel: str = "a_kernel", **values: Any) -> dict[str, Any]:
    """Return the answer about a target that launches one kernel."""
    launch = {"kernel": kernel, "requested": {"read_bytes": 64, "read_formula": "2*n"}, "exact": True}
    return {"launches": [launch], "conditions": ["n <= 65535"], **values}


def compare_answers(differences: ModuleType, one: Any, other: Any, section: str = "formulas") -> Any:
    return differences.compare({section: {"target {}": one}}, {section: {"target {}": other}})


def test_equal_answers_are_no_difference(differences: ModuleType) -> None:
    comparison = compare_answers(differences, answer(), answer())
    assert comparison.differences == []
    assert comparison.compared == {"formulas": 1}
    assert comparison.values == {"formulas": 5}
    assert list(comparison.report())[-1] == "nothing else changed"


@pytest.mark.parametrize(
    ("changed", "path", "old", "new"),
    [
        ({"conditions": ["n <= 65536"]}, "conditions[0]", "'n <= 65535'", "'n <= 65536'"),
        ({"conditions": []}, "conditions[0]", "'n <= 65535'", "absent"),
        ({"conditions": ["n <= 65535", "n > 1"]}, "conditions[1]", "absent", "'n > 1'"),
        ({"flops": 0}, "flops", "absent", "0"),
        ({"launches": []}, "launches[0]", "{'kernel'", "absent"),
    ],
)
def test_a_changed_missing_or_added_value_is_reported(
    differences: ModuleType, changed: dict[str, Any], path: str, old: str, new: str
) -> None:
    (line,) = compare_answers(differences, answer(), answer(**changed)).differences
    assert line.startswith(f"formulas: target {{}}: {path}: {old}")
    assert f"-> {new}" in line


def test_true_is_not_one_and_an_integer_no_float(differences: ModuleType) -> None:
    assert len(compare_answers(differences, answer(flag=True, count=2), answer(flag=1, count=2.0)).differences) == 2


def test_a_missing_answer_or_section_is_reported(differences: ModuleType) -> None:
    assert differences.compare({"code": {"a": 1, "b": 2}}, {"code": {"a": 1}}).differences == ["code: b: : 2 -> absent"]
    assert differences.compare({"code": {}}, {"code": {}, "json": {}}).differences == ["json: only in the second dump"]


def test_a_renamed_kernel_is_listed_but_no_difference(differences: ModuleType) -> None:
    comparison = compare_answers(differences, answer("prepare"), answer("preprocess"))
    assert comparison.differences == []
    assert "renamed: prepare is preprocess (1 times)" in comparison.report()


def test_a_third_party_kernel_keeps_its_name(differences: ModuleType) -> None:
    (line,) = compare_answers(differences, answer("prepare"), answer("preprocess"), "foreign").differences
    assert line.endswith("launches[0].kernel: 'prepare' -> 'preprocess'")


def test_swapped_or_merged_kernels_are_reported(differences: ModuleType) -> None:
    pair = [{"kernel": "one"}, {"kernel": "other"}, {"kernel": "one"}]
    swapped = [{"kernel": "other"}, {"kernel": "one"}, {"kernel": "one"}]
    merged = [{"kernel": "one"}, {"kernel": "one"}, {"kernel": "one"}]
    assert any("not one to one" in line for line in compare_answers(differences, {"l": pair}, {"l": swapped}).differences)
    assert any("not one to one" in line for line in compare_answers(differences, {"l": pair}, {"l": merged}).differences)


@pytest.mark.parametrize(
    ("new", "passes"),
    [
        ("counters cannot be predicted: row 7 (checks.py:91)", True),
        ("counters cannot be predicted: row 8 (tiles.py:65)", False),
        ("counters cannot be predicted (tiles.py:7)", False),
    ],
)
def test_prose_may_be_reworded_but_keeps_its_numbers(differences: ModuleType, new: str, passes: bool) -> None:
    comparison = compare_answers(differences, answer(notes=["no counters: row 7 (tiles.py:65)"]), answer(notes=[new]))
    assert (comparison.differences == []) is passes
    assert len(comparison.reworded) == passes
    assert any(new in line for line in comparison.report(words=True))


def test_many_differences_of_an_answer_are_counted_not_listed(differences: ModuleType) -> None:
    comparison = compare_answers(differences, list(range(50)), list(range(1, 51)))
    assert len(comparison.differences) == differences.SHOWN + 1
    assert comparison.differences[-1].endswith(f"and {50 - differences.SHOWN} more")
    assert comparison.differing == {"formulas": 1}


def write_dump(folder: Path, name: str, sections: dict[str, Any], triton: str = "3.7.1") -> str:
    path = folder / name
    path.write_text(json.dumps({"about": {"commit": name, "software": {"triton": triton}}, "sections": sections}))
    return str(path)


def test_the_exit_code_is_1_after_a_change(unchanged: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_dump(tmp_path, "one", {"code": {"plan": {"code_sha256": "aa"}}})
    same = write_dump(tmp_path, "same", {"code": {"plan": {"code_sha256": "aa"}}})
    other = write_dump(tmp_path, "other", {"code": {"plan": {"code_sha256": "bb"}}})
    assert unchanged.main(["compare", one, same]) == 0
    assert "nothing else changed" in capsys.readouterr().out
    assert unchanged.main(["compare", one, other]) == 1
    assert "code: plan: code_sha256: 'aa' -> 'bb'" in capsys.readouterr().out


def test_dumps_of_two_tritons_are_not_compared(unchanged: ModuleType, tmp_path: Path) -> None:
    assert unchanged.main(["compare", write_dump(tmp_path, "one", {}), write_dump(tmp_path, "other", {}, "3.6.0")]) == 2


def elf(sections: dict[str, bytes]) -> bytes:
    """Return a 64-bit little-endian ELF file with these sections."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in sections) + b".shstrtab\0"
    contents = [*sections.values(), names]
    offsets = [64 + sum(map(len, contents[:i])) for i in range(len(contents))]
    name_at, headers = 1, struct.pack("<IIQQQQIIQQ", *[0] * 10)
    for name, offset, content in zip([*sections, ".shstrtab"], offsets, contents, strict=True):
        headers += struct.pack("<IIQQQQIIQQ", name_at, 1, 0, 0, offset, len(content), 0, 0, 1, 0)
        name_at += len(name) + 1
    table = 64 + sum(map(len, contents))
    start = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + bytes(24) + struct.pack("<Q", table) + bytes(10)
    start += struct.pack("<HHH", 64, len(contents) + 1, len(contents))
    return start + b"".join(contents) + headers


def test_machine_code_does_not_depend_on_the_kernels_name(cubins: ModuleType) -> None:
    code = bytes(range(64))
    one = cubins.machine_code(elf({".text.old": code, ".debug_line": b"1", ".nv.constant0.old": b"00"}))
    same = cubins.machine_code(elf({".debug_line": b"22", ".text.new": code, ".nv.constant0.new": b"00"}))
    other = cubins.machine_code(elf({".text.old": code[:-1] + b"!", ".debug_line": b"1", ".nv.constant0.old": b"00"}))
    constants = cubins.machine_code(elf({".text.old": code, ".nv.constant0.old": b"01"}))
    assert one["instructions"] == 4
    assert one == same
    assert one["code_sha256"] != other["code_sha256"]
    assert one["code_sha256"] == constants["code_sha256"]
    assert one["constants_sha256"] != constants["constants_sha256"]
    with pytest.raises(ValueError, match="not a 64-bit"):
        cubins.machine_code(b"PTX")


def test_questions_have_unique_keys_without_folders(questions: ModuleType) -> None:
    studied = [{"target": "flash2", "params": {"seq_len": 512}}, {"target": "flash2", "params": {"seq_len": 512}}]
    targets = [*questions.formulas(studied), *questions.foreign(SCRIPTS.parent, questions.LIBRARIES)]
    for derivations in (targets, questions.code()):
        keys = [one.key for one in derivations]
        assert len(set(keys)) == len(keys)
        assert not any(str(SCRIPTS) in key for key in keys)
    assert sum(one.key == 'flash2 {"seq_len":512}' for one in targets) == 1
    assert "attention_gym.py:mask_inactive_rows" in [one.key for one in targets]


def test_points_of_one_formula_are_reduced_to_both_ends(questions: ModuleType) -> None:
    lengths = [{"seq_len": n, "head_dim": 64} for n in (1024, 512, 65536)]
    points = [{"target": "flash2", "params": params} for params in (*lengths, {"seq_len": 2048, "head_dim": 128})]
    points += [{"target": "a.module:kernel", "params": params} for params in lengths]
    targets = [(point["target"], *point["params"].values()) for point in questions.ends(points)]
    assert {("flash2", 512, 64), ("flash2", 65536, 64), ("flash2", 2048, 128)} == {one for one in targets if one[0] == "flash2"}
    assert {one[1] for one in targets if one[0] != "flash2"} == {512, 1024, 65536}


def test_recorded_files_are_read_by_the_package_and_broken_ones_are_marked(tmp_path: Path) -> None:
    worker = load_file(SCRIPTS / "unchanged" / "package_worker.py")
    folder = tmp_path / "ioaware" / "recorded"
    folder.mkdir(parents=True)
    record = {"schema": 1, "source": "trace", "target": "flash2", "launches": [{"kernel": "flash2_kernel"}]}
    (folder / "whole.jsonl").write_text(json.dumps(record) + "\n")
    (folder / "broken.jsonl").write_text(json.dumps({**record, "source": "rumour"}) + "\n")
    records = worker.records(tmp_path)
    assert records["whole.jsonl"]["records"] == records["broken.jsonl"]["records"] == 1
    assert records["whole.jsonl"]["launches"] == [[{"kernel": "flash2_kernel"}]]
    assert "unread" not in records["whole.jsonl"]
    assert records["broken.jsonl"]["unread"]
    assert records["whole.jsonl"]["sha256"] != records["broken.jsonl"]["sha256"]


def test_values_that_vary_between_runs_are_masked(dumping: ModuleType) -> None:
    line = {"line": 7, "source": "tl.load(x)", "path": "/a/kernel.py", "bytes": 64}
    row = {"environment.commit": "17d321c", "source": "trace", "time_ns": 1.5, "requested.read_bytes": 64}
    assert dumping.masked({"lines": [line], "rows": [row], "commit": "17d321c"}) == {
        "lines": [{"bytes": 64}],
        "rows": [{"source": "trace", "requested.read_bytes": 64}],
    }
    assert dumping.without_progress("3/18 trace flash1\nioaware: no\n18/18 trace flash2") == "ioaware: no"
