"""The common part of both HTTP/2 engines: all but the library that checks and builds frames.

The frames of a client pass `FrameGuard`, then the library of a subclass, which calls the methods here with their meaning.
Responses wait here while a window is shut, and streams take turns.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from struct import Struct

from cometmq.wire.h2.engine import (
    HEADER_LIST_SIZE_MAX,
    STREAMS_MAX,
    BodyPart,
    Ended,
    Event,
    Field,
    H2Error,
    H2Fault,
    Opened,
    Reset,
)
from cometmq.wire.h2.frame_guard import GOAWAY, PING, FrameGuard
from cometmq.wire.h2.request_fields import are_regular, is_request

# Bytes of the table that header fields are compressed with, one table a direction. Larger ones compress what each call
# has anew (date, request id, signature) no better.
TABLE_SIZE = 16 << 10
# Bytes of a stream before the next one's turn.
SENT_AT_ONCE = 64 << 10
_STREAM_MAX = 2**31 - 1
_FAULT_TEXT_MAX = 200
# Size (in two parts), type, flags and stream of a frame; last stream and code of a GOAWAY.
_FRAME_HEAD = Struct(">BHBBI")
_GOAWAY = Struct(">II")


class _Outgoing:
    """The part of a response that waits.

    Attributes:
        items: Pieces of its body, and headers with whether they are the last.
        size: Bytes of the body among them.
        stalled_since: When `stalled` first found that something waits; None if body data was sent since.
    """

    __slots__ = ("items", "size", "stalled_since")

    def __init__(self) -> None:
        self.size = 0
        self.items: deque[memoryview | tuple[Sequence[Field], bool]] = deque()
        self.stalled_since: float | None = None


class ServerEngine(ABC):
    """An `H2Engine` without its library."""

    def __init__(self, made: bytearray) -> None:
        """Prepare for a client; `made` is where the library puts the bytes that it makes, the server's settings first."""
        self.fault = ""
        self.waiting = self.unsent = 0
        self._made = made
        self._guard = FrameGuard()
        self._unread, self._read_to = b"", 0
        self._open: dict[int, _Outgoing] = {}
        # Streams with something to send, in the order of their turns: at once, when the window of the connection opens, and
        # when their own window does.
        self._ready: dict[int, None] = {}
        self._held_up: dict[int, None] = {}
        self._shut: dict[int, None] = {}
        self._is_final = False
        self._last_stream = 0

    # --- the library

    @abstractmethod
    def _handle(self, piece: bytes, events: list[Event], now: float) -> None:
        """Have the library handle frames, and call the methods of the next section.

        Raises:
            H2Fault: The connection must end, and the library has not queued a GOAWAY; if it has, `_end` is called.
        """

    @abstractmethod
    def _send_head(self, stream: int, fields: Sequence[Field], *, is_last: bool) -> None:
        """Make HEADERS."""

    @abstractmethod
    def _send_body(self, stream: int, piece: memoryview) -> None:
        """Make DATA of a piece that the windows have room for."""

    @abstractmethod
    def _send_reset(self, stream: int, code: H2Error) -> None:
        """Make RST_STREAM, unless the stream is over for the library, and have the library forget it."""

    @abstractmethod
    def _window(self, stream: int) -> int:
        """Return how many bytes the windows of a stream and of the connection have room for."""

    @abstractmethod
    def _connection_window(self) -> int:
        """Return how many bytes the window of the connection has room for."""

    # --- what the client sends

    def receive(self, data: bytes) -> None:
        """Keep received bytes for `events`; drop them if the connection has a `fault`."""
        if self.fault:
            return
        self._unread = self._unread[self._read_to :] + data
        self._read_to = 0
        self.waiting = len(self._unread)

    def events(self, now: float) -> list[Event]:
        """Handle the next few received frames and return their events; `now`: the present time, monotonic seconds.

        Frames with a fault that ends the connection, and those handled together with them, have no events.
        """
        events: list[Event] = []
        if not self.waiting:
            return events
        try:
            piece, self._read_to = self._guard.cut(self._unread, self._read_to, now)
            self.waiting = len(self._unread) - self._read_to if self._guard.has_more else 0
            self._handle(piece, events, now)
        except H2Fault as error:
            self._fail(error.code, str(error))
        except Exception as error:  # noqa: BLE001  A fault in the library must not affect other connections.
            self._fail(H2Error.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        if self.fault:
            events.clear()
        return events

    def _request_came(
        self, stream: int, fields: Sequence[Field], size: int, events: list[Event], now: float
    ) -> None:
        """Begin a request, unless it is refused; `size`: of its headers, as HEADER_LIST_SIZE_MAX counts it."""
        if self._is_final or len(self._open) >= STREAMS_MAX:
            self._send_reset(stream, H2Error.REFUSED_STREAM)
            self._guard.forget(stream)
            return
        self._last_stream = stream
        self._open[stream] = _Outgoing()
        if size > HEADER_LIST_SIZE_MAX:
            events.append(Opened(stream, None))
        elif is_request(fields):
            events.append(Opened(stream, fields))
        else:
            self._reset_malformed(stream, events, now)

    def _trailers_came(
        self, stream: int, fields: Sequence[Field], events: list[Event], now: float
    ) -> None:
        if stream in self._open and not are_regular(fields):
            self._reset_malformed(stream, events, now)

    def _reset_malformed(self, stream: int, events: list[Event], now: float) -> None:
        self._guard.count_reset(now)
        events.append(Reset(stream))
        self.reset(stream, H2Error.PROTOCOL_ERROR)

    def _body_came(self, stream: int, data: bytes, events: list[Event]) -> None:
        if data and stream in self._open:
            events.append(BodyPart(stream, data))

    def _end_came(self, stream: int, events: list[Event]) -> None:
        if stream in self._open:
            events.append(Ended(stream))

    def _reset_came(self, stream: int, events: list[Event]) -> None:
        if stream in self._open:
            events.append(Reset(stream))
            self._forget(stream)

    def _window_opened(self, stream: int) -> None:
        if stream in self._shut:
            del self._shut[stream]
            self._ready[stream] = None

    def _settings_came(self) -> None:
        self._ready.update(self._shut)
        self._shut.clear()

    # --- ends

    def _forget(self, stream: int) -> None:
        outgoing = self._open.pop(stream)
        for waiting in (self._ready, self._held_up, self._shut):
            waiting.pop(stream, None)
        self.unsent -= outgoing.size
        self._guard.forget(stream)

    def _fail(self, code: H2Error, text: str) -> None:
        """End the connection with a GOAWAY."""
        self._send_goaway(self._last_stream, code, text.encode()[:_FAULT_TEXT_MAX])
        self._end(text)

    def _end(self, text: str) -> None:
        """End the connection, whose client has been told."""
        self.fault = text
        self._unread, self._read_to, self.waiting = b"", 0, 0
        self._ready.clear()
        self._held_up.clear()

    # --- what the server sends

    def send_head(self, stream: int, fields: Sequence[Field], *, is_last: bool = False) -> None:
        """Send response headers, or trailers; `is_last` ends the response, and resets the rest of its request."""
        self._queue(stream, (fields, is_last))

    def send(self, stream: int, data: bytes) -> None:
        """Send a piece of a response's body as soon as the windows allow."""
        if data and (outgoing := self._queue(stream, memoryview(data))):
            outgoing.size += len(data)
            self.unsent += len(data)

    def _queue(
        self, stream: int, item: memoryview | tuple[Sequence[Field], bool]
    ) -> _Outgoing | None:
        outgoing = self._open.get(stream)
        if outgoing is None or self.fault:
            return None
        if not outgoing.items:
            self._ready[stream] = None
        outgoing.items.append(item)
        return outgoing

    def reset(self, stream: int, code: H2Error) -> None:
        """End a stream at once, without what still waits to be sent on it."""
        if stream in self._open and not self.fault:
            self._send_reset(stream, code)
            self._forget(stream)

    def ping(self) -> None:
        """Ask the client for a sign of life, which arrives as bytes without an event."""
        if not self.fault:
            self._send_frame(PING, b"cometmq.")

    def go_away(self, *, is_final: bool) -> None:
        """Ask the client to open no more streams here; the final time, refuse those that it opens all the same."""
        if self.fault or self._is_final:
            return
        self._is_final = is_final
        self._send_goaway(self._last_stream if is_final else _STREAM_MAX, H2Error.NO_ERROR)

    def _send_goaway(self, last_stream: int, code: H2Error, text: bytes = b"") -> None:
        # That of a library would end the calls that are open, too.
        self._send_frame(GOAWAY, _GOAWAY.pack(last_stream, code) + text)

    def _send_frame(self, kind: int, payload: bytes) -> None:
        self._made += _FRAME_HEAD.pack(0, len(payload), kind, 0, 0) + payload

    def is_blocked(self, stream: int) -> bool:
        """Return whether the window has no room for more than what waits already; True if the stream is over."""
        outgoing = self._open.get(stream)
        return outgoing is None or outgoing.size >= self._window(stream)

    def stalled(self, now: float, seconds: float) -> list[int]:
        """Return the streams that have sent nothing of what waits since a call of this method `seconds` ago or earlier."""
        found = []
        for stream, outgoing in self._open.items():
            if not outgoing.items:
                continue
            if outgoing.stalled_since is None:
                outgoing.stalled_since = now
            elif now - outgoing.stalled_since >= seconds:
                found.append(stream)
        return found

    @property
    def has_output(self) -> bool:
        """Whether `output` would return bytes."""
        return bool(self._next_waiting() or self._made)

    def _next_waiting(self) -> dict[int, None] | None:
        """Return the streams that have the next turn; None if none can send."""
        if self._ready:
            return self._ready
        if self._held_up and self._connection_window() > 0:
            return self._held_up
        return None

    def output(self, size_max: int) -> bytes:
        """Return the next bytes for the socket, about `size_max` at most; streams take turns."""
        made = self._made
        while len(made) < size_max and (waiting := self._next_waiting()) is not None:
            stream = next(iter(waiting))
            del waiting[stream]
            try:
                self._send_some(stream, self._open[stream])
            except Exception as error:  # noqa: BLE001  As in `events`.
                self._fail(H2Error.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        data = bytes(made)
        made.clear()
        return data

    def _send_some(self, stream: int, outgoing: _Outgoing) -> None:
        """Send what a stream may at its turn, and note what it waits for then."""
        items, room = outgoing.items, SENT_AT_ONCE
        while items:
            item = items[0]
            if isinstance(item, tuple):
                fields, is_last = item
                items.popleft()
                self._send_head(stream, fields, is_last=is_last)
                if is_last:
                    # A request that is not complete is of no use any more.
                    self._send_reset(stream, H2Error.NO_ERROR)
                    self._forget(stream)
                    return
                continue
            size = min(len(item), self._window(stream), room)
            if size <= 0:
                is_held_up = self._connection_window() <= 0
                waiting = (
                    self._ready if room <= 0 else self._held_up if is_held_up else self._shut
                )
                waiting[stream] = None
                return
            self._send_body(stream, item[:size])
            outgoing.stalled_since = None
            outgoing.size -= size
            self.unsent -= size
            room -= size
            if size == len(item):
                items.popleft()
            else:
                items[0] = item[size:]
