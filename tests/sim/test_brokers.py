"""Groups of real brokers under faults by seeds: `make sim SCENE=brokers` runs more of them."""

import asyncio

import pytest

from cometmq import AsyncAdmin, MessageQueue
from cometmq.client.api.members import MemberApi
from cometmq.codec.bodies.lock import LockRequest
from cometmq.model.errors import BrokerRefused, RequestError, StoreReadOnly
from cometmq.replication.group.member import NotAllowed, RaftMember
from cometmq.replication.group.messages import Membership
from cometmq.steps.on_loop import Machines
from cometmq.store.running_flags import RunningFlag
from tests.sim.brokers import READERS, TOPIC, BrokerGroup, brokers
from tests.sim.places import BROKER, IPS, NAMES
from tests.support.store_puts import make_put


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


def test_a_leader_whose_disk_takes_nothing_changes_no_members_and_hands_over():
    """The record of a change would wait for room, and with it everything that the leader sends."""
    said: list[str] = []

    async def the_index_cannot_be_written(group: BrokerGroup) -> None:
        await asyncio.sleep(8)
        old = group.leader
        assert old is not None
        elected, parts = group.membership(old)
        running, flags = elected.running, parts.store.flags
        flags.raise_flag(RunningFlag.INDEX_ERROR, "no room")

        def change(member: RaftMember, _now: int) -> None:
            try:
                running.change_members(Membership(member.log.membership.voters[:2]))
            except NotAllowed as error:
                said.append(str(error))

        running.put(change)
        await asyncio.sleep(15)
        assert group.leader not in (None, old)
        flags.clear(RunningFlag.INDEX_ERROR)

    BrokerGroup(1).run(the_index_cannot_be_written)
    assert said == ["the store of the leader accepts nothing now: no room"]


def test_a_request_is_answered_although_the_leader_fails_before_it_begins():
    answers: list[object] = []

    async def the_store_fails_during_an_event(group: BrokerGroup) -> None:
        await asyncio.sleep(8)
        leader = group.leader
        assert leader is not None
        elected, parts = group.membership(leader)
        voters = elected.running.member.log.membership.voters
        parts.store.flags.raise_flag(RunningFlag.INDEX_ERROR, "no room")
        elected.running.put(lambda member, _now: member.change(Membership(voters[:2])))
        answer = Machines(parts.world, "test").run(elected.orders.remove(leader))
        await asyncio.sleep(0.05)
        parts.store.poison("the test's disk failed")
        answers.extend(
            await asyncio.wait_for(asyncio.gather(answer, return_exceptions=True), 10)
        )
        assert elected.running.is_over

    BrokerGroup(1).run(the_store_fails_during_an_event)
    (error,) = answers
    assert isinstance(error, RequestError)
    assert "may be made or not" in str(error)


def test_messages_are_refused_during_a_change_of_members_whoever_wants_to_accept_them():
    """A message would have taken the place of the record, as the role accepts them again after an error."""
    accepted: list[bool] = []

    async def the_role_begins_again(group: BrokerGroup) -> None:
        await asyncio.sleep(8)
        leader = group.leader
        assert leader is not None
        elected, parts = group.membership(leader)
        running = elected.running

        def change(member: RaftMember, _now: int) -> None:
            other = next(each for each in member.log.membership.voters if each != leader)
            running.change_members(Membership((leader, other)))
            running.accept_puts(member.term)
            accepted.append(running.accepts_puts)
            with pytest.raises(StoreReadOnly, match="the group are being changed; send"):
                parts.store.put_many([make_put(parts.store, "orders", 0, b"")])

        running.put(change)
        await asyncio.sleep(2)
        accepted.append(running.accepts_puts)

    BrokerGroup(1).run(the_role_begins_again)
    assert accepted == [False, True]


def test_a_leader_that_was_removed_is_called_no_more_once_another_one_leads():
    errors: list[str | None] = []

    async def the_leader_is_removed(group: BrokerGroup) -> None:
        await asyncio.sleep(8)
        old = group.leader
        assert old is not None
        elected, parts = group.membership(old)
        await Machines(parts.world, "test").run(elected.orders.remove(old))
        await asyncio.sleep(10)
        assert group.leader not in (None, old)
        others = group.machines.keys() - {old}
        errors.extend(group.membership(each)[0].error_of(old) for each in others)

    BrokerGroup(1).run(the_leader_is_removed)
    assert errors == ["its address is unknown"] * 2


def test_a_member_with_an_old_list_lets_no_other_one_connect_to_a_removed_member():
    errors: list[str | None] = []

    async def one_is_down_while_another_is_removed(group: BrokerGroup) -> None:
        await asyncio.sleep(8)
        await group.operator.add("n3")
        down = next(each for each in group.machines if each not in (group.leader, "n3"))
        group.kill(down)
        await group.operator.remove("n3")
        group.start(down)
        await asyncio.sleep(5)
        errors.extend(
            elected.error_of("n3")
            for member in group.machines
            if member != "n3"
            for elected, _ in [group.membership(member)]
        )
        group.retire("n3")

    BrokerGroup(1).run(one_is_down_while_another_is_removed)
    assert errors == ["its address is unknown"] * 3


def test_a_lock_outlives_the_leader_that_granted_it_and_no_other_member_grants_one():
    """The first consumer that asked the next leader got the queue, while the old owner worked on it."""
    queue = MessageQueue(TOPIC, BROKER, 0)

    async def lock(group: BrokerGroup, member: str, client_id: str) -> bool:
        async def ask() -> bool:
            async with AsyncAdmin(NAMES) as admin:
                request = LockRequest(READERS, client_id, (queue,))
                locks = MemberApi(admin._instance)
                return bool(await locks.lock(f"{IPS[member]}:10911", request))

        return await group.machines[member].run(ask())

    async def the_leader_is_killed(group: BrokerGroup) -> None:
        await asyncio.sleep(8)
        old = group.leader
        assert old is not None
        assert await lock(group, old, "owner")
        with pytest.raises(BrokerRefused, match="lock queues at the leader"):
            await lock(group, next(iter(group.machines.keys() - {old})), "other")
        group.kill(old)
        await asyncio.sleep(15)  # A preferred leader has taken over by then.
        new = group.leader
        assert new not in (None, old)
        assert not await lock(group, new, "other")
        assert await lock(group, new, "owner"), "it renews the lock"

    BrokerGroup(1).run(the_leader_is_killed)
