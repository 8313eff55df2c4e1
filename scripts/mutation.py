"""Measure the mutation score of ioaware/gate, or of other files, with mutmut.

It uses a random sample of mutants with a fixed seed.

    python scripts/mutation.py                       # 600 mutants, about 15 minutes of CPU
    python scripts/mutation.py --sample 0            # every mutant
    python scripts/mutation.py -o score.json         # and write the figures and the survivors
    python scripts/mutation.py --seed 16             # another sample
    python scripts/mutation.py --processes 16        # instead of 2
    python scripts/mutation.py --sample 260 --only 'ioaware/gate/setup/*' --tests tests/gate/setup     # one folder

Works on a copy of the tracked files. mutmut runs each mutant against the tests that reach the mutated function; where no test
reaches a function, its mutants count as survivors. mutmut 3 does not mutate code outside functions, nor functions with
decorators (properties and fixtures). Left out of the count, and named, are mutants that change only the type given to
`typing.cast`, which does nothing when the program runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
SEED = 15
"""Of the sample, unless another one is given."""
TIMED_OUT = {-24, 24, 36, 152, 255}
"""Exit codes of mutmut for a mutant with which tests took too long."""
KILLED = {1, 3, *TIMED_OUT}
"""Exit codes of mutmut for a mutant that tests found."""
START = """import os
if os.environ.get("MUTANT_UNDER_TEST") == "stats" and not os.path.exists("pyproject.toml"):
    os.environ["MUTMUT_DEPENDENCY_DEPTH"] = "0"
"""
"""What each Python does first.

One that a test starts in another folder finds no configuration of mutmut, and notes no calls.
"""
CAST = re.compile(r"\bcast\((None|\"[^\"]*\"), ")


def copy_to(folder: Path) -> None:
    """Copy the tracked files as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=HERE, check=True, capture_output=True).stdout  # noqa: S607
    for name in filter(None, listed.decode().split("\0")):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(HERE / name, place, follow_symlinks=False)


def narrow(folder: Path, only: Sequence[str], tests: Sequence[str]) -> None:
    """Mutate only files of these patterns, against these tests."""
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    for name, values in (("only_mutate", list(only)), ("pytest_add_cli_args_test_selection", list(tests))):
        text = re.sub(rf"^{name} = .*$", f"{name} = {json.dumps(values)}", text, flags=re.MULTILINE)
    project.write_text(text, encoding="utf-8")


def mutmut(folder: Path, processes: int, *arguments: str, check: bool = True) -> None:
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(processes), *arguments]
    paths = filter(None, [str(folder / "start"), os.environ.get("PYTHONPATH")])
    with (folder / "mutmut.log").open("ab") as log:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=check)  # noqa: S603


def exit_codes(folder: Path) -> dict[str, int | None]:
    """Return the exit code of each mutant; None for one that has not run."""
    found: dict[str, int | None] = {}
    for path in sorted((folder / "mutants" / "ioaware").rglob("*.meta")):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


def without_tests(folder: Path, names: Sequence[str]) -> set[str]:
    tests = json.loads((folder / "mutants" / "mutmut-stats.json").read_text())["tests_by_mangled_function_name"]
    return {name for name in names if not tests.get(name.rpartition("__mutmut_")[0])}


def change_of(folder: Path, name: str) -> tuple[str, str]:
    """Return the line that a mutant changes, before and after."""
    command = [sys.executable, "-m", "mutmut", "show", name]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    lines = [line for line in shown.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("---", "+++")]
    before, after = ("\n".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return before, after


def without_effect(before: str, after: str) -> bool:
    return before != after and CAST.sub("cast(", before) == CAST.sub("cast(", after)


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Run the sample that a seed draws; return the figures."""
    sample, seed = given.sample, given.seed
    copy_to(folder)
    (folder / "start").mkdir()
    (folder / "start" / "sitecustomize.py").write_text(START)
    if given.only:
        narrow(folder, given.only, given.tests)
    # makes all mutants, and finds out which test reaches which function; ends with 1 where `only` leaves this module out
    mutmut(folder, given.processes, "ioaware.gate.verdict.*", check=not given.only)
    names = sorted(exit_codes(folder))
    draw = random.Random(seed)  # noqa: S311 - a fixed sequence
    chosen = sorted(draw.sample(names, sample)) if 0 < sample < len(names) else names
    unreached = without_tests(folder, chosen)
    mutmut(folder, given.processes, *(name for name in chosen if name not in unreached))
    codes = exit_codes(folder)
    killed = [name for name in chosen if codes[name] in KILLED]
    alive = {name: change_of(folder, name) for name in chosen if name not in set(killed)}
    idle = [name for name, change in alive.items() if without_effect(*change)]
    survivors = {name: change for name, change in alive.items() if name not in idle}
    counted = len(chosen) - len(idle)
    modules = Counter(name.rpartition(".")[0] for name in survivors)
    return {
        "mutants": len(names), "sample": len(chosen), "seed": seed, "without_effect": len(idle), "counted": counted,
        "killed": len(killed), "timed_out": sum(codes[name] in TIMED_OUT for name in chosen),
        "unreached": len(unreached), "score_percent": round(100 * len(killed) / counted, 1),
        "survivors_by_module": dict(modules.most_common()),
        "survivors": {name: list(change) for name, change in survivors.items()},
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=600, help="how many mutants, 0 for all")
    parser.add_argument("--seed", type=int, default=SEED, help="draws the sample")
    parser.add_argument("--processes", type=int, default=2, help="how many mutants run at once")
    parser.add_argument("-o", "--output", type=Path, help="write the figures and the survivors here")
    parser.add_argument("--only", nargs="+", default=(), metavar="PATTERN", help="mutate only these files; needs --tests")
    parser.add_argument("--tests", nargs="+", default=(), help="the tests that --only runs")
    given = parser.parse_args(arguments)
    if bool(given.only) != bool(given.tests):
        parser.error("--only and --tests belong together")
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        figures = measure(Path(folder), given)
    if given.output:
        given.output.write_text(json.dumps(figures, indent=1) + "\n")
    survivors = figures.pop("survivors")
    for name, (before, after) in survivors.items():
        print(f"{name}\n- {before}\n+ {after}")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
