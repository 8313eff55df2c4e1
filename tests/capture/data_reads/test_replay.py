"""Reads of many data end: as a whole in seconds, one by one in a refusal."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware.capture.data_reads import interception, replay
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.targets.target import load_target


@triton.jit
def fill(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, 1.0, mask=i < n)


def filled(n: int) -> torch.Tensor:
    x = torch.empty(n, device="cuda")
    fill[(triton.cdiv(n, 128),)](x, n, B=128)
    return x


def as_a_list(m: int = 2_000_000) -> torch.Tensor:
    return filled(len(torch.arange(m, device="cuda").tolist()) // 1000)


def of_a_list(m: int = 200_000) -> torch.Tensor:
    return filled(torch.tensor(list(range(m)), device="cuda").numel() // 100)


def one_by_one(m: int = 20) -> torch.Tensor:
    x, found = torch.arange(m, device="cuda"), 0
    for at in range(m):
        found += x[at].item() > 5
    return filled(100 * found)


def by_rows(m: int = 20) -> torch.Tensor:
    return filled(sum(100 for _ in torch.arange(m)))


def derived(host: object) -> Derived:
    target = load_target(host)  # type: ignore[arg-type]
    return derive(target, target.resolve({}), machine_code=False)


def write_bytes(result: Derived) -> int | None:
    return result.requested and result.requested.write_bytes


@pytest.mark.parametrize("host", [as_a_list, of_a_list])
def test_millions_of_numbers_are_read_as_a_whole(host: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor or a visit for each number would take minutes."""
    visits: list[object] = []
    plain = torch.Tensor.unbind
    monkeypatch.setattr(torch.Tensor, "unbind", lambda *given: visits.append(given) or plain(*given))
    result = derived(host)
    assert result.exact
    assert write_bytes(result) == 8000
    assert not visits


def test_reads_of_one_line_are_one_note() -> None:
    result = derived(one_by_one)
    assert write_bytes(result) == 4 * 1400
    (note,) = (note for note in result.notes if "data read" in note)
    assert note.endswith("are 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17... in 20 reads")


@pytest.mark.parametrize(("host", "words"), [(one_by_one, "reads tensors more than 19 times"), (by_rows, "over the 20 rows")])
def test_too_many_reads_are_refused(host: object, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (interception, replay):
        monkeypatch.setattr(module, "MAX_READS", 19)
    with pytest.raises(UsageError, match=words):
        derived(host)


def test_as_many_rows_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interception, "MAX_READS", 20)
    assert write_bytes(derived(by_rows)) == 8000
