"""Reconnects to unreachable brokers: all callers share one attempt at a time for each broker.

Thousands of sends may be in flight when a broker restarts. They must not open a connection each.
"""

import asyncio

from cometmq.client.connection.instance import ClientInstance
from cometmq.model.errors import CometError, NetError
from cometmq.model.route import MASTER_ID
from cometmq.net.tasks import Tasks

# Between attempts to connect, doubled from the first to the last, seconds.
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 0.5


class Reconnections:
    """The unreachable brokers that callers wait for."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._tasks = Tasks(f"{instance.client_id} reconnections")
        self._trying: dict[str, asyncio.Task[None]] = {}
        self._deadlines: dict[str, float] = {}
        self._looking: set[str] = set()

    async def wait(self, address: str, deadline: float, topic: str) -> None:
        """Wait until a connection to a broker exists, or about until the latest deadline of its callers (monotonic seconds).

        Also returns when the current route of `topic` has another master in its place; then all routes are refreshed. Tries
        first after 20 ms. Raises ClientClosed if the client is closed, CancelledError at `close`.
        """
        self._deadlines[address] = max(deadline, self._deadlines.get(address, deadline))
        trying = self._trying.get(address)
        if trying is None:
            trying = self._tasks.spawn(self._try(address, topic), address)
            self._trying[address] = trying
        await asyncio.shield(trying)

    def look(self, address: str, topic: str) -> None:
        """Refresh the routes in the background if a broker that refuses messages is not the master any more."""
        if address not in self._looking:
            self._looking.add(address)
            looking = self._tasks.spawn(self._has_moved(address, topic), address)
            looking.add_done_callback(lambda _: self._looking.discard(address))

    async def _has_moved(self, address: str, topic: str) -> bool:
        """Return whether another broker is the master in place of one, by a topic's current route."""
        instance = self._instance
        try:
            known = await instance.fresh(topic)
        except CometError:
            return False
        masters = {broker.addresses.get(MASTER_ID, address) for broker in known.route.brokers}
        if address in masters or not masters:
            return False
        await instance.refresh()  # The routes of other topics name the old master, too.
        return address not in instance.routes.addresses(only_masters=True)

    async def _try(self, address: str, topic: str) -> None:
        pause = _PAUSE_SECONDS
        try:
            while True:
                left = self._deadlines[address] - self._instance.clock.monotonic()
                if left <= 0:
                    return
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
                try:
                    await self._instance.channels.get(address)
                except NetError:
                    if await self._has_moved(address, topic):
                        return
                    continue
                return
        finally:
            del self._trying[address], self._deadlines[address]

    def close(self) -> None:
        """Cancel all attempts; their waiting callers get CancelledError."""
        for trying in self._trying.values():
            trying.cancel()
