"""List what a dump computes of a checkout, section by section.

A question's key is its name in the dump in every checkout.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLANS = Path(__file__).parent / "attention_plans.py"
CASES = ("standard", "flash1", "flash2")
LIBRARIES = {
    "attention_gym": "attention_gym.py",
    "flash_attention": "flash_attention.py",
    "fla": "flash_linear_attention.py",
    "liger": "liger.py",
    "lightllm": "lightllm.py",
    "triton": "triton_tutorials.py",
    "unsloth": "unsloth.py",
}
"""The files of third-party targets in `scripts/foreign`, by library.

A library's name is that in `FOREIGN_<NAME>`.
"""
LONGEST_COUNTED = 4096
"""The longest seq_len at which counters of a case's studied point are predicted.

This prediction takes time. The formulas are for all lengths.
"""


@dataclass(frozen=True, slots=True)
class Derivation:
    """A target to derive at a point. `batch` says which derivations share a process."""

    key: str
    target: str
    params: Mapping[str, Any]
    batch: str
    counters: bool = True
    code: bool = False

    def to_job(self) -> dict[str, Any]:
        """Return what derive_worker.py reads."""
        return {"target": self.target, "params": dict(self.params), "counters": self.counters, "code": self.code}


def derivation(target: str, params: Mapping[str, Any], batch: str, *, counters: bool = True) -> Derivation:
    """Name the derivation by its target and its parameters."""
    shown = json.dumps(dict(params), separators=(",", ":"), sort_keys=True)
    return Derivation(f"{target} {shown}", target, params, batch, counters)


def grid(**values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values, the last parameter varying fastest."""
    for chosen in itertools.product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def formulas(studied: Iterable[Mapping[str, Any]]) -> list[Derivation]:
    """Return every case in its kinds, and all points of `studied`, each once.

    `studied` has the points of all studies.
    """
    lengths = (
        {"head_dim": 64, "seq_len": 512},
        {"head_dim": 40, "seq_len": 500, "kv_len": 333},
        {"head_dim": 64, "seq_len": 333, "kv_len": 500},
    )
    found: dict[str, Derivation] = {}
    for case, kind, length in itertools.product(CASES, grid(causal=(False, True), dtype=("float16", "float32")), lengths):
        one = derivation(case, {**kind, **length, "block_m": 64, "block_n": 32}, f"{case} kinds")
        found.setdefault(one.key, one)
    for point in ends(studied):
        counted = point["target"] not in CASES or point["params"]["seq_len"] <= LONGEST_COUNTED
        one = derivation(point["target"], point["params"], f"{point['target']} studies", counters=counted)
        found.setdefault(one.key, one)
    return list(found.values())


def ends(points: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return only the shortest and the longest of cases' points with one formula.

    The formula is in sequence length and heads.
    """
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for point in points:
        sizes = ("seq_len", "heads") if point["target"] in CASES else ()
        rest = {name: value for name, value in point["params"].items() if name not in sizes}
        alike.setdefault(json.dumps([point["target"], rest], sort_keys=True), []).append(point)
    chosen: list[Mapping[str, Any]] = []
    for group in alike.values():
        ordered = sorted(group, key=lambda point: point["params"].get("seq_len", 0))
        chosen += [ordered[0], ordered[-1]]
    return chosen


def foreign(checkout: Path, libraries: Iterable[str]) -> list[Derivation]:
    """Return the checkout's third-party targets at their defaults.

    Each has its own process: targets patch what they import.
    """
    found: list[Derivation] = []
    for library in libraries:
        file = checkout / "scripts" / "foreign" / LIBRARIES[library]
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
        found += [Derivation(f"{file.name}:{name}", f"{file}:{name}", {}, f"{file.name}:{name}") for name in names]
    return found


def code() -> list[Derivation]:
    """Return attention through its kernels' plans, and the cases in several blocks.

    Shapes and types take the kernels of attention through their plans.
    """
    found: dict[str, Derivation] = {}
    for function, sizes in itertools.chain(_hopper(), _decode(), _portable(), _cases()):
        shown = json.dumps(sizes, separators=(",", ":"), sort_keys=True)
        key = f"{function} {shown}"
        batch = f"{function} {sizes.get('case') or sizes['backend']} {sizes['head_dim']}"
        found[key] = Derivation(key, f"{PLANS}:{function}", {"sizes": shown}, batch, code=True)
    return list(found.values())


Plan = tuple[str, dict[str, Any]]
KINDS: tuple[Mapping[str, Any], ...] = (
    {"causal": False, "dtype": "float16", "more_keys": 0},
    {"causal": False, "dtype": "bfloat16", "more_keys": 4},
    {"causal": True, "dtype": "bfloat16", "more_keys": 0},
    {"causal": True, "dtype": "float16", "more_keys": 4},
)
"""Both masks, both types, a kv_len that fills blocks and one that does not."""


def _cases() -> Iterator[Plan]:
    """Yield types and blocks of the cases."""
    kinds = (("float16", False, 64), ("float16", True, 128), ("bfloat16", True, 64), ("float32", False, 64))
    blocks = ((16, 32), (32, 16), (32, 256), (128, 128), (256, 32))
    for case in CASES:
        for dtype, causal, head_dim in kinds:
            sizes = {"case": case, "dtype": dtype, "causal": causal, "head_dim": head_dim}
            yield "case", {**sizes, "seq_len": 1024, "block_m": 64, "block_n": 64}
        for block_m, block_n in blocks:
            sizes = {"case": case, "seq_len": 4096, "head_dim": 128, "causal": True}
            yield "case", {**sizes, "block_m": block_m, "block_n": block_n}


def _hopper() -> Iterator[Plan]:
    """Yield shapes of every plan of the Hopper kernels."""
    forward = ((64, 512, 4), (64, 1024, 128), (64, 8192, 32), (128, 4096, 16), (256, 4096, 16))
    for (head_dim, seq_len, heads), kind in itertools.product(forward, KINDS):
        yield "forward", _sizes(head_dim, seq_len, heads, **kind)
    yield "forward", {**_sizes(96, 4096, 16, dtype="float16"), "kv_heads": 4}
    fused = itertools.product((64, 128), ((4096, 16), (512, 256), (1536, 5)))
    for (head_dim, (seq_len, heads)), kind in itertools.product(fused, KINDS):
        yield "gradients", _sizes(head_dim, seq_len, heads, **kind)
    for kind in KINDS:
        yield "gradients", _sizes(256, 1024, 16, **kind)
    for head_dim, kind in itertools.product((64, 128), KINDS):
        yield "gradients", {**_sizes(head_dim, 1024, 16, **kind), "deterministic": True}
    yield "gradients", {**_sizes(96, 1024, 16, causal=True, dtype="bfloat16"), "kv_heads": 4}


def _sizes(
    head_dim: int, seq_len: int, heads: int, *, causal: bool = False, dtype: str, more_keys: int = 0, backend: str = "hopper"
) -> dict[str, Any]:
    lengths = {"seq_len": seq_len, "kv_len": seq_len + more_keys, "heads": heads, "kv_heads": heads}
    return {"head_dim": head_dim, **lengths, "causal": causal, "dtype": dtype, "backend": backend}


def _decode() -> Iterator[Plan]:
    """Yield one query and few, of few key heads (many splits) and of many."""
    for head_dim, dtype in itertools.product((64, 128, 256), ("float16", "bfloat16", "float32")):
        sizes = {"head_dim": head_dim, "dtype": dtype, "kv_len": 8192, "backend": "decode"}
        yield "forward", {**sizes, "seq_len": 1, "heads": 32, "kv_heads": 8, "causal": False}
        yield "forward", {**sizes, "seq_len": 4, "heads": 70, "kv_heads": 70, "causal": True}
    sizes = {"head_dim": 128, "dtype": "float16", "kv_len": 4096, "backend": "decode"}
    yield "forward", {**sizes, "seq_len": 1, "heads": 600, "kv_heads": 600, "causal": False}  # not split


def _portable() -> Iterator[Plan]:
    """Yield shapes of every table entry of the portable kernels.

    Float32 has no tensor descriptors.
    """
    for head_dim, seq_len, kind in itertools.product((40, 64, 128, 256), (512, 8192), KINDS[::2]):
        yield "gradients", _sizes(head_dim, seq_len, 8, **kind, backend="triton")
    for head_dim, causal in itertools.product((40, 64, 128, 256), (False, True)):
        yield "gradients", _sizes(head_dim, 512, 8, causal=causal, dtype="float32", backend="triton")
    yield "gradients", {**_sizes(128, 1024, 16, **KINDS[3], backend="triton"), "kv_heads": 4}


@dataclass(frozen=True, slots=True)
class Session:
    """Command lines that run one after the other in a folder of their own.

    The folder has these files in it.
    """

    name: str
    commands: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict[str, str])


STUDY = """\
title = "A small study"

[[grid]]
sources = ["predict", "derive", "trace"]
targets = ["standard", "flash1", "flash2"]
params = { seq_len = 64, head_dim = 32, causal = [false, true] }
"""
TARGETS = "ioaware.kernels.attention.targets"
VERBS = (
    "list", "doctor", "predict", "derive", "explain", "trace", "measure", "bench", "sweep", "verify", "report", "export",
)  # fmt: skip


def sessions() -> list[Session]:
    """Return the command lines whose `--json` is compared.

    These are every verb that needs no GPU, and what is refused without one.
    """
    named = {
        "list": ["list"],
        "doctor": ["doctor"],
        "predict": [
            *(f"predict {case} -p causal={causal} -p seq_len=4000" for case in CASES for causal in ("true", "false")),
            "predict flash1 -p sram_elements=16384 --machine B200",
            "predict flash2 -p dtype=float32 -p kv_len=777",
        ],
        "derive": [
            *(f"derive {case} -p causal=true -p seq_len=500 --counters" for case in CASES),
            f"derive {TARGETS}:decode -p kv_len=1024",
            f"derive {TARGETS}:portable_backward -p seq_len=512 --counters",
            "derive flash2 --gpu hip:gfx942",
        ],
        "trace": [
            *(f"trace {case} -p causal=true -p seq_len=100" for case in CASES),
            f"trace {TARGETS}:portable -p seq_len=64 -p heads=2 -p kv_heads=1 -p head_dim=32",
        ],
        "explain": [
            *(f"explain {case} -p causal=true" for case in CASES),
            f"explain {TARGETS}:portable_backward -p seq_len=512",
        ],
        "verify": ["verify"],
        "sweep": ["sweep small.toml --store small.db", "sweep small.toml --store small.db"],
    }
    found = [Session(name, tuple(f"{line} --json" for line in lines)) for name, lines in named.items() if name != "sweep"]
    exports = tuple(f"export --store small.db -o small.{ending}" for ending in ("jsonl", "csv"))
    small = tuple(f"{line} --json" for line in named["sweep"])
    refused = (
        "predict flash3", "predict flash2 -p seq=1", "predict flash2 -p seq_len=0", "derive nowhere.py:kernel", "lst",
        "derive flash2 --gpu cuda:1", "trace flash2 -p dtype=int8", "verify theorem9", "sweep nothing --store nothing.db",
        "export --store nothing.db -o nothing.csv", f"measure {TARGETS}:hopper", "bench attention",
    )  # fmt: skip
    return [
        *found,
        Session("sweep", (*small, *exports), {"small.toml": STUDY}),
        Session("refused", refused),
        Session("help", tuple(f"{verb} --help" for verb in VERBS)),
    ]
