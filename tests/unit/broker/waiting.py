"""Asks a broker for what waits and for what was delivered; its clock is turned by hand."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager

from cometmq.codec.record import Record, decode_records
from cometmq.model.codes import RequestCode
from tests.support.hand_clock import HandClock
from tests.support.request_fields import pull_fields, short_fields
from tests.unit.broker.conftest import Served, eventually, serve

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@asynccontextmanager
async def by_hand(path, clock: HandClock, **settings):
    """A broker whose clock is turned by hand."""
    async with serve(path, clock, **settings) as served:
        yield served


async def send(served: Served, body: bytes, properties=None, topic="Orders", **more):
    """Send one message; the answer."""
    fields = short_fields(topic, properties=properties or {}, **more)
    return await served.ask(RequestCode.SEND_MESSAGE_V2, fields, body)


async def lying_in(served: Served, topic: str, queue_id: int = 0) -> list[Record]:
    """The messages of a queue."""
    answer = await served.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, queue_id))
    return decode_records(answer.body) if answer.body else []


async def delivered(served: Served, count: int, topic="Orders", queue_id=0) -> list[Record]:
    """Wait for `count` messages of a queue."""

    async def look():
        found = await lying_in(served, topic, queue_id)
        return found if len(found) >= count else None

    return await eventually(look)


async def stays_empty(served: Served, topic="Orders", queue_id=0) -> bool:
    """Whether a queue has nothing although the deliveries have looked several times."""
    with contextlib.suppress(TimeoutError):
        await eventually(lambda: lying_in(served, topic, queue_id), seconds=0.4)
        return False
    return True
