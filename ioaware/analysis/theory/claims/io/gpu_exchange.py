"""Check what attention over several GPUs moves between them.

The check walks over every message of each method.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from sympy import Expr

from ioaware.analysis.theory import fewest_transfers
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.evidence import CountedExchange, Evidence, Need
from ioaware.analysis.theory.counting import Elements
from ioaware.analysis.theory.counts import gpu_transfers
from ioaware.analysis.theory.counts.gpu_transfers import METHODS, PASSES, Method, Pass, Problem, shard_rows
from ioaware.analysis.theory.lower_bounds import leading_term

NAME = "gpu_exchange"
STATEMENT = (
    "Of P GPUs with equal parts of a sequence, a GPU receives in a ring 2 H_kv N_k d (P-1)/P elements forward and twice as "
    "many backward, half of them float32; in an all-to-all over heads 2 (H N + max(H_kv, P) N_k) d (P-1)/P^2 in each; on a "
    "square grid O(N d / sqrt P)."
)
SOURCE = (
    "Liu, Zaharia, Abbeel 2023, arXiv 2310.01889 (ring); Jacobs et al. 2023, arXiv 2309.14509 (all-to-all); "
    "Irony, Toledo, Tiskin 2004 (bound and grid, for matrix products)"
)
NOTES = (
    "Masks change no transfer: with a causal mask the zigzag parts balance the work, and some row still needs every part.",
    "Before a call the ranks also agree on it: 120 bytes from each rank to each other, not counted here.",
    "Counters are of NVLink's payload, by NVML. NCCL sends a message of up to 512 KiB by its protocol LL, whose payload is "
    "half flags: the log-sum-exp of a short square. The agreement and NCCL's synchronisation are the rest.",
    "The bound counts Q, K and V alone. This project knows no bound with its constant that also counts the exchange of partial "
    "results of O, or that lets GPUs split the head dimension.",
)
PROBLEMS = (
    Problem(1, 1, 1, 64, 64, 8, 4, (2, 2)),
    Problem(2, 4, 2, 23, 37, 5, 4, (2, 2)),
    Problem(1, 12, 6, 100, 41, 3, 6, (3, 2)),
    Problem(1, 6, 2, 48, 24, 2, 6, (1, 6)),
    Problem(3, 8, 2, 3, 200, 7, 8, (4, 2)),
    Problem(1, 4, 4, 9, 9, 4, 1, (1, 1)),
)
LL_BYTES = 2**19
"""Longest message that NCCL 2.28 sends by LL between two H200s.

Its payload is twice the data.
"""
PAYLOAD = (0.9999, 1.001)
"""Least and greatest ratio of counted payload to the closed form.

Counters have steps of 1 KiB, and synchronisation is counted.
"""
Message = tuple[int, int, int, bool]
"""Sender, receiver, elements, and whether they are float32."""


def points() -> tuple[Need, ...]:
    """Return no runs: a walk over the messages decides, and counters of NVLink."""
    return ()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on walks, means, growth, crossovers, the bound and counters."""
    walked = list(_walked())
    means = list(_means())
    parts = [
        judge_comparisons("a", "elements that each GPU receives and sends, message by message", walked, unit="elements"),
        judge_comparisons("b", "mean over the GPUs of what they receive, and of what they send, is the closed form", means),
        _judge_coverage(),
        _judge_growth(),
        *_judge_crossovers(),
        *_judge_bound(),
        _judge_counted(evidence.exchanges),
    ]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, points=[*walked, *means], notes=NOTES)


def runs(method: Method, problem: Problem) -> bool:
    """Return whether a method can run: an all-to-all needs heads that GPUs can share."""
    p, kv_heads = problem.ranks, problem.kv_heads
    return method != "all_to_all" or (problem.heads % p == 0 and (kv_heads % p == 0 or p % kv_heads == 0))


def _cells() -> Iterator[tuple[Method, Pass, Problem, str]]:
    for problem in PROBLEMS:
        for method in METHODS:
            for direction in PASSES:
                if runs(method, problem):
                    where = f"{method} {direction} P={problem.ranks} H={problem.heads} H_kv={problem.kv_heads}"
                    yield method, direction, problem, f"{where} N={problem.seq_len} N_k={problem.kv_len}"


def _walked() -> Iterator[Comparison]:
    """Compare the counts of every GPU with the messages that reach and leave it."""
    for method, direction, problem, where in _cells():
        arrived, left = Counter[tuple[int, bool]](), Counter[tuple[int, bool]]()
        for sender, receiver, elements, wide in messages(method, direction, problem):
            left[sender, wide] += elements
            arrived[receiver, wide] += elements
        for gpu in range(problem.ranks):
            counted = gpu_transfers.moved(method, direction, problem, gpu)
            pairs = (
                ("received", counted.received, arrived[gpu, False]),
                ("sent", counted.sent, left[gpu, False]),
                ("received float32", counted.received_fp32, arrived[gpu, True]),
                ("sent float32", counted.sent_fp32, left[gpu, True]),
            )
            for name, expected, observed in pairs:
                yield Comparison("a", f"{where} GPU {gpu} {name}", expected, observed)


def messages(method: Method, direction: Pass, problem: Problem) -> Iterator[Message]:
    """Yield every message of a method, from the sizes of the tensors in it."""
    p, backward = problem.ranks, direction == "backward"
    rows = [shard_rows(problem.seq_len, p, gpu) for gpu in range(p)]
    keys = [2 * problem.batch * problem.kv_heads * problem.head_dim * shard_rows(problem.kv_len, p, gpu) for gpu in range(p)]
    if method == "ring":
        for step in range(p - 1):
            for gpu in range(p):
                yield gpu, (gpu + 1) % p, keys[(gpu - step) % p], False
                if backward:  # the sums of the block that was attended to one step before
                    yield gpu, (gpu + 1) % p, keys[(gpu - step - 1) % p], True
        return
    if method == "all_to_all":
        yield from _head_messages(backward, problem, rows)
        return
    columns = 1 if method == "all_gather" else problem.grid[1]
    row = problem.batch * problem.heads  # elements of one row and one column of Q
    for sender in range(p):
        for receiver in range(p):
            if sender == receiver:
                continue
            if sender % columns == receiver % columns:
                yield sender, receiver, keys[sender], False
                if backward:
                    yield sender, receiver, keys[receiver], True
            if sender // columns == receiver // columns:
                yield sender, receiver, row * problem.head_dim * rows[sender] * (3 if backward else 1), False
                partial = row * problem.head_dim * rows[receiver]
                yield sender, receiver, partial, backward
                yield sender, receiver, row * rows[sender if backward else receiver], True  # log-sum-exp


def _head_messages(backward: bool, problem: Problem, rows: list[int]) -> Iterator[Message]:
    p, one = problem.ranks, problem.batch * problem.head_dim
    key_rows = [shard_rows(problem.kv_len, p, gpu) for gpu in range(p)]
    owners = [{head * problem.kv_heads // problem.heads for head in _heads_of(gpu, problem)} for gpu in range(p)]
    for sender in range(p):
        for receiver in range(p):
            if sender == receiver:
                continue
            yield sender, receiver, one * len(_heads_of(receiver, problem)) * rows[sender], False
            yield sender, receiver, one * len(_heads_of(sender, problem)) * rows[receiver], False
            computing, owning = (sender, receiver) if backward else (receiver, sender)
            yield sender, receiver, 2 * one * len(owners[computing]) * key_rows[owning], False


def _heads_of(gpu: int, problem: Problem) -> range:
    """Return the query heads that a GPU computes in an all-to-all."""
    share = problem.heads // problem.ranks
    return range(gpu * share, (gpu + 1) * share)


def _means() -> Iterator[Comparison]:
    for method, direction, problem, where in _cells():
        counted = [gpu_transfers.moved(method, direction, problem, gpu) for gpu in range(problem.ranks)]
        expected = _value(gpu_transfers.MEAN[method, direction], problem)
        for name, total in (
            ("received", sum(gpu.received + gpu.received_fp32 for gpu in counted)),
            ("sent", sum(gpu.sent + gpu.sent_fp32 for gpu in counted)),
        ):
            yield Comparison("b", f"{where} {name}, all GPUs", int(expected * problem.ranks), total)


def _value(elements: Elements, problem: Problem) -> Fraction:
    """Return the elements of a closed form, as an exact fraction."""
    names = {
        "B": problem.batch, "H": problem.heads, "H_kv": problem.kv_heads, "N": problem.seq_len, "N_k": problem.kv_len,
        "d": problem.head_dim, "P": problem.ranks, "R": problem.grid[0], "C": problem.grid[1],
    }  # fmt: skip
    expr: Expr = elements.count
    found = expr.subs({symbol: names[str(symbol)] for symbol in expr.free_symbols})  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return Fraction(str(found))


def _judge_coverage() -> Part:
    """Check that the GPUs have every pair of parts exactly once.

    A pair is a part of Q and a part of K and V.
    """
    found: list[Comparison] = []
    for p in (1, 2, 4, 6, 9):
        ring = Counter((gpu, (gpu - step) % p) for gpu in range(p) for step in range(p))
        found.append(Comparison("c", f"ring P={p}", p * p, sum(count == 1 for count in ring.values())))
        for columns in (c for c in range(1, p + 1) if p % c == 0):
            pairs = Counter(
                (q, k)
                for gpu in range(p)
                for q in range(p)
                for k in range(p)
                if q // columns == gpu // columns and k % columns == gpu % columns
            )
            found.append(Comparison("c", f"grid {p // columns} x {columns}", p * p, sum(n == 1 for n in pairs.values())))
    return judge_comparisons("c", "pairs of a part of Q and a part of K and V that exactly one GPU has", found)


def _judge_growth() -> Part:
    """Check that what a GPU receives forward, scaled, stays below 4 + 1/d.

    The GPU is one of a square grid. The scale is sqrt(P) / (N d).
    """
    ratios: list[tuple[str, float]] = []
    for side in (2, 3, 4, 8, 16):
        problem = Problem(1, 1, 1, 4 * side * side, 4 * side * side, 8, side * side, (side, side))
        counted = gpu_transfers.moved("square", "forward", problem, 0)
        elements = counted.received + counted.received_fp32
        ratios.append((f"P={side * side}", elements * side / (problem.seq_len * problem.head_dim * (4 + 1 / problem.head_dim))))
    return judge_bounds("d", "a square grid receives at most (4 + 1/d) N d / sqrt P elements forward: ratio", ratios, high=1)


def _judge_crossovers() -> Iterator[Part]:
    """Compare the conditions with the counts wherever both methods run.

    The log-sum-exp is left out.
    """
    heads_on_ring: list[Comparison] = []
    grid_on_ring: list[Comparison] = []
    heads_on_grid: list[Comparison] = []
    for p in (2, 3, 4, 8, 9, 16, 25, 64):
        for heads, kv_heads in ((1, 1), (8, 8), (16, 2), (64, 8), (64, 16), (144, 9), (1600, 1600), (64, 1)):
            problem = Problem(1, heads, kv_heads, 2 * p, 2 * p, 1, p, (p, 1))
            where = f"P={p} H={heads} H_kv={kv_heads}"
            ring = gpu_transfers.moved("ring", "forward", problem, 0).received
            if runs("all_to_all", problem):
                fewer = gpu_transfers.moved("all_to_all", "forward", problem, 0).received < ring
                stated = fewest_transfers.all_to_all_beats_ring(p, heads, kv_heads)
                heads_on_ring.append(Comparison("e", where, int(stated), int(fewer)))
            side = round(p**0.5)
            if side * side == p:
                square = gpu_transfers.moved("square", "forward", replace(problem, grid=(side, side)), 0).received
                if heads % p == 0 and kv_heads % p == 0:
                    fewer = gpu_transfers.moved("all_to_all", "forward", problem, 0).received < square
                    heads_on_grid.append(Comparison("e", where, int(p >= 4), int(fewer)))
                stated = fewest_transfers.square_beats_ring(p, heads, kv_heads)
                grid_on_ring.append(Comparison("e", where, int(stated), int(square < ring)))
    yield judge_comparisons("e", "an all-to-all receives less than a ring iff H + max(H_kv, P) < P H_kv", heads_on_ring)
    yield judge_comparisons(
        "e", "an all-to-all, P a divisor of H_kv, receives less than a square grid iff P >= 4", heads_on_grid
    )
    yield judge_comparisons("e", "a square grid receives less than a ring iff sqrt(P) > H / H_kv", grid_on_ring)


def _judge_bound() -> Iterator[Part]:
    """Check every grid against the bound on Q, K and V for one head.

    A grid with a = 2 b meets it.
    """
    ratios: list[tuple[str, float]] = []
    tight: list[tuple[str, float]] = []
    for p, n, n_k in ((2, 64, 64), (4, 64, 128), (8, 256, 256), (16, 1024, 512), (32, 1024, 1024), (64, 4096, 8192)):
        bound = leading_term(fewest_transfers.LEAST_RECEIVED, {"N": n, "N_k": n_k, "d": 1, "P": p})
        for columns in (c for c in range(1, p + 1) if p % c == 0):
            rows = p // columns
            gathered = n * (columns - 1) / p + 2 * n_k * (rows - 1) / p
            ratio = (gathered + 1e-9) / bound if bound > 0 else 1.0
            ratios.append((f"P={p} grid {rows} x {columns} N={n} N_k={n_k}", ratio))
            if n * columns == 2 * n_k * rows:
                tight.append(ratios[-1])
    yield judge_bounds("f", "Q, K and V that a GPU of a grid receives, over the bound for one head", ratios, low=1)
    yield judge_bounds(
        "f", "the same where a GPU has twice as many rows of Q as of K: equal to it", tight, low=1, high=1 + 1e-6
    )


def _judge_counted(exchanges: Sequence[CountedExchange]) -> Part:
    """Compare what NVML counted on each GPU with the closed form of its method."""
    ratios: list[tuple[str, float]] = []
    for one in exchanges:
        problem, size = one.problem, f"H_kv={one.problem.kv_heads} N={one.problem.seq_len}"
        for gpu, (received, sent) in enumerate(one.payload):
            counted = gpu_transfers.moved(one.method, one.direction, problem, gpu)
            flags = one.calls * _flag_bytes(one.method, problem, gpu)
            place = f"{one.where}, {one.method} {one.direction} {size} GPU {gpu}"
            ratios.append((f"{place} received", received / (one.calls * counted.received_bytes(one.element_bytes) + flags)))
            ratios.append((f"{place} sent", sent / (one.calls * counted.sent_bytes(one.element_bytes) + flags)))
    says = "NVLink payload that counters of NVML show, over the closed form's bytes"
    return judge_bounds("g", says, ratios, low=PAYLOAD[0], high=PAYLOAD[1])


def _flag_bytes(method: Method, problem: Problem, gpu: int) -> int:
    """Return the flags beside a GPU's log-sum-exp, a message to each GPU of its row.

    Parts are of equal length.
    """
    message = 4 * problem.batch * problem.heads * shard_rows(problem.seq_len, problem.ranks, gpu)
    return (problem.grid[1] - 1) * message if method == "square" and message <= LL_BYTES else 0
