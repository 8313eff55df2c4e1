"""Race PyTorch's scaled_dot_product_attention, one back end at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import Candidate, UnsupportedError

if TYPE_CHECKING:
    from torch import Tensor


def sdpa_backend(name: str) -> Callable[[Point], Candidate]:
    """Return a back end for the `torch.nn.attention.SDPBackend` of that name.

    It has no fallback.
    """

    def prepare(point: Point) -> Candidate:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        how: dict[str, Any] = {"is_causal": point.causal, "enable_gqa": point.heads != point.kv_heads}

        def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return scaled_dot_product_attention(q, k, v, **how)

        allow: Any = sdpa_kernel
        return Candidate(_explained(forward), lambda: allow([getattr(SDPBackend, name)]))

    return prepare


def _explained(forward: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Add torch's warnings as the reason where it has no kernel.

    The error itself gives none.

    Only the first call collects them.
    """
    seen = False

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        nonlocal seen
        if seen:
            return forward(q, k, v)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                output = forward(q, k, v)
            except RuntimeError as error:
                if "No available kernel" not in str(error):
                    raise
                raise UnsupportedError(_reason([str(one.message) for one in said])) from error
        seen = True
        return output

    return call


def _reason(warned: list[str]) -> str:
    """Return torch's warnings about the one back end that was allowed."""
    texts = [text.split(" (Triggered internally")[0] for text in warned]
    said = [text for text in texts if "not used because" not in text and "disabled" not in text]
    return "; ".join(dict.fromkeys(said)) or "torch has no kernel for it"
