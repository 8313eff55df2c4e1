"""Show that a restructuring changed nothing: compare what two checkouts answer.

What both answer to the same questions is dumped and compared.

    python scripts/unchanged.py dump CHECKOUT -o BEFORE.json
    python scripts/unchanged.py dump OTHER_CHECKOUT -o AFTER.json
    python scripts/unchanged.py compare BEFORE.json AFTER.json

A dump holds the formulas, sectors and predicted counters of the cases, the studies' targets and third-party kernels. Those
are of the checkouts that `FOREIGN_<NAME>` names, as in scripts/foreign. It also holds digests of the attention kernels'
machine code, `--json` of the verbs that need no GPU, and the recorded files as the package reads them. `--only` asks for a
part, and adds it to a file that already has others of the same checkout.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "unchanged"))
from differences import compare
from dumping import SECTIONS, Checkout, header


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; 1 when two dumps differ, 2 when they cannot be compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    dump = verbs.add_parser("dump", help="ask a checkout and write down its answers")
    dump.add_argument("checkout", type=Path)
    dump.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json")
    dump.add_argument("--only", action="append", choices=list(SECTIONS), help="repeatable; all sections unless given")
    dump.add_argument("--jobs", type=int, default=2, help="processes at a time")
    dump.add_argument("--match", default="", metavar="TEXT", help="only derivations whose name in the dump has this text")
    comparison = verbs.add_parser("compare", help="list what differs")
    comparison.add_argument("before", type=Path)
    comparison.add_argument("after", type=Path)
    comparison.add_argument("--words", action="store_true", help="list reworded texts too")
    given = parser.parse_args(arguments)
    if given.verb == "dump":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the directory is removed
        with tempfile.TemporaryDirectory(prefix="unchanged-") as scratch:
            checkout = Checkout(given.checkout.resolve(), Path(scratch), given.jobs, given.match)
            return write_dump(checkout, given.output, given.only or list(SECTIONS))
    return print_comparison(given.before, given.after, words=given.words)


def write_dump(checkout: Checkout, output: Path, sections: Sequence[str]) -> int:
    """Dump these sections, and continue a dump that was interrupted.

    What was found is written as it comes.
    """
    about = header(checkout)
    found = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {"about": about, "sections": {}}
    if found["about"] != about:
        print(f"{output} is of another checkout ({found['about']['commit'][:12]}): name another file", file=sys.stderr)
        return 2
    for name in sections:
        answers = found["sections"].setdefault(name, {})
        if about["changed_files"]:  # they may have changed since
            answers.clear()
        for some in SECTIONS[name](checkout, dict(answers)):
            answers.update(some)
            output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{name}: {len(answers)} answers in {output}", file=sys.stderr)
    return 0


def print_comparison(before: Path, after: Path, *, words: bool) -> int:
    """Print the differences, then the table of what was compared."""
    one, other = (json.loads(path.read_text(encoding="utf-8")) for path in (before, after))
    if one["about"]["software"] != other["about"]["software"]:
        print(f"made with other software: {one['about']['software']}, {other['about']['software']}", file=sys.stderr)
        return 2
    found = compare(one["sections"], other["sections"])
    print("\n".join(found.report(words=words)))
    return 1 if found.differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
