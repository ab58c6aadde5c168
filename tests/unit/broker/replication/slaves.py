"""A slave of RocketMQ by bytes: it reports what a test says, and keeps what it is sent."""

from __future__ import annotations

import asyncio

from cometmq.codec.replication import FRAME_HEAD, REPORT


class ByteSlave(asyncio.Protocol):
    """One connection.

    Attributes:
        received: all that came.
        is_closed: whether the master has closed it.
        acks: whether it acknowledges whatever it gets.
    """

    def __init__(self, *, acks: bool = False) -> None:
        self.received = b""
        self.is_closed = False
        self.acks = acks
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(
        cls, port: int, *, acks: bool = False, own_ip: str = "127.0.0.1"
    ) -> ByteSlave:
        """Connect to an HA port of this loop."""
        _, slave = await asyncio.get_running_loop().create_connection(
            lambda: cls(acks=acks), "127.0.0.1", port, local_addr=(own_ip, 0)
        )
        return slave

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, content: bytes) -> None:
        self.received += content
        if self.acks:
            self.report(self.end)

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_closed = True

    def report(self, offset: int) -> None:
        self.write(REPORT.pack(offset))

    def write(self, content: bytes) -> None:
        assert self._transport is not None
        self._transport.write(content)

    def skip(self, size: int) -> None:
        """Forget the first bytes that came, which are no frames."""
        self.received = self.received[size:]

    def pause(self) -> None:
        """Read nothing any more."""
        assert self._transport is not None
        self._transport.pause_reading()

    def close(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    @property
    def log(self) -> bytes:
        """The bytes of the log that came."""
        return b"".join(body for _, body in self.frames)

    @property
    def end(self) -> int:
        """Behind the last whole frame."""
        frames = self.frames
        return frames[-1][0] + len(frames[-1][1]) if frames else 0

    @property
    def frames(self) -> list[tuple[int, bytes]]:
        """The whole frames."""
        found, at = [], 0
        while at + FRAME_HEAD.size <= len(self.received):
            offset, size = FRAME_HEAD.unpack_from(self.received, at)
            start = at + FRAME_HEAD.size
            if start + size > len(self.received):
                break
            found.append((offset, self.received[start : start + size]))
            at = start + size
        return found
