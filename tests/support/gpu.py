"""Mark tests that need a GPU; without one they are skipped, with the reason."""

from __future__ import annotations

import pytest

from ioaware.errors import MachineError
from ioaware.measurement.nvml import load_nvml, open_gpu


def reason_to_skip() -> str:
    """Return why this machine cannot measure, or "" if it can."""
    try:
        open_gpu(load_nvml())
    except MachineError as error:
        return error.what
    return ""


WHY = reason_to_skip()
NEEDS_GPU = [pytest.mark.gpu, pytest.mark.skipif(bool(WHY), reason=WHY or "a GPU is here")]
