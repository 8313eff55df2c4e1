"""How much of an SM's cache is left as its L1, as an H200 was counted."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from ioaware.machine.carveout import l1_bytes
from ioaware.machine.presets import A100, H200

KIB = 1024
CACHE_BYTES = 256 * KIB


def launches() -> list[dict[str, Any]]:
    return json.loads((files("ioaware") / "recorded" / "l1" / "h200-carveout.json").read_text())["launches"]


def configured(one: dict[str, Any]) -> int:
    found = l1_bytes(H200, warps=one["warps"], registers=one["registers"], shared_bytes=one["shared_bytes"])
    return CACHE_BYTES - found


def test_every_recorded_launch_has_the_shared_memory_of_the_rule() -> None:
    found = launches()
    assert len(found) == 2187
    assert [one for one in found if configured(one) != one["config_bytes"]] == []


@pytest.mark.parametrize(
    ("warps", "registers", "shared", "l1"),
    [
        (4, 32, 0, 224),  # room for 28 programs of 1 KiB
        (32, 64, 0, 248),  # one program of 32 warps: no room for another
        (4, 64, 4096, 156),  # 8 programs of 5 KiB, room for 16
        (4, 96, 36864, 60),  # 5 programs of 37 KiB are more than the room of 132 KiB
        (8, 128, 52224, 28),  # Triton asks for the most
    ],
)
def test_the_l1_is_what_programs_and_their_room_leave(warps: int, registers: int, shared: int, l1: int) -> None:
    assert l1_bytes(H200, warps=warps, registers=registers, shared_bytes=shared) == l1 * KIB


def test_a_machine_with_less_shared_memory_configures_no_more() -> None:
    assert l1_bytes(A100, warps=4, registers=64, shared_bytes=80_000) == (192 - 164) * KIB
