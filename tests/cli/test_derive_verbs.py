"""`derive` and `explain` end to end.

The tests cover text, LaTeX, JSON, bytes at source lines, and errors.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/derived_targets.py"
LABELLED = f"{TARGETS}:labelled"


@pytest.fixture
def output_of(capsys: pytest.CaptureFixture[str]):
    """Run a command line and check its exit code.

    Return stdout, or stderr if it failed.
    """

    def run_verb(*arguments: str, code: int = 0) -> str:
        assert run([*map(str, arguments)], Settings()) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return run_verb


def test_formula_leading_term_value_intensity_and_distance(output_of) -> None:
    text = output_of("derive", "flash2", "-p", "seq_len=512")
    assert "= 256*batch*heads*seq_len*ceil(seq_len/64) + 128*batch*heads*seq_len" in text
    assert "~ 4*batch*heads*seq_len**2" in text
    assert "1,114,112 B" in text  # 256 * 512 * 8 + 128 * 512
    assert "registers" in text
    assert "shared memory" in text
    assert "56.8  FLOP per requested byte" in text  # 4 * 512 * 512 * 64 / (1,114,112 + 132 * 512)
    assert "requested is 4.51× this" in text  # of 4 * 512 * 64 * 2 bytes
    assert "block_m specialised to 64 (constexpr BLOCK_M)" in text


def test_stdout_is_the_json_of_the_result_alone(output_of) -> None:
    data = json.loads(output_of("derive", f"{TARGETS}:one_launch_each", "-p", "n=100", "--json"))
    assert data["source"] == "derive"
    assert data["schema"] == 1
    assert data["requested"]["read_bytes"] == 1200
    assert data["requested"]["read_formula"] == "12*n"
    assert data["assumed"]["write_formula"] == "4*n"
    assert [launch["requested"]["read_formula"] for launch in data["launches"] if launch["origin"] == "triton"] == ["4*n"] * 3
    assert data["environment"]["compiled_for"] == "cuda:90"


def test_several_launches_have_a_total_and_assumed_bytes(output_of) -> None:
    text = output_of("derive", f"{TARGETS}:forward_and_backward", "-p", "n=100")
    total = text.partition("\ntotal\n")[2]
    assert "= 8*n" in total
    assert "assumed (torch) reads" in total


def test_counters_are_shown_with_their_option(output_of) -> None:
    """The sectors of the formula: 4 programs of 64 rows read Q once.

    They read K and V whole.
    """
    text = output_of("derive", "flash2", "-p", "seq_len=256", "--counters")
    assert "9,216  l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum" in text
    assert "will be counted" not in output_of("derive", "flash2", "-p", "seq_len=256")
    (launch,) = json.loads(output_of("derive", "flash2", "-p", "seq_len=256", "--counters", "--json"))["launches"]
    assert launch["counters"]["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 1056


def test_latex(output_of) -> None:
    text = output_of("derive", "flash2", "--latex")
    assert r"\left\lceil{\frac{\mathrm{seq\_len}}{64}}\right\rceil" in text
    assert r"256 \cdot \mathrm{batch} \cdot \mathrm{heads}" in text
    assert "= reads" in text


def test_a_long_formula_is_shown_under_v(output_of) -> None:
    arguments = ("derive", "flash1", "-p", "causal=true", "-p", "kv_len=700")
    short, whole = output_of(*arguments), output_of(*arguments, "-v")
    assert "characters (-v shows it)" in short
    assert "characters (-v shows it)" not in whole
    assert "floor" in whole


def test_common_subexpressions_are_named_and_whole_sectors_have_a_line(output_of) -> None:
    text = output_of("derive", "flash2", "-p", "causal=true")
    assert "8192*batch*heads*n**2 + 384*batch*heads*seq_len - 8192*batch*heads*n" in text
    assert "with n = ceil(seq_len/64)" in text
    assert "= writes  where seq_len % 8 == 0" in text
    assert "~ 2*batch*heads*seq_len**2" in text


def test_totals_have_a_line_for_whole_sectors_too(output_of) -> None:
    total = output_of("derive", "standard", "-p", "seq_len=200").partition("\ntotal\n")[2]
    assert "= reads  where seq_len % 16 == 0" in total  # from launches with conditions on multiples of 8 and of 16
    assert "otherwise, as here, a formula of batch, heads, seq_len" in total
    assert "as here" not in output_of("derive", "standard", "-p", "seq_len=256")


def test_unknowns_have_one_note_and_can_be_given_values(output_of) -> None:
    label, times = _unknown_name(), _unknown_name("iterations", "while tl.atomic_cas")
    text = output_of("derive", LABELLED)
    assert f"260*rows - 256*rows*[{label} == 3]" in text
    (note,) = [line for line in text.splitlines() if "count in terms of" in line]
    assert note.startswith("note: labelled_kernel: tt.load at derived_targets.py:")
    assert " and tt.store at derived_targets.py:" in note
    assert f"in terms of {label}: it is loaded from memory" in note
    assert f"NO  see the notes for what depends on data; -p '{times}=...' gives it a value" in text
    given = ("-p", f"{label}=0", "-p", f"{times}=0")
    text = output_of("derive", LABELLED, *given)
    assert "unknown" not in text
    assert "gives it a value" not in text
    launches = json.loads(output_of("derive", LABELLED, *given, "--json"))["launches"]
    launch = next(each for each in launches if each["origin"] == "triton")
    assert (launch["requested"]["read_bytes"], launch["exact"]) == (260 * 40, False)


def test_a_value_of_an_unknown_must_be_an_integer_for_a_known_name(output_of) -> None:
    label = _unknown_name()
    assert f"{label} takes an integer, not 'three'" in output_of("derive", LABELLED, "-p", f"{label}=three", code=2)
    error = output_of("explain", LABELLED, "-p", "label@derived_targets.py:1=3", code=2)
    assert "do not depend on label@derived_targets.py:1" in error
    assert label in error


def _unknown_name(name: str = "labels", source: str = "if tl.load(labels + row) != 3") -> str:
    lines = TARGETS.read_text().splitlines()
    return f"{name}@derived_targets.py:{next(at for at, line in enumerate(lines, 1) if source in line)}"


RAGGED = """
import torch
import triton
import triton.language as tl

@triton.jit
def ragged_kernel(x, starts, ends, out, B: tl.constexpr):
    start, end = tl.load(starts + tl.program_id(0)), tl.load(ends + tl.program_id(0))
    lanes = tl.arange(0, B)
    tl.store(out + tl.program_id(0) * B + lanes, tl.load(x + start + lanes, lanes < end - start), lanes < end - start)

@triton.jit
def copy_kernel(x, out, n, B: tl.constexpr):
    lanes = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)

def ragged(batch: int = 4, n: int = 1000, device="cuda"):
    x, out = torch.empty(n, device=device), torch.empty(batch, 32, device=device)
    starts, ends = (torch.empty(100, dtype=torch.int32, device=device) for _ in range(2))
    ragged_kernel[(batch,)](x, starts, ends, out, B=32)
    copy_kernel[(triton.cdiv(n, 64),)](x, torch.empty_like(x), n, B=64)
"""


def test_a_sum_has_a_leading_term(output_of) -> None:
    assert "~ 256*batch*heads*kv_len*seq_len" in output_of("derive", "flash2", "-p", "causal=true", "-p", "kv_len=700")


def test_no_formula_is_long_without_v(output_of, tmp_path: Path) -> None:
    """Leading terms of sums over unknowns have a case for each sign.

    Sectors that one launch lacks are those of the others.
    """
    file = tmp_path / "ragged.py"
    file.write_text(RAGGED, encoding="utf-8")
    text = output_of("derive", f"{file}:ragged")
    assert "(no leading term: it is longer than the formula)" in text
    assert "(without ragged_kernel, whose write sectors are not known)" in text
    assert text.count("assume that each of these values is equal") == 1
    assert max(map(len, text.splitlines())) < 400


def test_sectors_of_the_targets_data_are_shown_without_a_formula(output_of, tmp_path: Path) -> None:
    """Rows of 10, 20, 30 and 32 elements.

    Each begins at a multiple of 32, and they are in 2, 3, 4 and 4 sectors.
    """
    file = tmp_path / "ragged.py"
    built = "(10 * i * torch.arange(1, batch + 1, dtype=torch.int32, device=device) for i in range(2))"
    unset = "(torch.empty(100, dtype=torch.int32, device=device) for _ in range(2))"
    file.write_text(RAGGED.replace(unset, built), encoding="utf-8")
    text = output_of("derive", f"{file}:ragged")
    rows = [line.split() for line in text.splitlines() if "for the data of the target, without a formula" in line]
    assert [row[2] for row in rows if row[0] == "write"] == ["416", "4,416"]
    assert "are not known)" not in text


def test_conditions_in_json_include_the_largest_sizes(output_of) -> None:
    result = json.loads(output_of("derive", f"{TARGETS}:flat", "--json"))
    assert "columns*rows <= 2147483647" in result["conditions"]
    assert "columns*rows <= 2147483647" in result["launches"][-1]["conditions"]
    assert "ceil(columns*rows/64) <= 2147483647" in result["conditions"]


def test_output_goes_to_a_file(output_of, tmp_path: Path) -> None:
    assert output_of("derive", f"{TARGETS}:flat", "-o", str(tmp_path / "flat.txt")) == ""
    assert "2*columns*rows" in (tmp_path / "flat.txt").read_text()


def test_a_configuration_can_be_chosen(output_of) -> None:
    assert "derived with BLOCK=128" in output_of("derive", f"{TARGETS}:tuned", "--config", "BLOCK=128")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("flash3",), "no case 'flash3'"),
        (("flash2", "-p", "seqlen=3"), "Did you mean seq_len?"),
        (("flash2", "--gpu", "h2000"), "no GPU 'h2000'"),
        ((f"{TARGETS}:idle",), "launched no Triton kernel"),
        ((f"{TARGETS}:broken",), "does not compile for cuda:90"),
        ((f"{TARGETS}:branches_on_a_kernels_output",), "reads what a kernel computed"),
        (("no/such/file.py:f",), "there is no file"),
        ((f"{TARGETS}:takes_numpy",), "failed to specialize argument of type: numpy.ndarray"),
        ((f"{TARGETS}:negative",), "negative dimension"),
        ((f"{TARGETS}:enormous",), "integers have at most 64 bits"),
        ((f"{TARGETS}:leaves",), "raised SystemExit at"),
        ((f"{TARGETS}:flat", "-p", "rows=many"), "rows takes an integer"),
        ((f"{TARGETS}",), "names a file and no function"),
        ((f"{TARGETS}:flats",), "Did you mean"),
        ((f"{TARGETS}:scale_kernel",), "is a Triton kernel"),
        ((f"{TARGETS}:tuned", "--config", "BLOCK=7"), "no configuration"),
        ((f"{TARGETS}:tuned", "--config", "BLOCK"), "--config 'BLOCK' is not name=value"),
        ((f"{TARGETS}:flat", "--config", "BLOCK=64"), "launches no autotuned kernel"),
        (("flash2", "--gpu", "cuda:999"), "no GPU 'cuda:999'"),
        ((f"{TARGETS}:yields",), "it is a generator"),
        ((f"{TARGETS}:awaits",), "it is a coroutine"),
    ],
)
@pytest.mark.parametrize("verb", ["derive", "explain"])
def test_bad_input_is_one_sentence_and_exit_code_2(output_of, verb: str, arguments: tuple[str, ...], words: str) -> None:
    error = output_of(verb, *arguments, code=2)
    assert words in error
    assert error.startswith("ioaware: ")
    assert "Traceback" not in error
    assert len(error.splitlines()) <= 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import a_package_nobody_has", "ModuleNotFoundError at target.py:1"),
        ("def f(:", "SyntaxError at target.py:1"),
        ("raise SystemExit(1)", "SystemExit at target.py:1"),
        ("1 / 0", "ZeroDivisionError at target.py:1"),
        ("\x00", "SyntaxError"),
    ],
)
def test_a_file_that_does_not_import(output_of, tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "target.py").write_text(source)
    error = output_of("derive", f"{tmp_path / 'target.py'}:f", code=2)
    assert "target.py cannot be imported" in error
    assert words in error
    assert len(error.splitlines()) <= 2


@pytest.mark.parametrize(
    ("name", "words"),
    [("wild_write", "stores 1 element"), ("wild_read", "loads 1 element"), ("wild_atomic", "updates 1 element past")],
)
def test_an_access_out_of_bounds_is_one_sentence_and_no_signal(output_of, name: str, words: str) -> None:
    error = output_of("trace", f"{TARGETS}:{name}", code=2)
    assert words in error
    assert "derived_targets.py:" in error


def test_explain_puts_the_bytes_beside_their_line(output_of) -> None:
    lines = output_of("explain", "flash2", "-p", "seq_len=512").splitlines()
    at = next(number for number, line in enumerate(lines) if "k = load_block(K, col, 0, kv_len" in line)
    assert lines[at].split()[0] == "44.4%"  # 128 * 512 * 8 of 1,181,696
    assert "reads 128*batch*heads*seq_len*ceil(seq_len/64) bytes" in lines[at + 1]
    sections = [line.split()[0] for line in lines if line.endswith((" flash2.py", " tiles.py"))]
    assert sections[0] == "flash2_kernel"
    assert {"mainloop", "load_block", "store_block"} <= set(sections)


def test_explain_begins_with_the_hot_lines_of_the_work(output_of) -> None:
    text = output_of("explain", f"{TARGETS}:strided", "-p", "n=512")
    rows = [line for line in text.splitlines() if line.startswith("derived_targets.py:")]
    assert text.index(rows[-1]) < text.index("def strided_kernel")
    load = next(row for row in rows if "tl.load" in row)
    assert load.split()[-5:] == ["50.0%", "2.048", "kB", "8×", "8"]
    assert "\u2588\u2588\u258c" in load
    (kernel,) = json.loads(output_of("explain", f"{TARGETS}:strided", "-p", "n=512", "--json"))["kernels"]
    assert [(line["sector_bytes"], line["overfetch"]) for line in kernel["lines"]] == [(16384, 8.0), (2048, 1.0)]


def test_explain_writes_the_page_of_report(output_of, tmp_path: Path) -> None:
    assert output_of("explain", f"{TARGETS}:flat", "-o", tmp_path / "flat.html") == ""
    page = (tmp_path / "flat.html").read_text()
    assert "Hot lines" in page
    assert 'href="bytes.png"' not in page
    assert [one.name for one in tmp_path.iterdir()] == ["flat.html"]


def test_explain_as_json_has_the_lines_that_move_something(output_of) -> None:
    (kernel,) = json.loads(output_of("explain", f"{TARGETS}:flat", "--json"))["kernels"]
    assert kernel["kernel"] == "scale_kernel"
    (line,) = kernel["lines"]
    assert "tl.store(out + lanes" in line["source"]
    assert (line["kinds"], line["share"], line["formula"]) == ("reads, writes", 1.0, "4*columns*rows")
    assert line["executions"] == ["ceil(columns*rows/64)"]
    assert line["source"] in TARGETS.read_text().splitlines()[line["line"] - 1]


def test_explain_shows_bytes_of_each_kernel_and_lines_that_depend_on_data(output_of) -> None:
    text = output_of("explain", LABELLED)
    assert "labelled_kernel  derived_targets.py  bytes depend on data" in text
    assert "scale_kernel  derived_targets.py  20.48 kB" in text
    shares = {line.split("  ")[-1].strip(): line[:8].strip() for line in text.splitlines()}
    assert shares["if tl.load(labels + row) != 3:"] == "160 B"
    assert shares["values = tl.load(x + row * BLOCK + lanes)"] == "data"
    given = ("-p", f"{_unknown_name()}=0", "-p", f"{_unknown_name('iterations', 'while tl.atomic_cas')}=0")
    text = output_of("explain", LABELLED, *given)
    assert "labelled_kernel  derived_targets.py  20.8 kB, 50.4% of the work's bytes" in text
    assert "% of the work's bytes" not in output_of("explain", "flash2")
    kernels = json.loads(output_of("explain", LABELLED, *given, "--json"))["kernels"]
    assert [kernel["bytes"] for kernel in kernels] == [40 * (4 + 256 + 256 + 4), 40 * 64 * 8]
    assert all(sum(line["share"] for line in kernel["lines"]) == pytest.approx(1) for kernel in kernels)


def test_explain_shows_equal_launches_once_with_their_number(output_of) -> None:
    text = output_of("explain", f"{TARGETS}:one_launch_each", "-p", "times=3")
    assert "scale_kernel  derived_targets.py  2.4 kB, 3 launches" in text
    assert text.count("def scale_kernel") == 1
    (kernel,) = json.loads(output_of("explain", f"{TARGETS}:one_launch_each", "-p", "times=3", "--json"))["kernels"]
    assert kernel["launches"] == 3


def test_explain_shows_a_shared_function_whole_once_and_no_compulsory_bytes(output_of) -> None:
    text = output_of("explain", "standard", "-p", "seq_len=128")
    assert text.count("def load_block(") == 2
    assert text.count("block_pointers(matrix, row, col") == 2  # in load_block and in store_block
    assert "note: compulsory" not in text
