"""The third-party libraries of the kernel table.

Each has its targets, its origin, and the commit of the table.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

HUB = "https://github.com/"


@dataclass(frozen=True, slots=True)
class Library:
    """A library: the file of its targets, its title, repository and commit.

    Several files may share a title.
    """

    file: str
    title: str
    repository: str
    commit: str
    checkout: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that names the checkout."""
        return f"FOREIGN_{(self.checkout or self.file.removesuffix('.py')).upper()}"

    @property
    def source(self) -> str:
        """A line of Markdown that says where the library is from."""
        return f"- [{self.title}]({HUB}{self.repository}), commit `{self.commit}`"


GEMS = ("FlagGems", "FlagOpen/FlagGems", "532ff438c70343d7aec9becdabb76a71225a0553", "FLAG_GEMS")
LIBRARIES = {
    "triton": Library(
        "triton_tutorials.py",
        "Triton's tutorials",
        "triton-lang/triton-cpu",  # whose copies of them are Triton's, but for the first
        "910ba2e98deb5180a5fb8f204f57cd6e71d2436a",
        "TRITON",
    ),
    "liger": Library("liger.py", "Liger-Kernel", "linkedin/Liger-Kernel", "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c"),
    "fla": Library(
        "flash_linear_attention.py",
        "flash-linear-attention",
        "fla-org/flash-linear-attention",
        "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
        "FLA",
    ),
    "unsloth": Library("unsloth.py", "Unsloth", "unslothai/unsloth", "015bdef0d94a241bcd94eec7a405b1700632180d"),
    "lightllm": Library("lightllm.py", "LightLLM", "ModelTC/lightllm", "fc72ffab9a3455cfb571f22d45ab777cc29de0de"),
    "flash_attention": Library(
        "flash_attention.py",
        "FlashAttention's Triton operators",
        "Dao-AILab/flash-attention",
        "0251105a2fb19d2957484b7f023cd8c115286ced",
    ),
    "attention_gym": Library(
        "attention_gym.py", "attention-gym", "meta-pytorch/attention-gym", "7fdb85d0b96668397adee48de54b6f1036497717"
    ),
    "mamba": Library("mamba.py", "Mamba", "state-spaces/mamba", "e9594ce1c732d97440f0332fdc43170a2294dbfa"),
    "attorch": Library(
        "attorch_layers.py", "attorch", "BobMcDear/attorch", "67c2772baf33913ef51c2d1064f746ca17b63749", "ATTORCH"
    ),
    "lmdeploy": Library("serving.py", "LMDeploy", "InternLM/lmdeploy", "1263d5cd889b7ad500e85b8eb20401327a4516ab", "LMDEPLOY"),
    "bitsandbytes": Library(
        "quantisation.py",
        "bitsandbytes",
        "bitsandbytes-foundation/bitsandbytes",
        "95f9af309d4d5793847169c39288dcd3fcbdf564",
        "BITSANDBYTES",
    ),
    "scattermoe": Library(
        "experts.py", "ScatterMoE", "shawntan/scattermoe", "47b5e1502e5a10e82c8e5945d761b877849871e7", "SCATTERMOE"
    ),
    "batch_invariant": Library(
        "batch_invariance.py",
        "batch_invariant_ops",
        "thinking-machines-lab/batch_invariant_ops",
        "f22b1fbe534b1fe045080f44a970a441caaf3c4f",
        "BATCH_INVARIANT",
    ),
    "flag_attention": Library(
        "flag_attention.py", "FlagAttention", "FlagOpen/FlagAttention", "ee91638dec6da8c00c4113d179f469e0ffcd5852"
    ),
    "cut_cross_entropy": Library(
        "linear_cross_entropy.py",
        "Cut Cross-Entropy",
        "apple/ml-cross-entropy",
        "d42911f9b1a1f98289bb601c35c8151562603d74",
        "CUT_CROSS_ENTROPY",
    ),
    "xformers": Library("xformers.py", "xFormers", "facebookresearch/xformers", "ca6d2aa0d43241fc8a8dcd872debc2406160160d"),
    "sage_attention": Library(
        "sage_attention.py", "SageAttention", "thu-ml/SageAttention", "d1a57a546c3d395b1ffcbeecc66d81db76f3b4b5"
    ),
    "megablocks": Library("megablocks.py", "MegaBlocks", "databricks/megablocks", "78eea65fda01e638af36ae38853bc51efb04a4b4"),
    "torch_compiled": Library(
        "torch_compiled.py",
        "PyTorch's compiler",
        "pytorch/pytorch",
        "cf30153c4c131c8164ee7798e5022d810682e2cb",
    ),
    "flag_gems_pointwise": Library("gems_pointwise.py", *GEMS),
    "flag_gems_reductions": Library("gems_reductions.py", *GEMS),
    "flag_gems_tensors": Library("gems_tensors.py", *GEMS),
}


def targets_of(file: Path) -> list[str]:
    """Return the targets of a file, in order.

    These are its public functions, and the names bound to a call of a private one.
    """
    found: list[str] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            found += [each.id for each in node.targets if isinstance(each, ast.Name) and node.value.func.id.startswith("_")]
    return [name for name in found if not name.startswith("_")]
