"""Compile a captured launch with Triton for a named GPU.

The GPU need not exist, and the result is its first IR or machine code.

The IR for formulas is compiled with symbolic integers left general. Machine code, for registers and shared memory, is
specialised to the given values as Triton does at a launch.
"""

from __future__ import annotations

import copy
import io
import re
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import sympy
import triton
from sympy import Expr
from triton._C import libtriton as _libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler import compiler as _compiler
from triton.runtime import jit as _jit
from triton.runtime.errors import PTXASError

from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, Value, items_of, with_items
from ioaware.errors import UsageError
from ioaware.machine import PRESETS, Machine, find_machine_or_file
from ioaware.machine.machine_file import SUFFIX
from ioaware.machine.presets import is_machine

_native: Any = _libtriton
ir: Any = _native.ir
_triton: Any = triton
jit: Any = _jit
compiler: Any = _compiler

GENERAL, GENERAL_LONG = 3, 2**31 + 3
"""Integers that Triton does not specialise on: neither 1 nor multiples of 16.

32 and 64 bits wide.
"""
ALIGNMENT = 512
"""Bytes to which CUDA's caching allocator aligns a storage."""


WARP = 32
CUDA = ("75", "80", "86", "87", "88", "89", "90", "100", "101", "103", "110", "120", "121")
"""Compute capabilities that Triton and its ptxas support."""


def find_gpu(name: str) -> GPUTarget:
    """Return the GPU of a name: `cuda:90`, `hip:gfx942`, or a machine.

    `cuda:90` is compute capability 9.0, a machine a preset such as `H200` or a TOML file. Raises `UsageError` for a name that
    is none of these, `DataError` for a damaged file.
    """
    kind, colon, architecture = name.partition(":")
    if kind == "cuda" and architecture in CUDA:
        return GPUTarget("cuda", int(architecture), WARP)
    if kind == "hip" and architecture.startswith("gfx"):
        return GPUTarget("hip", architecture, 64 if architecture.startswith("gfx9") else 32)
    if name.endswith(SUFFIX) or (not colon and is_machine(name)):
        return gpu_or_machines(None, find_machine_or_file(name))
    raise UsageError(
        f"there is no GPU {name!r}",
        f"A machine ({', '.join(PRESETS)}), a TOML file, hip:gfx942, or cuda: with one of {', '.join(CUDA)}.",
    )


def gpu_or_machines(name: str | None, machine: Machine) -> GPUTarget:
    """Return the named GPU, or the machine's where none is named.

    Raises as `find_gpu`.
    """
    return find_gpu(name) if name else GPUTarget("cuda", machine.compute_capability, WARP)


@dataclass(frozen=True, slots=True)
class FirstIR:
    """Kernel as Triton IR with locations, and the values of its parameters.

    It is TTGIR for a Gluon kernel.
    """

    text: str
    parameters: tuple[tuple[str, Value], ...]


def first_ir(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> FirstIR:
    """Return the launch as IR that is general in its symbols.

    `values` decide only the width of integers.

    Raises `UsageError` with Triton's message where the kernel does not compile.
    """

    with compile_errors(launch.name, launch.file, gpu):
        source, options, backend = general_source(launch, values, gpu)
        text = _texts.get(_key(source, options, gpu))
        if text is None:
            text = _first_stage(source, options, backend, gpu)
            cache_ir_text(source, options, gpu, text)
    return FirstIR(text, tuple(_parameters(source.signature.items(), launch.arguments)))


def general_source(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> tuple[Any, Any, Any]:
    """Return Triton's source object of the launch, its options and the back end.

    The source object is general in the launch's symbols.
    """

    def general(expr: Expr) -> int:
        value = integer_at(expr, values)
        if expr.is_Integer:
            return value
        return GENERAL_LONG if value >= 2**31 else GENERAL

    return specialise(launch, general, values, gpu)


IR_TEXT_CACHE_SIZE = 256
_texts: dict[tuple[str, str, str], str] = {}


def _key(source: Any, options: Any, gpu: GPUTarget) -> tuple[str, str, str]:
    return source.hash(), str(options), str(gpu)


def cache_ir_text(source: Any, options: Any, gpu: GPUTarget, text: str) -> None:
    """Cache the kernel's IR after the first stage; general IR is shared by all values."""
    key = _key(source, options, gpu)
    if key not in _texts and len(_texts) >= IR_TEXT_CACHE_SIZE:
        _texts.clear()
    _texts[key] = text


def _parameters(signature: Iterable[tuple[Any, Any]], given: Any, outer: str = "") -> Iterator[tuple[str, Value]]:
    """Yield names and values of the IR's parameters.

    There are no constexprs, and tuples come item by item.
    """
    for key, kind in signature:
        name = f"{outer}[{key}]" if outer else str(key)
        items = items_of(kind)
        if items is not None:
            yield from _parameters(enumerate(items), given[key], name)
        elif kind != "constexpr":
            yield name, given[key]


def compiled(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Any:
    """Return Triton's compiled kernel at the given values, through Triton's cache."""
    with compile_errors(launch.name, launch.file, gpu):
        source, options, _ = specialise(launch, lambda expr: integer_at(expr, values), values, gpu)
        return _triton.compile(source, target=gpu, options=options.__dict__)


def compiled_ir(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> FirstIR:
    """Return the TTGIR that the machine code is made of, at the given values."""
    text: str = compiled(launch, values, gpu).asm["ttgir"]
    with compile_errors(launch.name, launch.file, gpu):
        source, _, _ = specialise(launch, lambda expr: integer_at(expr, values), values, gpu)
    return FirstIR(text, tuple(_parameters(source.signature.items(), launch.arguments)))


def integer_at(expr: Any, values: Mapping[str, int]) -> int:
    """Evaluate an expression of the parameters at their given values."""
    return int(expr.xreplace({symbol: sympy.Integer(values[str(symbol)]) for symbol in expr.free_symbols}))


def specialise(
    launch: CapturedLaunch, integer: Callable[[Expr], int], values: Mapping[str, int], gpu: GPUTarget
) -> tuple[Any, Any, Any]:
    """Return Triton's source object of the launch, its options and the back end.

    The source object has its specialisation.
    """
    kernel, backend = launch.kernel, backend_of(gpu)

    def stand_in(value: Value) -> Any:
        if isinstance(value, Expr):
            return integer(value)
        if isinstance(value, TensorValue):
            return _Pointer(value.dtype, ALIGNMENT + integer_at(value.offset, values) * value.itemsize)
        if isinstance(value, DescriptorValue):
            descriptor = copy.copy(value.template)
            descriptor.base = stand_in(value.base)
            descriptor.shape, descriptor.strides = list(map(integer, value.shape)), list(map(integer, value.strides))
            return descriptor
        items = items_of(value)
        return value if items is None else with_items(value, list(map(stand_in, items)))

    arguments = {name: stand_in(value) for name, value in launch.arguments.items()}
    return *source_at(kernel, arguments, launch.options, backend), backend


def source_at(kernel: Any, arguments: Mapping[str, Any], options: Mapping[str, Any], backend: Any) -> tuple[Any, Any]:
    """Return Triton's source object of a kernel for these arguments.

    The options as the back end has them are the second value.

    Raises `UsageError` for an option that the back end does not know.
    """
    bound, specialization, given = _binder(kernel, backend)(**arguments, **options)
    try:
        parsed, signature, constants, attributes = kernel._pack_args(backend, given, bound, specialization, given)
    except KeyError as error:
        raise UsageError(
            f"{kernel.fn.__name__} has no parameter or launch option {error.args[0]}", "Leave it out of the launch."
        ) from error
    return _source_kind(kernel)(kernel, signature, constants, attributes), parsed


@lru_cache(maxsize=256)
def _binder(kernel: Any, backend: Any) -> Any:
    """Return Triton's function that sorts the arguments of a kernel."""
    return jit.create_function_from_signature(kernel.signature, kernel.params, backend)


def _source_kind(kernel: Any) -> Any:
    if not getattr(kernel, "is_gluon", bool)():
        return ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    return GluonASTSource


@lru_cache(maxsize=16)
def backend_of(gpu: GPUTarget) -> Any:
    return compiler.make_backend(gpu)


def fresh_ir(source: Any, options: Any, backend: Any, gpu: GPUTarget) -> tuple[Any, Any]:
    """Return the kernel's IR before any pass, and the MLIR context that owns it."""
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    code = source.make_ir(gpu, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    return code, context


def _first_stage(source: Any, options: Any, backend: Any, gpu: GPUTarget) -> str:
    """Run the first stage of `triton.compile`.

    It generates the IR and runs the passes of that level.
    """
    generated, _context = fresh_ir(source, options, backend, gpu)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    return str(stages[source.ext](generated, {}))


class _Pointer(jit.MockTensor):
    """A tensor for Triton's specialisation: a dtype and an address."""

    def __init__(self, dtype: Any, address: int) -> None:
        super().__init__(dtype)  # pyright: ignore[reportUnknownMemberType]
        self._address = address

    def data_ptr(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the address; Triton specialises on its alignment."""
        return self._address


@contextmanager
def compile_errors(name: str, file: str, gpu: GPUTarget) -> Generator[None]:
    """Convert errors of Triton's compiler to one `UsageError`.

    It has kernel, line and reason, and the compiler's output is dropped.
    """
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    except UsageError:
        raise
    except Exception as error:
        remedy = _remedy(file) if isinstance(error, PTXASError) else CONVERT if _library_call(error) else ""
        raise UsageError(f"{name} does not compile for {gpu.backend}:{gpu.arch}: {_compiler_message(error)}", remedy) from error


CONVERT = "Convert its arguments, for example by x.to(tl.float32)."


def _library_call(error: BaseException) -> str:
    """Return what a call of a library has no form for; empty for any other error.

    Triton looks the types up and raises a bare `KeyError` of them.
    """
    *_, cause = _causes(error)
    if not isinstance(cause, KeyError):
        return ""
    frames = [frame for frame, _ in traceback.walk_tb(cause.__traceback__) if frame.f_code.co_name != "wrapper"]
    if len(frames) < 2 or frames[-1].f_code.co_name != "extern_elementwise":
        return ""
    known = cast("Mapping[tuple[object, ...], object]", frames[-1].f_locals.get("arg_type_symbol_dict", {}))
    *others, last = (", ".join(map(str, types)) for types in known)
    name = f"{Path(frames[-2].f_code.co_filename).stem}.{frames[-2].f_code.co_name}"
    given = ", ".join(map(str, cause.args[0]))
    return f"{name} takes {' or '.join([', '.join(others), last] if others else [last])}, not {given}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the first one last.

    Errors of a callee are wrapped in those of its callers.
    """
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _remedy(file: str) -> str:
    """Return what to do where ptxas fails.

    It reads the source's path between quotes.
    """
    if '"' in file:
        return f"ptxas cannot read the double quote in the path {file}: rename it."
    return "What a newer GPU can do needs --gpu, for example cuda:100."


def _compiler_message(error: Exception) -> str:
    """Return the compiler's message and the line of the file.

    It is found also inside a function that the kernel calls.
    """
    if isinstance(error, PTXASError):
        messages = re.findall(r"; error\s*: (.*)", str(error))
        return f"ptxas: {messages[0]}" if messages else "ptxas fails"
    *_, cause = _causes(error)
    said = _library_call(error) or (str(cause).strip().splitlines() or [type(error).__name__])[-1]
    placed: Any = [one for one in _causes(error) if hasattr(one, "node")] or [cause]
    line = getattr(getattr(placed[-1], "node", None), "lineno", None)
    file, first_line = _source_of(placed[-1])
    return f"{said} at {file}:{first_line + line}" if line and file else said


def _source_of(error: BaseException) -> tuple[str, int]:
    """Return the file of the function being compiled, and the line before it.

    Triton counts from its `def`.
    """
    file, first_line = "", 0
    for frame, _ in traceback.walk_tb(error.__traceback__):
        generator: Any = frame.f_locals.get("self")
        if hasattr(generator, "begin_line") and hasattr(generator, "file_name"):
            file, first_line = Path(str(generator.file_name)).name, int(generator.begin_line)
    return file, first_line
