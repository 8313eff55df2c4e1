"""The gate of the one kernel of this repository.

Its name keeps it out of the suite around it.
"""

from scale import scale


def test_scale(traffic):
    x = traffic.tensor("rows", "cols", dtype="float16")
    w = traffic.tensor("cols", dtype="float16")
    assert traffic(scale, x, w) == traffic.snapshot()
