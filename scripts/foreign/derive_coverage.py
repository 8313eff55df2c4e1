"""Derive and trace every third-party target, and write a table of kernels.

Each target is derived and traced in a separate process.

    python scripts/foreign/derive_coverage.py --triton PATH --liger PATH ... -o docs/results/derive-coverage.md

A library without a path is left out. With `--keep FILE` what was found is kept there, target by target, and a second call does
only what is missing in it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from examine import Row, examined, line

HERE = Path(__file__).parent
TIMEOUT_S = 400


@dataclass(frozen=True, slots=True)
class Source:
    """A library: its file of targets, name, origin, and the commit of its table.

    The committed table was made from that commit.
    """

    file: str
    title: str
    address: str
    commit: str


LIBRARIES = {
    "triton": Source(
        "triton_tutorials.py",
        "Triton's tutorials",
        "https://github.com/triton-lang/triton-cpu",  # whose copies of them are Triton's, but for the first
        "910ba2e98deb5180a5fb8f204f57cd6e71d2436a",
    ),
    "liger": Source(
        "liger.py",
        "Liger-Kernel",
        "https://github.com/linkedin/Liger-Kernel",
        "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c",
    ),
    "fla": Source(
        "flash_linear_attention.py",
        "flash-linear-attention",
        "https://github.com/fla-org/flash-linear-attention",
        "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
    ),
    "unsloth": Source(
        "unsloth.py",
        "Unsloth",
        "https://github.com/unslothai/unsloth",
        "015bdef0d94a241bcd94eec7a405b1700632180d",
    ),
    "lightllm": Source(
        "lightllm.py",
        "LightLLM",
        "https://github.com/ModelTC/lightllm",
        "fc72ffab9a3455cfb571f22d45ab777cc29de0de",
    ),
    "flash_attention": Source(
        "flash_attention.py",
        "FlashAttention's Triton operators",
        "https://github.com/Dao-AILab/flash-attention",
        "0251105a2fb19d2957484b7f023cd8c115286ced",
    ),
    "attention_gym": Source(
        "attention_gym.py",
        "attention-gym",
        "https://github.com/meta-pytorch/attention-gym",
        "7fdb85d0b96668397adee48de54b6f1036497717",
    ),
}

EXPLAINED: Mapping[tuple[str, str], str] = {}
"""Reasons of known differences, by target and kernel."""


def targets_of(file: Path) -> list[str]:
    """The public functions of a file of targets, in order."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def run(spec: str, environment: Mapping[str, str]) -> list[Row]:
    """The rows of one target, in a process with a time limit."""
    name = Path(spec).name
    command = [sys.executable, str(Path(__file__)), "--one", spec]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return [Row(name, reason=f"not done after {TIMEOUT_S} s")]
    if done.returncode:
        return [Row(name, reason=f"a crash: {line(done.stderr.strip().rpartition(chr(10))[2])}")]
    return [Row(**row) for row in json.loads(done.stdout.strip().rpartition("\n")[2])]


def run_all(specs: Sequence[str], environment: Mapping[str, str], keep: Path | None, jobs: int) -> dict[str, list[Row]]:
    """The rows by target, in order; what `keep` has already is taken from there."""
    kept: dict[str, list[dict[str, object]]] = json.loads(keep.read_text()) if keep and keep.exists() else {}
    missing = [spec for spec in specs if Path(spec).name not in kept]
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(run, spec, environment): Path(spec).name for spec in missing}
        for done in as_completed(running):
            print(running[done], file=sys.stderr)
            kept[running[done]] = [asdict(row) for row in done.result()]
            if keep:
                keep.write_text(json.dumps(kept))
    return {Path(spec).name: [Row(**row) for row in kept[Path(spec).name]] for spec in specs}  # pyright: ignore[reportArgumentType]


def summary(rows: Iterable[Row]) -> str:
    """Return how many kernels there are, and how many of each kind.

    The kinds are exact, equal to their trace here and elsewhere, explained, and refused.
    """
    rows = list(rows)
    kernels = [row for row in rows if row.kernel]
    exact = [row for row in kernels if row.exact]
    equal = [row for row in exact if row.equal]
    untraced = [row for row in exact if row.traced.startswith("no trace")]
    explained = [row for row in exact if not row.equal and _explanation(row)]
    wrong = len(exact) - len(equal) - len(explained) - len(untraced)
    return (
        f"{len(kernels)} kernels: {len(exact)} exact, {len(kernels) - len(exact)} depend on data (the reason beside them). "
        f"Of the exact ones {len(equal)} equal their trace, {sum(bool(row.elsewhere) for row in equal)} of them with the same "
        f"formula at other sizes too; {len(explained)} differ with a known reason, {len(untraced)} cannot be traced, "
        f"{wrong} differ without one. {len(rows) - len(kernels)} targets were refused."
    )


def _explanation(row: Row) -> str | None:
    return EXPLAINED.get((row.target, row.kernel))


INTRODUCTION = """\
Derived from their compiled IR at the sizes in `scripts/foreign/`, symbols named as the targets' parameters, and compared with
the interpreter's count of the same launches: bytes read, written and updated atomically, 32-byte sectors of both directions
where the engine knows them, FLOPs. The same formulas are then evaluated at other sizes and compared with a trace there. `for`
has the conditions of a formula on the parameters; where they fail it is not evaluated."""

HOW = """\
Made by the following command, which reads the libraries' checkouts, contains none of their code and imports none of their
packages. It takes an hour on two cores; `--jobs` sets the number of cores. A library without a path is skipped.

    python scripts/foreign/derive_coverage.py {flags} -o docs/results/derive-coverage.md"""


def document(libraries: Mapping[str, Sequence[Row]], commits: Mapping[str, str]) -> str:
    """The tables in Markdown, by library; `commits` are those of the checkouts."""
    everything = [row for rows in libraries.values() for row in rows]
    flags = " ".join(f"--{library.replace('_', '-')} PATH" for library in libraries)
    parts = ["# Third-party kernels, derived and traced", INTRODUCTION, f"**{summary(everything)}**", HOW.format(flags=flags)]
    parts.append("\n".join(_source(library, commits) for library in libraries))
    for library, rows in libraries.items():
        header = (
            "| target | kernel | reads (bytes) | writes (bytes) | for | exact | traced | at other sizes |\n"
            + "| --- " * 8
            + "|"
        )
        parts.append(f"## {LIBRARIES[library].title}\n\n{header}\n" + "\n".join(map(_markdown, rows)))
    return "\n\n".join(parts) + "\n"


def _source(library: str, commits: Mapping[str, str]) -> str:
    source = LIBRARIES[library]
    return f"- [{source.title}]({source.address}), commit `{commits.get(library) or source.commit}`"


def _markdown(row: Row) -> str:
    target = row.target.rpartition(":")[2]
    if not row.kernel:
        return f"| {target} | | | | | refused | {_cell(row.reason)} | |"
    exact = "yes" if row.exact else f"no: {_cell(row.reason)}"
    why = _explanation(row)
    traced = f"{row.traced}: {why}" if why and not row.equal else row.traced
    elsewhere = (
        f"{'as here' if why and not row.equal else row.elsewhere} ({row.sizes})" if row.elsewhere else "no parameter is free"
    )
    conditions = f"`{row.conditions}`" if row.conditions else ""
    cells = (target, f"`{row.kernel}`", row.reads, row.writes, conditions, exact, _cell(traced), _cell(elsewhere))
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def commit_of(checkout: str) -> str:
    """The checkout's commit; empty where it is none of git's."""
    command = ["git", "-C", checkout, "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() if done.returncode == 0 else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when nothing exact differs from its trace without a reason, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for library, source in LIBRARIES.items():
        parser.add_argument(
            f"--{library.replace('_', '-')}", metavar="PATH", help=f"a checkout of {source.title}, {source.address}"
        )
    parser.add_argument("-o", "--output", type=Path, help="write the tables here instead of to stdout")
    parser.add_argument("--keep", type=Path, help="keep what was found here, and go on from there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time, a core each")
    parser.add_argument("--one", metavar="SPEC", help=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    if given["one"]:
        print(json.dumps([asdict(row) for row in examined(given["one"])]))
        return 0
    paths = {library: str(Path(given[library]).resolve()) for library in LIBRARIES if given[library]}
    if not paths:
        parser.error("no checkout given")
    environment = {**os.environ, **{f"FOREIGN_{library.upper()}": path for library, path in paths.items()}}
    environment["OMP_NUM_THREADS"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE.parents[1]), os.environ.get("PYTHONPATH"))))
    files = {library: HERE / LIBRARIES[library].file for library in paths}
    specs = {library: [f"{file}:{name}" for name in targets_of(file)] for library, file in files.items()}
    found = run_all([spec for some in specs.values() for spec in some], environment, given["keep"], given["jobs"])
    libraries = {library: [row for spec in some for row in found[Path(spec).name]] for library, some in specs.items()}
    text = document(libraries, {library: commit_of(path) for library, path in paths.items()})
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
