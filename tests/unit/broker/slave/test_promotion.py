"""A slave is made the master, and takes messages: it gives no place in a queue twice, and none is left out."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.net.loop import loop_clock
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.support.replica import log_of
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.slave.test_slave import has_all, nameserver, slave_of
from tests.unit.broker.test_sends import long_fields, pull_fields

QUEUES = 2


async def send(master, body, queue_id=0):
    """Send a message; the queue offset that it was given."""
    answer = await master.ask(Code.SEND_MESSAGE, long_fields(queue_id=queue_id), body)
    assert answer.code == ResponseCode.SUCCESS, answer
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
            deleted = await master.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})
            assert deleted.code == ResponseCode.SUCCESS
            assert await send(master, b"new") == 0
            await has_all(master, slave)
            await eventually(lambda: slave.broker._topics.get("Orders") is not None)
        async with serve(tmp_path / "slave", nameservers=names) as promoted:
            assert await send(promoted, b"newer") == 1
            assert await lying_in(promoted, 0) == [b"new", b"newer"]
