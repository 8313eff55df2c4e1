"""One description of a launch, compiled to TTIR and run for the trace.

The TTIR is for analysis.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
import triton
from sympy import Expr
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.ir import Descriptor, KernelTraffic, Pointer, Scalar, analyse
from ioaware.result import Launch
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace

TARGET = GPUTarget("cuda", 90, 32)
TYPES = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64", torch.int32: "i32",
    torch.int64: "i64", torch.int8: "i8", torch.bool: "i1", torch.uint8: "u8", torch.float8_e4m3fn: "fp8e4nv",
}  # fmt: skip

Size = Expr | int


@dataclass(frozen=True)
class Tensor:
    """A buffer of `size` elements. `fill` makes its contents, else they are zeros."""

    size: Size
    dtype: torch.dtype = torch.float32
    fill: Callable[[int], torch.Tensor] | None = None

    def make(self, values: Mapping[str, int]) -> torch.Tensor:
        size = number(self.size, values)
        if self.fill is not None:
            return self.fill(size).to(self.dtype).to("cuda")
        return torch.zeros(size, dtype=self.dtype, device="cuda")


@dataclass(frozen=True)
class Described:
    """A tensor descriptor made on the host over a contiguous matrix."""

    rows: Size
    columns: Size
    block: tuple[int, int]
    dtype: torch.dtype = torch.float32

    def make(self, values: Mapping[str, int]) -> Any:
        from triton.tools.tensor_descriptor import TensorDescriptor

        shape = [number(self.rows, values), number(self.columns, values)]
        return TensorDescriptor.from_tensor(torch.zeros(shape, dtype=self.dtype, device="cuda"), list(self.block))


@dataclass(frozen=True)
class Launched:
    """A symbolic launch, and points at which to count it."""

    kernel: Any
    arguments: Sequence[Tensor | Described | Size | float]
    grid: Sequence[Size]
    points: Sequence[Mapping[str, int]]
    constants: Mapping[str, Any] = field(default_factory=dict)

    def names(self) -> list[str]:
        return [name for name in inspect.signature(self.kernel.fn).parameters if name not in self.constants]

    def text(self) -> str:
        signature = dict(zip(self.names(), map(_type, self.arguments), strict=True))
        return ttir(ASTSource(self.kernel, {**signature, **dict.fromkeys(self.constants, "constexpr")}, dict(self.constants)))

    def derive(self) -> KernelTraffic:
        pairs = zip(self.names(), self.arguments, strict=True)
        return analyse(self.text(), [_argument(name, argument) for name, argument in pairs], self.grid)

    def trace(self, values: Mapping[str, int]) -> Launch:
        def run() -> torch.Tensor:
            given = [a.make(values) if hasattr(a, "make") else number(a, values) for a in self.arguments]
            grid = tuple(number(size, values) for size in self.grid)
            self.kernel[grid](*given, **self.constants)
            return torch.zeros(1)

        (launch,) = (launch for launch in trace(load_target(run), {}).launches if launch.origin == "triton")
        return launch


def number(size: Size | float, values: Mapping[str, int]) -> Any:
    return evaluate(size, values) if isinstance(size, Expr) else size


def _argument(name: str, argument: Tensor | Described | Size | float) -> Pointer | Scalar | Descriptor:
    if isinstance(argument, Tensor):
        return Pointer(name)
    if isinstance(argument, Described):
        return Descriptor(name, (argument.rows, argument.columns), (argument.columns, 1))
    return Scalar(name, argument)


def _type(argument: Tensor | Described | Size | float) -> str:
    if isinstance(argument, Tensor):
        return f"*{TYPES[argument.dtype]}"
    if isinstance(argument, Described):
        return f"tensordesc<{TYPES[argument.dtype]}[{','.join(map(str, argument.block))}]>"
    return "fp32" if isinstance(argument, float) else "i32"


def ttir(source: ASTSource) -> str:
    """Compile a kernel to TTIR, without the later stages."""
    backend = make_backend(TARGET)
    options = backend.parse_options(source.parse_options())
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    rest = (options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    takes_target = len(inspect.signature(source.make_ir).parameters) == 5
    module = source.make_ir(TARGET, *rest) if takes_target else source.make_ir(*rest)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    return str(stages["ttir"](module, {}))


def symbols(names: str) -> Any:
    return sympy.symbols(names, integer=True, positive=True)


BLOCK_POINTERS = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)
