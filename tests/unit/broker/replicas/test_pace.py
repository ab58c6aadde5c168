"""How fast old log goes to a slave that catches up: by numbers, and by a master with a slave by bytes."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.broker.replicas.pace import (
    GROWTH_MAX,
    GROWTH_MIN,
    MADE_UP_SECONDS,
    OLD_SIZE,
    RATE,
    CatchUpPace,
)
from cometmq.broker.settings import BrokerRole
from cometmq.net.loop import loop_clock
from tests.unit.broker.conftest import eventually
from tests.unit.broker.replicas.slaves import ByteSlave
from tests.unit.broker.replicas.test_masters import master, send

PIECE = 512 << 10


def pauses(growth: float, *, late: float = 0.0) -> list[float]:
    """The pauses behind 200 pieces, each of which takes 1 ms, while the log grows by so many bytes a second."""
    pace, now, found = CatchUpPace(), 1000.0, []
    for number in range(200):
        found.append(pace.pause_behind(PIECE, end=int((now - 1000) * growth), now=now))
        now += found[-1] + 0.001 + (late if number == 100 else 0.0)
    return found


@pytest.mark.parametrize("growth", [1.1 * GROWTH_MIN, RATE / 2, 0.99 * GROWTH_MAX])
def test_while_the_log_grows_old_log_goes_at_its_rate(growth):
    found = pauses(growth)
    assert sum(found) + 0.2 == pytest.approx(200 * PIECE / RATE, rel=0.01)


@pytest.mark.parametrize("growth", [0, 0.9 * GROWTH_MIN, 1.1 * GROWTH_MAX, 3 * RATE])
def test_nobody_is_held_back_for_nobody_nor_behind_a_log_that_grows_as_fast(growth):
    found = pauses(growth)
    assert sum(found) < 0.03, "as long as it takes to see it"
    assert set(found[20:]) == {0.0}


def test_what_went_too_late_is_made_up_for_and_no_more_than_that():
    """A loop that was busy for a second goes on with 50 ms of pieces at once, not with a second's."""
    found = pauses(RATE / 2, late=1.0)
    assert 0.0 not in found[:101]
    # Each that goes at once takes 1 ms, too.
    made_up = MADE_UP_SECONDS / (PIECE / RATE - 0.001)
    assert found[101:].count(0.0) == pytest.approx(made_up, abs=2)


@pytest.mark.parametrize(
    ("role", "is_sending", "is_paced"),
    [
        (BrokerRole.ASYNC_MASTER, True, True),
        (BrokerRole.ASYNC_MASTER, False, False),
        (BrokerRole.SYNC_MASTER, True, False),
    ],
)
async def test_old_log_leaves_the_senders_their_part_and_comes_at_once_where_they_wait_for_it(
    tmp_path, role, is_sending, is_paced
):
    async with master(tmp_path, role, replicas_needed=2) as served:
        properties = {"WAIT": "false"}
        for _ in range(48):
            assert (await send(served, properties, body=bytes(500_000))).code == 0
        old = served.broker._store.max_offset
        is_over = asyncio.Event()

        async def go_on() -> None:
            while is_sending and not is_over.is_set():
                await send(served, properties, body=bytes(20_000))
                await asyncio.sleep(0.001)

        slave = await ByteSlave.connect(served.broker.ha_port)
        slave.report(0)
        await eventually(lambda: slave.received)
        sending = asyncio.create_task(go_on())
        began = loop_clock().monotonic()
        await eventually(lambda: slave.end >= old - OLD_SIZE)
        took = loop_clock().monotonic() - began
        is_over.set()
        await sending
        least = (old - 2 * OLD_SIZE) / RATE
        assert (took > least) is is_paced
        await eventually(lambda: slave.end == served.broker._store.max_offset)
