"""Machines as TOML files: accepted keys, and one clear error for each mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ioaware
from ioaware.errors import DataError, UsageError
from ioaware.machine import find_machine_or_file
from ioaware.machine.file_checks import check_machine
from ioaware.machine.machine_file import read_machine

CALIBRATED = Path(ioaware.__file__).parent / "recorded" / "calibration" / "h200.toml"
WHOLE = """
preset = "H200"
name = "half an H200"
sms = 66
source = "MIG"
[levels.l2]
capacity_bytes = 31457280
bandwidth_bytes_per_s = 2.5e12
source = "calibrated"
[l2_model]
partitions = 1
dirty_share = 0.5
capacity_spread = 0
skew_spread = 0.1
source = "calibrated"
[link]
reached_bytes_per_s = 2e11
source = "copies"
"""


def test_a_file_changes_numbers_of_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "half.toml"
    path.write_text(WHOLE)
    machine = find_machine_or_file(str(path))
    assert (machine.name, machine.sms, machine.sms_source) == ("half an H200", 66, "MIG")
    level = machine.level("l2")
    assert (level.capacity_bytes, level.capacity_source, level.bandwidth_bytes_per_s) == (31457280, "calibrated", 2.5e12)
    assert (machine.l2_model.partitions, machine.l2_model.dirty_share) == (1, 0.5)
    assert machine.link is not None
    assert (machine.link.ceiling_bytes_per_s, machine.link.reached_source) == (2e11, "copies")
    assert machine.level("hbm") == find_machine_or_file("h200").level("hbm")


def test_a_preset_by_name() -> None:
    assert find_machine_or_file("h200").name == "H200"
    with pytest.raises(UsageError, match="there is no machine 'h2000'"):
        find_machine_or_file("h2000")
    with pytest.raises(UsageError, match="cannot be read"):
        find_machine_or_file("nowhere.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset = ", "not TOML"),
        ('preset = "H300"', "there is no machine"),
        ('name = "x"', "preset is missing"),
        ('preset = "H200"\ncolour = 1', "unknown key colour"),
        ('preset = "H200"\nsms = -1', "sms is -1"),
        ('preset = "H200"\nsms = true', "sms is True"),
        ('preset = "H200"\nsms = 1.5', "sms is 1.5"),
        ('preset = "H200"\nlevels = 3', "levels is not a table"),
        ('preset = "H200"\nlink = 3', "link is not a table"),
        ('preset = "H200"\n[link]\nreached_bytes_per_s = 9e11', "It must be a number from 1 to 4.5e"),
        ('preset = "L40S"\n[link]\nreached_bytes_per_s = 1e9', "L40S has no known link"),
        ('preset = "H200"\n[levels]\nl2 = 3', "levels.l2 is not a table"),
        ('preset = "H200"\n[levels.l3]\ncapacity_bytes = 1', "unknown key levels.l3"),
        ('preset = "H200"\n[levels.l2]\ncapacity_bytes = 0', "levels.l2.capacity_bytes is 0"),
        ('preset = "H200"\n[levels.l2]\nbandwidth_bytes_per_s = nan', "bandwidth_bytes_per_s is nan"),
        ('preset = "H200"\n[levels.l2]\ncapacity_bytes = 999999999999', "the L2 is not smaller than the HBM"),
        ('preset = "H200"\n[levels.l1]\ncapacity_bytes = 102400', "shared memory is part of the L1"),
        ('preset = "H200"\n[l2_model]\npartitions = 3', "l2_model.partitions is 3"),
        (WHOLE.replace("dirty_share = 0.5", "dirty_share = 1.5"), "dirty_share is 1.5"),
        (WHOLE.replace("skew_spread = 0.1\n", ""), "skew_spread is None"),
        (f'preset = "H200"\nsms = {10**400}', "sms is 1000"),
        (f'preset = "H200"\nsms = {"9" * 5000}', "not TOML"),
        ('preset = "H200"\n[levels.hbm]\nread_bytes_per_s = 9e15', "more than twice the HBM's bandwidth"),
        ('preset = "H200"\n[levels.l2]\nbandwidth_bytes_per_s = 1.8e12', "less than half of the HBM's"),
        ('preset = "H100"\n[levels.l2]\nbandwidth_bytes_per_s = 1e15', "more than 16 times the HBM's"),
        ('preset = "H200"\n[levels.hbm]\nread_bytes_per_s = 4.5e11', "less than a quarter of the HBM's bandwidth"),
        (
            'preset = "H200"\n[levels.hbm]\nbandwidth_bytes_per_s = 4814.0',
            r"bandwidth_bytes_per_s is 4814, and the preset H200 has 4.8",
        ),
        ('preset = "H200"\n[levels.l2]\nread_bytes_per_s = 1e13', "unknown key levels.l2.read_bytes_per_s"),
        ('preset = "H200"\nsms = 1000000000', "sms is 1e.09, and the preset H200 has 132"),
        ('preset = "H200"\n[levels.l2]\ncapacity_bytes = 60', "levels.l2.capacity_bytes is 60"),
        ('preset = "H200"\n[levels.l2]\ncapacity_bytes = 141000000000', "the L2 is not smaller than the HBM"),
        ('preset = "H200"\n[levels.shared]\ncapacity_bytes = 228', "levels.shared.capacity_bytes is 228"),
        ('preset = "H200"\n[levels.registers]\ncapacity_bytes = 1', "levels.registers.capacity_bytes is 1"),
        ('preset = "H200"\n[peaks.float16]\nflops_per_s = 9e14\nsource = inf', "peaks.float16.source is missing or no text"),
        ('preset = "H200"\n[peaks.float16]\nflops_per_s = 989', "peaks.float16.flops_per_s is 989"),
        ('preset = "H200"\n[peaks.float32]\nflops_per_s = 9e15', "peaks.float32.flops_per_s is 9e"),
        ('preset = "H200"\n[link]\nreached_bytes_per_s = 384', "link.reached_bytes_per_s is 384"),
        ('preset = "H200"\ncalibration = 3', "calibration is not a table"),
        ('preset = "H200"\npeaks = 3', "peaks is not a table"),
        ('preset = "H200"\npeaks.float16 = 3', "peaks.float16 is not a table"),
        ('preset = "H200"\npeaks.float17.flops_per_s = 1e15', "peaks.float17 is no dtype"),
        ('preset = "H200"\nl2_model = 3', "l2_model is not a table"),
        ('preset = "H200"\n[levels.l2]\nsource = 3', "levels.l2.source is missing or no text"),
        ('preset = "H200"\nname = "\\u001b[31mred"', "name is missing or no text in one line"),
    ],
)
def test_a_wrong_file_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_machine(text, "x.toml")


def test_the_shipped_calibration_and_a_seventh_of_a_gpu_are_accepted(tmp_path: Path) -> None:
    assert find_machine_or_file(str(CALIBRATED)).level("hbm").rates["read"] == pytest.approx(4.5e12, rel=0.02)
    slice_of = tmp_path / "slice.toml"
    slice_of.write_text(
        'preset = "H200"\nsms = 16\n[levels.l2]\ncapacity_bytes = 7864320\nbandwidth_bytes_per_s = 1.8e12\n'
        "[levels.hbm]\ncapacity_bytes = 18000000000\nbandwidth_bytes_per_s = 6e11\n"
    )
    assert find_machine_or_file(str(slice_of)).sms == 16


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not text"):
        find_machine_or_file(str(path))


def test_a_file_that_ends_within_a_number_is_refused(tmp_path: Path) -> None:
    """What is left of a number is a number: 651 of 65187422."""
    path = tmp_path / "cut.toml"
    whole = 'preset = "H200"\nsms = 132\n'
    path.write_text(whole)
    assert find_machine_or_file(str(path)).sms == 132
    path.write_text(whole[:-2])
    with pytest.raises(DataError, match="ends within a line"):
        find_machine_or_file(str(path))


def test_numbers_that_a_machine_does_not_have_are_not_checked() -> None:
    assert read_machine('preset = "L40S"\nsms = 100\n', "x.toml").link is None
    preset = find_machine_or_file("h200")
    levels = tuple(replace(level, bandwidth_bytes_per_s=None) for level in preset.levels)
    check_machine(replace(preset, levels=levels), preset, "x.toml")
