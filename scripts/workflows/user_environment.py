"""Make a Python environment as a job of CI has it.

It is without ioaware, which pip installs from a wheel of this tree.

The other packages are links to those of this environment, and pip has no index. So `pip install` in a workflow resolves and
installs what it says, without a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

HIDDEN = ("ioaware", "_editable_impl_ioaware", "__pycache__")


def make_environment(folder: Path, tree: Path) -> dict[str, str]:
    """Create the environment in an empty folder.

    Return the variables with which a job uses it.
    """
    wheels, python = folder / "wheels", folder / "python"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=tree, check=True, capture_output=True)  # noqa: S603
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(python)], check=True)  # noqa: S603
    here = python / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for source in dict.fromkeys(Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")):
        for entry in source.iterdir():
            if not entry.name.startswith(HIDDEN) and not (here / entry.name).exists():
                (here / entry.name).symlink_to(entry)
    return {
        "PATH": f"{python / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(python),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_EXTRA_INDEX_URL": "",
    }
