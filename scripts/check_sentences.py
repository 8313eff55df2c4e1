"""Refuse sentences of more than 25 words in docstrings, comments and Markdown.

    python -m scripts.check_sentences [PATH ...]

Prints `file:line: N words: the sentence's beginning` for each, and exits with 1 where it finds any. Code, formulas, tables and
indented blocks are no sentences, and a symbol or a name in backticks is no word. A line is that of the paragraph's beginning.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from scripts.check_docstrings import docstrings

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("ioaware", "scripts", "tests", "docs", "README.md", "CONTRIBUTING.md")
MOST = 25
WORD = re.compile(r"[A-Za-z][a-z]+(?:[-'/][A-Za-z]+)*|[AaI]")
END_OF_SENTENCE = re.compile(r"(?<=[.!?;:])\s+(?=\S)|(?<=[.!?;:]\))\s+(?=\S)")
LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,2}\.)\s+")
Paragraph = tuple[int, str]


def paragraphs_of_markdown(text: str) -> Iterator[Paragraph]:
    """Yield the prose of a Markdown page: no fenced code, tables or headings."""
    prose: list[str] = []
    in_code = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(("```", "~~~"))
        in_code ^= fence
        skipped = fence or in_code or line.lstrip().startswith(("|", "#", "<", "::"))
        prose.append("" if skipped else line)
    yield from _paragraphs("\n".join(prose), 1)


def paragraphs_of_python(path: Path, text: str) -> Iterator[Paragraph]:
    """Yield the prose of docstrings and of comments on lines of their own."""
    for node in docstrings(ast.parse(text, filename=str(path))):
        lines = inspect.cleandoc(str(node.value)).splitlines()
        yield from _paragraphs("\n".join("" if line.startswith(" ") else line for line in lines), node.lineno)
    with path.open("rb") as source:
        comments = {
            token.start[0]: token.string.lstrip("#: ")
            for token in tokenize.tokenize(source.readline)
            if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        }
    last = max(comments, default=0)
    yield from _paragraphs("\n".join(comments.get(line, "") for line in range(1, last + 1)), 1)


def _paragraphs(text: str, first_line: int) -> Iterator[Paragraph]:
    """Yield paragraphs with the line that each begins on; a list's item is one."""
    begun, collected = first_line, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], first_line):
        item = LIST_ITEM.match(line)
        if collected and (item or not line.strip()):
            yield begun, " ".join(collected)
            collected = []
        if line.strip():
            begun = begun if collected else number
            collected.append(line[item.end() if item else 0 :].strip())


def words(sentence: str) -> int:
    """Count a sentence's words: symbols, numbers and code are none."""
    plain = re.sub(r"`[^`]*`|\(https?:[^)]*\)|https?:\S+", " ", sentence)
    return sum(WORD.fullmatch(token.strip(".,;:!?()[]\"'*")) is not None for token in plain.split())


def findings(path: Path) -> Iterator[str]:
    """Yield one line for each sentence of a file that is too long."""
    text = path.read_text(encoding="utf-8")
    found = paragraphs_of_markdown(text) if path.suffix == ".md" else paragraphs_of_python(path, text)
    for line, paragraph in found:
        for sentence in END_OF_SENTENCE.split(paragraph):
            if (count := words(sentence)) > MOST:
                yield f"{path}:{line}: {count} words, at most {MOST} are allowed: {sentence}"


def main(arguments: list[str]) -> int:
    """Check the given paths, or the whole repository; return the exit code."""
    places = [Path(name) for name in arguments] or [ROOT / name for name in PLACES]
    files = (path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*"))))
    found = [line for path in files if path.suffix in {".py", ".md"} for line in findings(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
