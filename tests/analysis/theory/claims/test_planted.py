"""Every claim holds on constructed evidence.

A planted violation changes its verdict.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ioaware.analysis.theory import counting, crossovers, fewest_transfers, lower_bounds
from ioaware.analysis.theory.claims.claim import Claim
from ioaware.analysis.theory.claims.errata import all_errata
from ioaware.analysis.theory.claims.errata.erratum import Erratum, Trial, judge_erratum
from ioaware.analysis.theory.claims.evidence import Evidence, MeasuredError, Observation
from ioaware.analysis.theory.claims.io import (
    backward_bound,
    block_capacity,
    fewer_elements,
    flash2_blocks,
    gpu_exchange,
    grouped_heads,
    proposition3,
    proposition4,
    saha_ye,
    softmax_accesses,
    theorem5,
)
from ioaware.analysis.theory.claims.numerics import combiner_identities, gradient_error, output_error, rounded_kernels
from ioaware.analysis.theory.counts import block_sparse, flash1, gpu_transfers
from ioaware.result import Check, Launch, Result, Traffic
from ioaware.sweep.claim_evidence import recorded_exchanges
from ioaware.sweep.verify import CLAIMS
from tests.analysis.theory.claims.conftest import perfect

NEW = {name: importlib.import_module(path) for name, path in CLAIMS.items() if name not in ("theorem1", "theorem2")}


def seen_at(need: Any) -> Observation:
    """Return an observation equal to its prediction.

    Its launches have the CTAs that the note names, and its error is that of rounding.
    """
    seen = perfect(need.source, need.target, **dict(need.params))
    blocks = -(-seen.values["N"] // seen.values["B_r"]) if "B_r" in seen.values else 1
    grid = (blocks, seen.heads, 1) if "B" in seen.values else (1, 1, 1)
    error = 3e-4 * (2 if need.target == "flash1" and seen.values["B_c"] < seen.values["N"] else 1)
    return replace(seen, observed=replace(seen.observed, launches=(Launch("kernel", grid),), check=Check(error, 6e-3)))


def evidence_for(module: ModuleType) -> Evidence:
    exchanges = recorded_exchanges() if module is gpu_exchange else []
    return Evidence({need: seen_at(need) for need in module.points()}, exchanges=exchanges)


def judge_perfect(
    module: ModuleType, change: Callable[[Observation], Observation] = lambda seen: seen, target: str = ""
) -> Claim:
    """Judge a claim on perfect evidence, with the observations of one target changed."""
    evidence = evidence_for(module)
    answers = {need: change(seen) if need.target == target else seen for need, seen in evidence.answers.items()}
    return module.judge(replace(evidence, answers=answers))


def failing(claim: Claim) -> set[str]:
    return {row["part"] for row in claim.evidence["parts"] if row["verdict"] == "fails"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set sizes at which rounding errors are computed in little time."""
    monkeypatch.setattr(output_error, "LENGTHS", (32, 64, 128))
    monkeypatch.setattr(output_error, "LONG", 128)
    monkeypatch.setattr(output_error, "BLOCKS", (64, 32, 16, 8, 4))
    monkeypatch.setattr(gradient_error, "LENGTHS", (16, 32, 64))
    monkeypatch.setattr(gradient_error, "LENGTH", 64)


@pytest.mark.parametrize("name", NEW)
def test_a_claim_holds_on_perfect_evidence_and_is_strict_json(name: str) -> None:
    claim = judge_perfect(NEW[name])
    assert claim.claim == name
    assert claim.verdict == "holds", failing(claim)
    assert json.loads(json.dumps(claim.to_dict(), allow_nan=False))["verdict"] == "holds"
    assert all(row["points"] > 0 for row in claim.evidence["parts"])


@pytest.mark.parametrize("name", [name for name, module in NEW.items() if module.points()])
def test_without_its_runs_a_claim_is_inconclusive(name: str) -> None:
    assert NEW[name].judge(Evidence()).verdict == "inconclusive"


def more_reads(seen: Observation) -> Observation:
    """One more read of every matrix: twice the reads."""
    moved = seen.observed.requested
    assert moved is not None
    assert moved.read_bytes is not None
    return replace(seen, observed=replace(seen.observed, requested=Traffic(2 * moved.read_bytes, moved.write_bytes)))


def one_byte_less(seen: Observation) -> Observation:
    moved = seen.observed.requested
    assert moved is not None
    assert moved.write_bytes is not None
    return replace(seen, observed=replace(seen.observed, requested=Traffic(moved.read_bytes, moved.write_bytes - 1)))


@pytest.mark.parametrize(
    ("module", "target", "part"),
    [
        (saha_ye, "square_tiling", "a"),
        (theorem5, "flash1_bwd", "a"),
        (theorem5, "flash2_bwd_atomic", "a"),
        (backward_bound, "small_cache_bwd", "a"),
        (proposition4, "block_sparse", "a"),
        (flash2_blocks, "flash2", "a"),
        (softmax_accesses, "softmax_online", "b"),
        (softmax_accesses, "softmax_bwd", "b"),
        (grouped_heads, "gqa", "d"),
        (grouped_heads, "gqa_packed", "d"),
    ],
)
@pytest.mark.parametrize("change", [more_reads, one_byte_less])
def test_a_kernel_that_moves_other_bytes_fails(
    module: ModuleType, target: str, part: str, change: Callable[[Observation], Observation]
) -> None:
    claim = judge_perfect(module, change, target)
    assert claim.verdict == "fails"
    assert change is one_byte_less or part in failing(claim)


def test_recorded_counters_that_differ_fail() -> None:
    """Writes must be exact. Reads may be served by an L1, and are never more."""
    good = perfect("measure", "softmax_online", rows=128, cols=16384, dtype="float16", block_n=1024)
    moved = good.observed.requested
    assert moved is not None
    assert moved.read_bytes is not None
    served = replace(good, observed=replace(good.observed, requested=Traffic(moved.read_bytes // 2, moved.write_bytes)))
    answers = evidence_for(softmax_accesses).answers
    for seen, verdict in ((good, "holds"), (served, "holds"), (more_reads(good), "fails")):
        assert softmax_accesses.judge(Evidence(answers, [seen])).verdict == verdict


def quadratic(n: int, d: int, m: int) -> int:
    """An order that does not depend on M."""
    return n * n * d


def one_more(seq_len: Any, head_dim: Any, column_blocks: Any) -> Any:
    """The crossover with <= for <."""
    return column_blocks * (3 * head_dim + 4) <= 4 * seq_len + head_dim - 2


def swapped_deltas(one: Any, two: Any, b: int | None = None) -> Any:
    """Eq. (14) with the notes' Delta c_1 in both terms (S2.2)."""
    top = max(one.b, two.b)
    first, second = combiner_identities.power(one.b - top) * one.e, combiner_identities.power(one.b - top) * two.e
    o = tuple((first * x + second * y) / (first + second) for x, y in zip(one.o, two.o, strict=True))
    return combiner_identities.Part14(top, first + second, o)


def lse_weights_swapped(one: Any, two: Any) -> Any:
    total: Fraction = one.weight + two.weight
    o = tuple(two.weight / total * x + one.weight / total * y for x, y in zip(one.o, two.o, strict=True))
    return combiner_identities.PartLse(total, o)


def without_rescaling(one: Any, two: Any, *, guarded: bool = True) -> Any:
    return max(one[0], two[0]), one[1] + two[1], (one[1] * one[2] + two[1] * two[2]) / (one[1] + two[1] or 1)


def own_block_too(direction: Any, problem: Any, rank: int) -> Any:
    """A ring in which the keys come home, too: P transfers."""
    keys = 2 * problem.batch * problem.kv_heads * problem.head_dim * problem.kv_len
    return gpu_transfers.Moved(keys, keys, *(keys, keys) * (direction == "backward"))


def whole_row_sent(direction: Any, problem: Any, rank: int, grid: Any) -> Any:
    """A grid that gathers nothing by column."""
    return replace(gpu_transfers._all_to_all(direction, problem, rank), received_fp32=1)


TWICE = replace(fewest_transfers.LEAST_RECEIVED, elements=2 * fewest_transfers.LEAST_RECEIVED.elements)
FORWARD_ONLY = {key: gpu_transfers.MEAN[key[0], "forward"] for key in gpu_transfers.MEAN}
HUNDREDFOLD = replace(lower_bounds.SEGMENTS, elements=100 * lower_bounds.SEGMENTS.elements)
LOOSE = replace(lower_bounds.SEGMENTS, elements=lower_bounds.SEGMENTS.elements / counting.d)
TOUCHED = replace(lower_bounds.compulsory(), writes=counting.Elements(inputs=counting.N * counting.d + 1))
SWAPPED = {"B_r": flash1.PAPER_BLOCKS["B_c"], "B_c": flash1.PAPER_BLOCKS["B_r"]}
NO_SCORES = counting.LIVE_SET - counting.B_r * counting.B_c
ONLINE = softmax_accesses.TABLES["4.2 and 4.4 online"][0]


@pytest.mark.parametrize(
    ("module", "owner", "name", "planted", "part"),
    [
        (proposition3, lower_bounds, "compulsory", lambda: TOUCHED, "a"),
        (proposition3, proposition3, "square_tiling", quadratic, "c"),
        (saha_ye, saha_ye, "square_tiling", quadratic, "b"),
        (saha_ye, saha_ye, "fitting_flash2", quadratic, "b"),
        (saha_ye, saha_ye, "SEGMENTS", HUNDREDFOLD, "c"),
        (saha_ye, saha_ye, "SEGMENTS", LOOSE, "c"),
        (saha_ye, saha_ye, "SAHA_YE_LARGE", saha_ye.SAHA_YE_SMALL, "d"),
        (saha_ye, saha_ye, "tile_side", lambda m: int(m**0.5), "b"),
        (proposition4, block_sparse, "counts", lambda causal: flash1.counts(False), "b"),
        (theorem5, theorem5, "paper_flash1_backward", quadratic, "b"),
        (theorem5, theorem5, "SEGMENTS", LOOSE, "d"),
        (theorem5, theorem5, "tiled_standard_backward", quadratic, "c"),
        (backward_bound, backward_bound, "fitting_flash2_backward", quadratic, "b"),
        (backward_bound, backward_bound, "square_tiling_backward", quadratic, "b"),
        (backward_bound, backward_bound, "SEGMENTS", HUNDREDFOLD, "c"),
        (backward_bound, backward_bound, "_terms", lambda n, d, m: (n * n * d / m**0.5, n * n * d * d / m * 2), "d"),
        (fewer_elements, crossovers, "flash1_beats_standard", one_more, "a"),
        (fewer_elements, crossovers, "split_beats_standard", lambda n, d, s: 4 * n > s * (3 * d + 2) - d, "b"),
        (fewer_elements, crossovers, "first_flash1_memory", lambda n, d: 3 * d * d, "c"),
        (block_capacity, counting, "LIVE_SET", NO_SCORES, "a"),
        (flash2_blocks, flash1, "PAPER_BLOCKS", SWAPPED, "b"),
        (softmax_accesses, softmax_accesses, "TABLES", {"4.1": (ONLINE, (4, 2, 2, 2))}, "d"),
        (gpu_exchange, gpu_transfers, "_ring", own_block_too, "a"),
        (gpu_exchange, gpu_transfers, "_grid", whole_row_sent, "a"),
        (gpu_exchange, gpu_transfers, "MEAN", FORWARD_ONLY, "b"),
        (gpu_exchange, fewest_transfers, "square_beats_ring", lambda p, heads, kv_heads: p > 1, "e"),
        (gpu_exchange, fewest_transfers, "all_to_all_beats_ring", lambda p, heads, kv_heads: heads > p, "e"),
        (gpu_exchange, fewest_transfers, "LEAST_RECEIVED", TWICE, "f"),
        (combiner_identities, combiner_identities, "combine14", swapped_deltas, "a"),
        (combiner_identities, combiner_identities, "combine_lse", lse_weights_swapped, "a"),
        (combiner_identities, combiner_identities, "float_combine", without_rescaling, "c"),
        (output_error, output_error, "flash2", rounded_kernels.flash1, "b"),
        (output_error, output_error, "flash1", rounded_kernels.flash2, "b"),
        (output_error, output_error, "HALF_UNIT", 2.0**-14, "a"),
        (gradient_error, gradient_error, "centred", lambda inputs: inputs, "e"),
        (gradient_error, gradient_error, "HALF_UNIT", 2.0**-18, "a"),
        (gradient_error, gradient_error, "delta_of", lambda do, o: np.zeros((len(o), 1), np.float32), "a"),
        (gradient_error, gradient_error, "repair_bytes", lambda *sizes: {"mean key": 10**9}, "f"),
    ],
)
def test_a_planted_violation_fails(
    module: ModuleType, owner: ModuleType, name: str, planted: Any, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, planted)
    saha_ye._lower_bound.cache_clear()
    claim = judge_perfect(module)
    saha_ye._lower_bound.cache_clear()
    assert part in failing(claim), {row["part"]: row["observed"] for row in claim.evidence["parts"]}
    assert claim.verdict == "fails"


@pytest.mark.parametrize("share", [0.998, 1.002])
def test_other_nvlink_bytes_than_the_closed_forms_fail(share: float) -> None:
    first, *others = recorded_exchanges()
    (received, sent), *payload = first.payload
    wrong = replace(first, payload=((round(share * received), sent), *payload))
    assert failing(gpu_exchange.judge(Evidence(exchanges=[wrong, *others]))) == {"g"}
    assert gpu_exchange.judge(Evidence()).verdict == "inconclusive"


def test_a_closed_form_that_counts_more_than_nvlink_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_transfers, "_ring", own_block_too)
    assert "g" in failing(gpu_exchange.judge(Evidence(exchanges=recorded_exchanges())))


def test_another_grid_fails() -> None:
    def one_cta_less(seen: Observation) -> Observation:
        launch = seen.observed.launches[0]
        grid = (launch.grid[0] + 1, *launch.grid[1:])
        return replace(seen, observed=replace(seen.observed, launches=(replace(launch, grid=grid),)))

    assert failing(judge_perfect(grouped_heads, one_cta_less, "gqa")) == {"b"}


def test_a_kernel_whose_error_grows_with_the_column_blocks_is_not_flash2() -> None:
    def growing(seen: Observation) -> Observation:
        assert seen.observed.check is not None
        error = 3e-4 * (seen.values["N"] / seen.values["B_c"]) ** 0.5
        return replace(seen, observed=replace(seen.observed, check=Check(error, 6e-3)))

    assert failing(judge_perfect(output_error, growing, "flash2")) == {"c"}


@pytest.mark.parametrize("case", all_errata.ERRATA, ids=lambda case: case.number)
def test_an_erratum_needs_a_wrong_printed_and_a_right_corrected_form(case: Erratum) -> None:
    """Either form in the place of the other fails its half."""

    def verdicts(changed: Callable[[Trial], Trial]) -> list[str]:
        return [part.verdict for part in judge_erratum(replace(case, trial=lambda random: changed(case.trial(random))))]

    assert verdicts(lambda trial: trial) == ["holds", "holds"]
    assert verdicts(lambda trial: trial._replace(printed=trial.corrected)) == ["fails", "holds"]
    assert verdicts(lambda trial: trial._replace(corrected=trial.printed)) == ["holds", "fails"]


def test_a_shown_counterexample_differs() -> None:
    """What is printed of both values begins where they differ."""
    for case in all_errata.ERRATA:
        printed, _ = judge_erratum(case)
        found, defined = printed.observed.rsplit(": ", 1)[1].split(" instead of ")
        assert found != defined, case.number


def test_errata_have_numbers_of_their_own() -> None:
    numbers = [case.number for case in all_errata.ERRATA]
    assert len(numbers) == len(set(numbers)) >= 60


def errors_on_gpu(power: float = 1.0, centred: float = 1e-3, growth: float = 0.5) -> list[MeasuredError]:
    """Return recorded errors: dQ grows with the offset, flash1's O with N."""
    offsets = (*gradient_error.OFFSETS, 0)
    found = [
        MeasuredError(name, 1024, 64, offset, repaired, 1e-5, centred if repaired else 2e-3 * offset**power + 1e-4)
        for name in gradient_error.FLASH
        for offset in offsets
        for repaired in (False, True)
    ]
    for name, slope in (("flash1", growth), ("flash2", 0.0)):
        found += [MeasuredError(name, n, 64, 16, False, 1e-5 * (n / 64) ** slope, 0.1) for n in (256, 512, 2048, 4096)]
    kept = [one for one in found if one.seq_len != 1024 or one.key_offset != 16 or one.centred or one.attention != "flash1"]
    return [*kept, MeasuredError("flash1", 1024, 64, 16, False, 1e-5 * 16**growth, 2e-3 * 16**power + 1e-4)]


@pytest.mark.parametrize(
    ("module", "changes", "fails"),
    [
        (gradient_error, {}, set()),
        (gradient_error, {"power": 0.2}, {"g"}),
        (gradient_error, {"centred": 0.1}, {"g"}),
        (output_error, {}, set()),
        (output_error, {"growth": 0.0}, {"d"}),
    ],
)
def test_recorded_errors_on_a_gpu_are_judged(module: ModuleType, changes: dict[str, float], fails: set[str]) -> None:
    claim = module.judge(replace(evidence_for(module), rounding=errors_on_gpu(**changes)))
    assert failing(claim) == fails


@pytest.mark.parametrize(("change", "verdict"), [(0, "holds"), (1, "fails"), (None, "inconclusive")])
def test_counted_accesses_to_shared_memory_are_judged(change: int | None, verdict: str) -> None:
    count = softmax_accesses.shared_accesses("softmax_safe", 64, 4096, 1024)
    assert count == 64 * 4 * 2 * 3
    loads, stores = softmax_accesses.SHARED_COUNTERS["loads"], softmax_accesses.SHARED_COUNTERS["stores"]
    counters = {stores: count} | ({} if change is None else {loads: count + change})
    params: dict[str, Any] = {"rows": 64, "cols": 4096, "block_n": 1024}
    shared = Result("measure", "softmax_safe", params, launches=(Launch("kernel", (64, 1, 1), counters=counters),))
    assert softmax_accesses.judge(replace(evidence_for(softmax_accesses), shared=[shared])).verdict == verdict
