"""Reconnects to unreachable brokers: all callers share one attempt at a time for each broker.

Thousands of sends may be in flight when a broker restarts. They must not open a connection each.
"""

import asyncio

from cometmq.client.connection.instance import ClientInstance
from cometmq.model.errors import NetError
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

    async def wait(self, address: str, deadline: float) -> None:
        """Wait until a connection to a broker exists, or about until the latest deadline of its callers (monotonic seconds).

        Returns None in both cases. Tries first after 20 ms. Raises ClientClosed if the client is closed, CancelledError at `close`.
        """
        self._deadlines[address] = max(deadline, self._deadlines.get(address, deadline))
        trying = self._trying.get(address)
        if trying is None:
            trying = self._tasks.spawn(self._try(address), address)
            self._trying[address] = trying
        await asyncio.shield(trying)

    async def _try(self, address: str) -> None:
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
                    continue
                return
        finally:
            del self._trying[address], self._deadlines[address]

    def close(self) -> None:
        """Cancel all attempts; their waiting callers get CancelledError."""
        for trying in self._trying.values():
            trying.cancel()
