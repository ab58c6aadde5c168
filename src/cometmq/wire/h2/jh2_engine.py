"""The HTTP/2 engine on `jh2`, a maintained fork of `h2` whose header compression is compiled.

`jh2` checks and builds frames and keeps the states and windows of streams. `_ServerH2` changes four things in it that do
not suit a server with 10,000 long streams.
"""

from collections.abc import Sequence

from jh2._hazmat import Decoder, OversizedHeaderListError
from jh2.config import H2Configuration
from jh2.connection import H2Connection
from jh2.events import (
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
from jh2.exceptions import FlowControlError, ProtocolError
from jh2.hyperframe.frame import Frame, SettingsFrame, WindowUpdateFrame
from jh2.settings import SettingCodes, Settings

from cometmq.wire.h2.engine import (
    CONNECTION_WINDOW,
    FRAME_SIZE_MAX,
    HEADER_LIST_SIZE_FATAL,
    HEADER_LIST_SIZE_MAX,
    STREAM_WINDOW,
    STREAMS_MAX,
    Event,
    Field,
    H2Error,
)
from cometmq.wire.h2.frame_guard import OVER_MAX
from cometmq.wire.h2.header_block import check_header_block
from cometmq.wire.h2.server_engine import TABLE_SIZE, ServerEngine

# Most bytes of the table that answers are compressed with, whatever more the client allows.
_PEER_TABLE_SIZE = 4096
# Largest frame that is sent, whatever larger one the client allows.
_SENT_FRAME_MAX = 64 << 10
_FIELD_OVERHEAD = 32
_KNOWN_SETTINGS = frozenset(
    (
        SettingCodes.HEADER_TABLE_SIZE,
        SettingCodes.ENABLE_PUSH,
        SettingCodes.MAX_CONCURRENT_STREAMS,
        SettingCodes.INITIAL_WINDOW_SIZE,
        SettingCodes.MAX_FRAME_SIZE,
        SettingCodes.ENABLE_CONNECT_PROTOCOL,
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

    MAX_CLOSED_STREAMS = OVER_MAX

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

    def _receive_window_update_frame(
        self, frame: WindowUpdateFrame
    ) -> tuple[list[Frame], list[LibraryEvent]]:
        """End the connection if a window gets too large, where `jh2` would only reset the stream."""
        frames, events = super()._receive_window_update_frame(frame)
        if frames:
            self._prepare_for_sending(frames)
            raise FlowControlError(f"the window of stream {frame.stream_id} is too large")
        return frames, events

    def retire(self, stream: int) -> None:
        """Free a stream if it is closed; `jh2` itself would only do so while it counts streams."""
        state = self.streams.get(stream)
        if state is not None and state.closed:
            del self.streams[stream]
            self._closed_streams[stream] = state.closed_by


class Jh2Engine(ServerEngine):
    """An `H2Engine` on `jh2`."""

    def __init__(self) -> None:
        """Prepare the server's settings, which are the first output."""
        self._h2 = _ServerH2()
        super().__init__(self._h2._data_to_send)  # noqa: SLF001  To copy what it made would cost each call.
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW - 65_535)

    def _handle(self, piece: bytes, events: list[Event], now: float) -> None:
        try:
            received = self._h2.receive_data(piece)
        except ProtocolError as error:  # `jh2` has queued a GOAWAY.
            self._end(f"it broke the rules of HTTP/2 ({type(error).__name__}: {error})")
            return
        for event in received:
            self._translate(event, events, now)

    def _translate(self, event: LibraryEvent, events: list[Event], now: float) -> None:
        kind = type(event)
        if kind is DataReceived:
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self._body_came(event.stream_id, bytes(event.data), events)
        elif kind is RequestReceived:
            fields = event.headers
            size = _FIELD_OVERHEAD * len(fields)
            size += sum([len(name) + len(value) for name, value in fields])
            self._request_came(event.stream_id, fields, size, events, now)
        elif kind is TrailersReceived:
            self._trailers_came(event.stream_id, event.headers, events, now)
        elif kind is StreamEnded:
            self._end_came(event.stream_id, events)
        elif kind is StreamReset:
            self._reset_came(event.stream_id, events)
            self._h2.retire(event.stream_id)
        elif kind is WindowUpdated:
            self._window_opened(event.stream_id)
        elif kind is RemoteSettingsChanged:
            self._settings_came()

    def _send_head(self, stream: int, fields: Sequence[Field], *, is_last: bool) -> None:
        self._h2.send_headers(stream, fields, end_stream=is_last)

    def _send_body(self, stream: int, piece: memoryview) -> None:
        size = min(self._h2.max_outbound_frame_size, _SENT_FRAME_MAX)
        for at in range(0, len(piece), size):
            self._h2.send_data(stream, piece[at : at + size])

    def _send_reset(self, stream: int, code: H2Error) -> None:
        if not self._h2.streams[stream].closed:
            self._h2.reset_stream(stream, code)
        self._h2.retire(stream)

    def _window(self, stream: int) -> int:
        size: int = self._h2.local_flow_control_window(stream)
        return size

    def _connection_window(self) -> int:
        size: int = self._h2.outbound_flow_control_window
        return size
