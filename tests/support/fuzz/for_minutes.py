"""Fuzz the readers of files and the derivation for some minutes.

`python -m tests.support.fuzz.for_minutes MINUTES [SEED]` (`make fuzz`): damaged files and random programs take turns of equal
CPU time. A fault is an exception other than the one error of a reader, or a file that takes longer than 2 s of CPU. So is a
program whose derived bytes differ from those of the interpreter. Exits with 1 where there is one; its input is printed or kept.
"""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

os.environ.setdefault("IOAWARE_CACHE_DIR", "")

from tests.support.fuzz.damaged_files import KINDS, LOADERS, Edit, damaged, loaded
from tests.support.fuzz.differential import check_program
from tests.support.fuzz.grammar import program

LONGEST_LOAD_S = 2
HANG_S = 300
"""Wall-clock time of one turn after which the stack is printed and the run ends."""


class Run:
    """Counts and faults of one run. The seed of each turn is its number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loads: Counter[str] = Counter()
        self.programs: Counter[str] = Counter()
        self.faults: list[str] = []

    def damage(self, seed: int) -> None:
        """Read each kind of file once, damaged in one to eight places."""
        draw = random.Random(seed)
        for name, (file, content, load) in LOADERS.items():
            edits: list[Edit] = [
                (draw.random(), draw.choice(KINDS), draw.randbytes(draw.randint(0, 6))) for _ in range(draw.randint(1, 8))
            ]
            text = damaged(content(), edits)
            started = time.process_time()
            try:
                loaded(load, self.folder / file, text)
            except Exception:
                self._keep(name, text, traceback.format_exc())
            if time.process_time() - started > LONGEST_LOAD_S:
                self._keep(name, text, f"took more than {LONGEST_LOAD_S} s of CPU")
            self.loads[name] += 1

    def derive(self, seed: int) -> None:
        """Compare the derived bytes of a random program with the interpreter's."""
        verdict = check_program(program(seed, small=True), self.folder, f"program{seed}", seed=seed)
        self.programs[verdict.outcome] += 1
        if verdict.bug:
            self.faults.append(f"program {seed}: {verdict.outcome}: {verdict.why}")

    def _keep(self, name: str, content: bytes, why: str) -> None:
        kept = Path(mkdtemp(prefix="ioaware-fuzz-")) / LOADERS[name][0]
        kept.write_bytes(content)
        self.faults.append(f"{name} in {kept}: {why}")


def main() -> int:
    minutes, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    end = time.monotonic() + 60 * minutes
    spent = {True: 0.0, False: 0.0}
    with TemporaryDirectory() as folder:
        run = Run(Path(folder))
        while time.monotonic() < end:
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            of_files = spent[True] <= spent[False]
            started = time.process_time()
            (run.damage if of_files else run.derive)(seed)
            spent[of_files] += time.process_time() - started
            seed += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{sum(run.loads.values())} files of {len(run.loads)} kinds")
    print(f"{sum(run.programs.values())} programs: {dict(run.programs)}")
    print(f"{len(run.faults)} faults, {spent[True]:.0f} s and {spent[False]:.0f} s of CPU, the next seed is {seed}")
    print(*run.faults, sep="\n")
    return int(bool(run.faults) or not (run.loads and run.programs))


if __name__ == "__main__":
    sys.exit(main())
