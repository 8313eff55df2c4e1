"""Write the gallery of reports: one page per entry and `reports/index.html`.

    python scripts/gallery.py [NAME ...]

Run it at the root of the repository. Entries of other projects need their checkouts, named by FOREIGN_TRITON, FOREIGN_LIGER,
FOREIGN_MAMBA and FOREIGN_LMDEPLOY; their lines appear by number alone. The index is written from the pages that are there.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.report.pages.document import PAGE, Document, render

REPORTS = Path("reports")
FIGURE = re.compile(r'<div class="narrow">(<svg.*?</svg>)</div>', re.DOTALL)
HEADLINE = re.compile(r'<p class="headline">(.*?)</p>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """A report: its folder, title, one sentence, and the words after `ioaware report`."""

    name: str
    title: str
    what: str
    words: tuple[str, ...]


def params(**values: int) -> tuple[str, ...]:
    """Return `-p name=value` for each."""
    return tuple(word for name, value in values.items() for word in ("-p", f"{name}={value}"))


def along(*ranges: str) -> tuple[str, ...]:
    """Return `--over range` for each."""
    return tuple(word for one in ranges for word in ("--over", one))


ENTRIES = (
    Entry(
        "h200",
        "The memory traffic of attention: theory, kernels, hardware",
        "Standard attention and FlashAttention: predicted, traced and measured; theorems as verdicts; third-party kernels.",
        (),
    ),
    Entry(
        "flash2",
        "FlashAttention-2, forward",
        "A case of this package beside points measured on an H200.",
        ("flash2", *params(heads=64, head_dim=128, seq_len=4096), *along("seq_len=512..64k", "heads=1..256")),
    ),
    Entry(
        "triton-matmul",
        "The matmul of Triton's tutorials",
        "A third-party kernel, derived from its compiled IR without a GPU.",
        ("scripts/foreign/triton_tutorials.py:matmul", *params(m=4096, n=4096, k=4096), *along("m=512..16k"), "--no-source"),
    ),
    Entry(
        "liger-rms-norm",
        "RMSNorm of Liger Kernel, forward and backward",
        "A third-party kernel with several launches.",
        ("scripts/foreign/liger.py:rms_norm", *params(rows=8192, cols=4096), *along("rows=1k..64k"), "--no-source"),
    ),
    Entry(
        "mamba-chunk-scan",
        "The chunk scan of Mamba-2",
        "A third-party kernel of a state space model, with three matrix products a chunk.",
        ("scripts/foreign/mamba.py:chunk_scan", *params(batch=4, chunks=64, heads=32), *along("chunks=4..64"), "--no-source"),
    ),
    Entry(
        "paged-decode",
        "Paged attention of LMDeploy, one token a request",
        "A decode kernel that finds its keys and values through a table of pages.",
        (
            "scripts/foreign/serving.py:paged_attention",
            *params(requests=64, pages=64),
            "-p",
            "cache_seqlens_ptr@pagedattention.py:106=4091",
            "--no-source",
        ),
    ),
    Entry(
        "compiled-layer",
        "A decoder layer under torch.compile",
        "Every launch of a compiled model: the compiler's kernels line by line, torch's matmuls and attention beside them.",
        ("scripts/compiled_model.py:decoder_layer", *params(batch=4, seq_len=2048, width=2048, heads=16)),
    ),
    Entry(
        "softmax-versions",
        "Two versions of softmax: three passes and two",
        "What online softmax saves, term by term and line by line.",
        ("--compare", "softmax_safe", "softmax_online", *params(rows=1024, cols=131072)),
    ),
    Entry(
        "standard",
        "Standard attention, forward",
        "Several kernels with S and P in HBM: which of them moves most, and its share of the time floor.",
        ("standard", *params(heads=16, seq_len=4096), *along("seq_len=512..16k")),
    ),
    Entry(
        "length-study",
        "A study on an H200: traffic against sequence length",
        "Every measured point beside its prediction.",
        ("--study", "h200-length"),
    ),
)


def main(names: list[str]) -> int:
    """Write the named reports, or all, then the index.

    Return the exit code of the first that fails.
    """
    for entry in ENTRIES:
        if not names or entry.name in names:
            code = run(["report", *entry.words, "-q", "-o", str(REPORTS / entry.name)], Settings())
            if code:
                return code
    (REPORTS / "index.html").write_text(render(index()), encoding="utf-8")
    return 0


def index() -> Document:
    """Return the page that links the reports.

    Each report has its sentence and its first figure.
    """
    cards = [card(entry, REPORTS / entry.name / PAGE) for entry in ENTRIES if (REPORTS / entry.name / PAGE).exists()]
    values = {"cards": cards, "lead": "Bytes of GPU kernels, derived, simulated and measured.", "made": ""}
    return Document("gallery.html", "Reports", values, ())


def card(entry: Entry, path: Path) -> dict[str, str]:
    """Return what the index shows of a report."""
    page = path.read_text(encoding="utf-8")
    headline, figure = HEADLINE.search(page), FIGURE.search(page)
    return {
        "link": f"{entry.name}/{PAGE}",
        "title": entry.title,
        "what": entry.what,
        "headline": unescape(headline[1]) if headline else "",
        "figure": figure[1].replace(' tabindex="0"', "") if figure else "",
        "command": " ".join(("ioaware report", *entry.words)),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
