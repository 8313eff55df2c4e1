"""Write the Triton file of a plan: a kernel that runs its passes, and one that splits a row and merges with C.

Inputs are [rows, length] tensors; each program of the one-kernel form reduces one row. Names that come from the program get
a prefix that says which state they are of, so that none can meet a name of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from ioaware.analysis.fusion.code import Code, TritonCode, call
from ioaware.analysis.fusion.combiner import Combiner, steps
from ioaware.analysis.fusion.display import formula
from ioaware.analysis.fusion.functions import Rint
from ioaware.analysis.fusion.guards import Guard, guard_of
from ioaware.analysis.fusion.lifting import ONE, Component, old_symbol
from ioaware.analysis.fusion.numbers import SOFTPLUS, evaluate
from ioaware.analysis.fusion.plan import FusedPass, Plan
from ioaware.analysis.fusion.program import NEUTRAL, Parameter

_sympy: Any = sympy
CODE = TritonCode()
BLOCK = 1024
REDUCE = {"sum": "tl.sum", "max": "tl.max", "min": "tl.min"}
INDENT = "    "
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


def named(prefix: str, symbol: Any) -> str:
    """Return the variable of a symbol in a state."""
    return f"{prefix}_{symbol.name}"


def triton_source(plan: Plan, as_written: Plan) -> str:
    """Return the source of a Triton file that computes the program by both plans, with functions to call and to count."""
    name, inputs = plan.program.name, [f"{symbol.name}_in" for symbol in plan.program.inputs]
    parts = [_header(plan), *_helpers(plan)]
    for kind, one in (("fused", plan), ("separate", as_written)):
        parts += [
            text for number, part in enumerate(one.passes) for text in _Pass(one, part, f"{kind}_{number + 1}").functions()
        ]
        parts.append(_kernel(one, kind))
        parts.append(_host(kind, name, inputs, len(plan.program.outputs)))
    if plan.is_one_pass:
        parts += [_split_kernel(plan), _combine_kernel(plan), _split_host(name, inputs, plan)]
    parts.append(_targets(inputs, split=plan.is_one_pass))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _header(plan: Plan) -> str:
    program = plan.program
    state = [component.symbol.name for part in plan.passes for component in part.components]
    lines = [
        f'"""{program.name}: {", ".join(formula(output) for output in program.outputs)}, in {_passes(len(plan.passes))} over the data.',
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


def _helpers(plan: Plan) -> Iterator[str]:
    bodies = [reduction.body for reduction in plan.program.reductions]
    bodies += [part.value_of(lifted) for part in plan.passes for lifted in part.lifted] + list(plan.program.outputs)
    if any(node.match(SOFTPLUS) for body in bodies for node in body.atoms(_sympy.log)):
        yield SOFTPLUS_HELPER
    if any(body.has(Rint) for body in bodies):
        yield RINT_HELPER


@dataclass(frozen=True)
class _Pass:
    """The functions of one pass: the state of a block by itself, and the combiner."""

    plan: Plan
    part: FusedPass
    name: str

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Return the inputs that the pass loads."""
        return self.part.inputs(self.plan.program)

    @property
    def state(self) -> list[Any]:
        """Return the symbols of the components."""
        return [component.symbol for component in self.part.components]

    @property
    def fixed(self) -> list[Any]:
        """Return the symbols of the parameters that earlier passes gave."""
        return [parameter.symbol for parameter in self.part.fixed]

    def functions(self) -> Iterator[str]:
        """Yield both functions."""
        yield self._block()
        yield self._combine()

    def parameter(self, prefix: str, parameter: Parameter, value: Any) -> Iterator[str]:
        """Yield the lines that define a parameter of a state, guarded."""
        name = named(f"{prefix}_ref", parameter.symbol)
        yield from guarded_lines(guard_of(self.plan.program, parameter), name, _text(value, self.scope(prefix)))

    def scope(self, prefix: str) -> dict[Any, str]:
        """Return the variables of a state, of its parameters, and of those that are fixed; a map uses parameters first."""
        scope = {symbol: named(prefix, symbol) for symbol in self.state}
        return scope | {symbol: named("fixed", symbol) for symbol in self.fixed}

    def references(self, prefix: str) -> dict[Any, str]:
        """Return the variables of a state's parameters."""
        names = {parameter.symbol: named(f"{prefix}_ref", parameter.symbol) for parameter in self.part.varying}
        return names | {symbol: named("fixed", symbol) for symbol in self.fixed}

    def value_lines(self, prefix: str) -> Iterator[str]:
        """Yield the parameters of a state that are made of its components."""
        for step in steps(self.part):
            if step.parameter:
                yield from self.parameter(prefix, step.parameter, self._over_references(step.value, prefix))

    def _over_references(self, value: Any, prefix: str) -> Any:
        """Return a value over this state's variables: parameters that are no components by their guarded names."""
        state = set(self.state)
        names = {symbol: _sympy.Symbol(text) for symbol, text in self.references(prefix).items() if symbol not in state}
        return value.xreplace(names)

    def _block(self) -> str:
        arguments = [
            *(named("elem", symbol) for symbol in self.inputs),
            "mask",
            *(named("fixed", symbol) for symbol in self.fixed),
        ]
        body = list(self._block_lines())
        documentation = "The state of a block by itself, each map taken at the block's own results."
        return _function(f"{self.name}_block", [*arguments, "ACC: tl.constexpr"], documentation, body, self._returned("block"))

    def _block_lines(self) -> Iterator[str]:
        elements = {symbol: named("elem", symbol) for symbol in self.inputs}
        for step in steps(self.part):
            if step.component:
                component = step.component
                value = _text(component.body, elements | self.references("block"))
                if not component.body.free_symbols & set(self.inputs):
                    value = f"tl.zeros(mask.shape, ACC) + {value}"
                neutral = CODE.constant(NEUTRAL[component.op]).text
                yield f"{named('block', component.symbol)} = {REDUCE[component.op]}(tl.where(mask, {value}, {neutral}), 0)"
            elif step.parameter:
                yield from self.parameter("block", step.parameter, self._over_references(step.value, "block"))

    def _combine(self) -> str:
        arguments = [named(side, symbol) for side in ("left", "right") for symbol in self.state]
        arguments += [named("fixed", symbol) for symbol in self.fixed]
        lines = [*self.value_lines("left"), *self.value_lines("right")] if self._repairs() else []
        for step in steps(self.part):
            if step.component:
                lines.append(f"{named('both', step.component.symbol)} = {self._merged(step.component)}")
            elif step.parameter and self._repairs():
                lines += self.parameter("both", step.parameter, self._over_references(step.value, "both"))
        text = "\n".join(f"{INDENT}    {line}" for line in Combiner(self.part).lines())
        documentation = f"C, the state of two blocks together:\n\n{text}\n{INDENT}"
        return _function(f"{self.name}_combine", arguments, documentation, lines, self._returned("both"))

    def _repairs(self) -> bool:
        return any(factor != 1 for component in self.part.components for factor in self.part.repair_of(component).values())

    def _merged(self, component: Component) -> str:
        sides = [self._side(component, side) for side in ("left", "right")]
        if component.op == "sum":
            return " + ".join(sides)
        return call("tl.maximum" if component.op == "max" else "tl.minimum", sides).text

    def _side(self, component: Component, side: str) -> str:
        """Return one side at the new reference; a state that is neutral stays so, whatever the factor."""
        repair = self.part.repair_of(component)
        old = {old_symbol(symbol): text for symbol, text in self.references(side).items()}
        scope = self.references("both") | old
        own = named(side, component.symbol)
        if component.op != "sum":
            if repair == {component.symbol: ONE}:
                return own
            terms = [factor if symbol == ONE else factor * symbol for symbol, factor in repair.items()]
            neutral = CODE.constant(NEUTRAL[component.op]).text
            return f"tl.where({own} == {neutral}, {neutral}, {_text(_sympy.Add(*terms), scope | {component.symbol: own})})"
        terms: list[str] = []
        for symbol, factor in repair.items():
            variable = named(side, symbol)
            if factor == 1:
                terms.append(variable)
            else:
                terms.append(f"tl.where({variable} == 0, 0.0, {_text(factor * _sympy.Symbol(variable), scope)})")
        return " + ".join(terms)

    def _returned(self, prefix: str) -> str:
        return ", ".join(named(prefix, symbol) for symbol in self.state)


def guarded_lines(guard: Guard, name: str, value: str) -> Iterator[str]:
    """Yield the lines that give a parameter its value, or what stands in for it where it is undefined."""
    if not value.isidentifier():
        yield f"{name} = {value}"
        value = name
    if guard.if_undefined is not None:
        value = f'tl.where(tl.abs({value}) < float("inf"), {value}, {float(guard.if_undefined)})'
        if guard.not_zero:
            yield f"{name} = {value}"
            value = name
    if guard.not_zero:
        value = f"tl.where({value} == 0, 1.0, {value})"
    if value != name:
        yield f"{name} = {value}"


def _text(expr: Any, scope: Mapping[Any, str]) -> str:
    names = {symbol: Code(scope.get(symbol, symbol.name)) for symbol in expr.free_symbols}
    return evaluate(expr, names, CODE).text


def _function(name: str, arguments: Sequence[str], documentation: str, lines: Sequence[str], returned: str) -> str:
    body = [*lines, f"return {returned}"]
    text = "\n".join(INDENT + line for line in body)
    return f'@triton.jit\ndef {name}({", ".join(arguments)}):\n{INDENT}"""{documentation}"""\n{text}'


def _loop(one: _Pass, first: str, last: str, row: str) -> Iterator[str]:
    """Yield the loop of a pass over a row from `first` to `last`, with the state carried in `sum_...` names."""
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


def _results(one: _Pass, prefix: str = "all") -> Iterator[str]:
    """Yield the value of each reduction of a pass that is not a component itself."""
    made = [lifted for lifted in one.part.lifted if one.part.value_of(lifted) != lifted.reduction.symbol]
    used: set[Any] = set().union(*(one.part.value_of(lifted).free_symbols for lifted in made))
    if used & {parameter.symbol for parameter in one.part.varying} - set(one.state):
        yield from one.value_lines(prefix)
    scope = one.scope(prefix)
    over = {symbol: text for symbol, text in one.references(prefix).items() if symbol not in set(one.state)}
    for lifted in made:
        yield f"{named(prefix, lifted.reduction.symbol)} = {_text(one.part.value_of(lifted), scope | over)}"


def _kernel(plan: Plan, kind: str) -> str:
    """Return the kernel that runs every pass of a plan over its row."""
    lines = ["row = tl.program_id(0).to(tl.int64)"]
    values: dict[Any, str] = {}
    for number, part in enumerate(plan.passes):
        one = _Pass(plan, part, f"{kind}_{number + 1}")
        for parameter in part.fixed:
            name = named("fixed", parameter.symbol)
            lines += guarded_lines(guard_of(plan.program, parameter), name, _text(parameter.value, values))
        lines += [*_loop(one, "0", "length", "row"), *_results(one)]
        values |= {lifted.reduction.symbol: named("all", lifted.reduction.symbol) for lifted in part.lifted}
    lines += _stores(plan, values)
    return _kernel_text(f"{kind}_kernel", plan, lines, f"One program per row; reads it {_times(len(plan.passes))}.")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _kernel_text(name: str, plan: Plan, lines: Sequence[str], documentation: str) -> str:
    inputs = [f"{symbol.name}_ptr" for symbol in plan.program.inputs]
    outputs = [f"output_{number}_ptr" for number in range(len(plan.program.outputs))]
    arguments = ", ".join([*inputs, *outputs, "length", "BLOCK: tl.constexpr", "ACC: tl.constexpr"])
    body = "\n".join(INDENT + line for line in lines)
    return f'@triton.jit\ndef {name}({arguments}):\n{INDENT}"""{documentation}"""\n{body}'


def _stores(plan: Plan, values: Mapping[Any, str]) -> Iterator[str]:
    """Yield the outputs; 0 / 0 is 0."""
    for number, output in enumerate(plan.program.outputs):
        name = f"output_{number}"
        yield f"{name} = {_text(output, values)}"
        top, bottom = output.as_numer_denom()
        if bottom != 1:
            yield f"{name} = tl.where(({_text(top, values)} == 0) & ({_text(bottom, values)} == 0), 0.0, {name})"
        yield f"tl.store({name}_ptr + row, {name})"


def _host(kind: str, name: str, inputs: Sequence[str], outputs: int) -> str:
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


def _split_kernel(plan: Plan) -> str:
    one = _Pass(plan, plan.passes[0], "fused_1")
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
    inputs = [f"{symbol.name}_ptr" for symbol in plan.program.inputs]
    arguments = ", ".join([*inputs, "states_ptr", "length", "chunk", "BLOCK: tl.constexpr", "ACC: tl.constexpr"])
    body = "\n".join(INDENT + line for line in lines)
    return f'@triton.jit\ndef split_kernel({arguments}):\n{INDENT}"""The state of each part of a row, [rows, splits, {count}]."""\n{body}'


def _combine_kernel(plan: Plan) -> str:
    one = _Pass(plan, plan.passes[0], "fused_1")
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
    outputs = [f"output_{number}_ptr" for number in range(len(plan.program.outputs))]
    arguments = ", ".join(["states_ptr", *outputs, "splits", "ACC: tl.constexpr"])
    body = "\n".join(INDENT + line for line in lines)
    return (
        f'@triton.jit\ndef combine_kernel({arguments}):\n{INDENT}"""The states of a row merged from left to right."""\n{body}'
    )


def _split_host(name: str, inputs: Sequence[str], plan: Plan) -> str:
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


def _targets(inputs: Sequence[str], *, split: bool) -> str:
    """Return what `ioaware derive`, `trace` and `measure` can be pointed at."""
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
