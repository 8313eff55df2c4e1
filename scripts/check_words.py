"""Refuse words outside the field's vocabulary.

Docstrings, comments, messages and documents are checked.

    python scripts/check_words.py [PATH ...]

Prints `file:line: word -> what to write instead` and exits with 1 where it finds any. The list is in house style: an inhabitant
("somebody") is a component's name, a metaphor is the term that CUDA, Triton, PyTorch or compilers have for the thing.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("ioaware", "scripts", "tests", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
INSTEAD = {
    r"nobody|somebody|anybody|whoever|strangers?|folks?": "the component's name",
    r"fore(told|tells?|see[ns]?)": "predicted, predict",
    r"truths?(?! values?\b)": "predicate, condition",
    r"doubts?": "caveat",
    r"(hand|seat)s? (of|that|is|are) (the )?(program|work|tile)s?|dealt|dealing": "work item, assigned, schedule",
    r"to and fro": "serpentine order",
    r"who(se)? (turn|hand)": "warp scheduler barrier",
    r"foreign (kernel|target|librar)\w*": "third-party",
    r"strolling|strolls?": "the field's term",
    r"riddles?": "plain statement",
    r"told|whom|everybody|speaks?|spoken|remarked": "the component, and what it returns, prints or receives",
    r"patient|honest(ly)?|lonely|misfortunes?|second opinion|in earnest": "the property or the failure itself",
    r"hand(s|ed)? (on|over)|seat(s|ed)?|gone through": "passed on, position, enumerated",
}
FORBIDDEN = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), instead) for words, instead in INSTEAD.items()]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
EXEMPT = ("scripts/check_words.py",)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the comments and strings of a Python file.

    Of a Markdown file, yield the text outside code blocks.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        blank = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
        yield from enumerate(blank.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def findings(path: Path) -> Iterator[str]:
    """Yield one line for each forbidden word of a file."""
    for number, line in prose(path):
        for pattern, instead in FORBIDDEN:
            for found in pattern.finditer(line):
                yield f"{path}:{number}: {found[0]!r} -> {instead}"


def files(places: list[Path]) -> Iterator[Path]:
    """Yield the Python and Markdown files below the places."""
    for place in places:
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (path for path in found if path.suffix in (".py", ".md"))


def main(arguments: list[str]) -> int:
    """Check the given paths, or the whole repository; return the exit code."""
    places = [Path(name) for name in arguments] or [ROOT / name for name in PLACES]
    found = [line for path in files(places) if not str(path).endswith(EXEMPT) for line in findings(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
