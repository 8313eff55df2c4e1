"""Every kernel of the zoo: derived counts equal those of running it, exactly."""

from __future__ import annotations

import pytest
from ir.zoo import ZOO


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("name", ZOO)
def test_derived_equals_traced(name: str) -> None:
    launched = ZOO[name]
    derived = launched.derive()
    assert derived.exact, derived.notes
    for values in launched.points:
        traced = launched.trace(values)
        found = {
            "read_bytes": derived.read_bytes.evaluate(values),
            "write_bytes": derived.write_bytes.evaluate(values),
            "atomic_bytes": derived.atomic_bytes.evaluate(values),
            "flops": derived.flops.evaluate(values),
        }
        assert traced.requested is not None
        expected = {name: getattr(traced.requested, name) for name in found if name != "flops"} | {"flops": traced.flops or 0}
        assert found == expected, values
