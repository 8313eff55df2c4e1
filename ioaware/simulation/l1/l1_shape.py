"""Model the L1 of one SM by reuse distances, where single lines are not replayed.

An access hits if few enough other lines were used since the last access to its line. Lines are spread over sets by a hash, so
that the least distance of a miss varies from line to line: it is taken as normally distributed about the capacity.

Source of the model: Smith 1978, a comparative study of set associative memory mapping algorithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from ioaware.machine.model import SECTOR_BYTES, L1Model

MAX_CHUNK_SECTORS, LINE_SECTORS = 64, 4
LINE_BYTES = LINE_SECTORS * SECTOR_BYTES
Numbers = NDArray[np.int64]
Shares = NDArray[np.float64]
NEVER = -1
"""Distance of an access without an earlier one."""
DEVIATIONS = 9
"""Standard deviations beyond the mean at which a share of hits is 0 in float64."""


@dataclass(frozen=True, slots=True)
class L1Shape:
    """Capacity of one SM's L1 in bytes, and how it replaces lines."""

    capacity_bytes: int
    model: L1Model

    def hit_shares(self, distances: Numbers) -> Shares:
        """Return the probability of a hit by reuse distance in lines.

        It is 0 for an access without an earlier one, whose distance is `NEVER`.
        """
        lines = self.capacity_bytes / LINE_BYTES
        if not lines:
            return np.zeros(distances.size)
        mean, deviation = self.model.reach * lines, sqrt(self.model.sets * lines)
        farthest = int(min(distances.max(initial=0), mean + DEVIATIONS * deviation)) + 1
        shares = [0.5 * (1 + erf((mean - one) / (deviation * sqrt(2)))) for one in range(farthest)]
        return np.array([*shares, 0.0])[np.minimum(distances, farthest)]  # the last one is that of NEVER, too
