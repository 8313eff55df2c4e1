"""A simulation whose bytes data decide says their range alone."""

from __future__ import annotations

from dataclasses import replace

from ioaware.report.pages.known_hbm import bounds_alone, hbm_range, known_hbm, shown_notes
from ioaware.result import Traffic
from ioaware.simulation.simulation_result import LaunchSimulation, Simulated

LAUNCH = LaunchSimulation(1, 1, "warps", 1, (), (1000, 4000), (0, 0), 0)
SECTORS = Traffic(2000, 0, read_sector_bytes=2048, write_sector_bytes=0)
FOUND = Simulated(
    "simulate", "gather", {}, requested=SECTORS, hbm=Traffic(1000, 0), simulations=(LAUNCH,), read_range=(1000, 4000),
    write_range=(0, 0),
)  # fmt: skip


def test_bounds_alone_are_no_number() -> None:
    assert bounds_alone(0, None)
    assert bounds_alone(10, 1001)
    assert not bounds_alone(10, 1000)
    assert not bounds_alone(0, 0)
    assert bounds_alone(1000, 1200, data_dependent=True)
    assert not bounds_alone(1000, 1050, data_dependent=True)


def test_no_more_than_every_requested_sector_passes() -> None:
    assert hbm_range(FOUND) == (1000, 2048)
    assert hbm_range(replace(FOUND, requested=Traffic(2000, 0))) == (1000, 4000)
    assert hbm_range(replace(FOUND, read_range=(1000, None))) == (1000, None)


def test_bytes_that_data_decide_are_no_number() -> None:
    assert known_hbm(FOUND) == Traffic(1000, 0)
    assert known_hbm(replace(FOUND, simulations=(replace(LAUNCH, data_dependent=("x",)),))) is None
    assert known_hbm(None) is None


def test_notes_have_the_range_that_is_drawn() -> None:
    wide = "HBM reads are uncertain: 1,000 to 4,000 bytes over the possible capacities and skews"
    one = replace(FOUND, notes=("another", wide))
    assert shown_notes(one) == (
        "another",
        "HBM bytes are uncertain: 1,000 to 2,048; no more than every requested sector passes",
    )
    assert shown_notes(replace(one, requested=Traffic(2000, 0))) == ("another", wide)
    assert shown_notes(replace(one, read_range=(1000, None))) == ("another", wide)
