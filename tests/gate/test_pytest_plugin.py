"""The pytest plugin on an example suite.

Snapshots are written, compared and accepted.

A gate that compares nothing is red.
"""

from __future__ import annotations

import ast
import gc
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware._deferred_gc import THRESHOLDS
from ioaware.gate import derived_snapshot, failure, pytest_plugin, snapshot, traffic_fixture  # noqa: F401 (kept by inner runs)
from ioaware.gate.symbolic_call import derive_call
from tests.support.gate_runs import OF_A_JOB, Repository
from tests.support.lasting_cache import lasting_cache


@lasting_cache
def derived_once(
    kernel: str, args: tuple[Any, ...], sizes: tuple[tuple[str, int], ...], gpu: str, spills: bool, function: Any
) -> Any:
    return derive_call(function.value, args, {}, dict(sizes), gpu=gpu, machine_code=spills)


class Unhashed:
    """A function that the cache ignores, since its file is the key."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashed)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Repository:
    """The example repository, in which a kernel is derived once.

    All tests of this file share it.
    """
    for name in OF_A_JOB:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    made = Repository(tmp_path, capsys)

    def derive(function: Any, args: Any, kwargs: Any, sizes: Any, *, gpu: str, machine_code: bool, autotune: Any = None) -> Any:
        assert not kwargs
        if autotune:
            return derive_call(function, args, {}, sizes, gpu=gpu, machine_code=machine_code, autotune=autotune)
        return derived_once(made.kernel.read_text(), tuple(args), tuple(sizes.items()), gpu, machine_code, Unhashed(function))

    monkeypatch.setattr(traffic_fixture, "derive_call", derive)
    return made


_written: list[str] = []


@pytest.fixture
def gated(repository: Repository) -> Repository:
    """The repository with its snapshot, written on first use."""
    if not _written:
        assert repository.pytest("--traffic=create").code == 0
        _written.append(repository.test.read_text())
    repository.test.write_text(_written[0])
    return repository


MORE = (") * tl.load(w + col", ") * tl.load(out + row * cols + col, col < cols) * tl.load(w + col")
BY_DATA = (" * tl.load(w + col, col < cols)", " * tl.load(out + col, tl.load(w + col, col < cols) > 0)")
A_LINE = ("        tl.store(", "        value += tl.load(out + row * cols + col, col < cols)\n        tl.store(")
LESS = (" * tl.load(w + col, col < cols)", "")
HEADER = re.compile(r"triton \S+, cuda:90, ir \w+")
EXTRA = "        tl.store(out + row * cols + extra, tl.load(x + row * cols + extra))\n"
LATER = ("    for start", f"    for extra in range(0, cols // 8192):\n{EXTRA}    for start")
GROWS = ("[(x.shape[0],)]", "[(x.shape[0] + x.shape[0] // 8192,)]")


def test_a_module_that_needs_a_gpu_at_import(gated: Repository) -> None:
    """The fixture imports it by name, where a test cannot."""
    gated.change(gated.kernel, "import torch\n", "import torch\n\nCAPABILITY = torch.cuda.get_device_capability()\n")
    if not torch.cuda.is_available():
        assert gated.pytest().code == 2
    gated.change(gated.test, "from scale import scale\n", "")
    gated.change(gated.test, "traffic(scale,", 'traffic("scale:scale",')
    assert gated.pytest().code == 0
    gated.change(gated.test, '"scale:scale"', '"scale.py:scale"')
    assert gated.pytest().code == 0
    gated.change(gated.kernel, *MORE)
    assert gated.pytest().code == 1
    gated.change(gated.test, '"scale.py:scale"', '"scale:none"')
    ran = gated.pytest()
    assert (ran.code, "scale has no function 'none'" in ran.output) == (1, True)


def test_a_missing_snapshot_fails_and_create_writes_it(repository: Repository) -> None:
    ran = repository.pytest()
    assert ran.code == 1
    assert "MISSING: scale:scale has no snapshot yet" in ran.output
    assert "write it with pytest gate_scale.py::test_scale --traffic=create" in ran.output
    created = repository.pytest("--traffic=create")
    assert (created.code, f"traffic: wrote {repository.test}:12" in created.output) == (0, True)
    assert repository.test.read_text().endswith(
        '''    assert traffic(scale, x, w) == traffic.snapshot(
        reads="4*cols*rows",
        writes="2*cols*rows",
        at={
            "rows=4096, cols=2048": (33_554_432, 16_777_216),
            "rows=6151, cols=3079": (75_755_716, 37_877_858),
        },
        sector_bytes=(50_331_648, 115_220_448),
        made_with="'''
        + repository.test.read_text().rpartition('made_with="')[2]
    )
    held = repository.pytest()
    assert (held.code, "traffic" in held.output) == (0, False)  # silent


def test_full_collections_wait_while_a_test_uses_the_fixture(gated: Repository) -> None:
    before, after = "def test_scale(traffic):\n", f"    assert gc.get_threshold()[1:] == {THRESHOLDS[1:]}\n"
    gated.change(gated.test, before, f"import gc\n\n\n{before}{after}")
    assert gated.pytest().code == 0
    assert gc.get_threshold()[1:] != THRESHOLDS[1:]


def test_an_extra_load_is_worse_and_accept_writes_it(gated: Repository) -> None:
    gated.change(gated.kernel, *MORE)
    ran = gated.pytest()
    assert ran.code == 1
    for message in (
        "WORSE: scale:scale: more bytes than the snapshot",
        "reads       4*cols*rows",
        "now         6*cols*rows",
        "rows=4096, cols=2048: 33,554,432 -> 50,331,648 (+16,777,216, +50.0 %)",
        "scale.py:11: value = tl.load(x + row * cols + col, col < cols) * tl.load(out",
        "compulsory",
        "accept with pytest gate_scale.py::test_scale --traffic=accept",
    ):
        assert message in ran.output
    assert gated.pytest("--traffic=create").code == 1  # creating does not accept
    assert gated.pytest("--traffic=accept").code == 0
    assert 'reads="6*cols*rows"' in gated.test.read_text()
    assert gated.pytest().code == 0


def test_of_several_lines_with_the_new_bytes_each_is_named(gated: Repository) -> None:
    """A snapshot has totals: which of them is new it cannot know."""
    gated.change(gated.kernel, *A_LINE)
    ran = gated.pytest()
    first, second = ran.output.index("  one of      "), ran.output.index("value += tl.load(out")
    assert "scale.py:11: value = tl.load(x" in ran.output[first:second]


def test_bytes_that_depend_on_data_have_no_snapshot(gated: Repository) -> None:
    gated.change(gated.kernel, *BY_DATA)
    before = gated.test.read_text()
    ran = gated.pytest("--traffic=accept")
    assert (ran.code, gated.test.read_text()) == (1, before)
    assert "INCOMPARABLE: scale:scale: cannot be compared with the snapshot" in ran.output
    assert "the bytes are not exact, and a snapshot holds exact ones: " in ran.output
    assert "make the kernel exempt in traffic-ledger.toml, with the reason" in ran.output
    assert "accept with" not in ran.output


def test_fewer_bytes_are_a_changed_snapshot_too(gated: Repository) -> None:
    gated.change(gated.kernel, *LESS)
    ran = gated.pytest()
    assert (ran.code, "BETTER: scale:scale: fewer bytes than the snapshot: accept it" in ran.output) == (1, True)


def test_the_same_bytes_with_another_growth(gated: Repository) -> None:
    gated.change(gated.kernel, *GROWS)
    ran = gated.pytest()
    assert ran.code == 1
    assert "GROWTH: scale:scale: the same bytes here, another growth" in ran.output
    assert "rows=8192, cols=4096: 134,217,728 -> 134,234,112 (+16,384)" in ran.output


def test_a_line_that_moves_bytes_at_other_sizes_only_is_named(gated: Repository) -> None:
    gated.change(gated.kernel, *LATER)
    ran = gated.pytest()
    assert ran.code == 1
    assert "GROWTH: scale:scale: the same bytes here, another growth" in ran.output
    assert re.search(r"  from        \S*scale\.py:10: tl\.store\(out \+ row \* cols \+ extra", ran.output)


def test_another_toolchain_is_incomparable(gated: Repository) -> None:
    triton = gated.test.read_text().partition("triton ")[2].partition(",")[0]
    gated.change(gated.test, f"triton {triton}", "triton 2.0.0")
    equal = gated.pytest()
    assert equal.code == 1
    assert "INCOMPARABLE: scale:scale" in equal.output
    assert "the formulas are proven equal" in equal.output
    assert gated.pytest("--traffic-cross-toolchain").code == 0
    gated.change(gated.kernel, *MORE)
    moved = gated.pytest("--traffic-cross-toolchain")
    assert moved.code == 1
    assert "INCOMPARABLE: scale:scale" in moved.output
    assert "4*cols*rows" in moved.output
    assert "6*cols*rows" in moved.output


def test_a_lost_tma_load_is_worse(gated: Repository) -> None:
    """The bytes are the same; the snapshot says that two instructions loaded by TMA."""
    gated.change(gated.test, "        made_with=", "        tma_loads=2,\n        made_with=")
    header = gated.test.read_text().rpartition(", ir ")[2][:12]
    gated.change(gated.test, header, "0123456789ab")
    ran = gated.pytest()
    assert (ran.code, "WORSE: scale:scale" in ran.output, "TMA loads: 2 -> 0" in ran.output) == (1, True, True)


def test_facts_of_the_machine_code_are_held_and_renewed(gated: Repository) -> None:
    gated.change(gated.test, "        made_with=", "        spill_bytes=0,\n        registers=1,\n        made_with=")
    ran = gated.pytest()
    assert (ran.code, "WORSE: scale:scale: the same bytes, and a fact" in ran.output) == (1, True)
    assert "why         registers of a thread: 1 -> " in ran.output
    assert gated.pytest("--traffic=create").code == 1  # creating does not accept
    assert gated.pytest("--traffic=accept").code == 0
    written = gated.test.read_text()
    registers = int(written.partition("registers=")[2].partition(",")[0])
    assert (registers > 1, "        spill_bytes=0,\n" in written) == (True, True)
    assert gated.pytest().code == 0
    gated.change(gated.test, f"registers={registers}", f"registers={registers + 1}")
    fewer = gated.pytest()
    assert (fewer.code, "BETTER: scale:scale: the same bytes" in fewer.output) == (1, True)
    gated.change(gated.test, "spill_bytes=0", "shared_bytes=1_000, max_spills=0")
    fewer = gated.pytest()
    assert (fewer.code, "bytes of shared memory: 1,000 -> 0" in fewer.output) == (1, True)


def test_create_writes_facts_that_hold_and_no_others(repository: Repository) -> None:
    repository.change(repository.test, "snapshot()", "snapshot(spill_bytes=1)")
    ran = repository.pytest("--traffic=create")
    assert (ran.code, "why         the snapshot is missing; bytes that a thread spills: 1 -> 0" in ran.output) == (1, True)
    repository.change(repository.test, "snapshot(spill_bytes=1)", "snapshot(spill_bytes=0)")
    assert repository.pytest("--traffic=create").code == 0
    assert "        spill_bytes=0,\n        made_with=" in repository.test.read_text()
    repository.change(repository.test, "spill_bytes=0", "spill_bytes=True")
    assert repository.pytest("--traffic=accept").code == 1


DAMAGE = [
    ('    reads="4*cols*rows",\n', ""),
    ('writes="2*cols*rows"', 'writes=""'),
    ('writes="2*cols*rows"', "writes=None"),
    ('writes="2*cols*rows"', 'writes="2*cols*q"'),
    ("16_777_216)", "16_777_217)"),
    ("16_777_216)", "float('nan'))"),
    ("16_777_216)", "True)"),
    ("33_554_432, ", ""),
    ("rows=4096, cols=2048", "rows=4096"),
    ("rows=4096, cols=2048", "rows=4096, columns=2048"),
    ("rows=4096, cols=2048", "rows=-4, cols=2048"),
    ('made_with="', 'made_with="damaged '),
    ("made_with=", "made_by="),
    ("reads=", "reads='2', reads="),
]


@pytest.mark.parametrize(("old", "new"), DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_snapshot_never_passes(gated: Repository, old: str, new: str) -> None:
    gated.change(gated.test, old, new)
    ran = gated.pytest()
    assert ran.code in (1, 2)
    assert "1 passed" not in ran.output
    assert "INTERNALERROR" not in ran.output


@pytest.mark.parametrize("step", [90, pytest.param(16, marks=pytest.mark.slow)])
def test_a_truncated_test_never_passes(gated: Repository, step: int) -> None:
    """A truncated file is no Python, or has no complete comparison.

    Its snapshot is missing or compared with nothing.
    """
    whole = gated.test.read_bytes()
    for length in range(whole.index(b"assert"), len(whole) - 2, step):
        gated.test.write_bytes(whole[:length])
        ran = gated.pytest()
        assert ran.code != 0, whole[:length]
        assert "INTERNALERROR" not in ran.output


CALL = "traffic(scale, traffic.tensor('rows', 'cols'), traffic.tensor('cols'))"
OPEN = {
    "nothing is called": "pass",
    "nothing is compared": CALL,
    "a snapshot alone": "traffic.snapshot(reads='1', writes='1')",
    "a swallowed failure": f"try:\n        assert {CALL} == traffic.snapshot()\n    except AssertionError:\n        pass",
    "another value": f"assert {CALL} == '4*cols*rows'",
    "not equal": f"assert {CALL} != traffic.snapshot()",
}


@pytest.mark.parametrize("body", OPEN.values(), ids=OPEN)
def test_a_gate_that_compares_nothing_is_red(repository: Repository, body: str) -> None:
    repository.test.write_text(f"from scale import scale\n\ndef test_scale(traffic):\n    {body}\n")
    assert repository.pytest().code == 1


def budgeted(repository: Repository, marker: str, mode: str = "--quiet") -> Any:
    lines = "traffic(scale, traffic.tensor('rows', 'cols', dtype='float16'), traffic.tensor('cols', dtype='float16'))"
    test = f"import pytest\nfrom scale import scale\n\n@pytest.mark.traffic({marker})\ndef test_scale(traffic):\n    {lines}\n"
    repository.test.write_text(test)
    return repository.pytest(mode)


@pytest.mark.parametrize(
    ("marker", "code"),
    [
        ("max_bytes='6*rows*cols'", 0),
        ("max_bytes='5*rows*cols'", 1),
        ("max_reads='4*rows*cols', max_writes='2*rows*cols', vs_compulsory=1.5", 0),
        ("vs_compulsory=1.05", 1),
        ("max_bytes=float('nan')", 1),
        ("max_bytes='6*rows*cols', max_byte=3", 1),
        ("min_tma_loads=1", 1),
        ("'6*rows*cols'", 1),
    ],
)
def test_budgets_of_a_marker(repository: Repository, marker: str, code: int) -> None:
    assert budgeted(repository, marker).code == code


def test_no_update_raises_a_budget(repository: Repository) -> None:
    ran = budgeted(repository, "max_bytes='5*rows*cols'", "--traffic=accept")
    assert (ran.code, "A budget is not raised by --traffic=accept" in ran.output) == (1, True)


def test_a_budget_that_is_exceeded_shows_what_moves_the_bytes(repository: Repository) -> None:
    place = "tl.program_id(0)"
    repository.change(repository.kernel, place, f"{place}  # {repository.root}")  # no cache has this source, nor other lines
    output = budgeted(repository, "max_reads='3*rows*cols', max_spills=0").output
    shown = [re.sub(r" /\S+/scale", " scale", line[1:].strip()) for line in output.splitlines() if line.startswith("E ")]
    assert shown[1:] == [
        "why         33,554,432 B, the limit is 25,165,824 B at rows=4096, cols=2048: 8,388,608 B too many",
        "reads       4*cols*rows",
        "largest     scale.py:11: value = tl.load(x + row * cols + col, col < cols) * tl.load(w + col, col < cols)",
        "reads 2*cols*rows, 2*cols*rows bytes",
        "compulsory  33,558,528 B; requested 50,331,648 B is 1.5× this",
        "A budget is not raised by --traffic=accept; change it in the test.",
    ]


def test_a_budget_in_a_snapshot_is_held_and_kept(gated: Repository) -> None:
    gated.change(gated.test, "        made_with=", '        max_bytes="6*rows*cols",  # the floor\n        made_with=')
    gated.change(gated.kernel, *LESS)
    assert gated.pytest("--traffic=accept").code == 0
    assert 'reads="2*cols*rows"' in gated.test.read_text()
    assert 'max_bytes="6*rows*cols"' in gated.test.read_text()
    gated.change(gated.test, "6*rows*cols", "3*rows*cols")
    assert gated.pytest("--traffic=accept").code == 1


def test_a_marker_without_the_fixture_is_refused(repository: Repository) -> None:
    repository.test.write_text("import pytest\n\n@pytest.mark.traffic(max_bytes=1)\ndef test_scale():\n    pass\n")
    assert repository.pytest().code == 4


def test_a_marker_of_that_name_in_another_project_is_its_own(repository: Repository) -> None:
    repository.test.write_text("import pytest\n\n@pytest.mark.traffic(lights=3)\ndef test_scale():\n    pass\n")
    assert repository.pytest().code == 0


def test_snapshots_are_written_on_request_of_the_command_line_only(gated: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    gated.change(gated.kernel, *MORE)
    before = gated.test.read_text()
    monkeypatch.setenv("PYTEST_ADDOPTS", "--traffic=accept")
    assert gated.pytest().code == 4
    monkeypatch.delenv("PYTEST_ADDOPTS")
    monkeypatch.setenv("CI", "true")
    ran = gated.pytest("--traffic=accept")
    assert (ran.code, "CI must not" in ran.output) == (4, True)
    monkeypatch.delenv("CI")
    ini = gated.root / "pytest.ini"
    ini.write_text(ini.read_text() + "addopts = --traffic=accept\n")
    assert gated.pytest().code == 4
    assert gated.test.read_text() == before


def test_deselecting_all_gates_is_no_success(gated: Repository) -> None:
    assert gated.pytest("-k", "nothing").code == 5
    assert gated.pytest("-k", "scale").code == 0


@pytest.mark.parametrize("switch", ["--assert=plain", "--benchmark-disable", "--traffic=create", "-p no:assertion"])
def test_switches_of_benchmarks_and_assertions_change_nothing(gated: Repository, switch: str) -> None:
    option = "parser.addoption('--benchmark-disable', action='store_true')"
    (gated.root / "conftest.py").write_text(f"def pytest_addoption(parser):\n    {option}\n")
    gated.change(gated.kernel, *MORE)
    assert gated.pytest(*switch.split()).code == 1


def test_a_failing_test_writes_nothing(repository: Repository) -> None:
    repository.test.write_text(repository.test.read_text() + "    raise ValueError\n")
    before = repository.test.read_text()
    assert repository.pytest("--traffic=create").code == 1
    assert repository.test.read_text() == before


def test_one_snapshot_for_two_calls_is_refused(repository: Repository) -> None:
    both = "@pytest.mark.parametrize('dtype', ['float16', 'float32'])\ndef test_scale(traffic, dtype):"
    body = repository.test.read_text().replace("def test_scale(traffic):", both)
    shared = "import pytest\n" + body.replace('dtype="float16"', "dtype=dtype")
    alone = "\n\n" + repository.test.read_text().partition("\n\n\n")[2].replace("test_scale", "test_alone")
    repository.test.write_text(shared + alone)
    ran = repository.pytest("--traffic=create")
    assert (ran.code, "not written, one snapshot stands for 2 calls of different traffic" in ran.output) == (1, True)
    written = repository.test.read_text()
    assert written.startswith(shared)  # the call of the other test is written all the same
    assert 'reads="4*cols*rows"' in written.removeprefix(shared)


def test_the_rest_of_a_file_is_unchanged(repository: Repository) -> None:
    """Comments, other statements, characters beyond ASCII and Windows line ends."""
    text = repository.test.read_text().replace("traffic.snapshot()", "traffic.snapshot()  # größer?") + "\n\nAFTER = 'é'\n"
    repository.test.write_bytes(text.replace("\n", "\r\n").encode())
    assert repository.pytest("--traffic=create").code == 0
    written = repository.test.read_bytes()
    assert b"\n" not in written.replace(b"\r\n", b"")
    assert written.decode().endswith("\",\r\n    )  # größer?\r\n\r\n\r\nAFTER = 'é'\r\n")
    ast.parse(written)


@pytest.mark.slow
def test_collection_loads_neither_torch_nor_sympy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository = Repository(tmp_path, capsys)
    heavy = "{'torch', 'triton', 'sympy', 'numpy'}"
    repository.test.write_text(f"import sys\n\ndef test_nothing():\n    assert not {heavy} & set(sys.modules)\n")
    ran = repository.process_pytest()
    assert (ran.code, "traffic" in ran.output) == (0, False)


def test_the_guide_shows_what_is_printed(gated: Repository) -> None:
    """The kernel, its test, the snapshot and the failure in docs/gate.md."""
    guide = (Path(__file__).parents[2] / "docs/gate.md").read_text()
    assert f"```python scale.py\n{gated.kernel.read_text()}```" in guide
    written = gated.test.read_text().partition("    assert traffic")[2]
    assert HEADER.sub("", "    assert traffic" + written) in HEADER.sub("", guide)
    gated.change(gated.kernel, *MORE)
    output = re.sub(r"/\S*/scale\.py", "scale.py", gated.pytest().output)  # derived by any test, in its folder
    failed, shown = (
        text.partition("more bytes than the snapshot\n")[2].partition("_scale.py::")[0] for text in (output, guide)
    )
    printed, wanted = (HEADER.sub("", text).splitlines()[:-1] for text in (failed, shown))
    assert [line.strip("E ") for line in printed] == [line.strip() for line in wanted]
    assert len(wanted) == 11
    assert MORE[1].removeprefix(") * ").removesuffix(" * tl.load(w + col") in guide
