"""Read the table `[tool.ioaware]` of a repository's pyproject.toml.

It has the GPU that kernels are compiled for, and the share of kernels that tests must gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ioaware import strict_json
from ioaware.errors import DataError

PROJECT = "pyproject.toml"
DEFAULT_GPU = "cuda:90"
LARGEST_BYTES = 4 * 2**20
EXAMPLE = 'For example: [tool.ioaware], then gpu = "cuda:90" and coverage = 80.'


@dataclass(frozen=True, slots=True)
class GateConfig:
    """The GPU of the gate, and the percentage of kernels that must be gated.

    None where none must.
    """

    gpu: str = DEFAULT_GPU
    coverage: float | None = None


def read_config(root: Path) -> GateConfig:
    """Return the configuration of a repository, defaults where it has none.

    Raises `DataError` for a table that is damaged or has an unknown key: a typo must not switch a gate off.
    """
    table = config_table(root)
    if table is None:
        return GateConfig()
    try:
        return _config(table)
    except (TypeError, ValueError) as error:
        raise DataError(f"{root / PROJECT}: {error}", EXAMPLE) from error


def config_table(root: Path) -> object | None:
    """Return `[tool.ioaware]` as it is; None where there is none.

    Raises `DataError` for a file that is no TOML.
    """
    tool = project_table(root).get("tool", {})
    return cast("dict[str, Any]", tool).get("ioaware") if isinstance(tool, dict) else None


def project_table(root: Path) -> dict[str, Any]:
    """Return a repository's pyproject.toml, empty where it has none.

    Raises `DataError` for a file that is no TOML.
    """
    path = root / PROJECT
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise ValueError(f"more than {LARGEST_BYTES} bytes")
        return strict_json.load_toml(content.decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})", "Check the path and its permissions.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not TOML ({str(error)[:200]})", "Repair it.") from error


def _config(value: object) -> GateConfig:
    if not isinstance(value, dict):
        raise TypeError("[tool.ioaware] is no table")
    table = cast("dict[str, Any]", value)
    if unknown := table.keys() - {"gpu", "coverage"}:
        raise ValueError(f"[tool.ioaware] has the unknown key {', '.join(sorted(unknown))[:100]}")
    gpu, coverage = table.get("gpu", DEFAULT_GPU), table.get("coverage")
    if not isinstance(gpu, str) or not gpu:
        raise TypeError("gpu of [tool.ioaware] is the name of a GPU")
    if coverage is not None and (type(coverage) not in (int, float) or not 0 <= coverage <= 100):
        raise ValueError(f"coverage of [tool.ioaware] is a percentage, not {str(coverage)[:40]}")
    return GateConfig(gpu, coverage)
