"""The IR zoo: small kernels, one for each construct.

It has the sizes at which they are run.
"""

from __future__ import annotations

from tests.support.ir_zoo import zoo_lanes, zoo_loops, zoo_odd, zoo_operations, zoo_tiles
from tests.support.ir_zoo.compiled import Launched

PARTS = (zoo_lanes.ZOO, zoo_loops.ZOO, zoo_operations.ZOO, zoo_tiles.ZOO, zoo_odd.ZOO)
ZOO: dict[str, Launched] = {name: launched for part in PARTS for name, launched in part.items()}
assert len(ZOO) == sum(map(len, PARTS)), "two kernels have one name"
