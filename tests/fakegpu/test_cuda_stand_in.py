"""Host code sees the GPU that its kernels are compiled for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ioaware
from ioaware.errors import UsageError

TARGETS = Path(__file__).parents[1] / "support/targets/gpu_query_targets.py"
HELD_FOR_ONE = """
import torch
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)

BLOCK = 128 if torch.cuda.get_device_capability()[0] >= 9 else 64

def copy(n):
    x = torch.zeros(n, device="cuda")
    copy_kernel[(triton.cdiv(n, BLOCK),)](x, torch.empty_like(x), n, BLOCK=BLOCK)
"""


@pytest.mark.parametrize("name", ["capability", "triton_target", "name", "imported_capability", "shared_memory", "peak_rates"])
def test_the_gpu_of_a_derivation_answers(name: str) -> None:
    """1024 elements in blocks of 128 on an H200, of 64 on an A100."""
    for gpu, programs in (("cuda:90", 8), ("A100", 16)):
        derived = ioaware.derive(f"{TARGETS}:by_{name}", gpu=gpu)
        assert derived.exact
        assert derived.launches[-1].grid == (programs, 1, 1)


@pytest.mark.parametrize("name", ["by_properties", "by_imported_properties"])
def test_the_machine_of_a_capability_gives_its_sms(name: str) -> None:
    for gpu, programs in (("cuda:90", 132), ("cuda:80", 108), ("B200", 148)):
        derived = ioaware.derive(f"{TARGETS}:{name}", gpu=gpu)
        assert derived.exact
        assert derived.launches[-1].grid == (programs, 1, 1)


@pytest.mark.parametrize("name", ["by_properties", "by_imported_properties"])
def test_unknown_properties_are_not_exact(name: str) -> None:
    derived = ioaware.derive(f"{TARGETS}:{name}", gpu="cuda:86")
    assert not derived.exact
    assert any("saw the properties of an NVIDIA H200, not cuda:86" in note for note in derived.notes)


@pytest.mark.parametrize("name", ["by_capability", "by_imported_capability"])
def test_a_gpu_of_another_vendor_is_not_exact(name: str) -> None:
    derived = ioaware.derive(f"{TARGETS}:{name}", gpu="hip:gfx942")
    assert not derived.exact
    assert any("saw cuda:90, not hip:gfx942" in note for note in derived.notes)


def test_what_a_library_read_at_its_import_is_of_that_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library stays imported, with the constants of the first GPU."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library/held_for_one.py").write_text(HELD_FOR_ONE)
    (tmp_path / "target.py").write_text("import held_for_one\n\ndef copy(n: int = 1024):\n    held_for_one.copy(n)\n")
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    first, second, again = (ioaware.derive(f"{tmp_path / 'target.py'}:copy", gpu=gpu) for gpu in ("H200", "A100", "H200"))
    assert first.exact
    assert again.exact
    assert second.launches[-1].grid == (8, 1, 1)  # blocks for an H200
    assert not second.exact
    assert any("when it was imported, and saw cuda:90, not cuda:80" in note for note in second.notes)


def test_a_reading_of_the_gpu_is_refused() -> None:
    with pytest.raises(UsageError, match="reads the GPU's clock, power, temperature or load"):
        ioaware.derive(f"{TARGETS}:by_temperature")
    with pytest.raises(UsageError, match="reads the GPU's clock, power, temperature or load"):
        ioaware.trace(f"{TARGETS}:by_temperature")


@pytest.mark.parametrize("verb", [ioaware.derive, ioaware.trace])
def test_an_operator_that_only_a_gpu_has_is_said_to_be_one(verb: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match=r"not implemented for .*\n.*torch computes on the CPU, which lacks this operator"):
        verb(f"{TARGETS}:by_integer_histogram")


def test_a_configuration_of_sizes_is_noted_with_its_numbers() -> None:
    derived = ioaware.derive(f"{TARGETS}:by_size", n=1000)
    assert (
        derived.launches[-1].notes[0] == "autotuned over 2 configurations; derived with BLOCK=1024, num_warps=4, num_stages=3"
    )
