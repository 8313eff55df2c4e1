"""Statistics of the outcomes of random programs, also after an interrupt.

`python -m tests.support.fuzz.run FIRST_SEED PROGRAMS [small] [data] [library] [times]`
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("IOAWARE_CACHE_DIR", "")

from tests.support.fuzz.differential import check_program
from tests.support.fuzz.grammar import program


def main() -> None:
    first, programs = int(sys.argv[1]), int(sys.argv[2])
    data, small = "data" in sys.argv[3:], "small" in sys.argv[3:]
    library = "library" in sys.argv[3:]
    outcomes: Counter[str] = Counter()
    sectors: Counter[str] = Counter()
    why: Counter[str] = Counter()
    with TemporaryDirectory() as directory, suppress(KeyboardInterrupt):
        for seed in range(first, first + programs):
            text = program(seed, data=data, small=small, library=library)
            started = time.process_time()
            verdict = check_program(text, Path(directory), f"program{seed}", seed=seed)
            outcomes[verdict.outcome] += 1
            sectors[verdict.sectors] += 1
            took = time.process_time() - started
            if "times" in sys.argv[3:]:
                print(seed, f"{took:.2f}", verdict.outcome, verdict.sectors, flush=True)
            lines = verdict.why.splitlines() or [""]
            short = lines[-1 if verdict.outcome == "CRASH" else 0][:160]
            if verdict.outcome not in ("equal", "skipped"):
                why[f"{verdict.outcome}: {short}"] += 1
            if verdict.bug or verdict.outcome in ("refused", "invalid", "slow") or took > 8:
                print(f"--- {seed} {verdict.outcome} {took:.1f} s {short}", flush=True)
    print(dict(outcomes), dict(sectors))
    for reason, times in why.most_common(60):
        print(times, reason)


if __name__ == "__main__":
    main()
