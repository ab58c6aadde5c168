"""A request that fails leaves nothing to the garbage collector: who sends only such ones would hold the loop with it."""

from __future__ import annotations

import asyncio
import gc

from tests.fuzz.fitting import BROKER, FittingRequests

COUNT = 100
# Some answers need a task, of which a coroutine that was cancelled may be left now and then.
OBJECTS_A_REQUEST_MAX = 5


async def test_requests_of_every_code_leave_no_circles_of_objects(served, no_collector):
    left = {}
    for code, kinds in BROKER.items():
        source = FittingRequests({code: kinds}, seed=7)
        _, writer = await asyncio.open_connection("127.0.0.1", served.broker.port)
        for count in (20, COUNT):  # The first ones make tables, groups and files.
            gc.collect()
            writer.writelines([source.frame(number) for number in range(count)])
            await asyncio.sleep(3)
        left[code] = gc.collect() / COUNT
        writer.close()
        await asyncio.sleep(0.1)
    assert {code: count for code, count in left.items() if count > OBJECTS_A_REQUEST_MAX} == {}
