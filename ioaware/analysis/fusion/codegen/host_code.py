"""Write the host side of a generated Triton file.

It has functions that allocate and launch, and targets for the verbs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.analysis.fusion.lifting.pass_plan import Plan

BLOCK = 1024


def host(kind: str, name: str, inputs: Sequence[str], outputs: int) -> str:
    """Return the function that allocates the outputs and launches."""
    what = {
        "fused": f"Return {name} of each row, in as few passes as `ioaware fuse` finds.",
        "separate": f"Return {name} of each row, one pass after another as it is written.",
    }
    return f'''def {kind}({", ".join(inputs)}):
    """{what[kind]}"""
    rows, length = {inputs[0]}.shape
    outputs = [torch.empty(rows, dtype={inputs[0]}.dtype, device={inputs[0]}.device) for _ in range({outputs})]
    {kind}_kernel[(rows,)]({", ".join(inputs)}, *outputs, length, BLOCK=BLOCK, ACC=accumulator({inputs[0]}))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)'''


def split_host(name: str, inputs: Sequence[str], plan: Plan) -> str:
    first, count = inputs[0], len(plan.passes[0].components)
    return f'''def fused_split({", ".join(inputs)}, splits=8):
    """Return {name} of each row: `splits` programs per row reduce a part each, then C merges their states."""
    rows, length = {first}.shape
    chunk = triton.cdiv(triton.cdiv(length, BLOCK), splits) * BLOCK
    wide = torch.float64 if {first}.dtype == torch.float64 else torch.float32
    states = torch.empty(rows, splits, {count}, dtype=wide, device={first}.device)
    outputs = [torch.empty(rows, dtype={first}.dtype, device={first}.device) for _ in range({len(plan.program.outputs)})]
    split_kernel[(rows, splits)]({", ".join(inputs)}, states, length, chunk, BLOCK=BLOCK, ACC=accumulator({first}))
    combine_kernel[(rows,)](states, *outputs, splits, ACC=accumulator({first}))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)'''


def targets(inputs: Sequence[str], *, split: bool) -> str:
    """Return functions that are targets of `ioaware derive`, `trace` and `measure`."""
    lines = [
        f"BLOCK = {BLOCK}",
        "",
        "",
        "def accumulator(tensor):",
        '    """Return the type that sums are kept in."""',
        "    return tl.float64 if tensor.dtype == torch.float64 else tl.float32",
        "",
        "",
        "def make_inputs(rows, length, dtype, device):",
        '    """Return one [rows, length] tensor per input of the program."""',
        f"    return [torch.randn(rows, length, device=device).to(getattr(torch, dtype)) for _ in range({len(inputs)})]",
        "",
        "",
    ]
    targets = [
        ("one_kernel", "fused", "", "The program in one kernel."),
        ("as_written", "separate", "", "The program pass by pass."),
    ]
    if split:
        targets.append(("split", "fused_split", ", splits=8", "The program split over programs, and the combiner."))
    for name, function, extra, text in targets:
        given = ", splits=splits" if extra else ""
        lines += [
            f'def {name}(rows=64, length=8192{extra}, dtype="float32", device="cuda"):',
            f'    """{text}"""',
            "    inputs = make_inputs(rows, length, dtype, device)",
            f"    return lambda: {function}(*inputs{given})",
            "",
            "",
        ]
    return "\n".join(lines)
