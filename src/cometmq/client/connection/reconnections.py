"""Waits for a master to send to: all callers share one attempt at a time for each broker, and for each topic without one.

Thousands of sends may be in flight when a broker restarts or another one becomes the master. They must not open a connection each.
"""

import asyncio

from cometmq.client.connection.instance import ClientInstance
from cometmq.model.errors import ClientClosed, CometError, NetError
from cometmq.net.tasks import Tasks

# Between attempts, doubled from the first to the last, seconds.
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 0.5

_Place = tuple[str, str | None]  # Topic and broker name.


class Reconnections:
    """The masters that callers wait for; each attempt fetches the route first, because another broker may be the master now."""

    def __init__(self, instance: ClientInstance, default_queues: int) -> None:
        """Derive a route from the default topic with at most `default_queues` queues for a topic that does not exist."""
        self._instance = instance
        self._default_queues = default_queues
        self._tasks = Tasks(f"{instance.client_id} reconnections")
        self._trying: dict[_Place, asyncio.Task[None]] = {}
        self._deadlines: dict[_Place, float] = {}

    async def wait(self, topic: str, broker_name: str | None, deadline: float) -> None:
        """Wait until there is a connection to a broker's master, or about until the latest deadline of its callers.

        Deadlines are monotonic seconds. Without a broker, wait until the topic has a queue to send to. Returns None in each
        case. Tries first after 20 ms. Raises ClientClosed if the client is closed, CancelledError at `close`.
        """
        place = topic if broker_name is None else "", broker_name
        self._deadlines[place] = max(deadline, self._deadlines.get(place, deadline))
        trying = self._trying.get(place)
        if trying is None:
            trying = self._tasks.spawn(self._try(place, topic), broker_name or topic)
            self._trying[place] = trying
        await asyncio.shield(trying)

    async def _try(self, place: _Place, topic: str) -> None:
        pause = _PAUSE_SECONDS
        try:
            while True:
                left = self._deadlines[place] - self._instance.clock.monotonic()
                if left <= 0:
                    return
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
                if await self._is_ready(topic, place[1]):
                    return
        finally:
            del self._trying[place], self._deadlines[place]

    async def _is_ready(self, topic: str, broker_name: str | None) -> bool:
        instance = self._instance
        try:
            await instance.fresh_to_send(topic, default_queues=self._default_queues)
        except ClientClosed:
            raise
        except CometError:  # For example, a restarted nameserver knows no broker yet; the known address may still be right.
            pass
        if broker_name is None:
            known = instance.routes.get(topic)
            return known is not None and bool(known.write_queues)
        address = instance.routes.masters.get(broker_name)
        if address is None:
            return False
        try:
            await instance.channels.get(address)
        except NetError:
            return False
        return True

    def close(self) -> None:
        """Cancel all attempts; their waiting callers get CancelledError."""
        for trying in self._trying.values():
            trying.cancel()
