"""What a SYNC_MASTER answers, shows and gives away, with slaves by bytes under virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from cometmq.broker.send.fast_path import SendIntake
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.codec.replication import (
    CHALLENGE,
    MAGIC,
    NO_PROOF,
    REPLY,
    REPORT,
    VERSION,
    WELCOME,
)
from cometmq.kernel import KERNEL
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.replication.master_end import SECOND_WORD_SECONDS
from cometmq.store.commitlog import CommitLog
from cometmq.store.real_disk import RealDisk
from tests.support.request_fields import long_fields, short_fields
from tests.unit.broker.conftest import eventually, serve, virtual_loop
from tests.unit.broker.replication.slaves import ByteSlave
from tests.unit.broker.test_sends import KEY

OK, LATE, NONE = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
NOT_ENOUGH = ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough"


@asynccontextmanager
async def master(path, role=BrokerRole.SYNC_MASTER, **settings):
    """A master whose slaves come from this machine."""
    settings = {"ha_allowed": "127.0.0.1", **settings}
    async with serve(path, broker_role=role, **settings) as served:
        yield served


async def send(served, properties=None, body=b"body"):
    return await served.ask(
        RequestCode.SEND_MESSAGE, long_fields(properties=properties or {}), body
    )


async def slave_of(served, offset=0, *, acks=True):
    """A Java slave that is in sync."""
    slave = await ByteSlave.connect(served.broker.ha_port, acks=acks)
    slave.report(offset)
    await asyncio.sleep(SECOND_WORD_SECONDS + 0.5)
    assert not slave.is_closed
    return slave


async def own_slave(served, offset, *, acks):
    """A slave of ours with the id 1, whose log ends there."""
    slave = await ByteSlave.connect(served.broker.ha_port)
    slave.write(REPORT.pack(offset) * 2)
    slave.write(REPLY.pack(MAGIC, VERSION, 0, 1, bytes(32), NO_PROOF))
    await asyncio.sleep(0.1)
    slave.skip(CHALLENGE.size + WELCOME.size)
    slave.acks = acks
    return slave


def visible(served):
    queue = served.broker._store.queue("Orders", 0)
    return queue.max_offset if queue is not None else 0


async def test_without_a_slave_it_is_said_at_once_and_the_message_stays_and_is_seen(tmp_path):
    async with master(tmp_path) as served:
        began = virtual_loop().time()
        answer = await send(served)
        assert answer.code == NONE
        assert virtual_loop().time() - began < 0.5
        assert answer.fields["queueOffset"] == "0"
        assert visible(served) == 1


@pytest.mark.parametrize("flush", [FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH])
async def test_a_send_is_answered_when_a_slave_has_it_and_the_bytes_are_the_logs(
    tmp_path, flush
):
    async with master(tmp_path, flush_disk_type=flush) as served:
        slave = await slave_of(served)
        for number in range(3):
            assert (await send(served, body=b"%d" % number)).code == OK
        store = served.broker._store
        assert slave.log == bytes(store.read_log(0, 1 << 20))
        assert visible(served) == 3
        state = served.broker.role.replicas.state()
        assert (state.in_sync, state.needed, len(state.copies)) == (2, 2, 1)
        assert state.copies[0].acked == store.max_offset
        assert state.copies[0].gap == 0


async def test_who_is_not_answered_in_time_is_told_so_and_holds_up_nobody(tmp_path):
    async with master(tmp_path, slave_timeout_ms=3_000) as served:
        slave = await slave_of(served, acks=False)
        began = virtual_loop().time()
        late = asyncio.ensure_future(send(served, {"KEYS": "late"}))
        await asyncio.sleep(0.5)
        assert visible(served) == 0, "nobody consumes what no other has"
        unasked = await send(served, {"WAIT": "false"})
        assert unasked.code == OK
        assert virtual_loop().time() - began < 1
        assert (await late).code == LATE
        assert 2.9 < virtual_loop().time() - began < 3.5
        await eventually(lambda: visible(served) >= 1)
        slave.report(slave.end)
        await eventually(lambda: visible(served) == 2)
        # The next one is not hidden behind it when the slave is gone for good.
        slave.close()
        assert (await send(served)).code in (LATE, NONE)
        await eventually(lambda: visible(served) == 3)


async def test_a_slave_that_goes_frees_who_waits_for_it_with_the_truth(tmp_path):
    async with master(tmp_path) as served:
        slave = await slave_of(served, acks=False)
        waiting = asyncio.ensure_future(send(served))
        await asyncio.sleep(0.5)
        slave.close()
        assert (await waiting).code == NONE
        assert visible(served) == 1


async def test_a_slave_that_is_too_far_behind_is_no_copy(tmp_path):
    async with master(tmp_path, ha_gap_max=1_000) as served:
        slave = await slave_of(served, acks=False)
        assert (await send(served, body=bytes(2_000))).code == NONE
        slave.report(slave.end)
        await asyncio.sleep(0.1)
        slave.acks = True
        assert (await send(served)).code == OK


async def test_with_fewer_than_the_least_nothing_is_stored(tmp_path):
    async with master(tmp_path, replicas_needed=2, replicas_least=2) as served:
        refused = await send(served)
        assert (refused.code, refused.remark) == NOT_ENOUGH
        assert served.broker._store.max_offset == 0
        assert (await send(served, {"WAIT": "false"})).code == OK
        await slave_of(served)
        assert (await send(served)).code == OK


async def test_sends_that_are_taken_as_columns_are_refused_too(tmp_path, monkeypatch):
    taken: list[int] = []
    handle = SendIntake.handle

    def counted(intake: SendIntake) -> None:
        taken.append(intake.count)
        handle(intake)

    monkeypatch.setattr(SendIntake, "handle", counted)
    plain = short_fields() | {"i": f"UNIQ_KEY\1{KEY}\2"}
    async with master(tmp_path, replicas_needed=2, replicas_least=2) as served:
        slave = await slave_of(served)
        for _ in range(2):
            assert (await send(served)).code == OK, "which makes the topic, and opens its lane"
        await served.done(RequestCode.SEND_MESSAGE_V2, plain, b"body")
        columns = [1] if KERNEL == "fast" else []
        assert taken == columns
        slave.close()
        await eventually(lambda: not served.broker.role.replicas.state().copies)
        end = served.broker._store.max_offset
        refused = await served.ask(RequestCode.SEND_MESSAGE_V2, plain, b"body")
        assert (refused.code, refused.remark) == NOT_ENOUGH
        assert taken == columns * 2
        assert served.broker._store.max_offset == end


async def test_with_a_need_that_adapts_the_master_alone_is_enough(tmp_path):
    async with master(tmp_path, replicas_needed=2, is_need_adapted=True) as served:
        assert (await send(served)).code == OK


async def test_an_asynchronous_master_waits_for_nobody(tmp_path):
    async with master(tmp_path, BrokerRole.ASYNC_MASTER) as served:
        slave = await slave_of(served, acks=False)
        assert (await send(served)).code == OK
        await eventually(lambda: slave.log)
        assert visible(served) == 1


async def test_1155_two_connections_of_one_slave_are_one_copy(tmp_path):
    async with master(tmp_path, replicas_needed=3) as served:
        await slave_of(served)
        await slave_of(served)
        assert (await send(served)).code == NONE
        assert served.broker.role.replicas.state().in_sync == 2


@pytest.mark.parametrize("fake", [1 << 40, -1, 1 << 62])
async def test_3015_323_a_fake_acknowledgement_frees_nobody(tmp_path, fake):
    async with master(tmp_path) as served:
        slave = await slave_of(served, acks=False)
        waiting = asyncio.ensure_future(send(served))
        await asyncio.sleep(0.1)
        slave.report(fake)
        await eventually(lambda: slave.is_closed)
        assert (await waiting).code == NONE
        assert served.broker.role.replicas.state().refused == 1


async def test_1893_a_stranger_gets_no_byte_and_is_closed(tmp_path, caplog):
    path = tmp_path / "store"
    async with serve(
        path, broker_role=BrokerRole.SYNC_MASTER, ha_allowed="10.0.0.0/8"
    ) as served:
        strangers = []
        for _ in range(100):
            stranger = await ByteSlave.connect(served.broker.ha_port)
            stranger.report(0)
            strangers.append(stranger)
        await eventually(lambda: all(stranger.is_closed for stranger in strangers))
        assert not any(stranger.received for stranger in strangers)
        assert (await send(served)).code == NONE
        assert served.broker.role.replicas.state().refused == 100
    lines = [record for record in caplog.records if "HA port refused" in record.message]
    assert len(lines) == 1, "one line a minute"


async def test_1082_a_slow_slave_stays_and_a_silent_one_goes(tmp_path):
    async with master(tmp_path) as served:
        slave = await slave_of(served, acks=False)
        for _ in range(6):
            await asyncio.sleep(10)
            slave.report(0)
        assert not slave.is_closed
        beats = [offset for offset, body in slave.frames if not body]
        assert len(beats) >= 10, "a heartbeat each 5 s"
        await asyncio.sleep(25)
        assert slave.is_closed


async def test_a_silent_slave_that_reads_nothing_goes_too_and_frees_who_waits(tmp_path):
    """What lies in its socket would hold a closing connection for as long as the network tries."""
    async with master(tmp_path) as served:
        slave = await slave_of(served, acks=False)
        slave.pause()
        for _ in range(8):
            await send(served, {"WAIT": "false"}, bytes(90_000))
        (link,) = served.broker.role.replicas._links
        assert link._is_paused
        await asyncio.sleep(25)
        assert not served.broker.role.replicas._links
        began = virtual_loop().time()
        assert (await send(served)).code == NONE
        assert virtual_loop().time() - began < 0.5


async def test_who_cannot_prove_what_it_must_is_told_so_before_it_is_closed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef")
    secret.chmod(0o600)
    async with master(tmp_path / "store", ha_secret_file=str(secret)) as served:
        liar = await ByteSlave.connect(served.broker.ha_port)
        liar.write(REPORT.pack(0) * 2)
        liar.write(REPLY.pack(MAGIC, VERSION, 0, 7, bytes(32), bytes(32)))
        await eventually(lambda: liar.is_closed)
        assert len(liar.received) == CHALLENGE.size + WELCOME.size, "and nothing of the log"
        assert not served.broker.role.replicas._links


@pytest.mark.parametrize(("ip", "most"), [("127.0.0.1", 64), ("10.0.0.7", 16)])
async def test_connections_that_come_at_once_are_bounded_too(tmp_path, ip, most):
    async with master(tmp_path, ha_allowed=ip) as served:
        slaves = await asyncio.gather(
            *(ByteSlave.connect(served.broker.ha_port, own_ip=ip) for _ in range(100))
        )
        await asyncio.sleep(0.1)
        assert len(served.broker.role.replicas._links) == most
        assert sum(not slave.is_closed for slave in slaves) == most
        for slave in slaves:
            slave.close()
        await eventually(lambda: not served.broker.role.replicas.door.peers)


async def test_who_copies_stays_where_silent_connections_fill_the_port(tmp_path):
    async with master(tmp_path) as served:
        slave = await slave_of(served)
        for _ in range(3):
            for _ in range(64):
                await ByteSlave.connect(served.broker.ha_port)
            await asyncio.sleep(3)
        assert (await send(served)).code == OK
        another = await slave_of(served)
        assert not slave.is_closed
        assert another.end == served.broker._store.max_offset


async def test_an_address_of_ipv4_is_known_where_the_port_listens_on_ipv6(tmp_path):
    async with master(tmp_path) as served:
        slave = await ByteSlave.connect(served.broker.ha_port, own_ip="::ffff:127.0.0.1")
        slave.report(0)
        await asyncio.sleep(SECOND_WORD_SECONDS + 0.5)
        assert not slave.is_closed
        (copy,) = served.broker.role.replicas.state().copies
        assert copy.address.startswith("127.0.0.1:")


async def test_8875_a_thousand_connections_leave_nothing_behind(tmp_path):
    async with master(tmp_path) as served:
        port = served.broker.role.replicas
        for _ in range(1_000):
            slave = await ByteSlave.connect(served.broker.ha_port)
            slave.report(0)
            await asyncio.sleep(0.01)
            slave.close()
        await eventually(lambda: not port._links)
        assert not len(port._tasks)
        assert len(port._errors) <= 1
        assert (await send(served)).code == NONE


async def test_2706_a_master_with_synchronous_flush_sends_only_what_is_flushed(tmp_path):
    async with master(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as served:
        slave = await slave_of(served)
        store = served.broker._store
        virtual_loop().executor_seconds = 1.0
        served.broker._flusher._left_to_thread = 100  # The disk is slow.
        waiting = asyncio.ensure_future(send(served))
        await asyncio.sleep(0.5)
        assert store.max_offset > 0
        assert slave.log == b""
        assert (await waiting).code == OK
        assert slave.end == store.max_offset


async def test_a_named_port_that_is_taken_stops_the_start_with_its_key(tmp_path):
    async with master(tmp_path / "first") as served:
        taken = served.broker.ha_port
        with pytest.raises(Exception, match=f"haListenPort={taken}: cannot listen"):
            async with master(tmp_path / "second", ha_port=taken):
                pass


async def test_a_port_that_nobody_named_is_done_without(tmp_path, caplog):
    """The one beside the broker's own is taken: an asynchronous master serves all the same, and says so."""
    async with (
        master(tmp_path / "first", ha_port=23_457) as first,
        master(tmp_path / "second", BrokerRole.ASYNC_MASTER, listen_port=23_456) as second,
    ):
        assert (first.broker.ha_port, second.broker.ha_port) == (23_457, 0)
        assert (await send(second)).code == OK
    assert "slaves cannot copy the log, because no HA port is open" in caplog.text


async def test_a_slave_that_never_reads_holds_one_frame_and_disturbs_no_other(tmp_path):
    async with master(tmp_path, ha_frame_size=200_000) as served:
        deaf = await slave_of(served, acks=False)
        deaf.pause()
        for _ in range(40):
            await send(served, body=bytes(90_000))
            deaf.report(0)
        good = await slave_of(served)
        assert (await send(served)).code == OK
        assert good.end == served.broker._store.max_offset
        (held,) = [
            link._transport.get_write_buffer_size()
            for link in served.broker.role.replicas._links
            if link.end.acked == 0
        ]
        assert held <= 200_000 + (64 << 10)
        assert len(deaf.received) == 0


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_slave_gets_so_many_bytes_a_second_and_evenly(tmp_path, monkeypatch, is_cold):
    rate, size = 100_000, 90_000
    async with master(
        tmp_path, BrokerRole.ASYNC_MASTER, is_ha_rate_bound=True, ha_rate_max=rate
    ) as served:
        for _ in range(8):
            await send(served, body=bytes(size))
        if is_cold:  # Each read has to wait, so a thread does it.
            monkeypatch.setattr(CommitLog, "is_warm", lambda *_: False)
            monkeypatch.setattr(RealDisk, "pread_nowait", lambda *_: None)
        store, began = served.broker._store, virtual_loop().time()
        slave = await slave_of(served)
        parts, end = [], 0
        while slave.end < store.max_offset:
            # Each tenth of a second, as the clock counts them.
            await asyncio.sleep(0.1 - virtual_loop().time() % 0.1)
            parts.append(slave.end - end)
            end = slave.end
        assert max(parts[1:]) <= rate * 0.16
        assert 7 < virtual_loop().time() - began - SECOND_WORD_SECONDS < 8.5
        assert slave.log == bytes(store.read_log(0, 1 << 20))


async def test_a_second_has_no_more_bytes_than_were_allowed_and_nearly_as_many(tmp_path):
    rate = 100_000
    async with master(
        tmp_path, BrokerRole.ASYNC_MASTER, is_ha_rate_bound=True, ha_rate_max=rate
    ) as served:
        for _ in range(8):
            await send(served, body=bytes(90_000))
        slave = await slave_of(served)
        await asyncio.sleep(1 - virtual_loop().time() % 1)
        for _ in range(5):
            before = slave.end
            await asyncio.sleep(1 - virtual_loop().time() % 1)
            assert 0.97 * rate <= slave.end - before <= rate


async def test_what_slaves_get_a_second_is_changed_while_they_copy(tmp_path):
    async with master(tmp_path, ha_rate_max=1_000) as served:
        slave = await slave_of(served)
        settings = served.broker.in_force
        settings.change({"haFlowControlEnable": "true"})
        began = virtual_loop().time()
        answer = asyncio.ensure_future(send(served, body=bytes(2_000)))
        assert (await answer).code == OK, "an acknowledgement counts, whenever it comes"
        assert 1.5 < virtual_loop().time() - began < 3
        answer = asyncio.ensure_future(send(served, body=bytes(50_000)))
        await asyncio.sleep(2)
        assert slave.end < 5_000
        settings.change({"maxHaTransferByteInSecond": "100000"})
        await asyncio.sleep(0.1)
        assert not answer.done()
        settings.change({"haFlowControlEnable": "false"})
        began = virtual_loop().time()
        assert (await answer).code == OK
        assert virtual_loop().time() - began < 0.1, "the rest goes at once"


async def test_a_slave_that_leaves_while_it_waits_leaves_no_timer(tmp_path):
    async with master(tmp_path, is_ha_rate_bound=True, ha_rate_max=1) as served:
        await send(served)
        slave = await slave_of(served, acks=False)
        (link,) = served.broker.role.replicas._links
        assert link._again is not None
        assert 1 <= slave.end <= 2
        slave.close()
        await eventually(lambda: not served.broker.role.replicas._links)
        assert link._again is None
