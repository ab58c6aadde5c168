"""A connection of a door without a socket, and what a server writes to it."""

import asyncio
from types import SimpleNamespace
from typing import Any

from cometmq.net.connections import OpenConnection
from cometmq.net.peer import Peer
from cometmq.net.server import Server
from cometmq.wire.connection import Connection


def connection_from(ip: str = "127.0.0.1", port: int = 4321) -> OpenConnection:
    """A connection that has just come from there to this machine."""
    accepted: Any = SimpleNamespace(remote=(ip, port), local_ip="127.0.0.1", number=5)
    return OpenConnection(accepted)


class Wire(asyncio.Transport):
    """A transport without a socket, which keeps what is written.

    Attributes:
        written: All bytes since somebody looked at the answers.
        is_read: Whether its server reads what comes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def close(self) -> None:
        self.is_read = False

    abort = close

    def answers(self) -> list[tuple[int, int]]:
        """(code, opaque) of the answers that were written since the last time."""
        data, self.written = self.written, b""
        return [(command[0], command[2]) for command in Connection[None]().receive_data(data)]

    def frames(self) -> list[bytes]:
        """The frames that were written since the last time."""
        data, self.written = self.written, b""
        found = []
        while data:
            size = 4 + int.from_bytes(data[:4])
            found.append(data[:size])
            data = data[size:]
        return found


def connected_to(server: Server, ip: str = "127.0.0.1", port: int = 4321) -> tuple[Peer, Wire]:
    """A connection to a server, and what the server writes to it."""
    peer, wire = Peer(server, connection_from(ip, port)), Wire()
    peer.connection_made(wire)
    return peer, wire
