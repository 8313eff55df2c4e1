"""Loads that touch sectors again after a wait, in machine code."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from ioaware.compilation.instructions import disassembly
from ioaware.compilation.instructions.disassembly import disassembled, instructions_of
from ioaware.compilation.instructions.waits import AfterWaits, touches_after_waits

PLACE = '//## File "/somewhere/kernel.py", line 12'


def found(*code: str) -> dict[str, AfterWaits]:
    text = [PLACE, *(f"        /*{at:04x}*/                   {one} ;" for at, one in enumerate(code))]
    return touches_after_waits(instructions_of("\n".join(text))[0])


FIRST, SECOND = "LDG.E.128 R4, desc[UR4][R2.64]", "LDG.E.128 R8, desc[UR4][R2.64+0x10]"
OTHER, OTHERS_SECOND = "LDG.E.128 R16, desc[UR4][R12.64]", "LDG.E.128 R20, desc[UR4][R12.64+0x10]"


def test_the_second_touch_waits_for_a_register_of_the_first() -> None:
    """Both halves of both sectors are in flight: 64 bytes."""
    code = (FIRST, OTHER, OTHERS_SECOND, "FADD R1, R4, R5", SECOND)
    assert found(*code) == {"kernel.py:12": AfterWaits(0.5, 64.0)}


@pytest.mark.parametrize(
    "code",
    [
        (FIRST, SECOND, "FADD R1, R4, R5"),
        (FIRST, OTHER, "FADD R1, R30, R31", SECOND),
        (FIRST, "FADD R1, R4, R5", "LDG.E.128 R8, desc[UR4][R2.64+0x20]"),
        (FIRST, "IADD3 R2, R4, 0x10, RZ", "LDG.E.128 R8, desc[UR4][R2.64]"),
        (FIRST, "FADD R1, R4, R5", "STG.E.128 desc[UR4][R2.64+0x10], R8"),
    ],
    ids=["no wait between", "no register of a load", "another sector", "another address", "a store"],
)
def test_nothing_is_touched_again_after_a_wait(code: tuple[str, ...]) -> None:
    assert found(*code) == {}


def test_sectors_touched_twice_before_a_wait_stay() -> None:
    loads = [f"LDG.E.U16 R{4 + one}, desc[UR4][R2.64+{hex(2 * one)}]" for one in range(3)]
    assert found(*loads[:2], "FADD R1, R4, R5", loads[2]) == {}
    assert found(loads[0], "FADD R1, R4, R5", *loads[1:]) == {"kernel.py:12": AfterWaits(1.0, 6.0)}


def test_a_wait_for_a_later_load_is_one_for_the_earlier_ones() -> None:
    """Loads end in order, so the first one's register costs no second wait."""
    code = (FIRST, OTHER, "FADD R1, R16, R17", SECOND, "FADD R1, R4, R5", OTHERS_SECOND)
    assert found(*code) == {"kernel.py:12": AfterWaits(1.0, 64.0)}


@pytest.mark.parametrize("error", [PermissionError("nvdisasm"), subprocess.TimeoutExpired("nvdisasm", 60)])
def test_a_disassembler_that_fails_is_as_none(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    own = SimpleNamespace(run=fails, TimeoutExpired=subprocess.TimeoutExpired)  # Triton runs it, too, for its version
    monkeypatch.setattr(disassembly, "subprocess", own)
    assert disassembled(b"") is None
