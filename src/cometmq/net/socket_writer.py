"""Direct writes to a connection's socket, bypassing the transport when that is safe.

uvloop's transport buffers data until the end of the loop iteration while the receiver waits, so urgent data goes to the
socket directly. That is unsafe while the transport holds earlier bytes, while the connection is closing, and under TLS.
"""

import asyncio
import os

# Copy the rest of a partly sent buffer if more than 1/_KEPT_PART was sent; otherwise keep the buffer.
_KEPT_PART = 4
# Whether a socket can be written to as a file. On Windows its number may be that of another file.
_IS_FILE = hasattr(os, "writev")


class SocketWriter:
    """Writer for the socket of one transport, which `write_now` and `write_pieces_now` bypass if that is safe.

    Attributes:
        fd: File descriptor of the socket; -1 if only the transport may write.
    """

    __slots__ = ("_is_behind", "_transport", "fd")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_behind = False  # Whether the transport may still hold bytes.
        socket = transport.get_extra_info("socket")
        is_plain = transport.get_extra_info("sslcontext") is None
        self.fd = socket.fileno() if _IS_FILE and socket is not None and is_plain else -1

    @property
    def unsent(self) -> int:
        """Number of written bytes that the transport still holds."""
        size: int = self._transport.get_write_buffer_size()
        return size

    @property
    def is_direct(self) -> bool:
        """Whether `write_now` would write to the socket itself."""
        return self.fd >= 0 and not (self._is_behind and self._has_unsent())

    def _has_unsent(self) -> bool:
        self._is_behind = self.unsent > 0
        return self._is_behind

    def write(self, data: bytes | memoryview) -> None:
        """Give the bytes to the transport; uvloop's begins to send them at the end of the loop iteration."""
        self._is_behind = True
        self._transport.write(data)

    def write_now(self, data: bytes | memoryview) -> bool:
        """Write what the socket accepts, if that is safe; give the transport the rest; return whether none was left."""
        if self.fd >= 0 and not (self._is_behind and self._has_unsent()):  # As `is_direct`.
            try:
                sent = os.write(self.fd, data)
            except OSError:  # The transport meets the same error and handles it.
                sent = 0
            if sent == len(data):
                return True
            data = _rest_of(data, sent)
        self.write(data)
        return False

    def write_pieces_now(self, pieces: list[bytes | memoryview], size: int) -> bool:
        """Do what `write_now` does with pieces of `size` bytes in total; they are joined only if there is a rest."""
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
        """Close the connection after writing all bytes."""
        self.fd = -1
        self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        self.fd = -1
        self._transport.abort()

    def lost(self) -> None:
        """Stop writing to the socket directly, as the descriptor may soon belong to another socket."""
        self.fd = -1


def _rest_of(data: bytes | memoryview, sent: int) -> bytes | memoryview:
    """Return the unsent rest of a buffer; copied if more than a quarter was sent, so that the large buffer is freed."""
    rest = memoryview(data)[sent:]
    return bytes(rest) if sent > len(data) // _KEPT_PART else rest
