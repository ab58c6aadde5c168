"""Topics, groups and offsets in a group's log: what the leader writes, and what another member makes of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace

import pytest

from cometmq.access.auth_users import AuthFile
from cometmq.access.policies import read_policies
from cometmq.broker.admin.lookup import MessageLookup
from cometmq.broker.admin.requests.users import UserHandler
from cometmq.broker.delay.feature import DelayLevels
from cometmq.broker.pop.feature import AssignmentFeature, PopFeature
from cometmq.broker.replication.group.logged_tables import logged_tables
from cometmq.broker.replication.group.table_reader import TableLogReader
from cometmq.broker.replication.group.table_writer import TableLogWriter
from cometmq.broker.tables import deleted_topics
from cometmq.broker.tables.locks import BELIEF_SECONDS
from cometmq.broker.timer.feature import Timer
from cometmq.codec.bodies.assignment import RequestModeConfig
from cometmq.codec.bodies.table_changes import (
    BEGIN_TAG,
    CHANGE_TAG,
    TABLES_TOPIC,
    SnapshotPlace,
    decode_place,
    encode_place,
)
from cometmq.codec.headers.query import ViewMessageRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.steps.on_loop import LoopWorld, Machines
from cometmq.store.positions import Durability
from tests.support.hand_clock import HandClock
from tests.support.steps import run
from tests.support.store_puts import make_put
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand


class Member:
    """A member's store and tables; as leader it writes them to its log, of which others get the bytes."""

    def __init__(self, parts) -> None:
        load_tables(parts)
        self.parts = parts
        self.store = parts.store
        self.reader = TableLogReader(parts.store, logged_tables(parts))
        self.delays = DelayLevels(parts)
        self.timer = Timer(parts)
        self.pops = PopFeature(parts)
        self.assignments = AssignmentFeature(parts)
        self.role = Machines(LoopWorld(store=self.store), "role")
        self.users = UserHandler(
            AuthFile(f"{parts.settings.store_path}/auth.json", cluster="c", is_authorized=True),
            self.role.run,
        )
        features = (self.delays, self.timer, self.pops, self.assignments)
        of_features = [table for each in features for table in each.logged_tables]
        self.more = {table.name: table for table in (*of_features, self.users.logged_table())}
        self.reader.apply_to(self.more.values())
        self.writer: TableLogWriter | None = None
        self.leads = True

    async def lead(self) -> TableLogWriter:
        await run(self.reader.catch_up())
        machines = Machines(LoopWorld(store=self.store), "test")
        self.writer = TableLogWriter(
            self.parts,
            self.reader.lasting,
            snapshot=self.reader.snapshot,
            run=machines.run,
            leads=lambda: self.leads,
        )
        self.writer.begin()
        self.writer.join(self.more.values())
        return self.writer

    async def second(self) -> None:
        """What the leader does each second."""
        assert self.writer is not None
        machines = Machines(LoopWorld(store=self.store), "test")
        assert await machines.run(self.writer.step()) == 1.0

    async def follow(self, leader: Member) -> None:
        """Get the leader's log, and apply the changes in it."""
        at = self.store.max_offset
        while at < leader.store.max_offset:
            at = self.store.append_raw(at, bytes(leader.store.read_log(at, 1 << 20)))
        self.store.dispatch_pending()
        await run(self.reader.catch_up())

    def send(self, topic: str, body: bytes) -> None:
        self.store.put_many([make_put(self.store, topic, body=body)])
        self.store.dispatch_pending()

    def content(self) -> tuple[object, ...]:
        """All that the tables have, without versions."""
        parts = self.parts
        groups = parts.groups.table()
        deleted = parts.topics.deleted
        return (
            parts.topics.table().topics,
            dict(groups.groups),
            dict(groups.forbidden),
            dict(parts.offsets.table().offsets),
            dict(parts.locks.holders()),
            {name: deleted.get(name) for name in deleted.names()},
        )

    def content_of_features(self) -> dict[str, Mapping[str, object]]:
        """All that the tables of features have; the timer's progress has a follower in its checkpoint."""
        content: dict[str, Mapping[str, object]] = {
            name: {key: table.value(key) for key in table.all_keys()}
            for name, table in self.more.items()
            if name != "timerProgress"
        }
        return {**content, "check": {"queueOffset": self.timer.check.master_queue_offset}}

    async def close(self) -> None:
        for table in (
            self.parts.topics,
            self.parts.groups,
            self.parts.offsets,
            self.parts.locks,
        ):
            await table.saver.close()


@pytest.fixture
async def leader(tmp_path):
    with parts_by_hand(tmp_path / "leader", HandClock()) as parts:
        member = Member(parts)
        yield member
        if member.writer is not None:
            member.writer.end()
        await member.close()


@pytest.fixture
async def follower(tmp_path):
    with parts_by_hand(tmp_path / "follower", HandClock()) as parts:
        member = Member(parts)
        parts.offsets.follow()
        parts.groups.is_copy = True
        yield member
        await member.close()


async def test_a_member_has_what_the_leader_changed(leader, follower):
    await leader.lead()
    await leader.second()
    assert not follower.reader.has_read
    await follower.follow(leader)
    assert follower.reader.has_read
    parts = leader.parts
    await parts.topics.put(TopicConfig("orders", 4, 4, attributes={"message.type": "FIFO"}))
    await parts.groups.put(GroupConfig("billing", retry_max_times=3))
    await parts.groups.permit("billing", "orders", is_readable=False)
    await parts.groups.permit("unknown", "orders", is_readable=False)
    parts.offsets.commit("billing", "orders", 0, offset=7)
    await follower.follow(leader)
    assert follower.content()[:3] == leader.content()[:3]
    assert follower.parts.offsets.get("billing", "orders", 0) is None, "commits wait a second"
    await leader.second()
    await follower.follow(leader)
    assert follower.content() == leader.content()
    await parts.groups.delete("billing")
    parts.topics.note_deleted_group("billing", parts.store.max_offset)
    await parts.topics.delete("orders", end=parts.store.max_offset)
    await leader.second()
    await follower.follow(leader)
    assert follower.content() == leader.content()
    assert not follower.parts.offsets.has_any("billing", "orders")


async def fill_features(leader) -> None:
    """Change each table of a feature as the feature does."""
    parts = leader.parts
    await parts.topics.put(TopicConfig("orders", 4, 4))
    await parts.groups.put(GroupConfig("billing"))
    await run(
        leader.assignments._assignments.set_mode(
            RequestModeConfig("orders", "billing", "POP", 1)
        )
    )
    orders, place = leader.pops._orders, ("billing", "orders", 3)
    orders.handed_out(place, [5, 6], pop_time_ms=7, invisible_ms=8, attempt_id="one")
    orders.acknowledge(place, 5, 7)
    orders.handed_out(
        ("billing", "gone", 0), [1], pop_time_ms=7, invisible_ms=8, attempt_id=None
    )
    orders.forget(("billing", "gone", 0))
    leader.timer._counts.add("orders", 3)
    for name, each in (("bob", "Normal"), ("root", "Super")):
        values = {"password": f"secret of {name}", "userType": each}
        leader.users._users.put_user(name, values, is_new=True)
        leader.users._note(name)
    entry = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
    policies = read_policies([{"policyType": "Custom", "entries": [entry]}])
    leader.users._users.put_policies("bob", policies)
    leader.users._note("bob")
    leader.delays._delivered.offsets.update({1: 4, 18: 1 << 40})
    leader.timer._files.queue_offset, leader.timer._files.read_ms = 9, 1_000
    leader.timer._is_running = True
    for name in ("delayOffsets", "timerProgress"):
        for key in leader.more[name].all_keys():
            leader.writer.note(name, key)


@pytest.mark.parametrize("is_in_snapshot", [False, True])
async def test_a_member_has_what_the_features_of_the_leader_changed(
    leader, follower, is_in_snapshot
):
    if not is_in_snapshot:
        await leader.lead()
        await leader.second()
        await follower.follow(leader)
        await fill_features(leader)
    else:
        await leader.lead()
        await fill_features(leader)
        leader.writer._changed.clear()
    await leader.second()
    await follower.follow(leader)
    expected = leader.content_of_features() | {"check": {"queueOffset": 9}}
    assert all(expected.values()), "each table has something"
    assert follower.content_of_features() == expected
    assert follower.timer.check.read_ms == 1_000
    # As a leader whose last records were cut from its log.
    follower.pops._orders.handed_out(
        ("lost", "orders", 0), [1], pop_time_ms=7, invisible_ms=8, attempt_id=None
    )
    follower.timer._counts.add("lost", 1)
    follower.users._users.put_user("lost", {"password": "lost"}, is_new=True)
    await run(follower.delays._delivered.put({1: 5, 2: 6}))
    follower.reader.rewind()
    await follower.follow(leader)
    assert follower.content_of_features() == expected


async def test_a_deleted_topic_and_a_deleted_user_are_gone_everywhere(leader, follower):
    await leader.lead()
    await fill_features(leader)
    await leader.second()
    await follower.follow(leader)
    for feature in (leader.pops, leader.assignments, leader.timer):
        feature.forget_topic("orders")
    leader.users._users.delete_user("bob")
    leader.users._note("bob")
    await leader.second()
    await follower.follow(leader)
    content = follower.content_of_features()
    assert not any(content[name] for name in ("orderStates", "requestModes", "timerCounts"))
    assert list(content["users"]) == ["root"]
    assert follower.users._users.current.find("bob") is None


async def test_no_client_sees_a_record_of_the_tables_by_its_position(leader):
    await leader.lead()
    await fill_features(leader)
    await leader.second()
    queue = leader.store.queue(TABLES_TOPIC, 0)
    records = leader.store.entries(queue, 0, queue.max_offset)
    content = [
        bytes(leader.store.read_log(each.physical_offset, each.size)) for each in records
    ]
    assert any(b"secret of bob" in each for each in content)
    lookup = MessageLookup(leader.store, unique_count=32)
    for each in records:
        with pytest.raises(RequestError, match="can not find message"):
            await run(
                lookup.by_offset(ViewMessageRequest(each.physical_offset), lambda _topic: True)
            )


async def test_users_stay_if_the_leader_has_none(leader, follower, caplog):
    values = {"password": "secret", "userType": "Super"}
    follower.users._users.put_user("root", values, is_new=True)
    await leader.lead()
    await leader.second()
    await follower.follow(leader)
    assert follower.users._users.current.find("root") is not None
    assert "the users of the leader are not taken" in caplog.text


async def test_a_revoked_super_user_is_revoked_at_a_follower_although_its_successor_comes_later(
    leader, follower
):
    users = leader.users._users
    for member in (leader, follower):
        member.users._users.ensure_super("root", "secret")
    users.ensure_super("successor", "secret")
    users.put_user("root", {"userType": "Normal"}, is_new=False)
    root = users.current.users["root"]
    more = {f"user{number}": replace(root, name=f"user{number}") for number in range(300)}
    users.put_all(more)
    writer = await leader.lead()
    for names in (["root", *more], ["successor"]):
        for name in names:
            leader.users._note(name)
        await writer.logged()
    await follower.follow(leader)
    assert follower.users._users.current.users == users.current.users


async def test_tables_that_the_leader_does_not_have_stay_as_they_are(leader, follower):
    """The leader may be of an older version, or have a feature switched off."""
    follower.users._users.ensure_super("root", "secret")
    follower.timer._counts.add("orders", 3)
    await follower.parts.topics.put(TopicConfig("orders", 4, 4))
    del leader.more["users"], leader.more["timerCounts"]
    await leader.lead()
    await leader.second()
    await follower.follow(leader)
    assert follower.users._users.current.find("root") is not None
    assert follower.timer._counts.counts() == {"orders": 3}
    assert "orders" not in follower.content()[0], "the leader has topics, but not this one"


async def test_users_of_the_settings_are_ensured_at_each_leader(leader, follower):
    await leader.lead()
    leader.users._users.ensure_super("root", "old secret")
    leader.users._note("root")
    await leader.second()
    follower.users._users.ensure_super("root", "new secret")
    await follower.follow(leader)
    assert follower.users._users.current.find("root").secret == b"old secret"
    leader.writer.stop()
    await follower.lead()
    await run(follower.users.ensure_again())
    await follower.second()
    await leader.follow(follower)
    assert leader.users._users.current.find("root").secret == b"new secret"


async def test_a_leader_leaves_when_the_change_of_a_user_in_a_thread_has_ended(leader):
    world, users = leader.parts.world, leader.users._users
    role = Machines(world, "role")
    handler = UserHandler(users, role.run)
    changing = run(
        handler._change("late", lambda: users.ensure_super("late", "secret"), "user late")
    )
    leaving = asyncio.ensure_future(role.close())
    await asyncio.sleep(0.01)
    assert not leaving.done()
    assert users.current.find("late") is None
    world.settle()
    await leaving
    assert users.current.find("late") is not None, "before the next role reads the tables"
    await changing


def lock(member: Member, client_id: str, *queue_ids: int) -> list[int]:
    """Lock queues of the topic orders for a client; the numbers of those that it has now."""
    queues = [MessageQueue("orders", "broker-a", each) for each in queue_ids]
    obtained, _ = member.parts.locks.lock(queues, group="billing", client_id=client_id)
    return [each.queue_id for each in obtained]


async def test_a_lock_outlives_its_leader_for_as_long_as_its_owner_may_rely_on_it(
    leader, follower
):
    await leader.lead()
    await leader.parts.topics.put(TopicConfig("orders", 4, 4))
    assert lock(leader, "a", 0, 1, 2) == [0, 1, 2]
    saving = leader.parts.locks.saver.saving()
    await saving
    await follower.follow(leader)
    assert follower.content() == leader.content(), "the answer waits until the log has it"
    leader.parts.locks.unlock(
        [MessageQueue("orders", "broker-a", 2)], group="billing", client_id="a"
    )
    assert lock(leader, "b", 2) == [2]
    await leader.second()
    await follower.follow(leader)
    assert follower.content() == leader.content()
    # Its clock goes on for long, and nobody renews anything at a follower.
    follower.parts.clock.turn(1_000)
    follower.parts.locks.expire()
    follower.parts.locks.lead()
    assert lock(follower, "c", 0, 2, 3) == [3]
    follower.parts.clock.turn(BELIEF_SECONDS - 1)
    assert lock(follower, "a", 0) == [0]
    assert lock(follower, "c", 1) == []
    follower.parts.clock.turn(1)
    assert lock(follower, "c", 0, 1, 2) == [1, 2]


async def test_offsets_are_written_once_a_second_however_often_they_are_committed(leader):
    await leader.lead()
    await leader.second()
    end = leader.store.max_offset
    for offset in range(1_000):
        leader.parts.offsets.commit("billing", "orders", 0, offset=offset)
    assert leader.store.max_offset == end
    await leader.second()
    assert end < leader.store.max_offset < end + 500
    end = leader.store.max_offset
    await leader.second()
    assert leader.store.max_offset == end, "nothing has changed"


async def test_progress_of_many_queues_in_order_is_written_a_record_at_a_time(leader, follower):
    writer = await leader.lead()
    await leader.parts.topics.put(TopicConfig("orders", 2_000, 2_000))
    await leader.parts.groups.put(GroupConfig("billing"))
    await leader.second()
    for queue in range(2_000):
        leader.pops._orders.handed_out(
            ("billing", "orders", queue), [1], pop_time_ms=7, invisible_ms=8, attempt_id="one"
        )
    before = len(record_sizes(leader))
    await leader.parts.topics.put(TopicConfig("other", 1, 1))
    assert len(record_sizes(leader)) == before + 1, (
        "the change of a topic waits for no progress"
    )
    counts = [before + 1, *(len(record_sizes(leader)) for _ in writer.step())]
    assert len(counts) > 5
    assert all(after - earlier <= 1 for earlier, after in itertools.pairwise(counts))
    await follower.follow(leader)
    assert follower.content_of_features() == leader.content_of_features()


async def test_offsets_that_were_committed_at_a_follower_are_in_the_log_when_it_leads(
    leader, follower
):
    await leader.lead()
    leader.parts.offsets.commit("billing", "orders", 0, offset=4)
    await leader.second()
    await follower.follow(leader)
    follower.parts.offsets.commit("billing", "orders", 0, offset=9)
    await follower.lead()
    assert follower.writer.touched == {"orders@billing"}
    leader.writer.end()
    leader.parts.offsets.follow()
    await follower.second()
    await leader.follow(follower)
    assert leader.parts.offsets.get("billing", "orders", 0) == 9


async def test_a_reset_is_written_at_once(leader, follower):
    await leader.lead()
    leader.parts.offsets.commit("billing", "orders", 0, offset=9)
    await leader.second()
    leader.parts.offsets.reset("billing", "orders", 0, offset=4)
    await leader.parts.offsets.logged()
    await follower.follow(leader)
    offsets = follower.parts.offsets
    assert offsets.get("billing", "orders", 0) == 4
    assert offsets.has_reset("billing", "orders", 0), "a consumer must still be told"
    await leader.second()
    end = leader.store.max_offset
    assert leader.parts.offsets.take_reset("billing", "orders", 1) is None
    await leader.second()
    assert leader.store.max_offset == end, "a queue without a reset is no change"
    assert leader.parts.offsets.take_reset("billing", "orders", 0) == 4
    await leader.second()
    await follower.follow(leader)
    assert not offsets.has_reset("billing", "orders", 0)


@pytest.mark.parametrize("is_read_late", [False, True])
async def test_a_topic_that_is_created_again_has_none_of_the_old_messages(
    leader, follower, is_read_late
):
    await leader.lead()
    topics = leader.parts.topics
    await topics.put(TopicConfig("orders", 2, 2))
    leader.send("orders", b"old")
    leader.send("orders", b"older")
    leader.parts.offsets.commit("billing", "orders", 0, offset=2)
    await leader.second()
    if not is_read_late:
        await follower.follow(leader)
    deletion = topics.delete("orders", end=leader.store.max_offset)
    with pytest.raises(RequestError, match="is being deleted"):
        topics.put(TopicConfig("orders", 3, 3))
    await deletion
    assert not leader.store.queues_of("orders")
    await topics.put(TopicConfig("orders", 3, 3))
    leader.send("orders", b"new")
    await follower.follow(leader)
    assert follower.content() == leader.content()
    for member in (leader, follower):
        assert member.parts.topics.existing("orders").read_queues == 3
        assert not member.parts.offsets.has_any("billing", "orders")
        queue = member.store.queue("orders", 0)
        assert (queue.min_offset, queue.max_offset) == (0, 1)


async def test_queues_are_kept_until_the_deletion_of_their_topic_is_confirmed(leader):
    writer = await leader.lead()
    topics = leader.parts.topics
    for name in ("first", "second"):
        await topics.put(TopicConfig(name, 1, 1))
        leader.send(name, b"old")
    topics.delete("first", end=leader.store.max_offset)
    logging = writer._logged()
    waited = next(logging)
    deletion = topics.delete("second", end=leader.store.max_offset)
    assert waited.end_offset < writer._end
    logging.send(Durability.OK)
    list(logging)
    assert not leader.store.queues_of("first")
    assert leader.store.queues_of("second"), "this deletion is not confirmed yet"
    await deletion
    assert not leader.store.queues_of("second")


async def test_a_topic_whose_deletion_could_not_be_saved_is_not_created_over_its_old_queues(
    leader,
):
    await leader.lead()
    topics = leader.parts.topics
    await topics.put(TopicConfig("orders", 1, 1))
    leader.send("orders", b"old")
    side = leader.store.replica_side
    side.begin_copying()
    with pytest.raises(RequestError, match="may not be in the log"):
        await topics.delete("orders", end=leader.store.max_offset)
    side.end_copying()
    with pytest.raises(RequestError, match="is being deleted"):
        topics.put(TopicConfig("orders", 3, 3))
    await topics.saving_of("orders")
    assert not leader.store.queues_of("orders")
    await topics.put(TopicConfig("orders", 3, 3))


async def test_one_record_has_the_deletion_of_a_topic_and_that_it_is_gone(leader):
    await leader.lead()
    parts = leader.parts
    await parts.topics.put(TopicConfig("orders", 1, 1))
    await parts.groups.permit("billing", "orders", is_readable=False)
    before = len(record_sizes(leader))
    await parts.topics.delete("orders", end=leader.store.max_offset)
    queue = leader.store.queue(TABLES_TOPIC, 0)
    entry = leader.store.entries(queue, before, 1)[0]
    body = bytes(leader.store.read_log(entry.physical_offset, entry.size))
    assert b'"topics":{"orders":{}}' in body
    assert b'"deletedTopics":{"orders":{"end":' in body


async def test_a_follower_remembers_no_more_deletions_than_a_leader(
    leader, follower, monkeypatch
):
    await leader.lead()
    noted, copied = leader.parts.topics, follower.parts.topics.deleted
    for number in range(5):
        noted.note_deleted_group(f"group{number}", leader.store.max_offset)
        await leader.second()
    await follower.follow(leader)
    assert len(copied) == 5
    monkeypatch.setattr(deleted_topics, "DELETED_MAX", 2)
    noted.note_deleted_group("last", leader.store.max_offset)
    await leader.second()
    await follower.follow(leader)
    assert copied.names() == noted.deleted.names() == ["@group4", "@last"]


async def test_a_member_drops_what_was_never_committed(leader, follower):
    await leader.lead()
    await leader.parts.topics.put(TopicConfig("orders", 4, 4))
    await leader.parts.topics.put(TopicConfig("kept", 1, 1))
    await leader.parts.groups.put(GroupConfig("billing", retry_max_times=3))
    leader.send("kept", b"message")
    await leader.second()
    await follower.follow(leader)
    # As a leader whose last records were cut from its log: changes of every kind.
    topics, groups = follower.parts.topics, follower.parts.groups
    await topics.put(TopicConfig("lost", 1, 1))
    await topics.put(TopicConfig("orders", 9, 9))
    await topics.delete("kept", end=follower.store.max_offset)
    await groups.put(GroupConfig("lost"))
    await groups.delete("billing")
    follower.parts.offsets.commit("lost", "orders", 0, offset=1)
    follower.parts.offsets.lead()
    follower.reader.rewind()
    await follower.follow(leader)
    assert follower.content() == leader.content()
    assert not topics.deleted.covers("kept", 0)
    assert follower.store.queue("kept", 0).max_offset == 1


async def test_a_new_member_needs_only_the_log_from_the_last_snapshot_on(leader, follower):
    await leader.lead()
    for number in range(300):
        leader.parts.topics.put(TopicConfig(f"topic{number}", 1, 1))
    await leader.parts.topics.delete("topic7", end=leader.store.max_offset)
    leader.parts.offsets.commit("billing", "topic1", 0, offset=5)
    for _ in range(20):
        leader.send("topic1", b"x" * 100_000)  # The next log file begins.
    await leader.second()
    place = leader.writer._snapshot
    assert place.begin > 1 << 20
    # The first file is deleted: another log begins with the second one.
    begin = 1 << 20
    follower.store.append_raw(begin, bytes(leader.store.read_log(begin, 1 << 20)))
    await follower.follow(leader)
    assert follower.reader.snapshot == place
    assert follower.content() == leader.content()


async def test_a_snapshot_is_written_when_a_log_file_begins_and_not_again(leader):
    await leader.lead()

    async def writes_snapshot() -> bool:
        before = leader.writer._snapshot
        await leader.second()
        return leader.writer._snapshot != before

    assert await writes_snapshot()
    assert not await writes_snapshot()
    leader.send("orders", b"x" * 800_000)
    assert not await writes_snapshot()
    leader.send("orders", b"x" * 800_000)
    assert await writes_snapshot()
    assert not await writes_snapshot()


async def test_a_snapshot_without_an_end_does_not_count(leader, follower):
    writer = await leader.lead()
    await leader.parts.topics.put(TopicConfig("orders", 4, 4))
    await leader.second()
    place = writer._snapshot
    writer._append(BEGIN_TAG, b"{}")
    writer._append(CHANGE_TAG, b"{}")
    await follower.follow(leader)
    assert follower.reader.snapshot == place
    assert "orders" in follower.content()[0]


async def test_what_changes_while_a_snapshot_is_written_is_not_lost(leader, follower):
    writer = await leader.lead()
    for number in range(500):
        leader.parts.topics.put(TopicConfig(f"topic{number}", 1, 1))
    writing = asyncio.ensure_future(leader.second())
    for number in range(0, 500, 5):
        await asyncio.sleep(0)
        leader.parts.topics.put(TopicConfig(f"topic{number}", 2, 2))
        if number % 10 == 0:
            leader.parts.topics.delete(f"topic{number + 1}", end=leader.store.max_offset)
        leader.parts.offsets.commit("billing", f"topic{number}", 0, offset=number)
    await writing
    await leader.second()
    await writer.logged()
    await follower.follow(leader)
    assert follower.reader.snapshot is not None
    assert follower.content() == leader.content()


async def test_a_change_that_the_store_refuses_is_an_error_and_written_later(leader, follower):
    await leader.lead()
    side = leader.store.replica_side
    side.begin_copying()
    with pytest.raises(RequestError, match="this broker is a slave") as refused:
        await leader.parts.topics.put(TopicConfig("orders", 4, 4))
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    side.end_copying()
    await leader.second()
    await follower.follow(leader)
    assert "orders" in follower.content()[0]


@pytest.mark.parametrize("is_lost_meanwhile", [False, True])
async def test_a_change_does_not_count_as_stored_once_the_lead_is_lost(
    leader, is_lost_meanwhile
):
    """A later leader may have other bytes where the record was."""
    writer = await leader.lead()
    leader.parts.topics.put(TopicConfig("orders", 4, 4))
    leader.leads = is_lost_meanwhile
    logging = writer.logged()
    leader.leads = False
    with pytest.raises(RequestError, match="does not lead") as refused:
        await logging
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE


def record_sizes(member: Member) -> list[int]:
    queue = member.store.queue(TABLES_TOPIC, 0)
    return [entry.size for entry in member.store.entries(queue, 0, queue.max_offset)]


async def test_a_table_larger_than_a_record_comes_in_pieces(leader, follower):
    await leader.lead()
    for group in range(30):
        for queue_id in range(1_000):
            leader.parts.offsets.commit(f"group{group}", "orders", queue_id, offset=queue_id)
    await leader.second()
    await follower.follow(leader)
    assert follower.content() == leader.content()
    sizes = record_sizes(leader)
    assert len(sizes) > 20
    assert max(sizes) < 100_000


def make_groups(parts) -> None:
    for number in range(2_000):
        parts.groups.put(GroupConfig(f"group{number}"))


def make_topics(parts) -> None:
    attributes = {f"attribute{number}": "value" for number in range(100)}
    for number in range(300):
        parts.topics.put(TopicConfig(f"topic{number}", 1, 1, attributes=attributes))


def make_groups_of_long_texts(parts) -> None:
    attributes = {f"attribute{number}": "value" * 100 for number in range(10)}
    for number in range(100):
        parts.groups.put(GroupConfig(f"group{number}", attributes=attributes))


@pytest.mark.parametrize("fill", [make_groups, make_topics, make_groups_of_long_texts])
async def test_pieces_of_a_snapshot_are_small_also_if_its_values_have_many_members(
    leader, fill
):
    fill(leader.parts)
    await leader.lead()
    await leader.second()
    assert max(record_sizes(leader)) < 100_000


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"topics":[]}', b'{"topics":{"a":1}}', b'{"consumerOffsets":{"a":{"b":1}}}']
)  # fmt: skip
async def test_a_malformed_record_is_ignored_and_logged(leader, follower, caplog, body):
    writer = await leader.lead()
    writer._append(CHANGE_TAG, body)
    writer._append(CHANGE_TAG, b'{"laterTable":{"a":1}}')
    await leader.parts.topics.put(TopicConfig("orders", 4, 4))
    await follower.follow(leader)
    assert "orders" in follower.content()[0]
    if body:
        assert f"in topic {TABLES_TOPIC} is ignored" in caplog.text


def test_the_place_of_a_snapshot_is_read_as_it_was_written():
    place = SnapshotPlace(5, 1 << 40, 77)
    assert decode_place(encode_place(place)) == place
    with pytest.raises(CodecError):
        decode_place(b'{"firstOffset":"x"}')
