"""How often a program runs the loops and branches of its machine code."""

from ioaware.simulation.spills.machine_trace import MachineTrace, MemoryInstruction, Region
from ioaware.simulation.spills.region_counts import PlaceCounts, region_counts

LOOP, SKIPPED = Region(loop=True, parent=None), Region(loop=False, parent=0)


def load(place: str, region: int | None, times: int = 1) -> list[MemoryInstruction]:
    return [MemoryInstruction("global", 16, 0, place, region)] * times


def place(*inside: float, around: float = 1.0, size: int = 512) -> PlaceCounts:
    return PlaceCounts(inside, tuple(around for _ in inside), size)


def test_a_loop_runs_as_often_as_its_accesses() -> None:
    trace = MachineTrace((*load("k.py:1", None), *load("k.py:2", 0)), (LOOP,))
    assert region_counts(trace, {"k.py:1": place(1.0), "k.py:2": place(31.0)}, 1) == (31.0,)


def test_an_unrolled_loop_runs_less_often() -> None:
    trace = MachineTrace(tuple(load("k.py:2", 0, times=4)), (LOOP,))
    assert region_counts(trace, {"k.py:2": place(32.0)}, 1) == (8.0,)
    assert region_counts(trace, {"k.py:2": place(32.0, size=2048)}, 1) == (32.0,)


def test_a_loop_without_accesses_runs_with_the_loop_around_it() -> None:
    trace = MachineTrace(tuple(load("k.py:2", 0)), (LOOP, Region(loop=True, parent=0), LOOP))
    assert region_counts(trace, {"k.py:2": place(5.0)}, 1) == (5.0, 5.0, 1.0)


def test_a_loop_with_accesses_in_inner_loops_alone_runs_as_often_as_that_of_the_ir() -> None:
    """Loops of one iteration may be left out."""
    trace = MachineTrace(tuple(load("k.py:2", 1)), (LOOP, Region(loop=True, parent=0)))
    for nest in ((3.0, 9.0), (3.0, 3.0, 9.0), (3.0, 9.0, 9.0)):
        assert region_counts(trace, {"k.py:2": PlaceCounts((9.0,), (9.0,), 512, nest)}, 1) == (3.0, 9.0)
    for nest in ((), (3.0,), (3.0, 6.0, 9.0)):
        assert region_counts(trace, {"k.py:2": PlaceCounts((9.0,), (9.0,), 512, nest)}, 1) == (1.0, 9.0)


def test_skipped_code_runs_as_often_as_its_accesses_or_as_what_is_around() -> None:
    trace = MachineTrace((*load("k.py:2", 0), *load("k.py:9", 1)), (LOOP, SKIPPED))
    assert region_counts(trace, {"k.py:2": place(90.0), "k.py:9": place(6.0)}, 1) == (90.0, 6.0)
    assert region_counts(trace, {"k.py:2": place(90.0)}, 1) == (90.0, 90.0)


def test_skipped_code_without_accesses_runs_never_or_as_often_as_what_is_around() -> None:
    """In a persistent matmul it is the setting up of the next tile."""
    inner = Region(loop=True, parent=1)
    trace = MachineTrace((*load("k.py:2", 0), MemoryInstruction("spill", 16, 0, "k.py:5", 1)), (LOOP, SKIPPED, inner))
    places = {"k.py:2": place(90.0)}
    assert region_counts(trace, places, 1) == (90.0, 0.0, 0.0)
    assert region_counts(trace, places, 1, most=True) == (90.0, 90.0, 90.0)
    around = MachineTrace((*load("k.py:2", 2),), (LOOP, SKIPPED, inner))
    assert region_counts(around, {"k.py:2": place(90.0)}, 1)[1:] != (0.0, 0.0)


def test_loops_of_one_line_are_matched_in_order() -> None:
    trace = MachineTrace((*load("k.py:2", 0), *load("k.py:2", 1)), (LOOP, LOOP))
    assert region_counts(trace, {"k.py:2": place(1.0, 30.0)}, 1) == (1.0, 30.0)
    assert region_counts(trace, {"k.py:2": place(1.0, 30.0, 7.0)}, 1) == (30.0, 30.0)


def test_first_loads_of_a_pipelined_loop_do_not_count_for_the_loop_around() -> None:
    trace = MachineTrace((*load("k.py:2", 0), *load("k.py:2", 1)), (LOOP, Region(loop=True, parent=0)))
    assert region_counts(trace, {"k.py:2": place(256.0, around=16.0)}, 1) == (16.0, 256.0)
