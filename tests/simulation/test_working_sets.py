"""HBM reads of a tensor that is read twice, at 0.5 to 8 times the L2 of an H200.

The first pass is cold. The second one hits where the tensor fits into the L2, and the prediction says whether it does.
"""

from __future__ import annotations

import functools

import pytest

from ioaware.machine.presets import find_machine
from ioaware.measurement.measure import measure
from ioaware.simulation.regimes import Regime
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import load_target
from tests.support import SUPPORT
from tests.support.gpu import NEEDS_GPU

SWEEPS = f"{SUPPORT / 'targets/sweep_targets.py'}:sweeps"
MIB = 1 << 20
L2_MIB = 60
UNCERTAIN = "HBM reads are uncertain"
LARGEST_ERROR = 0.05
REGIMES: dict[float, Regime] = {0.5: "compulsory", 0.7: "leaking", 1: "leaking", 2: "leaking", 4: "leaking", 8: "leaking"}
"""By the size of the tensor over that of the L2.

The only wave reads it again, hence no regime of several waves.
"""


@functools.cache
def predicted(mib: int, passes: int) -> Simulated:
    target = load_target(SWEEPS)
    return simulate(target, target.resolve({"mib": mib, "passes": passes}), machine=find_machine("H200"), cold=True)


def read_mib(simulated: Simulated) -> float:
    assert simulated.hbm is not None
    assert simulated.hbm.read_bytes is not None
    return simulated.hbm.read_bytes / MIB


def test_the_shares_are_those_of_the_modelled_l2() -> None:
    assert find_machine("H200").level("l2").capacity_bytes == L2_MIB * MIB


@pytest.mark.parametrize("share", REGIMES)
def test_a_prediction_names_its_regime(share: float) -> None:
    mib = round(share * L2_MIB)
    assert read_mib(predicted(mib, 1)) == mib
    warm = predicted(mib, 2)
    assert warm.simulations[0] is not None
    assert warm.simulations[0].tensors[0].regime == REGIMES[share]
    assert mib <= read_mib(warm) <= 2 * mib
    assert (read_mib(warm) == mib) == (REGIMES[share] == "compulsory")


@pytest.mark.parametrize("mib", [40, 42, 44])
def test_a_prediction_between_the_regimes_is_labelled(mib: int) -> None:
    warm = predicted(mib, 2)
    least, most = warm.read_range
    assert most is not None
    assert most > (1 + LARGEST_ERROR) * least
    assert any(note.startswith(UNCERTAIN) for note in warm.notes)


class TestOnGpu:
    """Counters decide; a prediction that is labelled holds if its range does."""

    pytestmark = NEEDS_GPU

    @pytest.mark.parametrize("passes", [1, 2])
    @pytest.mark.parametrize("share", REGIMES)
    def test_the_counters_agree(self, share: float, passes: int, capsys: pytest.CaptureFixture[str]) -> None:
        mib = round(share * L2_MIB)
        counted = measure(SWEEPS, {"mib": mib, "passes": passes})
        assert counted.status in ("ok", "throttled"), counted.notes
        assert counted.hbm is not None
        assert counted.hbm.read_bytes is not None
        simulated, found = predicted(mib, passes), counted.hbm.read_bytes / MIB
        error = read_mib(simulated) / found - 1
        with capsys.disabled():
            print(f"\n{share:4} times the L2, passes {passes}:", end=" ")
            print(f"{read_mib(simulated):7.1f} MiB predicted, {found:7.1f} counted, {error:+.2%}")
        labelled = any(note.startswith(UNCERTAIN) for note in simulated.notes)
        least, most = simulated.read_range
        assert abs(error) <= LARGEST_ERROR or (labelled and share < 4 and least <= found * MIB <= (most or float("inf")))
