"""Requests that waited too long are refused: before the pool, and while the loop was held up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cometmq.broker.send.fast_failure import ColdReads
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError
from cometmq.steps.on_loop import LoopWorld, Machines
from cometmq.store.reader import GetResult, GetStatus
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld
from tests.unit.broker.list_caller import ListCaller

FOUND = GetResult(GetStatus.FOUND, 1, 0, 1)


@pytest.mark.parametrize(("seconds", "is_on", "is_refused"), [
    (4.9, True, False), (5.0, True, True), (60, False, False),
])  # fmt: skip
async def test_the_time_before_the_pool_counts(seconds, is_on, is_refused):
    clock, may_go = HandClock(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        reads = ColdReads(clock, BrokerSettings(is_fast_failure=is_on))
        pool.submit(may_go.wait)
        steps = reads.read(lambda: FOUND, ListCaller())
        waiting = Machines(LoopWorld(pool), "reads").run(steps)
        clock.turn(seconds)
        may_go.set()
        if is_refused:
            with pytest.raises(RequestError, match="start flow control") as refused:
                await waiting
            assert refused.value.code == ResponseCode.SYSTEM_BUSY
        else:
            assert await waiting is FOUND


def test_nothing_is_read_for_who_went_away_meanwhile():
    reads, caller, read = ColdReads(HandClock(), BrokerSettings()), ListCaller(), []

    def cold() -> GetResult:
        read.append(1)
        return FOUND

    world = HandWorld()
    outcome = world.begin(reads.read(cold, caller))
    caller.is_gone = True
    world.settle()
    with pytest.raises(ConnectionLost):
        outcome.get()
    assert read == []
