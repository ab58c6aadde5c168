"""Groups of real brokers under faults by seeds: `make sim SCENE=brokers` runs more of them."""

import asyncio

import pytest

from tests.sim.brokers import BrokerGroup, brokers


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_storm_over_brokers_loses_nothing(seed):
    group = brokers(seed)
    assert group.checks.acknowledged_count
    assert group.checks.leaders


def test_a_seed_repeats_its_run():
    assert brokers(11).trace == brokers(11).trace


def test_a_restarted_member_tells_no_committed_offsets_before_it_knows_them():
    """Consumers with an old route would have begun with offsets of its file, which are seconds old."""

    async def all_are_killed_and_one_comes_back(group: BrokerGroup) -> None:
        await asyncio.sleep(9.8)
        old = group.leader
        assert old is not None
        for member in group.machines:
            group.kill(member)
        group.start(old)
        await asyncio.sleep(5)

    group = BrokerGroup(1)
    group.run(all_are_killed_and_one_comes_back)
    assert group.checks.acknowledged_count
