"""The interface of an HTTP/2 engine, the events that it returns, and the limits that every engine keeps.

An engine is one connection as a machine: no socket, no loop; time is an argument. Frames, header compression and windows
are left to a library: nghttp2 (wire.h2.nghttp2_engine) or `jh2` (wire.h2.jh2_engine). `H2Engine` is the interface that the
server of calls needs.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

# Largest header list of a request in bytes, as RFC 9113 counts them: 32 more for each field.
HEADER_LIST_SIZE_MAX = 16 << 10
# Above this a header list ends the connection, because decoding it costs too much.
HEADER_LIST_SIZE_FATAL = 256 << 10
STREAMS_MAX = 10_000
# Flow-control windows for what the client sends.
STREAM_WINDOW = 1 << 20
CONNECTION_WINDOW = 16 << 20
# Largest frame that a client may send; RFC 9113 allows no smaller limit.
FRAME_SIZE_MAX = 16 << 10

Field = tuple[bytes, bytes]


class H2Error(IntEnum):
    """Error codes of HTTP/2 (RFC 9113, section 7) that the server sends."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class H2Fault(Exception):
    """The client broke the protocol or a limit, so the connection ends.

    Attributes:
        code: Error code for the client.
    """

    def __init__(self, code: H2Error, text: str) -> None:
        super().__init__(text)
        self.code = code


class Opened(NamedTuple):
    """A request has begun; `fields` are its headers in order, None if they exceed HEADER_LIST_SIZE_MAX."""

    stream: int
    fields: Sequence[Field] | None


class BodyPart(NamedTuple):
    """A piece of a request's body, never empty."""

    stream: int
    data: bytes


class Ended(NamedTuple):
    """A request is complete."""

    stream: int


class Reset(NamedTuple):
    """A stream is over before its response was: the client gave up or broke the rules of the stream."""

    stream: int


Event = Opened | BodyPart | Ended | Reset


class H2Engine(Protocol):
    """The server's end of one HTTP/2 connection.

    Methods that send only queue; `output` returns the bytes. To send on a stream that is over does nothing.

    Attributes:
        fault: Reason why the connection must be closed after its last output; empty if there is none.
        waiting: Number of received bytes that `events` has not looked at yet.
        unsent: Number of bytes of response bodies that wait, for a window or for `output`.
    """

    fault: str
    waiting: int
    unsent: int

    def receive(self, data: bytes) -> None:
        """Keep received bytes for `events`; drop them if the connection has a `fault`."""
        ...

    def events(self, now: float) -> list[Event]:
        """Handle the next few received frames and return their events; `now`: the present time, monotonic seconds."""
        ...

    def send_head(self, stream: int, fields: Sequence[Field], *, is_last: bool = False) -> None:
        """Send response headers, or trailers; `is_last` ends the response, and resets the rest of its request."""
        ...

    def send(self, stream: int, data: bytes) -> None:
        """Send a piece of a response's body as soon as the windows allow."""
        ...

    def reset(self, stream: int, code: H2Error) -> None:
        """End a stream at once, without what still waits to be sent on it."""
        ...

    def ping(self) -> None:
        """Ask the client for a sign of life, which arrives as bytes without an event."""
        ...

    def go_away(self, *, is_final: bool) -> None:
        """Ask the client to open no more streams here; the final time, refuse those that it opens all the same."""
        ...

    def is_blocked(self, stream: int) -> bool:
        """Return whether the window has no room for more than what waits already; True if the stream is over."""
        ...

    def stalled(self, now: float, seconds: float) -> list[int]:
        """Return the streams that have sent nothing of what waits since a call of this method `seconds` ago or earlier."""
        ...

    @property
    def has_output(self) -> bool:
        """Whether `output` would return bytes."""
        ...

    def output(self, size_max: int) -> bytes:
        """Return the next bytes for the socket, about `size_max` at most; streams take turns."""
        ...
