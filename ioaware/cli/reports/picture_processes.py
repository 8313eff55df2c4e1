"""Draw the PNGs of figures in processes of their own, beside other work.

Why processes: the library that draws them holds the interpreter's lock.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from ioaware.report.pages.document import figure_png, picture
from ioaware.report.pages.figure_set import Shown
from ioaware.sweep.isolation import Isolation
from ioaware.sweep.pool import usable_cores

ENTRY = "ioaware.report.svg.rasterise:png_lines"
TIMEOUT_S = 120.0


@contextmanager
def drawing(figures: Sequence[Shown]) -> Generator[Callable[[Shown], bytes]]:
    """Start drawing the figures, as many at a time as there are cores.

    Give the function that waits for the PNG of one of them. A figure whose process gives none is drawn in this process.
    """
    cores = usable_cores()
    drawn: dict[int, bytes] = {}
    batches = [range(len(figures))[first::cores] for first in range(cores)]
    waiting = [batch for batch in batches if batch]
    with Isolation(ENTRY, preload=["resvg_py", "ioaware.report.svg.rasterise"]) as isolation:
        for number, batch in enumerate(waiting):
            drawings = (picture(figures[at].figure) for at in batch)
            isolation.submit(number, [[one.svg, one.width, one.height] for one in drawings], TIMEOUT_S)
        running = len(waiting)

        def png(shown: Shown) -> bytes:
            nonlocal running
            at = next(number for number, one in enumerate(figures) if one is shown)
            while at not in drawn and running:
                outcome, running = isolation.next(), running - 1
                texts = (outcome.answer or "").split()
                drawn.update(zip(waiting[outcome.number], map(base64.b64decode, texts), strict=False))
            return drawn[at] if at in drawn else figure_png(shown)

        yield png
