"""Every foreign target derived and traced, each in a process of its own; the outcome as a table of kernels.

    python scripts/foreign/coverage.py --triton PATH --liger PATH ... [-o docs/derive-coverage.md]

A library without a path is left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TIMEOUT_S = 300
LIBRARIES = {
    "triton": ("triton_tutorials.py", "Triton's tutorials"),
    "liger": ("liger.py", "Liger-Kernel"),
    "fla": ("flash_linear_attention.py", "flash-linear-attention"),
    "unsloth": ("unsloth.py", "Unsloth"),
    "lightllm": ("lightllm.py", "LightLLM"),
    "flash_attention": ("flash_attention.py", "FlashAttention's Triton operators"),
    "attention_gym": ("attention_gym.py", "attention-gym"),
}
LONGEST_FORMULA = 120

# Differences somebody has looked into, by target and kernel.
EXPLAINED = {
    ("unsloth.py:layer_norm", "layernorm_backward"): "the bias is loaded and not used: the compiler drops the load, "
    "the interpreter makes it",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel of one target. Without a kernel, the target was refused: `reason` says why."""

    target: str
    kernel: str = ""
    reads: str = ""
    writes: str = ""
    exact: bool = False
    traced: str = ""
    """equal, or how derived and traced differ, or why there is no trace."""
    reason: str = ""

    @property
    def equal(self) -> bool:
        """Whether the trace counts the same bytes."""
        return self.traced == "equal"


def targets_of(file: Path) -> list[str]:
    """The public functions of a file of targets, in order."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def examined(spec: str) -> list[Row]:
    """Derives and traces one target, in this process."""
    import ioaware
    from ioaware.errors import IoawareError

    name = Path(spec).name
    try:
        derived = ioaware.derive(spec)
    except IoawareError as error:
        return [Row(name, reason=_line(str(error)))]
    launches = [launch for launch in derived.launches if launch.origin == "triton"]
    trace_error, traced = "", None
    try:
        traced = [launch for launch in ioaware.trace(spec).launches if launch.origin == "triton"]
    except IoawareError as error:
        trace_error = f"no trace: {_line(str(error))}"
    rows: dict[str, Row] = {}
    for at, launch in enumerate(launches):
        outcome = trace_error or (compared(launch, traced[at]) if traced and len(traced) == len(launches) else "other launches")
        row = Row(
            name,
            launch.kernel,
            (launch.requested and launch.requested.read_formula) or "",
            (launch.requested and launch.requested.write_formula) or "",
            launch.exact,
            outcome,
            "" if launch.exact else _line(launch.notes[0] if launch.notes else ""),
        )
        known = rows.get(launch.kernel)
        if known is None or (known.equal and not row.equal):  # of several launches the one that differs
            rows[launch.kernel] = row
    return list(rows.values())


def compared(derived: Any, traced: Any) -> str:
    """What a trace says of a derivation: the elements' bytes of reads, writes and atomics, and FLOPs."""
    if derived.kernel != traced.kernel:
        return f"the trace launches {traced.kernel}"
    pairs = [
        (name, getattr(derived.requested, f"{name}_bytes"), getattr(traced.requested, f"{name}_bytes"))
        for name in ("read", "write", "atomic")
    ]
    pairs.append(("FLOPs", derived.flops, traced.flops))
    if any(one is None for _, one, _ in pairs):
        return "depends on data"
    found = [f"{name} {one} against {other}" for name, one, other in pairs if one != other]
    return "; ".join(found) or "equal"


def _line(text: str) -> str:
    """The first line, checkouts' paths cut down to file names."""
    words = text.strip().partition("\n")[0].split(" ")
    return " ".join(word.rpartition("/")[2] if word.startswith("/") else word for word in words)


def run(file: str, names: Sequence[str], environment: Mapping[str, str]) -> list[Row]:
    """The rows of one file of targets, each target in a process with a time limit."""
    rows: list[Row] = []
    for name in names:
        spec = str(HERE / file) + f":{name}"
        print(f"{file}:{name}", file=sys.stderr)
        command = [sys.executable, str(Path(__file__)), "--one", spec]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            rows.append(Row(f"{file}:{name}", reason=f"not done after {TIMEOUT_S} s"))
            continue
        if done.returncode:
            rows.append(Row(f"{file}:{name}", reason=f"a crash: {_line(done.stderr.strip().rpartition(chr(10))[2])}"))
            continue
        rows += [Row(**row) for row in json.loads(done.stdout.strip().rpartition("\n")[2])]
    return rows


def summary(rows: Iterable[Row]) -> str:
    """How many kernels, how many exact, equal to their trace, explained, and refused."""
    rows = list(rows)
    kernels = [row for row in rows if row.kernel]
    exact = [row for row in kernels if row.exact]
    equal = [row for row in exact if row.equal]
    explained = [row for row in exact if not row.equal and (row.target, row.kernel) in EXPLAINED]
    untraced = [row for row in exact if row.traced.startswith("no trace")]
    wrong = len(exact) - len(equal) - len(explained) - len(untraced)
    return (
        f"{len(kernels)} kernels: {len(exact)} exact, {len(kernels) - len(exact)} depend on data (the reason beside them). "
        f"Of the exact ones {len(equal)} equal their trace, {len(explained)} differ with a known reason, "
        f"{len(untraced)} cannot be traced, {wrong} differ without one. {len(rows) - len(kernels)} targets were refused."
    )


def document(libraries: Mapping[str, Sequence[Row]]) -> str:
    """The tables in Markdown."""
    everything = [row for rows in libraries.values() for row in rows]
    parts = [
        "# Kernels nobody here wrote",
        "Derived from their compiled IR at the sizes in `scripts/foreign/`, symbols named as the targets' parameters, and held "
        "against the interpreter's count of the same launches (bytes read, written and updated atomically, FLOPs). Made by "
        "`python scripts/foreign/coverage.py`, which takes the libraries' checkouts and holds none of their code.",
        f"**{summary(everything)}**",
    ]
    for title, rows in libraries.items():
        header = "| target | kernel | reads (bytes) | writes (bytes) | exact | traced |\n| --- | --- | --- | --- | --- | --- |"
        parts.append(f"## {title}\n\n{header}\n" + "\n".join(map(_markdown, rows)))
    return "\n\n".join(parts) + "\n"


def _markdown(row: Row) -> str:
    target = row.target.rpartition(":")[2]
    if not row.kernel:
        return f"| {target} | | | | refused | {_cell(row.reason)} |"
    exact = "yes" if row.exact else f"no: {_cell(row.reason)}"
    why = EXPLAINED.get((row.target, row.kernel))
    traced = f"{row.traced}: {why}" if why and not row.equal else row.traced
    return f"| {target} | `{row.kernel}` | {_formula(row.reads)} | {_formula(row.writes)} | {exact} | {_cell(traced)} |"


def _formula(text: str) -> str:
    short = text if len(text) <= LONGEST_FORMULA else f"a formula of {len(text)} characters"
    return f"`{short}`" if short == text else short


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when nothing exact differs from its trace without a reason, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for library, (_, title) in LIBRARIES.items():
        parser.add_argument(f"--{library.replace('_', '-')}", metavar="PATH", help=f"a checkout of {title}")
    parser.add_argument("-o", "--output", type=Path, help="write the tables here instead of to stdout")
    parser.add_argument("--one", metavar="SPEC", help=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    if given["one"]:
        print(json.dumps([asdict(row) for row in examined(given["one"])]))
        return 0
    paths = {library: str(Path(given[library]).resolve()) for library in LIBRARIES if given[library]}
    if not paths:
        parser.error("no checkout given")
    environment = {**os.environ, **{f"FOREIGN_{library.upper()}": path for library, path in paths.items()}}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE.parents[1]), os.environ.get("PYTHONPATH"))))
    libraries: dict[str, list[Row]] = {}
    for library in paths:
        file, title = LIBRARIES[library]
        libraries[title] = run(file, targets_of(HERE / file), environment)
    text = document(libraries)
    if given["output"]:
        given["output"].parent.mkdir(parents=True, exist_ok=True)
        given["output"].write_text(text, encoding="utf-8")
    else:
        print(text)
    report = summary(row for rows in libraries.values() for row in rows)
    print(report, file=sys.stderr)
    return 0 if " 0 differ without one" in report else 1


if __name__ == "__main__":
    raise SystemExit(main())
