"""Headers and trailers of gRPC calls (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md).

Of a request's other headers, services see only those in KEPT_NAMES; the rest is dropped.
"""

import re
from collections.abc import Sequence

from cometmq.model.frozen import dataclass
from cometmq.model.text import in_quotes
from cometmq.proxy.grpc.calls import CallRefused, GrpcStatus
from cometmq.wire.h2.engine import Field

# Headers that services see; those of RocketMQ's clients.
KEPT_NAMES = {
    name.encode(): name
    for name in (
        "authorization",
        "x-mq-client-id",
        "x-mq-client-version",
        "x-mq-date-time",
        "x-mq-language",
        "x-mq-namespace",
        "x-mq-protocol",
        "x-mq-request-id",
        "x-mq-session-token",
    )
}
# The start of every response that has a message.
RESPONSE_HEAD: Sequence[Field] = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_ENCODINGS: Field = (b"grpc-accept-encoding", b"identity,gzip")
_OK: Sequence[Field] = ((b"grpc-status", b"0"),)
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNIT_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_CONTENT_TYPE = re.compile(rb"application/grpc(?:[+;].*)?", re.IGNORECASE | re.DOTALL)
# Characters of a message that are sent as they are: printable ASCII without the percent sign.
_PLAIN_BYTES = frozenset(range(0x20, 0x7F)) - {0x25}
_MESSAGE_SIZE_MAX = 4096


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The headers of a call.

    Attributes:
        path: "/package.Service/Method".
        metadata: Values of KEPT_NAMES by their names.
        timeout: Seconds until the client gives up; None if it never does.
        encoding: Compression of its messages: "identity" or "gzip".
    """

    path: str
    metadata: dict[str, str]
    timeout: float | None
    encoding: str


class NotGrpc(Exception):
    """A request that is not a gRPC call, answered with a status of HTTP.

    Attributes:
        status: The status, for example 415.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def read_head(fields: Sequence[Field]) -> RequestHead:
    """Return the headers of a call.

    Raises:
        NotGrpc: The method is not POST, or the content type is not that of gRPC.
        CallRefused: A header of gRPC is malformed or names an unknown compression.
    """
    path, method, content_type, encoding = b"", b"", b"", b"identity"
    timeout: float | None = None
    metadata: dict[str, str] = {}
    for name, value in fields:
        kept = KEPT_NAMES.get(name)
        if kept is not None:
            metadata[kept] = value.decode("utf-8", "replace")
        elif name == b":path":
            path = value
        elif name == b":method":
            method = value
        elif name == b"content-type":
            content_type = value
        elif name == b"grpc-timeout":
            timeout = read_timeout(value)
        elif name == b"grpc-encoding":
            encoding = value
    if method != b"POST":
        raise NotGrpc(405, "calls of gRPC are POST requests")
    if _CONTENT_TYPE.fullmatch(content_type) is None:
        raise NotGrpc(415, "the content-type of gRPC is application/grpc")
    if encoding not in (b"identity", b"gzip"):
        raise CallRefused(
            GrpcStatus.UNIMPLEMENTED,
            f"messages compressed by {in_quotes(encoding[:20].decode('latin-1'))} cannot be read; use identity or gzip",
        )
    return RequestHead(path.decode("latin-1"), metadata, timeout, encoding.decode())


def read_timeout(value: bytes) -> float:
    """Return the seconds of a `grpc-timeout` header: at most 8 digits and a unit.

    Raises:
        CallRefused: The value is malformed.
    """
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise CallRefused(
            GrpcStatus.INTERNAL,
            f"grpc-timeout {in_quotes(value[:20].decode('latin-1'))} is not 1 to 8 digits and one of H M S m u n",
        )
    return int(found[1]) * _UNIT_SECONDS[found[2]]


def trailers(status: int, text: str) -> Sequence[Field]:
    """Return the trailers that end a response."""
    if not status and not text:
        return _OK
    fields: list[Field] = [(b"grpc-status", b"%d" % status)]
    if text:
        fields.append((b"grpc-message", percent_encoded(text)))
    return fields


def trailers_only(status: int, text: str) -> Sequence[Field]:
    """Return the headers of a response without a message, which is also its end."""
    fields = [*RESPONSE_HEAD, *trailers(status, text)]
    if status == GrpcStatus.UNIMPLEMENTED:
        fields.insert(2, _ENCODINGS)
    return fields


def http_head(error: NotGrpc) -> Sequence[Field]:
    """Return the headers of the answer to a request that is not a gRPC call; its body is the text of the error."""
    return (b":status", b"%d" % error.status), (b"content-type", b"text/plain; charset=utf-8")


def percent_encoded(text: str) -> bytes:
    """Return a text for `grpc-message`: the first 4 KiB of its UTF-8; %XX for all but printable ASCII, and for %."""
    data = text.encode("utf-8", "replace")[:_MESSAGE_SIZE_MAX]
    if all(byte in _PLAIN_BYTES for byte in data):
        return data
    return b"".join(b"%c" % byte if byte in _PLAIN_BYTES else b"%%%02X" % byte for byte in data)
