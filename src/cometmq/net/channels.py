"""Outgoing connections by address: opened on use, shared, and opened again on the next use after a loss."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from cometmq.codec.remoting import Command
from cometmq.codec.signer import Signer
from cometmq.model.address import split_address
from cometmq.model.clock import Clock
from cometmq.model.credentials import Credentials
from cometmq.model.errors import ClientClosed, ConnectError, ConnectionLost
from cometmq.model.text import error_text
from cometmq.model.tls import TlsSettings
from cometmq.net.channel import Channel, RequestHandler
from cometmq.net.tasks import shared
from cometmq.net.tls import client_context

CONNECT_TIMEOUT_MS = 3000  # connectTimeoutMillis of NettyClientConfig.

# A connection lost earlier than this (seconds) delays the next one. Otherwise a server that closes each connection
# would get thousands of attempts per second.
_SHORT_SECONDS = 5.0
# Delay before reconnecting, in seconds. Doubled with each early loss up to the maximum; the first retry is immediate.
_PAUSE_SECONDS = 0.05
_PAUSE_SECONDS_MAX = 2.0


# Early losses of an address are forgotten after this many seconds.
_FORGOTTEN_SECONDS = 10.0


@dataclass(slots=True)
class _Losses:
    """Recent early losses of connections to one address: their number and the time of the last one."""

    count: int = 0
    last: float = 0.0

    def pause_seconds(self, now: float) -> float:
        if self.count <= 1:
            return 0.0
        pause = min(_PAUSE_SECONDS * 2.0 ** min(self.count - 2, 10), _PAUSE_SECONDS_MAX)
        return max(self.last + pause - now, 0.0)


class Channels:
    """The channels (outgoing connections) of one owner, at most one per address at a time."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_request: RequestHandler | None = None,
        on_opened: Callable[[Channel], None] | None = None,
        on_lost: Callable[[Channel], None] | None = None,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        credentials: Credentials | None = None,
        tls: TlsSettings | None = None,
    ) -> None:
        """Set the callbacks, the credentials that sign all requests, and the TLS settings of all connections.

        `on_request` handles requests of peers; `on_opened` and `on_lost` are called with a channel that `get` opened.

        Raises:
            SettingsError: A file named in `tls` cannot be used.
        """
        self._clock = clock
        self._on_request = on_request
        self._on_opened = on_opened
        self._on_lost = on_lost
        self._connect_timeout_ms = connect_timeout_ms
        self._tls = None if tls is None else client_context(tls)
        self._signer = None if credentials is None else Signer(credentials)
        self._is_closed = False
        self._open: dict[str, Channel] = {}
        self._connecting: dict[str, asyncio.Task[Channel]] = {}
        self._opened: dict[str, float] = {}
        # Early losses by address.
        self._losses: dict[str, _Losses] = {}
        # Set by `give_up`, by address.
        self._paused: dict[str, asyncio.Event] = {}

    def open_addresses(self) -> list[str]:
        """Return a list of the addresses ("host:port") with an open channel."""
        return list(self._open)

    def peek(self, address: str) -> Channel | None:
        """Return the open channel to `address`, or None."""
        return self._open.get(address)

    async def get(self, address: str) -> Channel:
        """Return the channel to "host:port", connecting first if needed; concurrent callers share one attempt.

        After connections to the address that were lost early, it pauses before it connects, up to 2 s.

        Raises:
            ConnectError, ConnectionLost: Connecting failed; the message names the address and the reason.
            ClientClosed: `close` was called.
        """
        channel = self._open.get(address)
        if channel is not None:
            return channel
        if self._is_closed:
            raise ClientClosed(
                f"the client was closed and does not connect to {address} any more"
            )
        attempt = self._connecting.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = attempt
            attempt.add_done_callback(lambda _task: self._connecting.pop(address, None))
        return await shared(attempt)

    def give_up(self, address: str) -> None:
        """Fail the callers of `get` that wait for the end of a pause, because another address is used now."""
        paused = self._paused.get(address)
        if paused is not None:
            paused.set()

    async def _pause(self, address: str, seconds: float) -> None:
        given_up = self._paused[address] = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await given_up.wait()
        except TimeoutError:
            return
        finally:
            del self._paused[address]
        raise ConnectError(f"{address} closed its connections, and is not used any more")

    async def _connect(self, address: str) -> Channel:
        losses = self._losses.get(address)
        if losses is not None:
            await self._pause(address, losses.pause_seconds(self._clock.monotonic()))
        loop = asyncio.get_running_loop()

        def make() -> Channel:
            return Channel(
                address,
                self._clock,
                on_request=self._on_request,
                on_close=self._forget,
                signer=self._signer,
            )

        try:
            host, port = split_address(address)
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                _, channel = await loop.create_connection(make, host, port, ssl=self._tls)
        except TimeoutError:
            raise ConnectError(
                f"{address} did not accept a connection within {self._connect_timeout_ms} ms"
            ) from None
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or error.reason or error
            raise ConnectError(f"the TLS handshake with {address} failed: {why}") from error
        except (OSError, ValueError) as error:
            raise ConnectError(
                f"cannot connect to {address}: {error_text(error)}; is it running there?"
            ) from error
        if channel.is_closed:  # Lost before this coroutine resumed.
            self._note_loss(address, self._clock.monotonic())
            raise ConnectionLost(f"{address} closed the connection at once")
        self._open[address] = channel
        self._opened[address] = self._clock.monotonic()
        if self._on_opened is not None:
            self._on_opened(channel)
        return channel

    def _note_loss(self, address: str, opened: float) -> None:
        """Count a lost connection that was open for less than 5 s; from the second on, the next one is delayed."""
        now = self._clock.monotonic()
        self._losses = {
            each: losses
            for each, losses in self._losses.items()
            if now - losses.last < _FORGOTTEN_SECONDS
        }
        if now - opened < _SHORT_SECONDS:
            losses = self._losses.setdefault(address, _Losses())
            losses.count += 1
            losses.last = now

    def _forget(self, channel: Channel) -> None:
        if self._open.get(channel.address) is channel:
            del self._open[channel.address]
            self._note_loss(channel.address, self._opened.pop(channel.address))
            if self._on_lost is not None:
                self._on_lost(channel)

    async def call(
        self, address: str, command: Command, *, timeout_ms: float = 3000
    ) -> Command:
        """Send a request, connecting first if needed, and return its answer, whatever its response code.

        Raises:
            NetError: The address cannot be reached or does not answer in time, or the connection is lost.
            CodecError: The answer cannot be decoded, or the request is too large.
            ClientClosed: `close` was called.
        """
        channel = await self.get(address)
        return await channel.call(command, timeout_ms=timeout_ms)

    async def oneway(self, address: str, command: Command) -> None:
        """Send a request that gets no answer, connecting first if needed.

        Raises:
            ConnectError, ConnectionLost: The address cannot be reached.
            CodecError: The request is too large.
            ClientClosed: `close` was called.
        """
        channel = await self.get(address)
        channel.oneway(command)

    def reopen(self) -> None:
        """Allow opening channels again after `close`."""
        self._is_closed = False

    async def close(self) -> None:
        """Close every channel, aborting those not gone after 2 s, and refuse to open new ones until `reopen`."""
        self._is_closed = True
        for attempt in list(self._connecting.values()):
            attempt.cancel()
        channels = list(self._open.values())
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.wait_closed() for channel in channels))
