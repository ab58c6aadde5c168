"""An administrator's connections: to brokers that no route of its own names."""

import asyncio

from cometmq import AsyncAdmin
from cometmq.codec.remoting import Command
from cometmq.connect import ClientInstance
from cometmq.model.codes import RequestCode


async def test_a_refresh_of_routes_closes_no_connection_that_waits_for_an_answer(fresh):
    async with AsyncAdmin(fresh.nameserver) as names:
        [address] = (await names.brokers.cluster()).brokers["broker-a"].addresses.values()
        instance = ClientInstance(fresh.nameserver)
        try:
            for _ in range(2):  # The second time the connection is there.
                asked = instance.ask(address, Command(RequestCode.GET_BROKER_RUNTIME_INFO))
                answer, _ = await asyncio.gather(asked, instance.refresh())
                assert answer.body
            channel = instance.channels.peek(address)
            assert channel is not None
            await instance.refresh()
            await channel.wait_gone()
        finally:
            await instance.close()
