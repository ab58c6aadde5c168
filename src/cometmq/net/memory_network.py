"""A network in memory: connections between programs on one loop, without sockets.

It behaves like TCP towards a program: bytes arrive in order but maybe in other pieces than written, a writer is paused
if the reader does not read, and the end of the stream comes after all bytes. tests/unit/net/test_networks.py checks it.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cometmq.net.network import Bound, OnAccepted
from cometmq.net.tls import ServerTls

# Simulated socket buffers per direction, in bytes, before the writer's transport holds the rest.
SOCKET_SIZE = 256 << 10
# Maximum bytes delivered to a protocol at once.
READ_SIZE_MAX = 256 << 10
_WRITE_BUFFER_MAX = 64 << 10  # Default of asyncio's transports.
_FIRST_FREE_PORT = 20_000
_ANY_HOST = ("0.0.0.0", "::")  # noqa: S104  Compared only, never bound.
_OWN_IP = "127.0.0.1"


def _refuse(number: int, address: tuple[str, int]) -> OSError:
    return OSError(number, f"{os.strerror(number)}: {address[0]}:{address[1]}")


class MemoryNetwork:
    """A `Network` in memory, without sockets, whose programs all run on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._bound: dict[int, list[_MemoryBound]] = {}  # By port.
        self._next_port = _FIRST_FREE_PORT

    def bind(self, host: str, port: int, *, is_shared: bool = False) -> Bound:
        """Reserve an address, without a socket (port 0: the next one above 20,000); raise OSError if it is in use."""
        port = port or self._free_port()
        others = self._bound.setdefault(port, [])
        if any(_is_one_of(host, other.host) for other in others):
            raise _refuse(errno.EADDRINUSE, (host, port))
        others.append(bound := _MemoryBound(host, port, others))
        return bound

    async def connect(
        self, make: Callable[[], Any], host: str, port: int, own_ip: str = _OWN_IP
    ) -> "tuple[MemoryTransport, Any]":
        """Connect a new protocol to an address; return transport and protocol, as `create_connection` does.

        Raises:
            ConnectionRefusedError: No program accepts connections at the address.
        """
        await asyncio.sleep(0)
        for bound in self._bound.get(port, []):
            if _is_one_of(bound.host, host) and bound.on_accepted is not None:
                break
        else:
            raise _refuse(errno.ECONNREFUSED, (host, port))
        here, there = (own_ip, self._free_port()), (host, port)
        to_server, to_client = Pipe(), Pipe()
        near = MemoryTransport(self._loop, (here, there), reads=to_client, writes=to_server)
        far = MemoryTransport(self._loop, (there, here), reads=to_server, writes=to_client)
        protocol = make()
        near.start(protocol)
        self._loop.call_soon(bound.take, far)
        return near, protocol

    def own_ip(self, host: str, port: int) -> str:
        """Return the loopback address, whatever the destination."""
        return _OWN_IP

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


def _is_one_of(bound: str, asked: str) -> bool:
    """Return whether two hosts are equal, or one of them stands for all addresses (0.0.0.0 or ::)."""
    return bound == asked or bound in _ANY_HOST or asked in _ANY_HOST


class _MemoryBound:
    """An address that a server has reserved in a MemoryNetwork; implements `Bound`."""

    def __init__(self, host: str, port: int, others: "list[_MemoryBound]") -> None:
        self.host = host
        self.port = port
        self.on_accepted: OnAccepted | None = None
        self._others = others

    def listen(self, on_accepted: OnAccepted) -> None:
        self.on_accepted = on_accepted

    def close(self) -> None:
        self.on_accepted = None
        if self in self._others:
            self._others.remove(self)

    def take(self, transport: "MemoryTransport") -> None:
        if self.on_accepted is None:
            transport.abort()
        else:
            self.on_accepted(MemoryAccepted(transport))


class MemoryAccepted:
    """An accepted connection in memory, not read before `attach`; implements `Accepted`."""

    number = 0

    def __init__(self, transport: "MemoryTransport") -> None:
        self.remote: tuple[str, int] = transport.get_extra_info("peername")
        self.local_ip: str = transport.get_extra_info("sockname")[0]
        self._transport = transport

    async def attach(self, protocol: asyncio.Protocol, tls: ServerTls | None = None) -> None:
        """Deliver received bytes to a protocol."""
        assert tls is None, "no TLS in memory"
        await asyncio.sleep(0)
        self._transport.start(protocol)

    def close(self) -> None:
        """Reject the connection."""
        self._transport.abort()


class Pipe:
    """One direction of a connection.

    Attributes:
        size: Number of bytes written and not yet read, without discarded ones.
        is_ended: Whether the writer has finished.
        is_broken: Whether the reader has gone, so that writes are discarded.
        on_change: Callbacks of both ends, called after a write, a read, and when one end has finished or gone.
    """

    def __init__(self) -> None:
        self.size = 0
        self.is_ended = False
        self.is_broken = False
        self.on_change: list[Callable[[], None]] = []
        self._pieces: deque[bytes] = deque()

    @property
    def waiting_size(self) -> int:
        """Number of bytes beyond the simulated socket buffer, which count as held by the writer's transport."""
        return max(self.size - SOCKET_SIZE, 0)

    def write(self, data: bytes) -> None:
        """Add bytes for the reader."""
        self._pieces.append(data)
        self.size += len(data)
        self._tell()

    def read(self, size_max: int) -> bytes:
        """Remove and return the first bytes, at most `size_max`."""
        taken = bytearray()
        while self._pieces and len(taken) < size_max:
            taken += self._pieces.popleft()
        if len(taken) > size_max:
            self._pieces.appendleft(bytes(taken[size_max:]))
            del taken[size_max:]
        self.size -= len(taken)
        self._tell()
        return bytes(taken)

    def drop_waiting(self) -> None:
        """Discard the last pieces, until nothing waits beyond the simulated socket buffer."""
        while self.size > SOCKET_SIZE:
            self.size -= len(self._pieces.pop())

    def end(self) -> None:
        """Note that the writer has finished."""
        self.is_ended = True
        self._tell()

    def break_off(self) -> None:
        """Note that the reader has gone."""
        self.is_broken = True
        self._pieces.clear()
        self.size = 0
        self._tell()

    def _tell(self) -> None:
        for told in self.on_change:
            told()


class MemoryTransport(asyncio.Transport):
    """One end of a connection in memory."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        names: tuple[tuple[str, int], tuple[str, int]],
        *,
        reads: Pipe,
        writes: Pipe,
    ) -> None:
        """Create an idle transport; `names` are the addresses of this end and of the peer."""
        super().__init__({"sockname": names[0], "peername": names[1]})
        self._loop = loop
        self._reads, self._writes = reads, writes
        self._protocol: asyncio.Protocol | asyncio.BufferedProtocol | None = None
        self._is_reading = True
        self._is_reading_soon = False
        self._is_closing = False
        self._is_lost = False
        self._is_writer_paused = False
        self._high, self._low = _WRITE_BUFFER_MAX, _WRITE_BUFFER_MAX // 4

    def start(self, protocol: asyncio.Protocol | asyncio.BufferedProtocol) -> None:
        """Connect the transport to a protocol and start reading."""
        self._protocol = protocol
        self._reads.on_change.append(self._read_soon)
        self._writes.on_change.append(self._was_read)
        protocol.connection_made(self)
        self._read_soon()

    # --- reading

    def is_reading(self) -> bool:
        """Return whether reading is neither paused nor ended by closing the transport."""
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """Stop delivering received bytes."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Continue delivering received bytes, unless the transport is closing."""
        self._is_reading = True
        self._read_soon()

    def _read_soon(self) -> None:
        if not self._is_reading_soon and (self._reads.size or self._reads.is_ended):
            self._is_reading_soon = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_reading_soon = False
        if not self.is_reading() or self._protocol is None:
            return
        if self._reads.size:
            self._give(self._protocol)
        elif not self._protocol.eof_received():
            self.close()

    def _give(self, protocol: asyncio.Protocol | asyncio.BufferedProtocol) -> None:
        if isinstance(protocol, asyncio.BufferedProtocol):
            room = memoryview(protocol.get_buffer(READ_SIZE_MAX))
            content = self._reads.read(min(len(room), READ_SIZE_MAX))
            room[: len(content)] = content
            protocol.buffer_updated(len(content))
        else:
            protocol.data_received(self._reads.read(READ_SIZE_MAX))

    # --- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write bytes; those beyond the peer's socket buffer wait here. A closing transport or lost peer drops them."""
        if not data or self._is_closing or self._writes.is_broken:
            return
        self._writes.write(bytes(data))
        if not self._is_writer_paused and self._writes.waiting_size > self._high:
            self._is_writer_paused = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write pieces in order."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """Return the number of written bytes beyond the peer's socket buffer."""
        return self._writes.waiting_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the numbers of waiting bytes above which the protocol is paused, and down to which it is resumed."""
        self._high = _WRITE_BUFFER_MAX if high is None else high
        self._low = self._high // 4 if low is None else low

    def _was_read(self) -> None:
        """Resume the protocol, or finish closing the transport, if the peer has read enough."""
        left = self._writes.waiting_size
        if self._is_writer_paused and left <= self._low and self._protocol is not None:
            self._is_writer_paused = False
            self._protocol.resume_writing()
        if self._is_closing and not left:
            self._end_soon()

    # --- closing

    def can_write_eof(self) -> bool:
        """Return False: a connection in memory ends in both directions at once, as one with TLS does."""
        return False

    def is_closing(self) -> bool:
        """Return whether the transport is closed or closing."""
        return self._is_closing

    def close(self) -> None:
        """Stop reading and writing; close the transport once the peer's socket buffer has room for what was written."""
        if not self._is_closing:
            self._is_closing = True
            self._was_read()

    def abort(self) -> None:
        """Close the transport now; the last written pieces are lost if they exceed the peer's socket buffer."""
        self._is_closing = True
        self._writes.drop_waiting()
        self._end_soon()

    def _end_soon(self) -> None:
        self._loop.call_soon(self._end)

    def _end(self) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._reads.break_off()
        self._writes.end()
        if self._protocol is not None:
            self._protocol.connection_lost(None)
