"""The one that writes to a connection's socket, past the transport where that is allowed.

A transport keeps what it is given until the end of the loop's turn, while whoever waits for it waits. So bytes
that are wanted now go to the socket at once. Only this object does that, for it knows when it must not: while the
transport has bytes that come first, when the connection is closing, and when what the transport writes
is not what the socket gets (TLS).
"""

import asyncio
import os

# Of bytes that the socket took in part, this part at most is kept until it takes the rest.
_KEPT_PART = 4


class SocketWriter:
    """Writes to the socket of one transport.

    Attributes:
        fd: the number of the socket; -1 where the transport alone may write to it.
    """

    __slots__ = ("_is_behind", "_transport", "fd")

    def __init__(self, transport: asyncio.Transport) -> None:
        """The transport has its socket."""
        self._transport = transport
        self._is_behind = (
            False  # The transport was given something, and has it still as far as we know.
        )
        socket = transport.get_extra_info("socket")
        is_plain = transport.get_extra_info("sslcontext") is None
        self.fd = socket.fileno() if socket is not None and is_plain else -1

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken yet."""
        size: int = self._transport.get_write_buffer_size()
        return size

    @property
    def is_direct(self) -> bool:
        """Whether the socket would be given what is written now."""
        return self.fd >= 0 and not (self._is_behind and self._has_unsent())

    def _has_unsent(self) -> bool:
        self._is_behind = self.unsent > 0
        return self._is_behind

    def write(self, data: bytes | memoryview) -> None:
        """Write at the end of the loop's turn."""
        self._is_behind = True
        self._transport.write(data)

    def write_now(self, data: bytes | memoryview) -> bool:
        """Write what the socket takes at once, and the rest when it can; False where there is a rest."""
        if self.fd >= 0 and not (self._is_behind and self._has_unsent()):  # As `is_direct`.
            try:
                sent = os.write(self.fd, data)
            except OSError:  # The transport finds the same, and knows what to do about it.
                sent = 0
            if sent == len(data):
                return True
            data = _rest_of(data, sent)
        self.write(data)
        return False

    def write_pieces_now(self, pieces: list[bytes | memoryview], size: int) -> bool:
        """Write some pieces of so many bytes, one behind the other, as `write_now`: to the socket without a copy that joins them."""
        sent = 0
        if self.fd >= 0 and not (self._is_behind and self._has_unsent()):  # As `is_direct`.
            try:
                sent = os.writev(self.fd, pieces)
            except OSError:  # As above.
                sent = 0
            if sent == size:
                return True
        self.write(_rest_of(b"".join(pieces), sent))
        return False

    def close(self) -> None:
        """Close the connection when everything is written."""
        self.fd = -1
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.fd = -1
        self._transport.abort()

    def lost(self) -> None:
        """Write no more: the number of the socket may be another's soon."""
        self.fd = -1


def _rest_of(data: bytes | memoryview, sent: int) -> bytes | memoryview:
    """The rest of a partly sent buffer; copied where most was sent, so that the large one is freed."""
    rest = memoryview(data)[sent:]
    return bytes(rest) if sent > len(data) // _KEPT_PART else rest
