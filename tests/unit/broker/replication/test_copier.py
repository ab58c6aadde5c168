"""A slave of ours at a master of ours, under virtual time: one log, or none."""

from __future__ import annotations

import asyncio
import errno
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing

import pytest

from cometmq.broker.replication.copier import LogCopier
from cometmq.broker.replication.master_link import first_difference
from cometmq.broker.replication.received_log import (
    PIECE_SIZE,
    PIECE_SIZE_MIN,
    ROOM_SIZE,
    LogIntake,
)
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.codec.record import PHYSICAL_OFFSET_AT, blank_tail
from cometmq.codec.replication import FRAME_HEAD, REPORT
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CopyingStopped, StoreReadOnly
from cometmq.net.loop import loop_clock, loop_network
from cometmq.net.network import Accepted
from cometmq.replication.terms import LinkTerms
from cometmq.store.message_store import MessageStore
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import StoreSettings
from tests.support.hand_clock import HandClock
from tests.support.offline_steps import overwrite
from tests.support.replica import Replica, append_all, log_of
from tests.support.request_fields import long_fields
from tests.support.store_puts import bodies_of, flush, make_put, open_store, queue_of
from tests.unit.broker.conftest import eventually, serve, virtual_loop
from tests.unit.broker.replication.slaves import ByteSlave

SETTINGS = StoreSettings(commitlog_file_size=1 << 20)


@asynccontextmanager
async def master(path, role=BrokerRole.ASYNC_MASTER, **settings):
    async with serve(path, broker_role=role, ha_allowed="127.0.0.1", **settings) as served:
        yield served


@asynccontextmanager
async def slave_of(served, path, settings=SETTINGS, **more):
    replica = await Replica(path, settings, **more).start(f"127.0.0.1:{served.broker.ha_port}")
    try:
        yield replica
    finally:
        await replica.close()


async def send(served, body=b"body", topic="Orders"):
    answer = await served.ask(RequestCode.SEND_MESSAGE, long_fields(topic), body)
    return answer.code


async def test_an_empty_slave_gets_everything_and_shows_it(tmp_path):
    async with master(tmp_path / "m") as served:
        for number in range(40):
            await send(served, bytes([number]) * 90_000)  # Four files, with blank ends.
        store = served.broker._store
        async with slave_of(served, tmp_path / "s") as slave:
            await slave.reaches(store.max_offset)
            assert slave.log() == log_of(store)
            queue = queue_of(slave.store, "Orders")
            assert queue.max_offset == 40
            await send(served)
            await slave.reaches(store.max_offset)
            assert slave.log() == log_of(store)
            assert slave.master.is_active
            assert served.broker.role.replicas.state().copies[0].broker_id == 1


async def test_a_blank_end_of_any_size_is_copied_also_where_a_slave_was_away_within_it(
    tmp_path,
):
    """A whole file is blank, and filled: what `store restore` and `store repair` make where something is lost."""
    size = 1 << 20
    with closing(MessageStore.open(tmp_path / "once", SETTINGS, clock=HandClock())) as store:
        store.put_many([make_put(store, body=b"first"), make_put(store, body=b"other")])
        first, other = log_of(store)[: store.max_offset // 2], bytearray(log_of(store))
    del other[: len(first)]
    other[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = (2 * size).to_bytes(8)
    log = (
        first
        + (blank_tail(size - len(first)) + b"what was damaged" * size)[: size - len(first)]
    )
    log += (blank_tail(size) + b"what was lost" * size)[:size] + other
    with closing(MessageStore.open(tmp_path / "m", SETTINGS, clock=HandClock())) as store:
        assert append_all(store, 0, log) == len(log)
        store.dispatch_pending()
    async with master(tmp_path / "m", is_ha_rate_bound=True, ha_rate_max=1 << 20) as served:
        store = served.broker._store
        for upto in (100_000, size - 1, size, size + 5_000, 2 * size):
            async with slave_of(served, tmp_path / "s") as slave:
                await eventually(lambda: slave.store._log.passed >= upto)  # noqa: B023
        async with slave_of(served, tmp_path / "s") as slave:
            await send(served)
            await slave.reaches(store.max_offset)
            assert slave.log() == log_of(store)
            assert slave.log()[: len(log)] == log


async def test_a_slave_that_was_away_goes_on_from_where_it_was(tmp_path):
    async with master(tmp_path / "m") as served:
        store = served.broker._store
        for number in range(5):
            async with slave_of(served, tmp_path / "s") as slave:
                await send(served, b"%d" % number)
                await slave.reaches(store.max_offset)
            await send(served, b"it is away")
        async with slave_of(served, tmp_path / "s") as slave:
            await slave.reaches(store.max_offset)
            assert slave.log() == log_of(store)


async def test_a_master_that_was_away_is_connected_to_again(tmp_path):
    port = 12_345
    async with master(tmp_path / "m", ha_port=port) as served:
        await send(served)
        replica = await Replica(tmp_path / "s", SETTINGS).start(f"127.0.0.1:{port}")
        await replica.reaches(served.broker._store.max_offset)
    await eventually(lambda: replica.master.error)
    assert not replica.master.is_active
    async with master(tmp_path / "m", ha_port=port) as served:
        await send(served)
        await replica.reaches(served.broker._store.max_offset)
        assert replica.log() == log_of(served.broker._store)
        await replica.close()


@pytest.mark.parametrize("address", ["127.0.0.1:70000", "127.0.0.1"])
async def test_an_address_that_is_none_is_said_and_the_next_one_taken(tmp_path, address):
    async with master(tmp_path / "m") as served:
        await send(served)
        replica = await Replica(tmp_path / "s", SETTINGS).start(address)
        await eventually(lambda: replica.master.error)
        assert "an address must be host:port, with a port from 1 to 65535" in str(
            replica.master.error
        )
        replica.copier.master_told(f"127.0.0.1:{served.broker.ha_port}")
        await replica.reaches(served.broker._store.max_offset)
        await replica.close()


@pytest.mark.parametrize("flush", list(FlushDiskType))
async def test_a_sync_master_and_its_slave_promise_two_copies(tmp_path, flush):
    is_sync = flush is FlushDiskType.SYNC_FLUSH
    settings = StoreSettings(commitlog_file_size=1 << 20, flush_sync=is_sync)
    async with master(tmp_path / "m", BrokerRole.SYNC_MASTER, flush_disk_type=flush) as served:
        assert await send(served) == ResponseCode.SLAVE_NOT_AVAILABLE
        async with slave_of(served, tmp_path / "s", settings) as slave:
            await slave.reaches(served.broker._store.max_offset)
            for number in range(10):
                assert await send(served, b"%d" % number) == ResponseCode.SUCCESS
                end = served.broker._store.max_offset
                assert slave.store.max_offset == end
                assert slave.store.flushed_offset == end or not is_sync
        assert await send(served) == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_a_copy_acknowledges_nothing_that_lies_in_its_memory_alone(tmp_path):
    """A kill of both members lost what waited in the slave's transientStorePool, acknowledged by two."""
    settings = StoreSettings(commitlog_file_size=1 << 20, pool_buffers=1)
    async with (
        master(tmp_path / "m", BrokerRole.SYNC_MASTER) as served,
        slave_of(served, tmp_path / "s", settings) as slave,
    ):
        await eventually(lambda: slave.master.is_active)
        for number in range(10):
            assert await send(served, b"%d" % number) == ResponseCode.SUCCESS
            assert slave.store.positions.committed == served.broker._store.max_offset


async def test_a_copy_that_connects_acknowledges_nothing_that_is_not_flushed_under_sync_flush(
    tmp_path,
):
    """It asked from the start of its last file on, and so acknowledged the file before, flushed or not."""
    async with master(tmp_path / "m") as served:
        for _ in range(14):
            await send(served, bytes(90_000))
        log = log_of(served.broker._store)
    settings = StoreSettings(commitlog_file_size=1 << 20, flush_sync=True)
    come, bound = asyncio.Queue[Accepted](), loop_network().bind("127.0.0.1", 0)
    bound.listen(come.put_nowait)
    with (
        closing(MessageStore.open(tmp_path / "s", settings, clock=HandClock())) as store,
        ThreadPoolExecutor(1) as pool,
    ):
        assert append_all(store, 0, log) > (1 << 20)
        assert store.flushed_offset == 0
        copier = LogCopier(
            store, broker_id=1, own_ip=None, terms=LinkTerms(), clock=loop_clock(), pool=pool,
            on_written=lambda: None,
        )  # fmt: skip
        copier.serve()
        copier.master_told(f"127.0.0.1:{bound.port}")
        byte_master = ByteSlave()  # It only keeps what it is told.
        await (await come.get()).attach(byte_master)
        await eventually(lambda: len(byte_master.received) >= 2 * REPORT.size)
        assert byte_master.received[: REPORT.size] == REPORT.pack(0)
        await copier.close()
    bound.close()


async def test_two_slaves_of_one_address_are_two_copies(tmp_path):
    sync = BrokerRole.SYNC_MASTER
    async with (
        master(tmp_path / "m", sync, replicas_needed=3) as served,
        slave_of(served, tmp_path / "1", broker_id=1) as first,
    ):
        await eventually(lambda: first.master.is_active)
        assert await send(served) == ResponseCode.SLAVE_NOT_AVAILABLE
        async with slave_of(served, tmp_path / "2", broker_id=2) as second:
            await second.reaches(served.broker._store.max_offset)
            assert await send(served) == ResponseCode.SUCCESS


async def test_the_same_slave_twice_is_one_and_the_newer_connection_counts(tmp_path):
    sync = BrokerRole.SYNC_MASTER
    async with (
        master(tmp_path / "m", sync, replicas_needed=3) as served,
        slave_of(served, tmp_path / "1"),
        slave_of(served, tmp_path / "2"),
    ):
        await asyncio.sleep(3)
        assert served.broker.role.replicas.state().in_sync == 2
        assert await send(served) == ResponseCode.SLAVE_NOT_AVAILABLE


async def own_history(path, *bodies):
    """A store of another master, closed."""
    async with master(path) as served:
        for body in bodies:
            await send(served, body)
        return served.broker._store.max_offset


@pytest.mark.parametrize("bodies", [[b"A", b"B"], [b"a", b"b"]])
async def test_3388_two_histories_are_never_mixed_and_it_is_said_once(tmp_path, caplog, bodies):
    """Also where the records are as long, at the same places."""
    end = await own_history(tmp_path / "s", *bodies)
    async with master(tmp_path / "m") as served:
        for body in (b"a", b"x", b"c"):
            await send(served, body)
        async with slave_of(served, tmp_path / "s") as slave:
            await eventually(lambda: slave.master.stopped)
            before = slave.log()
            await asyncio.sleep(300)
            stopped = slave.master.stopped
            assert stopped is not None
            assert "another history: the two logs differ at physical offset" in stopped
            assert "cometmq store compare" in stopped
            assert slave.log() == before
            assert slave.store.max_offset == end
            assert not slave.master.is_active
            queue = queue_of(slave.store, "Orders")
            assert queue.max_offset == 2, "it stays readable"
    lines = [record for record in caplog.records if "has stopped" in record.message]
    assert len(lines) == 1


async def test_3349_a_slave_that_is_ahead_stops_and_is_no_copy(tmp_path):
    await own_history(tmp_path / "s", b"1", b"2", b"3")
    async with master(tmp_path / "m", BrokerRole.SYNC_MASTER) as served:
        await send(served, b"1")
        async with slave_of(served, tmp_path / "s") as slave:
            await eventually(lambda: slave.master.stopped)
            assert "ahead: this log ends at" in slave.master.stopped
            assert served.broker.role.replicas.state().in_sync == 1
            assert await send(served) == ResponseCode.SLAVE_NOT_AVAILABLE
            # The master's log grows past the slave's end: that makes one history of two no more.
            for _ in range(5):
                await send(served, b"more")
            await asyncio.sleep(120)
            assert "another history" in slave.master.stopped


async def test_a_slave_behind_the_oldest_file_stops(tmp_path):
    async with master(tmp_path / "m") as served:
        await send(served)
        store = served.broker._store
        async with slave_of(served, tmp_path / "s") as slave:
            await slave.reaches(store.max_offset)
        for _ in range(30):
            await send(served, bytes(90_000))
        first = store._log.chain.drop_first()
        first.unlink()
        async with slave_of(served, tmp_path / "s") as slave:
            await eventually(lambda: slave.master.stopped)
            assert f"its master has nothing before {1 << 20}" in slave.master.stopped
        async with slave_of(served, tmp_path / "new") as slave:
            await slave.reaches(store.max_offset)
            assert slave.store.min_offset == 1 << 20
            assert slave.log() == log_of(store)


async def test_a_rotten_record_at_the_master_is_named_at_both_with_what_helps(tmp_path, caplog):
    """The line told to empty one of the two, which was empty, and the master said nothing."""
    async with master(tmp_path / "m") as served:
        for number in range(5):
            await send(served, b"%d" % number * 1_000)
        store = served.broker._store
        queue = queue_of(store, "Orders")
        place = store.entries(queue, 3, 1)[0].physical_offset
        (path,) = (tmp_path / "m" / "commitlog").iterdir()
        overwrite(path, place + 500, b"rotten")
        async with slave_of(served, tmp_path / "s") as slave:
            await eventually(lambda: slave.master.stopped)
            assert f"no valid record at physical offset {place}" in slave.master.stopped
            assert "cometmq store repair" in slave.master.stopped
            assert "store compare" not in slave.master.stopped
            await asyncio.sleep(300)
    lines = [
        each.message for each in caplog.records if "so no slave can copy more" in each.message
    ]
    assert len(lines) == 1
    assert f"no valid record at physical offset {place}" in lines[0]
    assert "cometmq store repair" in lines[0]


async def test_what_is_there_of_a_frame_is_taken_soon_and_the_rest_when_it_comes(tmp_path):
    async with master(tmp_path / "m") as served:
        for number in range(3):
            await send(served, b"%d" % number * 100)
        log = log_of(served.broker._store)
    come, bound = asyncio.Queue[Accepted](), loop_network().bind("127.0.0.1", 0)
    bound.listen(come.put_nowait)
    byte_master = ByteSlave()  # It only keeps what it is told.
    slave = await Replica(tmp_path / "s", SETTINGS).start(f"127.0.0.1:{bound.port}")
    try:
        await (await come.get()).attach(byte_master)
        byte_master.write(FRAME_HEAD.pack(0, len(log)) + log[:-10])
        await asyncio.sleep(0.0005)
        assert slave.store.max_offset == 0
        await asyncio.sleep(0.002)
        assert slave.store.max_offset == len(log) * 2 // 3
        byte_master.write(log[-10:])
        await slave.reaches(len(log))
        assert slave.log() == log
    finally:
        await slave.close()
        bound.close()


async def test_records_longer_than_a_piece_and_a_frame_come_whole(tmp_path):
    size = 16 << 20
    settings = StoreSettings(commitlog_file_size=size)
    async with master(
        tmp_path / "m", commitlog_file_size=size, ha_frame_size=100_000
    ) as served:
        for body in (bytes(4_000_000), b"small", bytes(300_000), bytes(4_000_000)):
            assert await send(served, body) == ResponseCode.SUCCESS
        async with slave_of(served, tmp_path / "s", settings) as slave:
            await slave.reaches(served.broker._store.max_offset)
            assert slave.log() == log_of(served.broker._store)


async def test_a_secret_lets_in_who_knows_it_and_nobody_else(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef")
    secret.chmod(0o600)
    terms = LinkTerms(secret=b"0123456789abcdef")
    async with master(tmp_path / "m", ha_secret_file=str(secret)) as served:
        await send(served)
        stranger = await ByteSlave.connect(served.broker.ha_port)
        stranger.report(0)
        await eventually(lambda: stranger.is_closed)
        assert stranger.received == b""
        knows = served.broker.role.replicas.knows
        assert not knows("127.0.0.1"), "topics and offsets are no stranger's either"
        async with slave_of(served, tmp_path / "none") as without:
            await eventually(lambda: without.master.error)
            assert "haSecretFile" in without.master.error
            assert without.store.max_offset == 0
        async with slave_of(served, tmp_path / "s", terms=terms) as slave:
            await slave.reaches(served.broker._store.max_offset)
            assert knows("127.0.0.1")


async def test_nothing_but_the_masters_log_gets_into_a_slaves(tmp_path):
    async with master(tmp_path / "m") as served:
        await send(served)
        async with slave_of(served, tmp_path / "s") as slave:
            await slave.reaches(served.broker._store.max_offset)
            with pytest.raises(StoreReadOnly, match="this broker is a slave"):
                slave.store.put_many([make_put(slave.store)])
            await send(served)
            await slave.reaches(served.broker._store.max_offset)


async def test_a_master_that_is_told_of_while_another_one_is_connected_to_is_the_one(tmp_path):
    async with master(tmp_path / "old") as old, master(tmp_path / "new") as new:
        await send(new)
        virtual_loop().executor_seconds = 1.0  # It looks at its own log first.
        async with slave_of(old, tmp_path / "s") as slave:
            await asyncio.sleep(0.5)
            slave.copier.master_told(f"127.0.0.1:{new.broker.ha_port}")
            await slave.reaches(new.broker._store.max_offset)
            assert not old.broker.role.replicas._links


async def test_a_log_that_cannot_be_read_is_said_and_tried_again(tmp_path, monkeypatch):
    async with master(tmp_path / "m") as served:
        await send(served)
        async with slave_of(served, tmp_path / "s") as slave:
            await slave.reaches(served.broker._store.max_offset)

        def fail(*_: object) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

        virtual_loop().executor_seconds = 0.1
        async with slave_of(served, tmp_path / "s") as slave:
            with monkeypatch.context() as failing:
                failing.setattr(RealDisk, "pread", fail)
                await eventually(lambda: slave.master.error)
                assert slave.master.error == (
                    "the end of this log cannot be read: Input/output error"
                )
            await send(served)
            await slave.reaches(served.broker._store.max_offset)


@pytest.mark.parametrize(
    ("seconds_a_mib", "least", "most"), [(0.001, 512, 1024), (0.05, 64, 128)]
)
async def test_pieces_are_so_large_that_none_holds_the_loop(
    tmp_path, monkeypatch, seconds_a_mib, least, most
):
    clock, sizes, append = HandClock(), list[int](), MessageStore.append_raw

    def timed(store, offset, content):
        clock.turn(len(content) / (1 << 20) * seconds_a_mib)
        sizes.append(len(content) >> 10)
        return append(store, offset, content)

    settings = StoreSettings(commitlog_file_size=16 << 20)
    async with master(tmp_path / "m", commitlog_file_size=16 << 20) as served:
        store = served.broker._store
        for _ in range(80):
            store.put_many([make_put(store, body=bytes(1_000))] * 100)
            store.dispatch_pending()
        monkeypatch.setattr(MessageStore, "append_raw", timed)
        async with slave_of(served, tmp_path / "s", settings) as slave:
            slave.copier._clock = clock
            await slave.reaches(store.max_offset)
    # Without the compiled kernel no piece is larger than the smallest.
    assert min(least, PIECE_SIZE >> 10) <= max(sizes) <= most


FILE_SIZE = 16 << 20
INTAKE_SETTINGS = StoreSettings(commitlog_file_size=FILE_SIZE)
SYNC = StoreSettings(commitlog_file_size=FILE_SIZE, flush_sync=True)


def log_with(path, bodies: list[bytes]) -> bytes:
    store = open_store(path, INTAKE_SETTINGS)
    for at in range(0, len(bodies), 100):
        store.put_many([make_put(store, body=body) for body in bodies[at : at + 100]])
        store.dispatch_pending()
    log = log_of(store)
    store.close()
    return log


def receive(intake: LogIntake, log: bytes, size: int) -> None:
    """As a transport does it: what is there is put where there is space."""
    at = intake.end
    space = intake.space(min(size, len(log) - at))
    assert len(space)
    space[:] = log[at : at + len(space)]
    intake.took(at, space)


def bring(intake: LogIntake, store: MessageStore, log: bytes, sizes: list[int]) -> None:
    """All of a log, in reads of these sizes, each shown at once where the store's settings let it."""
    number = 0
    while store.max_offset < len(log):
        while intake.end < len(log) and not intake.is_full:
            receive(intake, log, sizes[number % len(sizes)])
            number += 1
            if intake.is_due and number % 3 == 0:
                break
        intake.append()
        store.dispatch_pending()


@pytest.mark.parametrize("sizes", [[100_000], [524_288], [1, 70_000, 13], [ROOM_SIZE]])
def test_the_log_comes_whole_in_reads_of_any_size(tmp_path, sizes):
    chance = random.Random(8)
    bodies = [chance.randbytes(chance.choice((0, 90, 1_000, 30_000))) for _ in range(400)]
    log = log_with(tmp_path / "m", bodies)
    copy = open_store(tmp_path / "s", INTAKE_SETTINGS)
    bring(LogIntake(copy, 0), copy, log, sizes)
    assert log_of(copy) == log
    assert bodies_of(copy) == bodies


def test_what_waits_for_the_device_stays_as_it_was_received(tmp_path):
    bodies = [b"%06d" % number * 20 for number in range(40_000)]
    log = log_with(tmp_path / "m", bodies)
    assert len(log) > 3 * ROOM_SIZE
    copy = open_store(tmp_path / "s", SYNC)
    bring(LogIntake(copy, 0), copy, log, [300_000])
    assert bodies_of(copy) == []
    flush(copy)
    copy.dispatch_pending()
    assert bodies_of(copy) == bodies


def test_a_large_record_gets_room_and_gives_it_back(tmp_path):
    bodies = [bytes(3 << 20), b"small", bytes(300), b"last"]
    log = log_with(tmp_path / "m", bodies)
    copy = open_store(tmp_path / "s", INTAKE_SETTINGS)
    intake = LogIntake(copy, 0)
    bring(intake, copy, log, [200_000])
    assert bodies_of(copy) == bodies
    assert memoryview(intake.space(100).obj).nbytes == ROOM_SIZE


def test_a_blank_end_of_any_size_is_never_held(tmp_path):
    """One that a repair wrote of damaged bytes: four times the longest record that is waited for."""
    size = 72 << 20
    log = log_with(tmp_path / "m", [b"first", b"second"])
    first = len(log) // 2  # "second" has a byte more.
    second = bytearray(log[first:])
    second[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = size.to_bytes(8)
    blank = blank_tail(size - first)
    log = log[:first] + blank + b"filling!" * ((size - first) // 8)
    log = log[:size] + bytes(second)
    copy = open_store(tmp_path / "s", StoreSettings(commitlog_file_size=size))
    intake, most, rooms = LogIntake(copy, 0), 0, set()
    while copy.max_offset < len(log):
        while intake.end < len(log) and not intake.is_full:
            receive(intake, log, 300_000)
            rooms.add(memoryview(intake.space(1).obj).nbytes)
        most = max(most, intake.size)
        intake.append()
        copy.dispatch_pending()
    assert most < ROOM_SIZE + 300_000
    assert max(rooms) < ROOM_SIZE + 300_000
    assert log_of(copy) == log
    assert bodies_of(copy) == [b"first", b"second"]


def test_a_transport_that_gives_what_it_was_not_to_read_loses_nothing(tmp_path):
    bodies = [bytes([number]) * 90_000 for number in range(40)]
    log = log_with(tmp_path / "m", bodies)
    copy = open_store(tmp_path / "s", INTAKE_SETTINGS)
    intake = LogIntake(copy, 0)
    while intake.end < len(log):
        receive(intake, log, 100_000)
    assert intake.is_full
    while copy.max_offset < len(log):
        intake.append()
        copy.dispatch_pending()
    assert bodies_of(copy) == bodies


def test_bytes_from_elsewhere_are_taken_too(tmp_path):
    log = log_with(tmp_path / "m", [b"first", b"second"])
    copy = open_store(tmp_path / "s", INTAKE_SETTINGS)
    intake = LogIntake(copy, 0)
    for at in range(0, len(log), 50):
        intake.took(at, memoryview(log[at : at + 50]))
    intake.append()
    assert log_of(copy) == log


def test_a_size_that_no_record_has_stops_it(tmp_path):
    log = log_with(tmp_path / "m", [b"first"])
    intake = LogIntake(open_store(tmp_path / "s", INTAKE_SETTINGS), 0)
    intake.took(0, memoryview(log + (18 << 20).to_bytes(4) + log[4:60]))
    with pytest.raises(CopyingStopped):
        intake.append()


def test_a_piece_that_takes_long_is_followed_by_smaller_ones_until_they_are_quick_again(
    tmp_path,
):
    log = log_with(tmp_path / "m", [bytes(90)] * 20_000)
    intake = LogIntake(copy := open_store(tmp_path / "s", INTAKE_SETTINGS), 0)

    def appended(seconds: float) -> int:
        while intake.end < len(log) and not intake.is_full:
            receive(intake, log, 500_000)
        before = copy.max_offset
        intake.append()
        copy.dispatch_pending()
        intake.took_time(seconds)
        return copy.max_offset - before

    sizes = [
        appended(seconds)
        for seconds in (0.001, 0.001, 0.001, 0.1, 0.1, 0.1, 0.1, 0.005, 0.001, 0)
    ]
    least, most = PIECE_SIZE_MIN, PIECE_SIZE
    wanted = [1, 2, 4, 8, 4, 2, 1, 1, 1, 2]
    assert all(
        0 <= min(least * times, most) - size < 300
        for size, times in zip(sizes, wanted, strict=True)
    )


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_the_first_byte_that_differs_is_found_wherever_it_is(size):
    ours = memoryview(bytes(size))
    for place in range(size):
        for behind in (0, 1):
            theirs = memoryview(bytes(place) + b"x" + bytes([behind]) * (size - place - 1))
            assert first_difference(ours, theirs) == place
