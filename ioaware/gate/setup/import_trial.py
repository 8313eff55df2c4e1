"""Import a host function as a test imports it, or as the fixture does.

python -P -m ioaware.gate.setup.import_trial scale scale              # from scale import scale
python -P -m ioaware.gate.setup.import_trial --by-name scale:scale    # traffic("scale:scale")
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Import what is named; let its error pass."""
    first, second = arguments
    if first == "--by-name":
        from ioaware.targets.loading import load_callable

        load_callable(second)
    elif not hasattr(module := importlib.import_module(first), second):
        raise ImportError(f"cannot import name {second!r} from {first!r} ({module.__file__})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
