"""The attention kernels as symbolic launches: N queries, N_k keys, B x H heads."""

from __future__ import annotations

from typing import Any

import torch
from sympy import Expr, ceiling
from triton.compiler import ASTSource

from ioaware.analysis.ir import Argument, KernelTraffic, Pointer, Scalar, analyse
from ioaware.analysis.theory.counting import B, H, N, N_k
from ioaware.kernels.attention.flash1 import flash1_init, flash1_kernel
from ioaware.kernels.attention.flash2 import flash2_kernel
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP, padded
from ioaware.kernels.attention.standard import CHUNK, standard_output, standard_scores, standard_softmax
from tests.support.ir_zoo.compiled import TYPES, ttir
from tests.support.lasting_cache import lasting_cache

PADDING = 8
LAYOUTS = ("rows", "heads", "padded", "columns")
"""How Q, K and V lie in memory.

They are contiguous, heads side by side, rows longer than head_dim, or head_dim outermost.
"""


def strided(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a tensor [B, H, length, d] with the same elements and other strides."""
    if layout == "heads":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "padded":
        return torch.nn.functional.pad(x, (0, PADDING))[..., : x.shape[-1]]
    return x.mT.contiguous().mT if layout == "columns" else x


@lasting_cache
def _text(kernel: Any, signature: tuple[tuple[str, str], ...], constants: tuple[tuple[str, Any], ...]) -> str:
    """Return the TTIR, which does not depend on the layout of the inputs."""
    return ttir(ASTSource(kernel, dict(signature), dict(constants)))


@lasting_cache
def _analyse(text: str, arguments: tuple[Argument, ...], grid: tuple[Any, ...]) -> KernelTraffic:
    """Analyse once a kernel that several configurations launch alike.

    An example is the softmax of every layout.
    """
    return analyse(text, arguments, grid)


class Kernels:
    """Derives each kernel of a case. Lengths are symbols unless given."""

    def __init__(
        self,
        *,
        causal: bool,
        head_dim: int,
        block_m: int,
        block_n: int,
        dtype: torch.dtype,
        kv_len: Expr = N_k,
        layout: str = "rows",
    ):
        self.layout = layout
        self.blocks = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
        self.causal, self.kv_len, self.element = causal, kv_len, f"*{TYPES[dtype]}"
        self.rows, self.columns = ceiling(N / block_m), ceiling(kv_len / block_n)

    def derive(self, case: str, kv_value: int = 0) -> list[KernelTraffic]:
        """Derive the launches of a case.

        `kv_value` chooses the softmax of `standard`, compiled for a length.
        """
        return getattr(self, case)(kv_value) if case == "standard" else getattr(self, case)()

    def _one(self, kernel: Any, grid: tuple[Any, ...], given: dict[str, Any], **constants: Any) -> KernelTraffic:
        """Derive one kernel.

        `given` maps pointers to their type and scalars to their value.
        """
        arguments: list[Argument] = []
        signature = dict.fromkeys(constants, "constexpr")
        for name, value in given.items():
            pointer = isinstance(value, str)
            arguments.append(Pointer(name) if pointer else Scalar(name, value))
            signature[name] = value if pointer else "fp32" if isinstance(value, float) else "i32"
        return _analyse(_text(kernel, tuple(signature.items()), tuple(constants.items())), tuple(arguments), grid)

    def _strides(self, names: str) -> dict[str, Any]:
        return {
            f"stride_{name}{axis}": stride
            for name in names
            for length in [self.kv_len if name in "kv" else N]
            for axis, stride in zip("bhnd", self._laid_out(name, length), strict=True)
        }

    def _laid_out(self, name: str, length: Expr) -> tuple[Any, Any, Any, Any]:
        """Return the strides of a tensor [B, H, length, d] as `strided` makes them.

        Outputs are contiguous.
        """
        d = self.blocks["HEAD_DIM"]
        if name == "o" or self.layout == "rows":
            return H * length * d, length * d, d, 1
        if self.layout == "heads":
            return length * H * d, d, H * d, 1
        if self.layout == "padded":
            return H * length * (d + PADDING), length * (d + PADDING), d + PADDING, 1
        return H * length * d, length * d, 1, length  # columns

    def flash2(self) -> list[KernelTraffic]:
        pointers = dict.fromkeys("QKVO", self.element) | {"Lse": "*fp32"}
        scalars = {"seq_len": N, "kv_len": self.kv_len, "scale_log2": 1.0}
        given = pointers | self._strides("qkvo") | scalars
        return [self._one(flash2_kernel, (self.rows, H, B), given, CAUSAL=self.causal, **self.blocks, GROUP=0)]

    def flash1(self) -> list[KernelTraffic]:
        statistics = {"L": "*fp32", "M": "*fp32"}
        start = {"O": self.element} | statistics | self._strides("o") | {"seq_len": N}
        pointers = dict.fromkeys("QKVO", self.element) | statistics
        given = pointers | self._strides("qkvo") | {"seq_len": N, "kv_len": self.kv_len, "scale": 1.0}
        few = {name: self.blocks[name] for name in ("HEAD_DIM", "BLOCK_M")}
        return [
            self._one(flash1_init, (self.rows, H, B), start, **few),
            self._one(flash1_kernel, (H, B), given, CAUSAL=self.causal, WINDOW=0, GLOBAL=0, **self.blocks),
        ]

    def standard(self, kv_value: int) -> list[KernelTraffic]:
        one_read = kv_value <= ROW_ON_CHIP
        lengths = {"seq_len": N, "kv_len": self.kv_len}
        scores = {"Q": self.element, "K": self.element, "S": "*fp32"} | self._strides("qk") | lengths | {"scale": 1.0}
        softmax = {"S": "*fp32", "P": self.element} | lengths
        output = {"P": self.element, "V": self.element, "O": self.element} | self._strides("vo") | lengths
        chunk = {"CHUNK": padded(kv_value) if one_read else CHUNK, "ONE_READ": one_read}
        return [
            self._one(standard_scores, (self.rows * self.columns, H, B), scores, CAUSAL=self.causal, **self.blocks),
            self._one(standard_softmax, (N, H, B), softmax, **chunk),
            self._one(standard_output, (self.rows, H, B), output, **self.blocks),
        ]
