"""Results completed with theory.

Every figure has its curve and every point its prediction.
"""

from __future__ import annotations

from collections.abc import Callable

from ioaware.prediction import predict
from ioaware.report.assemble import complete
from ioaware.report.comparable_points import Points
from ioaware.report.figures.blocks import blocks
from ioaware.result import Result

Make = Callable[..., Result]


def test_every_point_gets_a_prediction_and_every_curve_its_lengths(result_of: Make) -> None:
    seen = [
        result_of("flash2", 300, source="trace"),
        result_of("flash2", 2048, source="measure", heads=4),
        result_of("flash1", 512, causal=True, block=32, source="trace"),
    ]
    points = Points(complete(seen))
    for point in points.of("trace", "measure"):
        assert points.prediction(point) is not None
    config = points.of("measure")[0].config
    lengths = [point.seq_len for point in points.along(config, "predict")]
    assert {300, 512, 1024, 1536, 2048} <= set(lengths)


def test_two_algorithms_at_the_same_parameters_have_a_curve_each(result_of: Make) -> None:
    seen = [result_of(name, 512, source="measure") for name in ("standard", "flash1", "flash2")]
    points = Points(complete(seen))
    assert all(points.prediction(point) is not None for point in points.of("measure"))
    assert {point.config.algorithm for point in points.predictions.values()} == {"standard", "flash1", "flash2"}


def test_a_block_study_gets_a_curve_and_a_bound_over_m(result_of: Make) -> None:
    seen = [result_of("flash1", 1024, block=block, source="trace") for block in (16, 64, 256)]
    figure = blocks(Points(complete(seen)), {})
    assert figure is not None
    forms = {one.mark: one for one in figure.cells[0].panels[0].series}
    assert forms["predict"].x == (16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0)
    assert list(forms["bound"].y) == sorted(forms["bound"].y, reverse=True)


def test_added_results_are_those_of_predict(result_of: Make) -> None:
    seen = [result_of("standard", 128, source="trace"), result_of("standard", 96, source="trace")]
    everything = complete(seen)
    assert everything[: len(seen)] == seen
    for result in everything[len(seen) :]:
        assert result == predict(result.target, **dict(result.params))  # pyright: ignore[reportArgumentType]


def test_progress_counts_to_the_end(result_of: Make) -> None:
    calls: list[tuple[int, int]] = []
    complete([result_of("flash2", 128, source="trace")], lambda done, total, _: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] == len(calls)


def test_no_results_give_no_predictions() -> None:
    assert complete([]) == []
