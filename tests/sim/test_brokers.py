"""Groups of real brokers under faults by seeds: `make sim SCENE=brokers` runs more of them."""

import pytest

from tests.sim.brokers import brokers


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_storm_over_brokers_loses_nothing(seed):
    group = brokers(seed)
    assert group.checks.acknowledged_count
    assert group.checks.leaders


def test_a_seed_repeats_its_run():
    assert brokers(1).trace == brokers(1).trace
