"""The HTTP/2 engine on `jh2`, a maintained fork of `h2` whose header compression is compiled.

`jh2` checks and builds frames and keeps the states and windows of streams. This module adds what a server must do around
it: responses wait here while a window is shut, the frames of clients are limited (wire.h2.frame_guard), and `_ServerH2`
changes four things in `jh2` that do not suit a server with 10,000 long streams.
"""

from collections import deque
from collections.abc import Sequence

from jh2._hazmat import Decoder, OversizedHeaderListError
from jh2.config import H2Configuration
from jh2.connection import H2Connection
from jh2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from jh2.events import (
    Event as LibraryEvent,
)
from jh2.exceptions import ProtocolError
from jh2.hyperframe.frame import Frame, GoAwayFrame, SettingsFrame
from jh2.settings import SettingCodes, Settings

from cometmq.wire.h2.engine import (
    CONNECTION_WINDOW,
    FRAME_SIZE_MAX,
    HEADER_LIST_SIZE_FATAL,
    HEADER_LIST_SIZE_MAX,
    STREAM_WINDOW,
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
from cometmq.wire.h2.frame_guard import FrameGuard
from cometmq.wire.h2.header_block import check_header_block
from cometmq.wire.h2.request_fields import are_regular, is_request

# Bytes of the table that header fields are compressed with, one table a direction. Larger ones compress what each call
# has anew (date, request id, signature) no better.
TABLE_SIZE = 16 << 10
_PEER_TABLE_SIZE = 4096
# Largest frame that is sent, whatever larger one the client allows; and bytes of a stream before the next one's turn.
_SENT_FRAME_MAX = 64 << 10
# Streams of which the end is remembered, to tell frames that were on their way from frames that break the protocol.
_ENDED_MAX = 1024
_FIELD_OVERHEAD = 32
_STREAM_MAX = 2**31 - 1
_KNOWN_SETTINGS = frozenset(
    (
        SettingCodes.HEADER_TABLE_SIZE,
        SettingCodes.ENABLE_PUSH,
        SettingCodes.MAX_CONCURRENT_STREAMS,
        SettingCodes.INITIAL_WINDOW_SIZE,
        SettingCodes.MAX_FRAME_SIZE,
    )
)
_CONFIGURATION = H2Configuration(
    client_side=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
    validate_inbound_headers=False,  # wire.h2.request_fields does.
    normalize_inbound_headers=False,
)


class _CompressionError(ProtocolError):  # type: ignore[misc]  # jh2 has no types.
    error_code = H2Error.COMPRESSION_ERROR


class _StrictDecoder:
    """A decoder of headers, all of whose errors end the connection with the code that RFC 9113 demands."""

    def __init__(self) -> None:
        self._decoder = Decoder(HEADER_LIST_SIZE_FATAL)
        self.max_header_list_size = HEADER_LIST_SIZE_FATAL

    @property
    def max_allowed_table_size(self) -> int:
        size: int = self._decoder.max_allowed_table_size
        return size

    @max_allowed_table_size.setter
    def max_allowed_table_size(self, size: int) -> None:
        self._decoder.max_allowed_table_size = size

    def decode(self, data: bytes, raw: bool | None = None) -> list[tuple[bytes, bytes, bool]]:  # noqa: FBT001
        try:
            check_header_block(data)
            fields: list[tuple[bytes, bytes, bool]] = self._decoder.decode(data, raw)
        except OversizedHeaderListError:
            raise
        except Exception as error:  # noqa: BLE001  As `jh2` does; not all of them are HPACKErrors.
            raise _CompressionError(f"its headers cannot be decompressed: {error}") from None
        except BaseException as error:
            # A failed assertion in the compiled part is no `Exception`.
            if type(error).__name__ != "PanicException":
                raise
            raise _CompressionError("its headers cannot be decompressed") from None
        return fields


class _ServerH2(H2Connection):  # type: ignore[misc]  # jh2 has no types.
    """A connection of `jh2` for a server with many long streams."""

    MAX_CLOSED_STREAMS = _ENDED_MAX

    def __init__(self) -> None:
        super().__init__(_CONFIGURATION)
        self.decoder = _StrictDecoder()
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.HEADER_TABLE_SIZE: TABLE_SIZE,
                SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_LIST_SIZE_MAX,
            },
        )
        self.decoder.max_allowed_table_size = TABLE_SIZE
        self.max_inbound_frame_size = FRAME_SIZE_MAX

    def _open_streams(self, _remainder: int) -> int:
        """Return 0: the engine counts and refuses streams, where `jh2` would look at all of them for each request."""
        return 0

    def _receive_goaway_frame(
        self, frame: GoAwayFrame
    ) -> tuple[list[Frame], list[LibraryEvent]]:
        """Let the client's open calls end: it only promises to open no more, but `jh2` would close the connection."""
        event = ConnectionTerminated()
        event.last_stream_id = frame.last_stream_id
        return [], [event]

    def _receive_settings_frame(
        self, frame: SettingsFrame
    ) -> tuple[list[Frame], list[LibraryEvent]]:
        """Drop settings that nothing reads, which `jh2` would keep, and limit the memory for compression."""
        settings = {
            key: value for key, value in frame.settings.items() if key in _KNOWN_SETTINGS
        }
        size = settings.get(SettingCodes.HEADER_TABLE_SIZE)
        if size is not None:
            settings[SettingCodes.HEADER_TABLE_SIZE] = min(size, _PEER_TABLE_SIZE)
        frame.settings = settings
        received: tuple[list[Frame], list[LibraryEvent]] = super()._receive_settings_frame(
            frame
        )
        return received

    def retire(self, stream: int) -> None:
        """Free a stream if it is closed; `jh2` itself would only do so while it counts streams."""
        state = self.streams.get(stream)
        if state is not None and state.closed:
            del self.streams[stream]
            self._closed_streams[stream] = state.closed_by


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


class Jh2Engine:
    """An `H2Engine` on `jh2`."""

    def __init__(self) -> None:
        """Prepare the server's settings, which are the first output."""
        self.fault = ""
        self.waiting = self.unsent = 0
        self._h2 = _ServerH2()
        self._guard = FrameGuard()
        self._unread, self._read_to = b"", 0
        self._open: dict[int, _Outgoing] = {}
        # Streams with something to send, in the order of their turns: at once, when the window of the connection opens, and
        # when their own window does.
        self._ready: dict[int, None] = {}
        self._held_up: dict[int, None] = {}
        self._shut: dict[int, None] = {}
        self._is_final = False
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - 65_535)

    # --- what the client sends

    def receive(self, data: bytes) -> None:
        """Keep received bytes for `events`; drop them if the connection has a `fault`."""
        if self.fault:
            return
        self._unread = self._unread[self._read_to :] + data if self.waiting else data
        self._read_to = 0
        self.waiting = len(self._unread)

    def events(self, now: float) -> list[Event]:
        """Handle the next few received frames and return their events; `now`: the present time, monotonic seconds."""
        events: list[Event] = []
        if not self.waiting:
            return events
        try:
            start = self._read_to
            self._read_to = end = self._guard.cut(self._unread, start, now)
            self.waiting = len(self._unread) - end
            for event in self._h2.receive_data(self._unread[start:end]):
                self._translate(event, events, now)
        except H2Fault as error:
            self._fail(error.code, str(error))
        except ProtocolError as error:  # `jh2` has queued a GOAWAY.
            self._end(f"it broke the rules of HTTP/2 ({type(error).__name__}: {error})")
        except Exception as error:  # noqa: BLE001  A fault in the library must not affect other connections.
            self._fail(H2Error.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        return events

    def _translate(self, event: LibraryEvent, events: list[Event], now: float) -> None:
        kind = type(event)
        if kind is DataReceived:
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.data and event.stream_id in self._open:
                events.append(BodyPart(event.stream_id, bytes(event.data)))
        elif kind is RequestReceived:
            self._opened(event, events, now)
        elif kind is TrailersReceived:
            if not are_regular(event.headers):
                self._reset_malformed(event.stream_id, events, now)
        elif kind is StreamEnded:
            if event.stream_id in self._open:
                events.append(Ended(event.stream_id))
        elif kind is StreamReset:
            if not event.remote_reset:
                self._guard.count_reset(now)
            if event.stream_id in self._open:
                events.append(Reset(event.stream_id))
            self._forget(event.stream_id)
        elif kind is WindowUpdated:
            if event.stream_id in self._shut:
                del self._shut[event.stream_id]
                self._ready[event.stream_id] = None
        elif kind is RemoteSettingsChanged:
            self._ready.update(self._shut)
            self._shut.clear()

    def _opened(self, event: RequestReceived, events: list[Event], now: float) -> None:
        stream, fields = event.stream_id, event.headers
        if self._is_final or len(self._open) >= STREAMS_MAX:
            self._h2.reset_stream(stream, H2Error.REFUSED_STREAM)
            self._h2.retire(stream)
            return
        self._open[stream] = _Outgoing()
        size = _FIELD_OVERHEAD * len(fields)
        size += sum([len(name) + len(value) for name, value in fields])
        if size > HEADER_LIST_SIZE_MAX:
            events.append(Opened(stream, None))
        elif is_request(fields):
            events.append(Opened(stream, fields))
        else:
            self._reset_malformed(stream, events, now)

    def _reset_malformed(self, stream: int, events: list[Event], now: float) -> None:
        self._guard.count_reset(now)
        events.append(Reset(stream))
        self.reset(stream, H2Error.PROTOCOL_ERROR)

    def _forget(self, stream: int) -> None:
        outgoing = self._open.pop(stream, None)
        if outgoing is not None:
            for waiting in (self._ready, self._held_up, self._shut):
                waiting.pop(stream, None)
            self.unsent -= outgoing.size
        self._h2.retire(stream)

    def _fail(self, code: H2Error, text: str) -> None:
        self._h2.close_connection(code, text.encode()[:200])
        self._end(text)

    def _end(self, text: str) -> None:
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
            self._h2.reset_stream(stream, code)
            self._forget(stream)

    def ping(self) -> None:
        """Ask the client for a sign of life, which arrives as bytes without an event."""
        if not self.fault:
            self._h2.ping(b"cometmq.")

    def go_away(self, *, is_final: bool) -> None:
        """Ask the client to open no more streams here; the final time, refuse those that it opens all the same."""
        if self.fault or self._is_final:
            return
        self._is_final = is_final
        frame = GoAwayFrame(0)
        frame.last_stream_id = self._h2.highest_inbound_stream_id if is_final else _STREAM_MAX
        # `close_connection` would end the streams that are open, too.
        self._h2._prepare_for_sending([frame])  # noqa: SLF001

    def is_blocked(self, stream: int) -> bool:
        """Return whether the window has no room for more than what waits already; True if the stream is over."""
        outgoing = self._open.get(stream)
        return outgoing is None or outgoing.size >= self._h2.local_flow_control_window(stream)

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
        return bool(self._next_waiting() or self._h2._data_to_send)  # noqa: SLF001

    def _next_waiting(self) -> dict[int, None] | None:
        """Return the streams that have the next turn; None if none can send."""
        if self._ready:
            return self._ready
        if self._held_up and self._h2.outbound_flow_control_window > 0:
            return self._held_up
        return None

    def output(self, size_max: int) -> bytes:
        """Return the next bytes for the socket, about `size_max` at most; streams take turns."""
        made = self._h2._data_to_send  # noqa: SLF001
        while len(made) < size_max and (waiting := self._next_waiting()) is not None:
            stream = next(iter(waiting))
            del waiting[stream]
            self._send_some(stream, self._open[stream])
        data: bytes = self._h2.data_to_send()
        return data

    def _send_some(self, stream: int, outgoing: _Outgoing) -> None:
        """Send what a stream may at its turn, and note what it waits for then."""
        h2, items, room = self._h2, outgoing.items, _SENT_FRAME_MAX
        frame_max = min(h2.max_outbound_frame_size, _SENT_FRAME_MAX)
        while items:
            item = items[0]
            if isinstance(item, tuple):
                fields, is_last = item
                items.popleft()
                h2.send_headers(stream, fields, end_stream=is_last)
                if is_last:
                    self._finish(stream)
                    return
                continue
            size = min(len(item), h2.local_flow_control_window(stream), frame_max)
            if size <= 0:
                is_held_up = h2.outbound_flow_control_window <= 0
                (self._held_up if is_held_up else self._shut)[stream] = None
                return
            if room <= 0:
                self._ready[stream] = None
                return
            h2.send_data(stream, item[:size])
            outgoing.stalled_since = None
            outgoing.size -= size
            self.unsent -= size
            room -= size
            if size == len(item):
                items.popleft()
            else:
                items[0] = item[size:]

    def _finish(self, stream: int) -> None:
        """Free a stream whose response is complete; a request that is not is of no use any more."""
        if not self._h2.streams[stream].closed:
            self._h2.reset_stream(stream, H2Error.NO_ERROR)
        self._forget(stream)
