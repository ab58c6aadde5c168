"""The HTTP/2 engine on nghttp2, a library in C, where its module `_nghttp2` was built (setup.py)."""

from collections.abc import Sequence

from cometmq.wire.h2._nghttp2 import (
    BODY,
    END,
    REQUEST,
    RESET,
    TRAILERS,
    WINDOW,
    Nghttp2Session,
)
from cometmq.wire.h2.engine import Event, Field, H2Error, H2Fault
from cometmq.wire.h2.server_engine import ServerEngine


class Nghttp2Engine(ServerEngine):
    """An `H2Engine` on nghttp2."""

    def __init__(self) -> None:
        """Prepare the server's settings, which are the first output."""
        self._session = Nghttp2Session()
        super().__init__(self._session.made)

    def _handle(self, piece: bytes, events: list[Event], now: float) -> None:
        found = self._session.receive(piece)
        if self._session.fault is not None:
            code, text = self._session.fault
            if not self._session.is_told:
                raise H2Fault(H2Error(code), text)
            self._end(f"it broke the rules of HTTP/2 ({text})")
            return
        for kind, stream, item in found:
            if kind == REQUEST:
                fields, size = item
                self._request_came(stream, fields, size, events, now)
            elif kind == BODY:
                self._body_came(stream, item, events)
            elif kind == END:
                self._end_came(stream, events)
            elif kind == TRAILERS:
                self._trailers_came(stream, item, events, now)
            elif kind == RESET:
                self._reset_came(stream, events)
            elif kind == WINDOW:
                self._window_opened(stream)
            else:
                self._settings_came()

    def _send_head(self, stream: int, fields: Sequence[Field], *, is_last: bool) -> None:
        self._session.send_head(stream, fields, is_last)

    def _send_body(self, stream: int, piece: memoryview) -> None:
        self._session.send_body(stream, piece)

    def _send_reset(self, stream: int, code: H2Error) -> None:
        self._session.send_reset(stream, code)

    def _window(self, stream: int) -> int:
        return self._session.window(stream)

    def _connection_window(self) -> int:
        return self._session.connection_window()
