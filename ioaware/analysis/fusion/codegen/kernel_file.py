"""Write the Triton file of a plan.

It holds a kernel that runs its passes, and one that splits a row and merges with C.

Inputs are [rows, length] tensors; each program of the one-kernel form reduces one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy

from ioaware.analysis.fusion.codegen.host_code import host, split_host, targets
from ioaware.analysis.fusion.codegen.pass_code import CODE, INDENT, PassCode, guarded_lines, jit_function, named, source_of
from ioaware.analysis.fusion.expressions.arithmetic import SOFTPLUS
from ioaware.analysis.fusion.expressions.elementwise import Rint
from ioaware.analysis.fusion.expressions.formula_text import formula
from ioaware.analysis.fusion.lifting.pass_plan import Plan
from ioaware.analysis.fusion.lifting.reference_guards import guard_of
from ioaware.analysis.fusion.programs.program import NEUTRAL, free_symbols

_sympy: Any = sympy
CONSTANTS = ("BLOCK: tl.constexpr", "ACC: tl.constexpr")
SOFTPLUS_HELPER = '''
@triton.jit
def softplus(u):
    """log(1 + exp(u)) without overflow."""
    return tl.maximum(u, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(u)))
'''
RINT_HELPER = '''
@triton.jit
def rint(u):
    """The nearest integer, ties to even."""
    up = tl.floor(u + 0.5)
    odd = up - 2.0 * tl.floor(up * 0.5)
    return tl.where(up - u == 0.5, up - odd, up)
'''


def triton_source(plan: Plan, as_written: Plan) -> str:
    """Return the source of a Triton file that computes the program by both plans.

    It has functions to call and functions to count.
    """
    name, inputs = plan.program.name, [f"{symbol.name}_in" for symbol in plan.program.inputs]
    parts = [_header(plan), *_helpers((plan, as_written))]
    for kind, one in (("fused", plan), ("separate", as_written)):
        parts += [
            text for number, part in enumerate(one.passes) for text in PassCode(one, part, f"{kind}_{number + 1}").functions()
        ]
        parts.append(_kernel(one, kind))
        parts.append(host(kind, name, inputs, len(plan.program.outputs)))
    if plan.is_one_pass:
        parts += [_split_kernel(plan), _combine_kernel(plan), split_host(name, inputs, plan)]
    parts.append(targets(inputs, split=plan.is_one_pass))
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n"


def _header(plan: Plan) -> str:
    program = plan.program
    state = [component.symbol.name for part in plan.passes for component in part.components]
    outputs = ", ".join(formula(output) for output in program.outputs)
    lines = [
        f'"""{program.name}: {outputs}, in {_passes(len(plan.passes))} over the data.',
        "",
        *(f"    {reduction.name} = {reduction.op} of {formula(reduction.body)}" for reduction in program.reductions),
        *(
            f"    {parameter.symbol.name} = {formula(parameter.value)}"
            for parameter in program.parameters
            if parameter.symbol != parameter.value
        ),
        "",
        f"Written by `ioaware fuse`. State: {', '.join(state)}. Inputs are [rows, length] tensors, one output per row.",
        '"""',
        "",
        "import torch",
        "import triton",
        "import triton.language as tl",
    ]
    return "\n".join(lines)


def _passes(count: int) -> str:
    return "1 pass" if count == 1 else f"{count} passes"


def _helpers(plans: Sequence[Plan]) -> Iterator[str]:
    bodies = [reduction.body for plan in plans for reduction in plan.program.reductions]
    for plan in plans:
        bodies += [part.value_of(lifted) for part in plan.passes for lifted in part.lifted] + list(plan.program.outputs)
    if any(node.match(SOFTPLUS) for body in bodies for node in body.atoms(_sympy.log)):
        yield SOFTPLUS_HELPER
    if any(body.has(Rint) for body in bodies):
        yield RINT_HELPER


def _loop(one: PassCode, first: str, last: str, row: str) -> Iterator[str]:
    """Yield the loop of a pass over a row from `first` to `last`.

    The state is carried in `sum_...` names.
    """
    state = [named("all", symbol) for symbol in one.state]
    for component, variable in zip(one.part.components, state, strict=True):
        yield f"{variable} = tl.full((), {CODE.constant(NEUTRAL[component.op]).text}, ACC)"
    fixed = [named("fixed", symbol) for symbol in one.fixed]
    yield f"for start in range({first}, {last}, BLOCK):"
    yield f"{INDENT}offsets = start + tl.arange(0, BLOCK)"
    yield f"{INDENT}mask = offsets < {last}"
    for symbol in one.inputs:
        place = f"{symbol.name}_ptr + {row} * length + offsets"
        yield f"{INDENT}{named('elem', symbol)} = tl.load({place}, mask=mask, other=0.0).to(ACC)"
    block = [named("block", symbol) for symbol in one.state]
    elements = [named("elem", symbol) for symbol in one.inputs]
    yield f"{INDENT}{', '.join(block)} = {one.name}_block({', '.join([*elements, 'mask', *fixed, 'ACC'])})"
    yield f"{INDENT}{', '.join(state)} = {one.name}_combine({', '.join([*state, *block, *fixed])})"


def _results(one: PassCode, prefix: str = "all") -> Iterator[str]:
    """Yield the value of each reduction of a pass that is not a component itself."""
    made = [lifted for lifted in one.part.lifted if one.part.value_of(lifted) != lifted.reduction.symbol]
    used = free_symbols(one.part.value_of(lifted) for lifted in made)
    if used & {parameter.symbol for parameter in one.part.varying} - set(one.state):
        yield from one.value_lines(prefix)
    scope = one.scope(prefix)
    over = {symbol: text for symbol, text in one.references(prefix).items() if symbol not in set(one.state)}
    for lifted in made:
        yield f"{named(prefix, lifted.reduction.symbol)} = {source_of(one.part.value_of(lifted), scope | over)}"


def _kernel(plan: Plan, kind: str) -> str:
    """Return the kernel that runs every pass of a plan over its row."""
    lines = ["row = tl.program_id(0).to(tl.int64)"]
    values: dict[Any, str] = {}
    for number, part in enumerate(plan.passes):
        one = PassCode(plan, part, f"{kind}_{number + 1}")
        for parameter in part.fixed:
            name = named("fixed", parameter.symbol)
            lines += guarded_lines(guard_of(plan.program, parameter), name, source_of(parameter.value, values))
        lines += [*_loop(one, "0", "length", "row"), *_results(one)]
        values |= {lifted.reduction.symbol: named("all", lifted.reduction.symbol) for lifted in part.lifted}
    lines += _stores(plan, values)
    arguments = [*_pointers(plan), *_output_pointers(plan), "length", *CONSTANTS]
    return jit_function(f"{kind}_kernel", arguments, f"One program per row, {_passes(len(plan.passes))}.", lines)


def _pointers(plan: Plan) -> list[str]:
    return [f"{symbol.name}_ptr" for symbol in plan.program.inputs]


def _output_pointers(plan: Plan) -> list[str]:
    return [f"output_{number}_ptr" for number in range(len(plan.program.outputs))]


def _stores(plan: Plan, values: Mapping[Any, str]) -> Iterator[str]:
    """Yield the outputs; 0 / 0 is 0."""
    for number, output in enumerate(plan.program.outputs):
        name = f"output_{number}"
        yield f"{name} = {source_of(output, values)}"
        top, bottom = output.as_numer_denom()
        if bottom != 1:
            yield f"{name} = tl.where(({source_of(top, values)} == 0) & ({source_of(bottom, values)} == 0), 0.0, {name})"
        yield f"tl.store({name}_ptr + row, {name})"


def _split_kernel(plan: Plan) -> str:
    one = PassCode(plan, plan.passes[0], "fused_1")
    count = len(one.state)
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        "split = tl.program_id(1)",
        "first = split * chunk",
        "last = tl.minimum(first + chunk, length)",
        *_loop(one, "first", "last", "row"),
        f"states = states_ptr + (row * tl.num_programs(1) + split) * {count}",
        *(f"tl.store(states + {number}, {named('all', symbol)})" for number, symbol in enumerate(one.state)),
    ]
    arguments = [*_pointers(plan), "states_ptr", "length", "chunk", *CONSTANTS]
    return jit_function("split_kernel", arguments, f"The state of each part of a row, [rows, splits, {count}].", lines)


def _combine_kernel(plan: Plan) -> str:
    one = PassCode(plan, plan.passes[0], "fused_1")
    state, part = [named("all", symbol) for symbol in one.state], [named("part", symbol) for symbol in one.state]
    lines = ["row = tl.program_id(0).to(tl.int64)"]
    for component, variable in zip(one.part.components, state, strict=True):
        lines.append(f"{variable} = tl.full((), {CODE.constant(NEUTRAL[component.op]).text}, ACC)")
    lines.append("for split in range(splits):")
    lines.append(f"{INDENT}states = states_ptr + (row * splits + split) * {len(state)}")
    lines += [f"{INDENT}{variable} = tl.load(states + {number})" for number, variable in enumerate(part)]
    lines.append(f"{INDENT}{', '.join(state)} = {one.name}_combine({', '.join([*state, *part])})")
    values = {lifted.reduction.symbol: named("all", lifted.reduction.symbol) for lifted in one.part.lifted}
    lines += [*_results(one), *_stores(plan, values)]
    arguments = ["states_ptr", *_output_pointers(plan), "splits", "ACC: tl.constexpr"]
    return jit_function("combine_kernel", arguments, "The states of a row merged from left to right.", lines)
