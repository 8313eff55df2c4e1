"""`scripts/fusion/fused.py`: kernels match their programs, reads the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.analysis.fusion.answer import fuse
from ioaware.errors import UsageError
from ioaware.report.attention.fused_rows import READS
from ioaware.targets.loading import load_file
from ioaware.targets.output_check import relative_error
from ioaware.tracing.interpreter import interpret_kernels

FUSED = load_file(Path(__file__).parents[2] / "scripts" / "fusion" / "fused.py")


@pytest.mark.slow
@pytest.mark.parametrize("program", list(READS))
def test_reads_are_those_of_the_combiner_and_outputs_those_of_the_program(program: str) -> None:
    assert fuse(FUSED.PROGRAMS[program]).reads == READS[program]
    for form in FUSED.FORMS:
        work = FUSED.fused(program, form, rows=3, cols=1500, device="cpu")
        with interpret_kernels():
            output = work.run()
        assert relative_error(output, work.reference()) < work.tolerance


def test_every_program_is_in_the_report_and_others_are_refused() -> None:
    assert set(FUSED.PROGRAMS) == set(READS)
    with pytest.raises(UsageError, match="no program 'median'"):
        FUSED.fused("median", device="cpu")
