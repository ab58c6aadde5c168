"""Queue locks: one client's until it gives them back or falls silent, over a restart, too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cometmq.broker.tables.locks import BELIEF_SECONDS, LOCK_SECONDS, QueueLocks
from cometmq.codec.bodies.lock import LockRequest, decode_locked, encode_lock_request
from cometmq.model.codes import RequestCode
from cometmq.model.queue import MessageQueue
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.unit.broker.conftest import Served, serve

QUEUES = [MessageQueue("TBW102", "broker-a", queue_id) for queue_id in range(3)]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def locks(tmp_path: Path, clock: HandClock):
    with ThreadPoolExecutor(1) as pool:
        made = QueueLocks(
            ConfigFile(str(tmp_path / "queueLocks.json"), RealDisk()), clock=clock, pool=pool
        )
        made.load()
        yield made
        await made.close()


def taken(locks: QueueLocks, queues: list[MessageQueue], group: str, client_id: str):
    return locks.lock(queues, group=group, client_id=client_id)[0]


async def test_a_locked_queue_is_one_clients_until_it_is_given_back_or_forgotten(locks, clock):
    assert taken(locks, QUEUES[:2], "g", "a") == QUEUES[:2]
    assert taken(locks, QUEUES, "g", "b") == QUEUES[2:]
    assert taken(locks, QUEUES[:1], "other", "b") == QUEUES[:1]
    assert [locks.holder("g", queue) for queue in QUEUES] == ["a", "a", "b"]
    locks.unlock(QUEUES, group="g", client_id="a")
    assert taken(locks, QUEUES[:1], "g", "b") == QUEUES[:1]
    clock.turn(LOCK_SECONDS + 1)
    assert locks.holder("g", QUEUES[0]) is None
    assert not locks.is_group_ordered("g")
    locks.expire()
    assert taken(locks, QUEUES, "g", "a") == QUEUES


async def test_a_renewed_lock_lasts_and_writes_nothing(locks, clock):
    assert locks.lock(QUEUES, group="g", client_id="a")[1] is not None
    for _ in range(3):
        clock.turn(LOCK_SECONDS - 1)
        obtained, saving = locks.lock(QUEUES, group="g", client_id="a")
        assert (obtained, saving) == (QUEUES, None)
    assert taken(locks, QUEUES, "g", "b") == []
    assert locks.is_group_ordered("g")


async def ask(served: Served, client_id: str) -> tuple[MessageQueue, ...]:
    body = encode_lock_request(LockRequest("g", client_id, tuple(QUEUES)))
    return decode_locked((await served.ask(RequestCode.LOCK_BATCH_MQ, body=body)).body)


async def test_a_lock_outlives_the_broker_and_ends_when_nobody_renews_it(tmp_path):
    clock = HandClock()
    async with serve(tmp_path / "store", clock=clock) as served:
        assert await ask(served, "a") == tuple(QUEUES)
        # What the answer says is on the disk by then, whatever happens to the broker.
        assert '"clientId":"a"' in (tmp_path / "store/config/queueLocks.json").read_text()
    async with serve(tmp_path / "store", clock=clock) as served:
        assert await ask(served, "b") == ()
        assert await ask(served, "a") == tuple(QUEUES)
        clock.turn(LOCK_SECONDS + 1)
        assert await ask(served, "b") == tuple(QUEUES)
    async with serve(tmp_path / "store", clock=clock) as served:
        clock.turn(BELIEF_SECONDS - 1)
        assert await ask(served, "a") == ()
        clock.turn(1)
        assert await ask(served, "a") == tuple(QUEUES)


async def test_a_queue_that_is_given_back_twice_in_a_request_is_given_back(locks):
    taken(locks, QUEUES[:1], "g", "a")
    locks.unlock(QUEUES, group="g", client_id="")  # Nobody's name holds nothing.
    locks.unlock([QUEUES[0], QUEUES[0]], group="g", client_id="a")
    assert taken(locks, QUEUES[:1], "g", "b") == QUEUES[:1]
