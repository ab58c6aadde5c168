"""A slave is made the master, and takes messages: it gives no place in a queue twice, and none is left out."""

from __future__ import annotations

import json
import shutil
from contextlib import closing

import pytest

from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.net.loop import loop_clock
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.support.replica import log_of
from tests.support.request_fields import long_fields, pull_fields
from tests.support.store_puts import bodies_of
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.replication.test_slave import has_all, nameserver, pair, slave_of
from tests.unit.broker.test_offsets_beyond import write_offsets
from tests.unit.broker.test_tables import CREATE, create_fields

QUEUES = 2


async def send(master, body, queue_id=0):
    """Send a message; the queue offset that it was given."""
    answer = await master.send(body, queue_id=queue_id)
    return int(answer.fields["queueOffset"])


async def lying_in(master, queue_id):
    """The bodies of a queue, whose offsets are dense."""
    answer = await master.ask(Code.PULL_MESSAGE, pull_fields("Orders", queue_id))
    records = decode_records(answer.body)
    assert [record.queue_offset for record in records] == list(range(len(records)))
    return [record.body for record in records]


@pytest.mark.parametrize("in_queues", [0, 3, 10])
async def test_7689_no_place_is_given_twice_whatever_of_the_log_was_not_in_queues(
    tmp_path, in_queues
):
    """The slave dies with bytes that it has acknowledged, and that no queue has yet."""
    bodies, ends = [b"%d" % number for number in range(10)], [0]
    async with serve(tmp_path / "master") as master:
        for number, body in enumerate(bodies):
            assert await send(master, body, queue_id=number % QUEUES) == number // QUEUES
            ends.append(master.broker._store.max_offset)
        log = log_of(master.broker._store)
    settings, middle = StoreSettings(commitlog_file_size=1 << 20), ends[in_queues]
    with closing(MessageStore.open(tmp_path / "slave", settings, clock=loop_clock())) as store:
        store.append_raw(0, log[:middle])
        store.dispatch_pending()
        store.append_raw(middle, log[middle:])
        assert (store.dispatched_offset, store.max_offset) == (middle, len(log))
        shutil.copytree(tmp_path / "slave", tmp_path / "killed")
    async with serve(tmp_path / "killed") as promoted:
        for queue_id in range(QUEUES):
            assert await send(promoted, b"new", queue_id=queue_id) == 5
            assert await lying_in(promoted, queue_id) == [*bodies[queue_id::QUEUES], b"new"]


async def test_8539_what_was_once_the_master_knows_what_its_log_has_got_since(tmp_path):
    """Master, slave and master again: the ends of queues are those of the log, not those of its first life."""
    async with nameserver() as names:
        async with serve(tmp_path / "slave", nameservers=names) as first:
            assert await send(first, b"0") == 0
        shutil.copytree(tmp_path / "slave", tmp_path / "master")
        async with (
            serve(tmp_path / "master", nameservers=names) as master,
            slave_of(tmp_path, names) as slave,
        ):
            assert [await send(master, b"1"), await send(master, b"2")] == [1, 2]
            await has_all(master, slave)
        async with serve(tmp_path / "slave", nameservers=names) as again:
            assert await send(again, b"3") == 3
            assert await lying_in(again, 0) == [b"0", b"1", b"2", b"3"]


async def test_8539_a_queue_that_begins_again_at_the_master_does_so_at_its_slave(tmp_path):
    """Its topic was deleted and made again: the slave's queue had more messages than the new one."""
    async with nameserver() as names:
        async with (
            serve(tmp_path / "master", nameservers=names) as master,
            slave_of(tmp_path, names) as slave,
        ):
            for _ in range(4):
                await send(master, b"old")
            await has_all(master, slave)
            await eventually(lambda: slave.broker._topics.get("Orders") is not None)
            await master.done(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})
            assert await send(master, b"new") == 0
            await has_all(master, slave)
            await eventually(lambda: slave.broker._topics.get("Orders") is not None)
        async with serve(tmp_path / "slave", nameservers=names) as promoted:
            assert await send(promoted, b"newer") == 1
            assert await lying_in(promoted, 0) == [b"new", b"newer"]


async def knows_all(master, slave):
    """Wait until the slave has the topics of its master, and has noted it."""
    version = master.broker._topics.version

    def is_noted():
        known = slave.broker._mark.known
        return known is not None and known.version == version

    await eventually(is_noted, seconds=60)
    assert slave.broker._topics.version == version


def wide(queues):
    """The topic `New` with so many queues."""
    count = str(queues)
    return create_fields("New", readQueueNums=count, writeQueueNums=count)


async def fill(master, topic, queues):
    """Send a message to each queue."""
    for queue_id in range(queues):
        fields = long_fields(topic, queue_id)
        await master.done(Code.SEND_MESSAGE, fields, b"%d" % queue_id)


async def readable(promoted, topic):
    """The bodies that consumers of a topic find, in the queues that its route names."""
    answer = await promoted.ask(Code.GET_TOPIC_CONFIG, {"topic": topic})
    if answer.code != ResponseCode.SUCCESS:
        return None
    found = []
    for queue_id in range(promoted.broker._topics.get(topic).read_queues):
        answer = await promoted.ask(Code.PULL_MESSAGE, pull_fields(topic, queue_id))
        found += [record.body for record in decode_records(answer.body)]
    return found


def killed(path):
    """What a kill of the slave would leave; gives its folder."""
    shutil.copytree(path / "slave", path / "killed")
    return path / "killed"


BODIES = [b"%d" % number for number in range(16)]


@pytest.mark.parametrize("queues_before", [0, 4])
async def test_a_topic_that_is_younger_than_the_tables_is_read_whole(
    tmp_path, caplog, queues_before
):
    """0 of 100 acknowledged messages could be read, or 4 of 16 queues, without a word."""
    async with pair(tmp_path) as (_, master, slave):
        if queues_before:
            await master.ask(CREATE, wide(queues_before))
        await knows_all(master, slave)
        await master.ask(CREATE, wide(16))
        await fill(master, "New", 16)
        await has_all(master, slave)
        known = slave.broker._topics.get("New")
        assert (known.write_queues if known else 0) == queues_before
        left = killed(tmp_path)
    async with serve(left) as promoted:
        assert await readable(promoted, "New") == BODIES
        assert not (left / "config" / "slaveMark.json").exists()
    assert "New (16 queues)" in caplog.text
    async with serve(left) as again:
        assert await readable(again, "New") == BODIES


async def test_a_topic_that_was_deleted_at_the_master_stays_deleted_or_holds_what_came_since(
    tmp_path,
):
    """Its last messages come back into queues when the log is read after a kill."""
    async with pair(tmp_path) as (_, master, slave):
        for topic in ("Old", "Again"):
            await fill(master, topic, 4)
            await has_all(master, slave)
            await knows_all(master, slave)
            await master.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})
            await knows_all(master, slave)
        await fill(master, "Kept", 4)
        await fill(master, "Again", 2)
        await has_all(master, slave)
        left = killed(tmp_path)
    async with serve(left) as promoted:
        assert await readable(promoted, "Old") is None
        assert await readable(promoted, "Kept") == BODIES[:4]
        assert await readable(promoted, "Again") == BODIES[:2]
        await fill(promoted, "Old", 1)
        assert await readable(promoted, "Old") == [b"0"], "nothing of the dead topic"


async def test_a_deletion_that_was_answered_outlives_the_master(tmp_path):
    """The slave heard of it up to 3 s later: killed before, it had topic, messages, group and offsets again."""
    async with pair(tmp_path) as (_, master, slave):
        await fill(master, "Old", 4)
        commit = {"consumerGroup": "G", "topic": "Old", "queueId": "0", "commitOffset": "1"}
        await master.ask(Code.UPDATE_CONSUMER_OFFSET, commit)
        await has_all(master, slave)
        await knows_all(master, slave)
        await eventually(lambda: slave.broker._offsets.get("G", "Old", 0) == 1)
        await eventually(lambda: slave.broker._groups.peek("G") is not None)
        await master.ask(
            Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G", "cleanOffset": "true"}
        )
        assert slave.broker._groups.peek("G") is None
        await master.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Old"})
        left = killed(tmp_path)
    async with serve(left) as promoted:
        assert await readable(promoted, "Old") is None
        assert promoted.broker._groups.peek("G") is None
        assert promoted.broker._offsets.of("G", "Old") == {}


async def test_a_slave_that_does_not_take_a_deletion_is_named_and_holds_nobody_up_for_long(
    tmp_path, caplog
):
    async with serve(tmp_path / "master", ha_allowed="127.0.0.1") as master:
        await fill(master, "Old", 1)
        address = f"127.0.0.1:{master.broker.ha_port}"
        async with slave_of(tmp_path, "", ha_master=address) as slave:  # It has no tables.
            await has_all(master, slave)
            await master.done(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Old"})
    assert (
        "Old is deleted, but the slaves with these ids have not copied that yet: 1"
        in caplog.text
    )


async def test_all_that_the_log_holds_is_read_where_the_tables_never_came(tmp_path, caplog):
    async with serve(tmp_path / "master", ha_allowed="127.0.0.1") as master:
        await master.ask(CREATE, wide(16))
        await fill(master, "New", 16)
        fields = long_fields("%RETRY%late", 0)
        await master.done(Code.SEND_MESSAGE, fields, b"again")
        address = f"127.0.0.1:{master.broker.ha_port}"
        async with slave_of(tmp_path, "", ha_master=address) as slave:
            await has_all(master, slave)
            assert slave.broker._topics.get("New") is None
            left = killed(tmp_path)
    async with serve(left) as promoted:
        assert await readable(promoted, "New") == BODIES
        assert promoted.broker._groups.peek("late") is not None
        assert await readable(promoted, "%RETRY%late") == [b"again"]
    assert "recreated: 1 group, whose retry or dead-letter topics" in caplog.text


async def test_a_topics_file_that_is_older_than_the_mark_hides_no_message(tmp_path):
    async with pair(tmp_path) as (_, master, slave):
        await knows_all(master, slave)
        older = (tmp_path / "slave" / "config" / "topics.json").read_bytes()
        await master.ask(CREATE, wide(16))
        await fill(master, "New", 16)
        await has_all(master, slave)
        await knows_all(master, slave)
        left = killed(tmp_path)
    (left / "config" / "topics.json").write_bytes(older)
    async with serve(left) as promoted:
        assert await readable(promoted, "New") == BODIES


async def test_topics_of_a_plain_broker_that_its_file_lacks_are_named(tmp_path, caplog):
    """The file is whole: its owner put an older one there, or a file of a deleted topic remained."""
    async with serve(tmp_path) as served:
        pass
    older = (tmp_path / "config" / "topics.json").read_bytes()
    async with serve(tmp_path) as served:
        await fill(served, "New", 4)
    (tmp_path / "config" / "topics.json").write_bytes(older)
    async with serve(tmp_path) as served:
        assert served.broker._topics.get("New") is None
    assert "not in topics.json, so no client can read them: 1 topic with queues" in caplog.text
    assert "New (4 queues)" in caplog.text
    assert "cometmq topic create" in caplog.text


async def test_a_promoted_slave_that_was_stopped_in_order_keeps_no_offset_beyond_its_log(
    tmp_path, caplog
):
    """Its master's offsets came while its log stood still: 60 of 60 new messages were skipped."""
    async with pair(tmp_path) as (_, master, slave):
        await fill(master, "Orders", 1)
        await has_all(master, slave)
        await knows_all(master, slave)
    write_offsets(tmp_path / "slave", {"Orders@G": {0: 400}})
    (tmp_path / "slave" / "abort").unlink()
    async with serve(tmp_path / "slave") as promoted:
        assert promoted.broker._offsets.get("G", "Orders", 0) == 1
    assert "set to the end of the queue: 1 offset beyond it" in caplog.text


@pytest.mark.parametrize(
    ("name", "short", "long"),
    [("DELAY", "1", "3"), ("TIMER_DELAY_MS", "1500", "4000"), ("TIMER_DELAY_SEC", "1", "4")],
)
async def test_what_the_master_delivered_last_is_not_delivered_again(
    tmp_path, name, short, long
):
    """The slave knows each 3 s how far deliveries are: those of the last seconds came twice after a planned swap."""

    def bodies(served):
        return bodies_of(served.broker._store, "Orders")

    async with pair(tmp_path) as (_, master, slave):
        await master.ask(CREATE, create_fields("Orders"))
        await knows_all(master, slave)

        async def sent(body, key, **more):
            fields = long_fields("Orders", properties={"UNIQ_KEY": f"K{key}", **more})
            await master.done(Code.SEND_MESSAGE, fields, body)

        for number in range(3):
            await sent(b"due %d" % number, number, **{name: short})
        await eventually(lambda: len(bodies(master)) == 3)
        await sent(b"later", 9, **{name: long})
        await has_all(master, slave)
        left = killed(tmp_path)
    async with serve(left) as promoted:
        await eventually(lambda: b"later" in bodies(promoted), seconds=9_100)
        assert sorted(bodies(promoted)) == [b"due 0", b"due 1", b"due 2", b"later"]


async def run_as(path, role) -> tuple[int, bool]:
    """Start and end a broker in a role; the epoch of its topics, and whether this was a promotion."""
    number = 1 if role == "SLAVE" else 0
    async with serve(path, broker_role=BrokerRole(role), broker_id=number) as served:
        topics = served.broker._topics
    return topics.version.state_version, topics.is_promoted


async def test_a_slave_that_becomes_the_master_raises_the_epoch_once(tmp_path):
    roles = ("ASYNC_MASTER", "SLAVE", "SLAVE", "SYNC_MASTER", "ASYNC_MASTER", "SLAVE", "ASYNC_MASTER")  # fmt: skip
    seen = [await run_as(tmp_path / "broker", role) for role in roles]
    assert [epoch for epoch, _ in seen] == [0, 0, 0, 1, 1, 1, 2]
    assert [number for number, (_, is_promoted) in enumerate(seen) if is_promoted] == [3, 6]


async def test_a_promotion_that_was_cut_short_is_one_again(tmp_path):
    await run_as(tmp_path / "slave", "SLAVE")
    for saved in (False, True):
        # Killed before the topics were saved, and between that and the mark.
        left = tmp_path / f"left-{saved}"
        shutil.copytree(tmp_path / "slave", left)
        if saved:
            assert await run_as(left, "ASYNC_MASTER") == (1, True)
            shutil.copy(tmp_path / "slave/config/slaveMark.json", left / "config")
        assert await run_as(left, "ASYNC_MASTER") == (1 + saved, True)
        assert await run_as(left, "ASYNC_MASTER") == (1 + saved, False)


@pytest.mark.parametrize("has_mark", [False, True])
async def test_the_store_of_a_slave_of_an_older_version_is_promoted_once(tmp_path, has_mark):
    """topics.json said it, before there was a mark; then both did."""
    await run_as(tmp_path / "slave", "SLAVE")
    file = tmp_path / "slave" / "config" / "topics.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "isCopy": True}))
    if not has_mark:
        (tmp_path / "slave" / "config" / "slaveMark.json").unlink()
    seen = [await run_as(tmp_path / "slave", "ASYNC_MASTER") for _ in range(2)]
    assert seen == [(1, True), (1, False)]
    assert "isCopy" not in json.loads(file.read_text())


async def test_a_damaged_mark_stays_one_that_knows_no_topic(tmp_path):
    """At the start after it, too: a mark at the log's end would delete topics that the old table lacks."""
    await run_as(tmp_path / "slave", "SLAVE")
    config = tmp_path / "slave" / "config"
    for name in ("slaveMark.json", "slaveMark.json.bak"):
        (config / name).write_text("{")
    for _ in range(2):
        await run_as(tmp_path / "slave", "SLAVE")
        assert json.loads((config / "slaveMark.json").read_text())["logEnd"] == 0
