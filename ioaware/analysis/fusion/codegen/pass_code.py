"""Write the Triton functions of one pass: a block's own state, and the combiner.

Names that come from the program get a prefix for the state they belong to (`block_m`, `left_m`, `both_m`). So none can collide
with a name of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from ioaware.analysis.fusion.codegen.triton_code import Code, TritonCode, call
from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.lifting.combiner import Combiner, steps
from ioaware.analysis.fusion.lifting.lifted_reductions import ONE, Component, old_symbol
from ioaware.analysis.fusion.lifting.pass_plan import FusedPass, Plan
from ioaware.analysis.fusion.lifting.reference_guards import Guard, guard_of
from ioaware.analysis.fusion.programs.program import NEUTRAL, Parameter

_sympy: Any = sympy
CODE = TritonCode()
REDUCE = {"sum": "tl.sum", "max": "tl.max", "min": "tl.min"}
INDENT = "    "


def named(prefix: str, symbol: Any) -> str:
    """Return the variable of a symbol in a state."""
    return f"{prefix}_{symbol.name}"


@dataclass(frozen=True)
class PassCode:
    """Functions of one pass: the state of a block by itself, and the combiner."""

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
        yield from guarded_lines(guard_of(self.plan.program, parameter), name, source_of(value, self.scope(prefix)))

    def scope(self, prefix: str) -> dict[Any, str]:
        """Return the variables of a state, of its parameters, and of those that are fixed.

        A map uses parameters first.
        """
        scope = {symbol: named(prefix, symbol) for symbol in self.state}
        return scope | {symbol: named("fixed", symbol) for symbol in self.fixed}

    def references(self, prefix: str) -> dict[Any, str]:
        """Return the variables of a state's parameters."""
        names = {parameter.symbol: named(f"{prefix}_ref", parameter.symbol) for parameter in self.part.varying}
        return names | {symbol: named("fixed", symbol) for symbol in self.fixed}

    def value_lines(self, prefix: str) -> Iterator[str]:
        """Yield the parameters of a state that are computed from its components."""
        for step in steps(self.part):
            if step.parameter:
                yield from self.parameter(prefix, step.parameter, self._over_references(step.value, prefix))

    def _over_references(self, value: Any, prefix: str) -> Any:
        """Return a value over this state's variables.

        Parameters that are no components stand by their guarded names.
        """
        state = set(self.state)
        names = {symbol: _sympy.Symbol(text) for symbol, text in self.references(prefix).items() if symbol not in state}
        return value.xreplace(names)

    def _block(self) -> str:
        arguments = [named("elem", symbol) for symbol in self.inputs]
        arguments += ["mask", *(named("fixed", symbol) for symbol in self.fixed), "ACC: tl.constexpr"]
        documentation = "The state of a block by itself, each map taken at the block's own results."
        return jit_function(f"{self.name}_block", arguments, documentation, [*self._block_lines(), self._return("block")])

    def _block_lines(self) -> Iterator[str]:
        elements = {symbol: named("elem", symbol) for symbol in self.inputs}
        for step in steps(self.part):
            if step.component:
                component = step.component
                value = source_of(component.body, elements | self.references("block"))
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
        return jit_function(f"{self.name}_combine", arguments, documentation, [*lines, self._return("both")])

    def _repairs(self) -> bool:
        return any(factor != 1 for component in self.part.components for factor in self.part.repair_of(component).values())

    def _merged(self, component: Component) -> str:
        sides = [self._side(component, side) for side in ("left", "right")]
        if component.op == "sum":
            return " + ".join(sides)
        return call("tl.maximum" if component.op == "max" else "tl.minimum", sides).text

    def _side(self, component: Component, side: str) -> str:
        """Return one side at the new reference.

        A state that is neutral stays so, whatever the factor.
        """
        repair = self.part.repair_of(component)
        old = {old_symbol(symbol): text for symbol, text in self.references(side).items()}
        scope = self.references("both") | old
        own = named(side, component.symbol)
        if component.op != "sum":
            if repair == {component.symbol: ONE}:
                return own
            terms = [factor if symbol == ONE else factor * symbol for symbol, factor in repair.items()]
            neutral = CODE.constant(NEUTRAL[component.op]).text
            return f"tl.where({own} == {neutral}, {neutral}, {source_of(_sympy.Add(*terms), scope | {component.symbol: own})})"
        terms: list[str] = []
        for symbol, factor in repair.items():
            variable = named(side, symbol)
            if factor == 1:
                terms.append(variable)
            else:
                terms.append(f"tl.where({variable} == 0, 0.0, {source_of(factor * _sympy.Symbol(variable), scope)})")
        return " + ".join(terms)

    def _return(self, prefix: str) -> str:
        return "return " + ", ".join(named(prefix, symbol) for symbol in self.state)


def guarded_lines(guard: Guard, name: str, value: str) -> Iterator[str]:
    """Yield the lines that give a parameter its value.

    A substitute is given where it is undefined.
    """
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


def source_of(expr: Any, scope: Mapping[Any, str]) -> str:
    names = {symbol: Code(scope.get(symbol, symbol.name)) for symbol in expr.free_symbols}
    return evaluate(expr, names, CODE).text


def jit_function(name: str, arguments: Sequence[str], documentation: str, lines: Sequence[str]) -> str:
    """Return the source of a Triton function."""
    body = "\n".join(INDENT + line for line in lines)
    return f'@triton.jit\ndef {name}({", ".join(arguments)}):\n{INDENT}"""{documentation}"""\n{body}'
