"""Frames of HTTP/2 by hand: right and wrong ones, as a client sends them, and those of a server taken apart."""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from jh2.hpack import Decoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)  # fmt: skip
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20
# Settings.
HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE = 1, 4


class Frame(NamedTuple):
    """A frame of the server."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """The error code of a RST_STREAM or GOAWAY frame."""
        return int.from_bytes(
            self.payload[:4] if self.kind == RST_STREAM else self.payload[4:8]
        )


def frame(kind: int, payload: bytes = b"", *, stream: int = 0, flags: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def frames_in(data: bytes) -> list[Frame]:
    """The whole frames at the start of what a server sent."""
    found, at = [], 0
    while len(data) - at >= 9 + int.from_bytes(data[at : at + 3]):
        end = at + 9 + int.from_bytes(data[at : at + 3])
        stream = int.from_bytes(data[at + 5 : at + 9]) & 0x7FFFFFFF
        found.append(Frame(data[at + 3], data[at + 4], stream, data[at + 9 : end]))
        at = end
    return found


def settings(values: Iterable[tuple[int, int]] = ()) -> bytes:
    return frame(SETTINGS, b"".join(struct.pack(">HI", *each) for each in values))


def window_update(size: int, stream: int = 0) -> bytes:
    return frame(WINDOW_UPDATE, size.to_bytes(4), stream=stream)


def reset(stream: int, code: int = 8) -> bytes:
    return frame(RST_STREAM, code.to_bytes(4), stream=stream)


HELLO = PREFACE + settings() + frame(SETTINGS, flags=ACK)


def _string(text: bytes) -> bytes:
    return _integer(len(text), 7, 0) + text


def _integer(value: int, bits: int, first: int) -> bytes:
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((first | value,))
    encoded, value = [first | limit], value - limit
    while value > 0x7F:
        encoded.append(0x80 | value & 0x7F)
        value >>= 7
    return bytes((*encoded, value))


def block(fields: Iterable[tuple[bytes, bytes]], *, is_indexed: bool = False) -> bytes:
    """Headers, compressed in the simplest way: literals without Huffman codes."""
    kind = b"\x40" if is_indexed else b"\0"
    return b"".join(kind + _string(name) + _string(value) for name, value in fields)


def request_fields(
    path: bytes = b"/t.T/Echo", *more: tuple[bytes, bytes]
) -> list[tuple[bytes, bytes]]:
    """The headers of a call."""
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"127.0.0.1"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *more,
    ]


def request(
    stream: int, fields: list[tuple[bytes, bytes]] | None = None, *, is_last: bool = False
) -> bytes:
    """A HEADERS frame, of a call unless other headers are given."""
    flags = END_HEADERS | (END_STREAM if is_last else 0)
    payload = block(request_fields() if fields is None else fields)
    return frame(HEADERS, payload, stream=stream, flags=flags)


def message(text: bytes, *, flag: int = 0, length: int | None = None) -> bytes:
    """A message of gRPC with its prefix."""
    return bytes((flag,)) + (len(text) if length is None else length).to_bytes(4) + text


def body_frames(stream: int, payload: bytes, *, is_last: bool = False) -> bytes:
    """DATA frames."""
    parts = [payload[at : at + 16384] for at in range(0, len(payload), 16384)] or [b""]
    last = len(parts) - 1
    return b"".join(
        frame(DATA, part, stream=stream, flags=END_STREAM if is_last and at == last else 0)
        for at, part in enumerate(parts)
    )


class Response(NamedTuple):
    """What a server sent on a stream.

    Attributes:
        head: Its headers.
        body: Its messages with their prefixes.
        trailers: Headers at its end, empty if none came.
        reset: Error code of its RST_STREAM, -1 if none came.
    """

    head: dict[str, str]
    body: bytes
    trailers: dict[str, str]
    reset: int

    @property
    def status(self) -> int:
        """The status of gRPC, -1 if none came."""
        return int((self.trailers or self.head).get("grpc-status", "-1"))

    @property
    def text(self) -> str:
        """The text beside the status."""
        return (self.trailers or self.head).get("grpc-message", "")


def responses(sent: Iterable[Frame]) -> dict[int, Response]:
    """The responses in all frames of a server, by their streams."""
    decoder = Decoder()
    decoder.max_allowed_table_size = 65536
    found: dict[int, Response] = {}
    for each in sent:
        if not each.stream:
            continue
        response = found.get(each.stream, Response({}, b"", {}, -1))
        if each.kind == HEADERS:
            fields = {_text(name): _text(value) for name, value in decoder.decode(each.payload)}
            response = (
                response._replace(trailers=fields)
                if response.head
                else response._replace(head=fields)
            )
        elif each.kind == DATA:
            response = response._replace(body=response.body + each.payload)
        elif each.kind == RST_STREAM:
            response = response._replace(reset=each.code)
        found[each.stream] = response
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
