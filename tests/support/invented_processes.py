"""Processes that `ioaware init` starts, replaced by invented ones."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import IoawareError


def raised(call: Any, *arguments: Any) -> tuple[type, str, str]:
    with pytest.raises(IoawareError) as error:
        call(*arguments)
    return type(error.value), error.value.what, error.value.remedy


class Processes:
    """`subprocess.run` that keeps what it was called with and gives invented answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self._answers = iter(answers)
        monkeypatch.setattr(subprocess, "run", self._run)

    def _run(self, command: list[str], **options: Any) -> Any:
        self.calls.append((command, options))
        answer = next(self._answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def said(stdout: Any, code: int = 0, stderr: str | bytes = "") -> Any:
    return SimpleNamespace(stdout=stdout, returncode=code, stderr=stderr)
