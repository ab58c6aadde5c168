"""The remoting frame by hand, in a few lines that share nothing with the code under test.

    | total length 4 | header kind 1 | header length 3 | header | body |

The length does not count itself. Only the JSON header is spoken here.
"""

import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from cometmq.model.flags import RESPONSE

# While servers of tests have access control: signs the fields of each request that nobody has signed.
sign: Callable[[int, Mapping[str, str], bytes], Mapping[str, str]] | None = None


def json_frame(
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 1,
    flag: int = 0,
) -> bytes:
    """A request as an official client would frame it."""
    fields = dict(fields or {})
    if sign is not None and "AccessKey" not in fields and not flag & RESPONSE:
        fields = dict(sign(code, fields, body))
    header = json.dumps(
        {
            "code": code,
            "extFields": fields,
            "flag": flag,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
        }
    ).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def connect(address: str, *, seconds: float = 30) -> socket.socket:
    """A plain connection, whose waits take so long at most."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=seconds)


def read_frame(peer: socket.socket) -> bytes:
    """The next whole frame.

    Raises:
        ConnectionError: the peer closed before it was whole.
    """
    size = struct.unpack(">I", read_exactly(peer, 4))[0]
    return struct.pack(">I", size) + read_exactly(peer, size)


def read_exactly(peer: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = peer.recv(count - len(parts))
        if not part:
            raise ConnectionError(f"closed after {len(parts)} of {count} bytes")
        parts += part
    return bytes(parts)


def parts_of(frame: bytes) -> tuple[int, bytes, bytes]:
    """Header kind (0 JSON, 1 ROCKETMQ), header and body of a whole frame."""
    kind_and_length = struct.unpack_from(">I", frame, 4)[0]
    end = 8 + (kind_and_length & 0xFFFFFF)
    return kind_and_length >> 24, frame[8:end], frame[end:]


def ask(
    address: str,
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    seconds: float = 10,
) -> tuple[dict[str, Any], bytes]:
    """One request on a connection of its own; the answer's header and body."""
    with connect(address, seconds=seconds) as peer:
        peer.sendall(json_frame(code, fields, body))
        _, header, answer = parts_of(read_frame(peer))
    return json.loads(header), answer
