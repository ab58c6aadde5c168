from collections.abc import Sequence
from typing import Any

from cometmq.wire.h2.engine import Field

VERSION: str
REQUEST: int
TRAILERS: int
BODY: int
END: int
RESET: int
WINDOW: int
SETTINGS: int

class Nghttp2Session:
    made: bytearray
    fault: tuple[int, str] | None
    is_told: bool

    def receive(self, data: bytes) -> list[tuple[int, int, Any]]: ...
    def send_head(self, stream: int, fields: Sequence[Field], is_last: bool) -> None: ...
    def send_body(self, stream: int, piece: memoryview) -> None: ...
    def send_reset(self, stream: int, code: int) -> None: ...
    def window(self, stream: int) -> int: ...
    def connection_window(self) -> int: ...
