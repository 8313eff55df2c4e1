"""Ways around a gate that a test, a conftest or an option may take; each is red.

The nine switches of the field are in test_switches.py.
"""

from __future__ import annotations

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.gate import traffic_fixture
from ioaware.gate.pytest_plugin import SESSION
from ioaware.gate.repository.ledger import LEDGER
from ioaware.gate.symbolic_call import derive_call
from tests.gate.test_pytest_plugin import MORE, gated, repository  # noqa: F401 (fixtures)  # pyright: ignore[reportUnusedImport]
from tests.support.gate_runs import Repository

CLONED = "    x = x.clone()\n    out = torch.empty_like(x)"
BRANCH = "    if x.shape[0] > 10_000:\n        x = scale(x, w)\n    out = torch.empty_like(x)"
TUNED = """CONFIGURATIONS = [triton.Config({"BLOCK": 1024, "MORE": 0}), triton.Config({"BLOCK": 2048, "MORE": 0})]


@triton.autotune(CONFIGURATIONS, key=["cols"])
@triton.jit
def"""
BY_COLUMNS = """        if cols % 2 == 1:
            loaded = tl.load(x + row + col * tl.num_programs(0), col < cols)
        else:
            loaded = tl.load(x + row * cols + col, col < cols)
        value = loaded"""
HIDDEN = "its gate failed, and pytest does not count it as failed"
NO_GATE = f"gate_scale.py::test_scale passed without a gate, and {LEDGER} names it"
FLIPPED = """
import pytest

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
OWN_FIXTURE = """
import pytest

@pytest.fixture
def traffic():
    class Passing:
        def __getattr__(self, name): return lambda *args, **kwargs: 1
        def __call__(self, *args): return 1
    return Passing()
"""


def listed(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Write the ledger of the gated repository, which names its test."""
    monkeypatch.setattr(traffic_fixture, "derive_call", derive_call)  # of this copy: its path is in the ledger
    place = "tl.program_id(0)"
    repository.change(repository.kernel, place, f"{place}  # {repository.root}")  # no cache has this source
    assert run(["coverage", str(repository.root), "--write"], Settings()) == 0
    assert repository.pytest("--traffic=create").code == 0
    assert "gate_scale.py::test_scale" in (repository.root / LEDGER).read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test_scale", "import pytest\n\n\n@pytest.mark.xfail\ndef test_scale"),
        ("    assert traffic", "    import pytest\n\n    pytest.xfail()\n    assert traffic"),
    ],
)
def test_a_marker_xfail_hides_no_failure(gated: Repository, old: str, new: str) -> None:  # noqa: F811
    gated.change(gated.kernel, *MORE)
    gated.change(gated.test, old, new)
    ran = gated.pytest()
    marked = "mark" in new
    assert ran.code == (1 if marked else 0)  # what never ran has not failed: --traffic-complete says so
    assert (HIDDEN in ran.output) == marked


def test_a_skip_after_the_failure_hides_nothing(gated: Repository) -> None:  # noqa: F811
    gated.change(gated.kernel, *MORE)
    text = gated.test.read_text()
    start = text.index("    assert traffic")
    indented = "".join(f"    {line}\n" for line in text[start:].splitlines())
    skip = "    except AssertionError:\n        import pytest\n\n        pytest.skip()\n"
    gated.test.write_text(f"{text[:start]}    try:\n{indented}{skip}")
    ran = gated.pytest()
    assert (ran.code, HIDDEN in ran.output) == (1, True)


def test_a_conftest_that_calls_every_test_passed(gated: Repository) -> None:  # noqa: F811
    gated.change(gated.kernel, *MORE)
    (gated.root / "conftest.py").write_text(FLIPPED)
    ran = gated.pytest()
    assert (ran.code, HIDDEN in ran.output) == (1, True)


def test_a_fixture_of_the_same_name_gates_nothing(gated: Repository, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    listed(gated, monkeypatch)
    (gated.root / "conftest.py").write_text(OWN_FIXTURE)
    ran = gated.pytest()
    assert (ran.code, NO_GATE in ran.output) == (1, True)


def test_a_test_without_its_gate_fails_while_the_ledger_names_it(
    gated: Repository,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed(gated, monkeypatch)
    gated.test.write_text("def test_scale():\n    pass\n")
    ran = gated.pytest()
    assert (ran.code, NO_GATE in ran.output) == (1, True)


@pytest.mark.parametrize("swallowed", ["traffic(print)", "traffic.snapshot(reads=1)", "traffic(scale, x)"])
def test_an_error_that_the_test_swallows(gated: Repository, swallowed: str) -> None:  # noqa: F811
    attempt = f"    try:\n        {swallowed}\n    except Exception:\n        pass\n    assert traffic"
    gated.change(gated.test, "    assert traffic", attempt)
    ran = gated.pytest()
    assert ran.code == 1
    assert "the test passed although its gate failed" in ran.output


def test_the_part_that_fails_a_run_cannot_be_blocked(gated: Repository) -> None:  # noqa: F811
    ran = gated.pytest("-p", f"no:{SESSION}")
    assert ran.code == 4
    assert "is blocked (-p no:)" in ran.output


@pytest.mark.slow
def test_optimised_python_gates_nothing_and_fails(gated: Repository) -> None:  # noqa: F811
    """A helper's assertions are removed, though pytest keeps those of tests."""
    ran = gated.process_pytest("gate_scale.py", "-W", "default", python=("-O",))
    assert ran.code == 1
    assert "python -O removes assertions" in ran.output


def test_more_sectors_at_ragged_sizes_alone_are_another_growth(gated: Repository) -> None:  # noqa: F811
    """At the first point rows are a multiple of 16 elements."""
    gated.change(gated.kernel, "        value = tl.load(x + row * cols + col, col < cols)", BY_COLUMNS)
    ran = gated.pytest()
    assert ran.code == 1
    assert "GROWTH: scale:scale: the same bytes here, another growth" in ran.output
    assert "bytes of 32-byte sectors at rows=6151, cols=3079: 115,220,448 -> " in ran.output
    assert gated.pytest("--traffic=accept").code == 0
    assert gated.pytest().code == 0


def test_a_kernel_that_prints_has_no_exact_bytes(gated: Repository) -> None:  # noqa: F811
    gated.change(gated.kernel, "        tl.store(", '        tl.device_print("v", value)\n        tl.store(')
    ran = gated.pytest()
    assert ran.code == 1
    assert "a snapshot holds exact ones: device_print at " in ran.output


def test_a_copy_by_torch_is_more_traffic(gated: Repository) -> None:  # noqa: F811
    gated.change(gated.kernel, "    out = torch.empty_like(x)", CLONED)
    ran = gated.pytest()
    assert ran.code == 1
    assert "WORSE: scale:scale: more bytes than the snapshot" in ran.output
    assert "torch_reads: +16,777,216 at rows=4096, cols=2048" in ran.output
    assert "aten.clone.default: 33,554,432 B" in ran.output
    assert gated.pytest("--traffic=accept").code == 0
    assert 'torch_reads="2*cols*rows",\n        torch_writes="2*cols*rows",' in gated.test.read_text()
    assert gated.pytest().code == 0
    gated.change(gated.kernel, CLONED, "    out = torch.empty_like(x)")
    assert "BETTER" in gated.pytest().output


def test_a_copy_to_the_host_is_more_traffic(gated: Repository) -> None:  # noqa: F811
    gated.change(gated.kernel, "    out = torch.empty_like(x)", "    x.cpu()\n    out = torch.empty_like(x)")
    ran = gated.pytest()
    assert (ran.code, "WORSE" in ran.output) == (1, True)
    assert "copy to the host: 16,777,216 B" in ran.output


def test_the_same_bytes_in_more_sectors_are_more_traffic(gated: Repository) -> None:  # noqa: F811
    """A tile that is read by columns: equal formulas, and a sector for each element."""
    gated.change(gated.kernel, "tl.load(x + row * cols + col", "tl.load(x + col * tl.num_programs(0) + row")
    ran = gated.pytest()
    assert (ran.code, "WORSE" in ran.output) == (1, True)
    assert "bytes of 32-byte sectors at the first point: 50,331,648 -> " in ran.output


def test_another_configuration_of_the_autotuner_that_moves_more(gated: Repository) -> None:  # noqa: F811
    """Formulas are of the first one, whose code stays as it is."""
    gated.change(gated.kernel, "@triton.jit\ndef", TUNED)
    gated.change(gated.kernel, "BLOCK: tl.constexpr)", "BLOCK: tl.constexpr, MORE: tl.constexpr)")
    gated.change(gated.kernel, ", BLOCK=1024)", ")")
    ran = gated.pytest()
    assert (ran.code, "UNSURE" in ran.output) == (1, True)
    assert "one of 2 configurations, and the snapshot has no most_bytes of all" in ran.output
    assert gated.pytest("--traffic=accept").code == 0
    assert "most_bytes=50_331_648," in gated.test.read_text()
    assert gated.pytest().code == 0
    store = "        tl.store(out"
    gated.change(
        gated.kernel, store, f"        if MORE:\n            value += tl.load(out + row * cols + col, col < cols)\n{store}"
    )
    assert gated.pytest().code == 0
    gated.change(gated.kernel, '2048, "MORE": 0', '2048, "MORE": 1')
    ran = gated.pytest()
    assert (ran.code, "WORSE" in ran.output) == (1, True)
    assert "most bytes of any autotuned configuration at the first point: 50,331,648 -> 67,108,864" in ran.output
    gated.change(gated.test, "most_bytes=50_331_648,", 'most_bytes=67_108_864, max_bytes="6*rows*cols",')
    ran = gated.pytest()
    assert (ran.code, "is not within max_bytes" in ran.output) == (1, True)
    assert "at rows=4096, cols=2048: 16,777,216 B too many, with BLOCK=2048, MORE=1" in ran.output


@pytest.mark.slow
def test_a_configuration_that_moves_more_below_the_most(gated: Repository) -> None:  # noqa: F811
    """Neither the first, whose formulas are held, nor the one that moves most."""
    third = TUNED.replace("0})]", '0}), triton.Config({"BLOCK": 64, "MORE": 2})]')
    gated.change(gated.kernel, "@triton.jit\ndef", third)
    gated.change(gated.kernel, "BLOCK: tl.constexpr)", "BLOCK: tl.constexpr, MORE: tl.constexpr)")
    gated.change(gated.kernel, ", BLOCK=1024)", ")")
    store = "        tl.store(out"
    more = "        for _ in range(MORE):\n            value += tl.load(out + row * cols + col, col < cols)\n"
    gated.change(gated.kernel, store, more + store)
    assert gated.pytest("--traffic=accept").code == 0
    assert 'configurations="3, ' in gated.test.read_text()
    assert gated.pytest().code == 0
    gated.change(gated.kernel, '2048, "MORE": 0', '2048, "MORE": 1')
    ran = gated.pytest()
    assert (ran.code, "UNSURE" in ran.output) == (1, True)
    assert "other configurations, or other bytes or sectors in some: 3, " in ran.output


def test_a_branch_on_the_address_of_a_tensor(gated: Repository) -> None:  # noqa: F811
    before = "    out = torch.empty_like(x)"
    gated.change(gated.kernel, before, f"    if x.data_ptr() % 16:\n        x = x.clone()\n{before}")
    ran = gated.pytest()
    assert (ran.code, "UNSURE" in ran.output) == (1, True)
    assert "the formulas now hold only where tensors begin at multiples of 256 bytes" in ran.output
    assert gated.pytest("--traffic=accept").code == 0
    assert 'where="tensors begin at multiples of 256 bytes",' in gated.test.read_text()
    assert gated.pytest().code == 0


# The thread is not joined, so that it may meet a fake tensor that the first thread uses.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_torch_operators_in_another_thread(gated: Repository) -> None:  # noqa: F811
    before = "    out = torch.empty_like(x)"
    thread = f"{before}\n    import threading\n    threading.Thread(target=lambda: out.add_(1)).start()"
    gated.change(gated.kernel, before, thread)
    ran = gated.pytest()
    assert (ran.code, "UNSURE" in ran.output) == (1, True)
    assert "hold only where no torch operator runs in another thread or process" in ran.output


def test_a_budget_of_torch_operators(gated: Repository) -> None:  # noqa: F811
    gated.change(gated.test, "def test_scale", "import pytest\n\n\n@pytest.mark.traffic(max_torch_bytes=0)\ndef test_scale")
    assert gated.pytest().code == 0
    gated.change(gated.kernel, "    out = torch.empty_like(x)", CLONED)
    ran = gated.pytest("--traffic=accept")
    assert ran.code == 1
    assert "WORSE: scale:scale is not within max_torch_bytes" in ran.output


def test_a_branch_on_the_text_of_a_size(gated: Repository) -> None:  # noqa: F811
    """Its digits: no condition on the size itself says when they are five."""
    gated.change(gated.kernel, "    out = torch", "    if len(str(x.shape[0])) > 4:\n        x = x.clone()\n    out = torch")
    ran = gated.pytest()
    assert ran.code == 1
    assert "the formulas now hold only where the text of rows decides nothing" in ran.output
    assert gated.pytest("--traffic=accept").code == 0
    assert gated.pytest().code == 0


def test_a_tensor_that_is_printed(gated: Repository) -> None:  # noqa: F811
    """Torch's copies to the host for it are not counted."""
    gated.change(gated.kernel, "    return out", "    repr(out)\n    return out")
    ran = gated.pytest()
    assert ran.code == 1
    assert "the formulas now hold only where no tensor is printed" in ran.output


def test_a_branch_at_other_sizes_is_not_the_same(gated: Repository) -> None:  # noqa: F811
    gated.change(gated.kernel, "    out = torch.empty_like(x)", BRANCH)
    ran = gated.pytest()
    assert ran.code == 1
    assert "UNSURE: scale:scale" in ran.output
    assert "the formulas now hold only where rows <= 10000" in ran.output
    assert gated.pytest("--traffic=accept").code == 0
    assert 'where="rows <= 10000",' in gated.test.read_text()
    assert gated.pytest().code == 0
    gated.change(gated.kernel, BRANCH, "    out = torch.empty_like(x)")  # they hold everywhere again
    assert gated.pytest().code == 0
