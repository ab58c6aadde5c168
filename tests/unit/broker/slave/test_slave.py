"""A master, its slave and a nameserver under virtual time: what the slave has, gives, and refuses."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from cometmq.broker.handlers.slave import REFUSED
from cometmq.broker.settings import BrokerRole
from cometmq.client import AsyncProducer, AsyncPullConsumer
from cometmq.codec.bodies.ha_status import decode_ha_status
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.message import Message
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.loop import loop_clock
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.test_sends import long_fields

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


async def send(master, body=b"body"):
    answer = await master.ask(Code.SEND_MESSAGE, long_fields(), body)
    assert answer.code == ResponseCode.SUCCESS


async def committed(served):
    return served.broker._offsets.get("G", "Orders", 0)


async def test_a_slave_has_the_log_the_tables_and_the_offsets_of_its_master(tmp_path):
    async with pair(tmp_path) as (_, master, slave):
        for number in range(5):
            await send(master, b"%d" % number)
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
        await send(master)
        await has_all(master, slave)
        await eventually(lambda: slave.broker._topics.get("Orders") is not None)
        await eventually(lambda: slave.broker._store.queue("Orders", 0) is not None)
        deleted = await master.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})
        assert deleted.code == ResponseCode.SUCCESS
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
            answer = await slave.ask(Code.UPDATE_CONSUMER_OFFSET, fields)
            assert answer.code == ResponseCode.SUCCESS
        async with serve(tmp_path / "master", nameservers=names, listen_port=port) as master:
            await eventually(
                lambda: master.broker._offsets.of("G", "Orders") == ends, seconds=120
            )
            await eventually(lambda: not slave.broker._offsets.has_grown, seconds=30)
