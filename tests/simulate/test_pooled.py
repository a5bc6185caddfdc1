"""The values that laws of a slot may have; the mean itself is tested with the simulator, in test_slotted.py."""

import pytest

from lbcore.chance import laws
from lbcore.simulate import pooled

OFFER = laws.discrete([0, 2], [0.5, 0.5])


def test_values_of_a_slot_go_up_to_a_million():
    assert pooled.slot_laws(laws.discrete([0, 10**6], [0.5, 0.5]), OFFER, 2, 1.0).rate == pytest.approx(1.0)
    for value in (10**6 + 1, 10**15, 1e100):
        large = laws.discrete([0, value], [0.5, 0.5])
        with pytest.raises(ValueError, match=r"arrivals of a slot must be whole numbers of at most 10\^6, not 1"):
            pooled.pooled_mean(large, OFFER, 2, 1.0)
        with pytest.raises(ValueError, match=r"services of a slot must be whole numbers of at most 10\^6, not 1"):
            pooled.pooled_mean(OFFER, [OFFER, large], 2, 1.0)


def test_slack_is_a_number():
    with pytest.raises(TypeError, match=r"epsilon must be a number above 0 and below 2, not '0\.5'; it is the total"):
        pooled.pooled_mean(OFFER, OFFER, 2, "0.5")
