"""Write a repository of 50 gated kernels, and time its gate.

The gate is timed from cold, and from the cache of a run before.

    python scripts/gated_repository.py FOLDER                   # write it
    python scripts/gated_repository.py FOLDER --time -o FILE    # and time `pytest` in it on two cores

40 kernels are written from templates (elementwise, rows, columns, tiles, products; no two have the same body), 10 are ioaware's
own. Each has one test with a snapshot. `cold` has no cache of Triton, of ioaware or of Python's bytecode; `cached` is the same
command again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
PLUGIN = ("-p", "no:cacheprovider", "-p", "no:ioaware", "-p", "ioaware.gate.pytest_plugin")
"""Also where the installation has no entry point yet."""
HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
ELEMENTWISE = """

@triton.jit
def {name}_kernel({pointers}out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
{loads}    tl.store(out + at, {value}, at < n)


def {name}({inputs}):
    out = torch.empty_like(a)
    n = a.numel()
    {name}_kernel[(triton.cdiv(n, {block}),)]({inputs}, out, n, BLOCK={block})
    return out
"""
ROWS = """

@triton.jit
def {name}_kernel(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * cols + at, at < cols, other=0.0).to(tl.float32)
        total = {step}
    found = {reduced}
{finish}

def {name}(x):
    rows, cols = x.shape
    out = torch.empty({shape}, dtype=x.dtype, device=x.device)
    {name}_kernel[(rows,)](x, out, cols, BLOCK={block})
    return out
"""
ONE = "    tl.store(out + row, found)\n"
SECOND = """    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * cols + at, at < cols, other=0.0).to(tl.float32)
        tl.store(out + row * cols + at, {value}, at < cols)
"""
TILES = """

@triton.jit
def {name}_kernel(x, out, rows, cols, TILE: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    col = tl.program_id(1) * WIDE + tl.arange(0, WIDE)[None, :]
    inside = (row < rows) & (col < cols)
    value = tl.load(x + row * cols + col, inside, other=0.0)
    tl.store(out + {address}, {value}, inside)


def {name}(x):
    rows, cols = x.shape
    out = torch.empty({shape}, dtype=x.dtype, device=x.device)
    {name}_kernel[(triton.cdiv(rows, {tile}), triton.cdiv(cols, {wide}))](x, out, rows, cols, TILE={tile}, WIDE={wide})
    return out
"""
PRODUCT = """

@triton.jit
def {name}_kernel(a, b, out, m, n, k, TILE: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    col = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    total = tl.zeros([TILE, TILE], tl.float32)
    for start in range(0, k, DEPTH):
        inner = start + tl.arange(0, DEPTH)
        left = tl.load(a + row * k + inner[None, :], (row < m) & (inner[None, :] < k), other=0.0)
        right = tl.load(b + inner[:, None] * n + col, (inner[:, None] < k) & (col < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(out + row * n + col, ({value}).to(tl.float16), (row < m) & (col < n))


def {name}(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    {name}_kernel[(triton.cdiv(m, {tile}), triton.cdiv(n, {tile}))](a, b, out, m, n, k, TILE={tile}, DEPTH={depth})
    return out
"""
UNARY = {
    "square": "a0 * a0", "negate": "-a0", "double": "a0 + a0", "cube": "a0 * a0 * a0", "relu": "tl.maximum(a0, 0.0)",
    "absolute": "tl.abs(a0)", "exponential": "tl.exp(a0.to(tl.float32))", "sigmoid": "tl.sigmoid(a0.to(tl.float32))",
    "root": "tl.sqrt(tl.abs(a0.to(tl.float32)))", "clip": "tl.minimum(tl.maximum(a0, -1.0), 1.0)",
}  # fmt: skip
BINARY = {
    "add": "a0 + b0", "subtract": "a0 - b0", "multiply": "a0 * b0", "larger": "tl.maximum(a0, b0)",
    "smaller": "tl.minimum(a0, b0)", "gate": "a0 * tl.sigmoid(b0.to(tl.float32))", "mean": "(a0 + b0) * 0.5",
    "distance": "(a0 - b0) * (a0 - b0)",
}  # fmt: skip
TERNARY = {"multiply_add": "a0 * b0 + c0", "mix": "a0 * c0 + b0 * (1.0 - c0)", "sum_of_three": "a0 + b0 + c0"}
REDUCED = {
    "row_sum": ("total + value", "tl.sum(total)"), "row_max": ("tl.maximum(total, value)", "tl.max(total)"),
    "row_squares": ("total + value * value", "tl.sum(total)"), "row_mean": ("total + value", "tl.sum(total) / cols"),
    "row_norm": ("total + value * value", "tl.sqrt(tl.sum(total))"),
}  # fmt: skip
NORMALISED = {
    "rms_norm": ("total + value * value", "tl.rsqrt(tl.sum(total) / cols + 1e-6)", "value * found"),
    "share": ("total + value", "tl.sum(total)", "value / found"),
    "centre": ("total + value", "tl.sum(total) / cols", "value - found"),
    "by_largest": ("tl.maximum(total, tl.abs(value))", "tl.max(total)", "value / found"),
}  # fmt: skip
TILED = {
    "transpose": ("col * rows + row", "value", "(cols, rows)"), "copy": ("row * cols + col", "value", "(rows, cols)"),
    "transpose_relu": ("col * rows + row", "tl.maximum(value, 0.0)", "(cols, rows)"),
    "flip_rows": ("(rows - 1 - row) * cols + col", "value", "(rows, cols)"),
    "flip_cols": ("row * cols + cols - 1 - col", "value", "(rows, cols)"),
    "upper": ("row * cols + col", "tl.where(row <= col, value, 0.0)", "(rows, cols)"),
}  # fmt: skip
PRODUCTS = {
    "product": "total", "product_relu": "tl.maximum(total, 0.0)", "product_square": "total * total",
    "product_half": "total * 0.5",
}  # fmt: skip
SOFTMAX = ("cub", "materialised", "one_read", "online", "lse", "safe")
OWN = (
    *((f"softmax_{name}", f"ioaware.kernels.softmax.{'online' if name == 'lse' else name}", "two") for name in SOFTMAX),
    ("softmax_bwd", "ioaware.kernels.softmax.backward", "same"),
    ("softmax_bwd_one_read", "ioaware.kernels.softmax.backward", "same"),
    ("flash1", "ioaware.kernels.attention.flash1", "attention"),
    ("flash2", "ioaware.kernels.attention.flash2", "attention"),
)
CALLS = {
    "one": '    a = traffic.tensor("n", dtype="float16")\n    assert traffic({name}, {given}) == traffic.snapshot()\n',
    "two": '    x = traffic.tensor("rows", "cols", dtype="float16", cols=512)\n'
    "    assert traffic({name}, x) == traffic.snapshot()\n",
    "same": '    x = traffic.tensor("rows", "cols", dtype="float16", cols=512)\n'
    "    assert traffic({name}, x, x) == traffic.snapshot()\n",
    "product": '    a, b = traffic.tensor("m", "k", dtype="float16"), traffic.tensor("k", "n", dtype="float16")\n'
    "    assert traffic({name}, a, b) == traffic.snapshot()\n",
    "attention": '    q = traffic.tensor(2, 4, "seq_len", 64, dtype="float16", seq_len=1024)\n'
    "    assert traffic({name}, q, q, q) == traffic.snapshot()\n",
}


def kernels() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, module, kind of call and source of each kernel from a template."""
    for ops in (UNARY, BINARY, TERNARY):
        for at, (name, value) in enumerate(ops.items()):
            names = "abc"[: 1 if ops is UNARY else 2 if ops is BINARY else 3]
            loads = "".join(f"    {one}0 = tl.load({one} + at, at < n)\n" for one in names)
            pointers, inputs = "".join(f"{one}, " for one in names), ", ".join(names)
            block = 256 * 2 ** (at % 3)
            text = ELEMENTWISE.format(name=name, pointers=pointers, loads=loads, value=value, inputs=inputs, block=block)
            yield name, "elementwise", "one", text
    for at, (name, (step, reduced)) in enumerate(REDUCED.items()):
        block = 512 * 2 ** (at % 2)
        yield name, "rows", "two", ROWS.format(name=name, step=step, reduced=reduced, finish=ONE, shape="(rows,)", block=block)
    for name, (step, reduced, value) in NORMALISED.items():
        finish = SECOND.format(value=value)
        shape = "(rows, cols)"
        yield name, "rows", "two", ROWS.format(name=name, step=step, reduced=reduced, finish=finish, shape=shape, block=1024)
    for at, (name, (address, value, shape)) in enumerate(TILED.items()):
        tile, wide = 16 * 2 ** (at % 2), 64
        yield name, "tiles", "two", TILES.format(name=name, address=address, value=value, shape=shape, tile=tile, wide=wide)
    for at, (name, value) in enumerate(PRODUCTS.items()):
        yield name, "products", "product", PRODUCT.format(name=name, value=value, tile=64, depth=32 * 2 ** (at % 2))


def write(folder: Path) -> int:
    """Write the repository; return how many kernels it has. Its snapshots are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\npythonpath = .\n")
    sources: dict[str, str] = {}
    tests: dict[str, list[str]] = {}
    for name, module, call, text in kernels():
        sources[module] = sources.get(module, HEAD) + text
        given = {"one": {1: "a", 2: "a, a", 3: "a, a, a"}[text.count("tl.load(")]}.get(call, "")
        tests.setdefault(module, []).append(_test(name, module, call, given))
    for name, module, call in OWN:
        tests.setdefault("own", []).append(_test(name, module, call, ""))
    for module, text in sources.items():
        (folder / f"{module}.py").write_text(text)
    for module, parts in tests.items():
        (folder / f"test_{module}.py").write_text("\n\n".join(parts))
    return sum(map(len, tests.values()))


def _test(name: str, module: str, call: str, given: str) -> str:
    body = CALLS[call].format(name=name, given=given)
    return f"def test_{name}(traffic):\n    from {module} import {name}\n\n{body}"


def timed(folder: Path, cache: Path, *arguments: str) -> dict[str, float]:
    """Return the seconds of `pytest` in the repository, by the wall clock and of CPU.

    Exits where it fails.
    """
    left_out = ("CI", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    paths = os.pathsep.join([str(HERE), *filter(None, [environment.get("PYTHONPATH", "")])])
    places = {"IOAWARE_CACHE_DIR": "ioaware", "TRITON_CACHE_DIR": "triton", "PYTHONPYCACHEPREFIX": "bytecode"}
    caches = {name: str(cache / place) for name, place in places.items()}
    begin, before = time.perf_counter(), _cpu_s()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pytest", "-q", *PLUGIN, *arguments],
        cwd=folder, env={**environment, "PYTHONPATH": paths, **caches}, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"pytest {' '.join(arguments)} ended with {done.returncode}")
    return {"wall_s": round(time.perf_counter() - begin, 1), "cpu_s": round(_cpu_s() - before, 1)}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", action="store_true", help="fill in the snapshots, then time the gate")
    parser.add_argument("-o", "--output", type=Path, help="write the figures here")
    given = parser.parse_args(arguments)
    count = write(given.folder)
    print(f"{count} kernels in {given.folder}")
    if not given.time:
        return
    figures: dict[str, Any] = {"kernels": count}
    with tempfile.TemporaryDirectory() as made:
        timed(given.folder, Path(made) / "first", "--traffic=create")
        for name, workers in (("one_process", ()), ("two_processes", ("-n", "2"))):
            cache = Path(made) / name
            figures[f"{name}_cold"] = timed(given.folder, cache, *workers)
            figures[f"{name}_cached"] = timed(given.folder, cache, *workers)
            shutil.rmtree(cache)
    text = json.dumps(figures, indent=1)
    print(text)
    if given.output:
        given.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
