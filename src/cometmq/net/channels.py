"""Outgoing connections by address: made on first use, shared, and made again after a loss."""

import asyncio
from collections.abc import Callable

from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.errors import ConnectError
from cometmq.net.channel import Channel, RequestHandler

CONNECT_TIMEOUT_MS = 3000  # connectTimeoutMillis of NettyClientConfig.


class Channels:
    """The channels of one program, at most one for each address."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_request: RequestHandler | None = None,
        on_lost: Callable[[Channel], None] | None = None,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    ) -> None:
        """`on_request` handles what brokers ask of us here; `on_lost` is told of each that ended."""
        self._clock = clock
        self._on_request = on_request
        self._on_lost = on_lost
        self._connect_timeout_ms = connect_timeout_ms
        self._open: dict[str, Channel] = {}
        self._connecting: dict[str, asyncio.Task[Channel]] = {}

    def open_addresses(self) -> list[str]:
        """Addresses with a living connection."""
        return list(self._open)

    def peek(self, address: str) -> Channel | None:
        """The channel to `address` if there is a living one."""
        return self._open.get(address)

    async def get(self, address: str) -> Channel:
        """The channel to "host:port", connected if need be; callers at once share one attempt.

        Raises:
            ConnectError: nobody answers there; the message says where and why.
        """
        channel = self._open.get(address)
        if channel is not None:
            return channel
        attempt = self._connecting.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = attempt
            attempt.add_done_callback(lambda _task: self._connecting.pop(address, None))
        return await asyncio.shield(attempt)

    async def _connect(self, address: str) -> Channel:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()

        def make() -> Channel:
            return Channel(
                address, self._clock, on_request=self._on_request, on_close=self._forget
            )

        try:
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                _, channel = await loop.create_connection(make, host.strip("[]"), int(port))
        except TimeoutError:
            raise ConnectError(
                f"{address} did not accept a connection within {self._connect_timeout_ms} ms"
            ) from None
        except (OSError, ValueError) as error:
            raise ConnectError(
                f"cannot connect to {address}: {error}; is it running there?"
            ) from error
        self._open[address] = channel
        return channel

    def _forget(self, channel: Channel) -> None:
        if self._open.get(channel.address) is channel:
            del self._open[channel.address]
            if self._on_lost is not None:
                self._on_lost(channel)

    async def call(
        self, address: str, command: Command, *, timeout_ms: float = 3000
    ) -> Command:
        """Send a request to an address and wait for its answer, whatever its code.

        Raises:
            ConnectError, ConnectionLost, RequestTimeout, CodecError: as `get` and `Channel.call`.
        """
        channel = await self.get(address)
        return await channel.call(command, timeout_ms=timeout_ms)

    async def oneway(self, address: str, command: Command) -> None:
        """Send a request that nobody answers.

        Raises:
            ConnectError, ConnectionLost: the address cannot be reached.
        """
        channel = await self.get(address)
        channel.oneway(command)

    async def close(self) -> None:
        """Close every channel and wait until they are gone."""
        for attempt in list(self._connecting.values()):
            attempt.cancel()
        channels = list(self._open.values())
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.wait_closed() for channel in channels))
