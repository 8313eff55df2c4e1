"""Studies: the points of a TOML file and their order.

The errors of invalid files are tested too.
"""

from __future__ import annotations

import random
from importlib import resources
from pathlib import Path

import pytest

from ioaware.errors import IoawareError, UsageError
from ioaware.sweep import study
from ioaware.sweep.points import make_point
from ioaware.sweep.study import find_study, parse_study, shipped_studies

GRID = '[[grid]]\nsources = ["predict"]\ntargets = ["flash2"]\n'


def test_grids_are_cartesian_ordered_and_distinct() -> None:
    text = """
        title = "two by two"
        [[grid]]
        sources = ["trace", "predict"]
        targets = ["flash2"]
        params = { head_dim = [64, 128], causal = [false, true], dtype = "fp16" }
        together = [{ seq_len = 512, heads = 4 }, { seq_len = 1024, heads = 2 }]
        [[grid]]
        sources = ["predict"]
        targets = ["flash2"]
        params = { seq_len = 512, heads = 4, head_dim = 64, batch = 1 }
    """
    study = parse_study(text, name="s", where="s.toml")
    points = [
        (p.source, p.params["seq_len"], p.params["heads"], p.params["head_dim"], p.params["causal"]) for p in study.points
    ]
    grid = [(n, h, d, causal) for n, h in ((512, 4), (1024, 2)) for d in (64, 128) for causal in (False, True)]
    assert points == [(source, *values) for source in ("trace", "predict") for values in grid]
    assert study.title == "two by two"
    assert study.sources == ("predict", "trace")


def test_a_point_has_one_key_however_it_is_written() -> None:
    spelled = make_point("predict", "flash2", {"dtype": "fp16", "seq_len": 1024, "kv_len": None})
    assert spelled.key == make_point("predict", "flash2", {}).key
    assert spelled.key != make_point("trace", "flash2", {}).key
    assert make_point("trace", "flash2", {"heads": 2}).label == "trace flash2 heads=2"


def test_a_point_of_an_edited_file_has_another_key(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def work(): ...\n")
    before = make_point("trace", f"{kernel}:work", {"n": 3}).key
    assert before == make_point("trace", f"{kernel}:work", {"n": 3}).key
    kernel.write_text("def work(): print()\n")
    assert before != make_point("trace", f"{kernel}:work", {"n": 3}).key


@pytest.mark.parametrize("name", shipped_studies())
def test_shipped_studies_parse(name: str) -> None:
    study = find_study(name)
    assert study.points
    assert study.title != name


def test_the_measured_studies_cover_the_figures_of_the_report() -> None:
    lengths, blocks = find_study("h200-length").points, find_study("h200-blocks").points
    assert {p.params["seq_len"] for p in lengths} == {2**k for k in range(9, 17)}
    assert {(p.target, p.params["causal"], p.params["head_dim"]) for p in lengths} == {
        (target, causal, d) for target in ("standard", "flash1", "flash2") for causal in (False, True) for d in (64, 128)
    }
    for target, block in (("flash1", "block_n"), ("flash2", "block_m")):
        for d in (64, 128):
            assert len({p.params[block] for p in blocks if p.target == target and p.params["head_dim"] == d}) >= 5
    assert len({p.key for p in (*lengths, *blocks)}) <= 130


def test_every_measured_point_is_predicted_by_the_default_study() -> None:
    predicted = {p.key for p in find_study("forward").points}
    for name in ("h200-length", "h200-blocks"):
        for point in find_study(name).points:
            assert make_point("predict", point.target, point.params).key in predicted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.toml: no [[grid]]"),
        ("grid = 3", "s.toml: no [[grid]]"),
        ("grid = [3]", "s.toml, grid 1: not a table"),
        ("[[grid]", "s.toml: not TOML"),
        ("a = " + "[" * 5000, "s.toml: not TOML"),
        ("titel = 'x'\n" + GRID, "s.toml: unknown key 'titel'\n  Did you mean title?"),
        ("n = " + "9" * 5000, "s.toml: not TOML"),
        (GRID + "params = { heads = " + "9" * 4000 + " }", "s.toml, grid 1, params: heads is out of range"),
        (GRID + f"params = {{ heads = {2**63} }}", "s.toml, grid 1, params: heads is out of range"),
        ("title = 3\n" + GRID, "s.toml: title is not text"),
        (GRID + "param = {}", "s.toml, grid 1: unknown key 'param'\n  Did you mean params?"),
        (
            GRID.replace("predict", "guess"),
            "s.toml, grid 1: sources has 'guess'\n  Sources of a study: predict, derive, trace, measure.",
        ),
        (GRID.replace('["predict"]', "[]"), "s.toml, grid 1: sources must be a list of names"),
        (
            GRID.replace('["flash2"]', '"flash2"'),
            's.toml, grid 1: targets must be a list of names\n  For example: targets = ["flash2"]',
        ),
        (
            GRID.replace("flash2", "flahs1"),
            "s.toml, grid 1: there is no case 'flahs1'\n  Did you mean flash1? Cases: standard, flash1,",
        ),
        (GRID.replace("flash2", "x.py:f"), "s.toml, grid 1: predict needs a case"),
        (GRID.replace("flash2", "x.py:f").replace("predict", "trace"), "s.toml, grid 1: target file x.py: cannot be read"),
        (GRID.replace("flash2", "a b:f").replace("predict", "trace"), "s.toml, grid 1: 'a b:f' is not a target"),
        (GRID + "params = 3", "s.toml, grid 1, params: not a table"),
        (GRID + "params = { heads = [] }", "s.toml, grid 1, params: heads has no values"),
        (GRID + "params = { heads = 1979-05-27 }", "s.toml, grid 1, params: heads is a date"),
        (GRID + "params = { heads = [[1]] }", "s.toml, grid 1, params: heads is a list"),
        (GRID + "params = { heads = nan }", "s.toml, grid 1: heads=nan cannot work"),
        (GRID + "params = { heads = 0 }", "s.toml, grid 1: heads=0 cannot work"),
        (
            GRID + "params = { sequence_len = 4 }",
            "s.toml, grid 1: flash2 has no parameter 'sequence_len'\n  Did you mean seq_len?",
        ),
        (GRID + "together = []", "s.toml, grid 1, together: not a list of tables"),
        (GRID + "params = { heads = 1 }\ntogether = [{ heads = 2 }]", "s.toml, grid 1, together: heads is in params too"),
        (
            GRID + "params = { " + ", ".join(f"p{i} = {list(range(100))}" for i in range(3)) + " }",
            "s.toml, grid 1: 1000000 points",
        ),
    ],
)
def test_invalid_values_are_named(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_study(text, name="s", where="s.toml")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 2_000


def test_a_missing_or_unreadable_study_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no study 'foward'\n  Did you mean forward\? Studies: forward, h200"):
        find_study("foward")
    with pytest.raises(UsageError, match="cannot be read"):
        find_study(str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="not a file"):
        find_study(f"{tmp_path}/")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        find_study(str(tmp_path / "binary.toml"))
    (tmp_path / "large.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(UsageError, match="more than"):
        find_study(str(tmp_path / "large.toml"))


def test_corrupted_studies_raise_only_ioaware_errors() -> None:
    text = (resources.files("ioaware") / "studies" / "h200-blocks.toml").read_text()
    rng = random.Random(0)
    refused = 0
    for _ in range(150):
        place, length = rng.randrange(len(text)), rng.randrange(1, 30)
        mutant = text[:place] + rng.choice(["", "[", '"', "=", "{", "9" * 30, "\x00", "true"]) + text[place + length :]
        try:
            parse_study(mutant, name="s", where="s.toml")
        except IoawareError:
            refused += 1
    assert refused > 50


def test_a_measured_point_may_name_its_machines() -> None:
    grid = '[[grid]]\nsources = ["predict", "measure"]\ntargets = ["flash2"]\nmachines = ["h200", "A100"]\n'
    points = parse_study(grid, name="s", where="s.toml").points
    assert [(point.source, point.machine) for point in points] == [
        ("predict", ""),
        ("measure", "NVIDIA H200"),
        ("measure", "NVIDIA A100-SXM4-80GB"),
    ]
    assert points[1].key == points[2].key
    with pytest.raises(UsageError, match="there is no machine 'H9000'"):
        parse_study(grid.replace("h200", "H9000"), name="s", where="s.toml")
    with pytest.raises(UsageError, match="machines without measure"):
        parse_study(grid.replace(', "measure"', ""), name="s", where="s.toml")


def test_several_grids_have_no_more_points_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MAX_POINTS", 3)
    grids = "".join(f"{GRID}params = {{ seq_len = {sizes} }}\n" for sizes in ("[64, 128]", "[256, 512]"))
    with pytest.raises(UsageError, match="more than 3 points"):
        parse_study(grids, name="s", where="s.toml")
    assert len(parse_study(f"{GRID}params = {{ seq_len = [64, 128, 256] }}\n", name="s", where="s.toml").points) == 3
