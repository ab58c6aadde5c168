"""A master, its slave and a nameserver under virtual time: what the slave has, gives, and refuses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing

import pytest

from cometmq import AsyncProducer, AsyncPullConsumer
from cometmq.broker.replication.metadata import PERIOD_SECONDS
from cometmq.broker.replication.requests import REFUSED
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.codec.bodies.ha_status import decode_ha_status
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, encode_heartbeat
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.message import Message
from cometmq.model.subscription import parse_subscription
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.loop import loop_clock
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.support.replica import append_all, log_of
from tests.support.request_fields import long_fields, pull_fields
from tests.unit.broker.conftest import eventually, serve

COMMIT = {"consumerGroup": "G", "topic": "Orders", "queueId": "0"}


@asynccontextmanager
async def nameserver():
    settings = NameServerSettings(listen_port=0, bind_address="127.0.0.1", kv_config_path=None)
    server = NameServer(settings, loop_clock())
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.close()


@asynccontextmanager
async def pair(path, **of_slave):
    """A nameserver, a master, and its slave, which has all that the master has."""
    async with (
        nameserver() as names,
        serve(path / "master", nameservers=names) as master,
        slave_of(path, names, **of_slave) as slave,
    ):
        yield names, master, slave


def slave_of(path, names, **settings):
    values = {"broker_role": BrokerRole.SLAVE, "broker_id": 1, "is_slave_read": True}
    return serve(path / "slave", nameservers=names, **{**values, **settings})


async def has_all(master, slave):
    store, other = master.broker._store, slave.broker._store
    await eventually(lambda: other.max_offset == store.max_offset, seconds=60)


async def committed(served):
    return served.broker._offsets.get("G", "Orders", 0)


async def test_a_slave_has_the_log_the_tables_and_the_offsets_of_its_master(tmp_path):
    async with pair(tmp_path) as (_, master, slave):
        for number in range(5):
            await master.send(b"%d" % number)
        await master.ask(Code.UPDATE_CONSUMER_OFFSET, {**COMMIT, "commitOffset": "3"})
        await has_all(master, slave)
        await eventually(lambda: slave.broker._offsets.get("G", "Orders", 0) == 3)
        assert slave.broker._topics.table() == master.broker._topics.table()
        assert slave.broker._groups.peek("G") is not None
        status = decode_ha_status((await slave.ask(Code.GET_BROKER_HA_STATUS)).body)
        assert status.master is not None
        assert (status.master.is_active, status.master.error) == (True, None)
        assert status.master.metadata_error is None
        assert status.master.max_offset == master.broker._store.max_offset


async def test_a_topic_and_a_group_that_go_at_the_master_go_at_the_slave(tmp_path):
    async with pair(tmp_path) as (_, master, slave):
        await master.send(b"body")
        await has_all(master, slave)
        await eventually(lambda: slave.broker._topics.get("Orders") is not None)
        await eventually(lambda: slave.broker._store.queue("Orders", 0) is not None)
        await master.done(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})
        await eventually(lambda: slave.broker._topics.get("Orders") is None)
        assert slave.broker._store.queue("Orders", 0) is None


@pytest.mark.parametrize("code", sorted(map(int, REFUSED)))
async def test_what_is_the_masters_to_do_is_refused(tmp_path, code):
    async with slave_of(tmp_path, "") as slave:
        fields = long_fields() if code == Code.SEND_MESSAGE else {}
        refused = await slave.ask(code, fields)
        assert (refused.code, refused.remark) == REFUSED[code]
        assert slave.broker._store.max_offset == 0


async def test_a_slave_is_read_only_where_its_settings_say_so(tmp_path):
    async with slave_of(tmp_path, "", is_slave_read=False) as slave:
        refused = await slave.ask(Code.PULL_MESSAGE)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark == "[REJECTREQUEST]system busy, start flow control for a while"


def keep_from_second_file(path, served):
    """Make what a Java master gives an empty slave of this one's log: its later files only."""
    log = log_of(served.broker._store, 1 << 20)
    settings = StoreSettings(commitlog_file_size=1 << 20)
    with closing(MessageStore.open(path, settings, clock=loop_clock())) as store:
        assert append_all(store, 1 << 20, log) == served.broker._store.max_offset
        store.dispatch_pending()


@asynccontextmanager
async def slave_of_the_end(path, names, **settings):
    """A master with the messages 0 to 4, two to a file, and its slave, which has 2 to 4."""
    async with serve(path / "master", nameservers=names) as master:
        for number in range(5):
            await master.send(b"%d" % number * 400_000)
        keep_from_second_file(path / "slave", master)
        async with slave_of(path, names, **settings) as slave:
            await eventually(lambda: slave.broker._topics.get("Orders") is not None)
            await eventually(lambda: slave.broker.role.replicas.state().has_master)
            yield master, slave


async def pull(served, offset, **more):
    answer = await served.ask(Code.PULL_MESSAGE, pull_fields("Orders", offset=offset, **more))
    fields = answer.fields
    return answer.code, fields["nextBeginOffset"], fields["suggestWhichBrokerId"]


WAITING = {"sysFlag": "6", "suspendTimeoutMillis": "15000"}


async def test_nobody_is_moved_by_what_a_slave_lacks(tmp_path):
    """Who was before its beginning would pass over messages for good, and who was beyond its end have them twice."""
    again = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
    async with nameserver() as names, slave_of_the_end(tmp_path, names) as (master, slave):
        assert (await pull(slave, 2))[:2] == (ResponseCode.SUCCESS, "3")
        for offset in (0, 1, 9):
            before = loop_clock().monotonic()
            assert await pull(slave, offset, **WAITING) == (again, str(offset), "0")
            assert loop_clock().monotonic() - before < 1, "the master is there, and has it"
        await master.broker.close()
        await eventually(lambda: not slave.broker.role.replicas.state().has_master)
        for offset in (0, 9):
            before = loop_clock().monotonic()
            assert await pull(slave, offset, **WAITING) == (again, str(offset), "0")
            assert loop_clock().monotonic() - before >= 1, "clients pull again at once"
        assert (await pull(slave, 2))[:2] == (ResponseCode.SUCCESS, "3")


@pytest.mark.parametrize(("offset", "moved"), [(0, "2"), (9, "5")])
async def test_a_slave_moves_consumers_where_its_settings_say_so(tmp_path, offset, moved):
    async with (
        nameserver() as names,
        slave_of_the_end(tmp_path, names, is_offset_checked=True) as (_, slave),
    ):
        assert (await pull(slave, offset))[:2] == (ResponseCode.PULL_OFFSET_MOVED, moved)


async def test_a_group_that_the_master_does_not_know_is_not_made_at_the_slave(tmp_path, caplog):
    """It was made by each pull, and deleted with each look at the master, with its offsets and a line in the log."""
    async with pair(tmp_path) as (_, master, slave):
        await master.send(b"body")
        await has_all(master, slave)
        await eventually(lambda: slave.broker.role.replicas.state().has_master)
        groups, topics = slave.broker._groups, slave.broker._topics
        await eventually(lambda: groups.version == master.broker._groups.version)
        await eventually(lambda: topics.version == master.broker._topics.version)
        part = ConsumerPart("New", (parse_subscription("Orders", "*", version=1),))
        beat = encode_heartbeat(Heartbeat("1.2.3.4@1", (), (part,)))
        for _ in range(3):
            await slave.done(Code.HEART_BEAT, body=beat)
            code, *_ = await pull(slave, 0, consumerGroup="New")
            assert code == ResponseCode.SUCCESS
            assert (groups.peek("New"), topics.get("%RETRY%New")) == (None, None)
            await asyncio.sleep(PERIOD_SECONDS)
        assert groups.version == master.broker._groups.version
        assert "is deleted" not in caplog.text
        # What it commits goes to the master, which makes it, as for any client.
        commit = {**COMMIT, "consumerGroup": "New", "commitOffset": "1"}
        await slave.done(Code.UPDATE_CONSUMER_OFFSET, commit)
        await eventually(lambda: master.broker._offsets.get("New", "Orders", 0) == 1)
        await eventually(lambda: groups.peek("New") is not None)


async def test_consumers_go_on_at_the_slave_and_the_master_takes_over_where_they_came(tmp_path):
    """The master goes and comes back; our client reads from the slave meanwhile, and commits there."""
    async with nameserver() as names, slave_of(tmp_path, names) as slave:
        async with serve(tmp_path / "master", nameservers=names) as master:
            port = master.broker.port
            async with AsyncProducer(names) as producer:
                for number in range(4):
                    await producer.send(Message("Orders", b"%d" % number))
            await has_all(master, slave)
            await eventually(lambda: slave.broker._topics.get("Orders") is not None)
            config = slave.broker._topics.get("Orders")
            ends = {
                number: slave.broker._store.queue_to_watch("Orders", number).max_offset
                for number in range(config.read_queues)
            }
            assert sum(ends.values()) == 4
        async with AsyncPullConsumer(names, group="G") as consumer:
            found = []
            for queue in await consumer.queues("Orders"):
                pull = await consumer.fetch(queue, 0)
                found += [message.body for message in pull.messages]
            assert sorted(found) == [b"0", b"1", b"2", b"3"]
        for number, end in ends.items():
            fields = {**COMMIT, "queueId": str(number), "commitOffset": str(end)}
            await slave.done(Code.UPDATE_CONSUMER_OFFSET, fields)
        async with serve(tmp_path / "master", nameservers=names, listen_port=port) as master:
            await eventually(
                lambda: master.broker._offsets.of("G", "Orders") == ends, seconds=120
            )
            await eventually(lambda: not slave.broker._offsets.has_grown, seconds=30)
