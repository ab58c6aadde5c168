"""Frames and the commands in them: requests and answers on the wire.

| field | bytes |
| --- | --- |
| length: of all that follows | 4 |
| header kind: 0 JSON, 1 ROCKETMQ | 1 |
| header length | 3 |
| header | n |
| body | rest |

`kernel.split_frames` finds frames in a stream; `wire.connection` matches answers to requests. The hot path uses the
tuple `RawCommand`; `Command` has the same nine values as named fields.
"""

from typing import NamedTuple

from cometmq.codec import header_json
from cometmq.codec.header_binary import decode_binary_header, encode_binary_header
from cometmq.codec.header_json import decode_json_command, encode_json_header
from cometmq.kernel import layouts
from cometmq.model.codes import VERSION, Language
from cometmq.model.errors import CodecError
from cometmq.model.flags import ONEWAY

JSON = header_json.JSON
ROCKETMQ = 1
# RocketMQ closes a connection above this size (frameMaxLength), in bytes of the frame with its length field.
FRAME_SIZE_MAX = 16_777_216

_pack = layouts.FRAME_HEAD.struct.pack

RawCommand = header_json.RawCommand


class Command(NamedTuple):
    """A request or an answer of the remoting protocol.

    Attributes:
        code: Request code, or response code of an answer.
        flag: `model.flags.RESPONSE` and `ONEWAY`.
        opaque: Number that matches an answer to its request, within one direction of a connection.
        language: Number of the sender's language in `model.codes.Language`.
        version: Ordinal of the sender's RocketMQ version.
        remark: Text for people, or None.
        fields: Custom header, usually strings.
        body: Bytes after the header.
        kind: Header coding, `JSON` or `ROCKETMQ`.
    """

    code: int
    flag: int = 0
    opaque: int = 0
    language: int = int(Language.PYTHON)
    version: int = VERSION
    remark: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012  Never modified.
    body: bytes = b""
    kind: int = JSON

    def without_content(self) -> "Command":
        """Return the request with only code, flag and opaque, to free its other parts while it waits."""
        return Command(self.code, self.flag, self.opaque)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no answer."""
        return self.flag & ONEWAY != 0


def decode_command(kind: int, header: bytes, body: bytes) -> RawCommand:
    """Decode the command of one frame; raises CodecError if its header is malformed or of an unknown kind."""
    if kind == JSON:
        return decode_json_command(header, body)
    if kind == ROCKETMQ:
        return (*decode_binary_header(header), body, kind)
    raise CodecError(f"header kind {kind} is neither 0 (JSON) nor 1 (ROCKETMQ)")


def encode_command(command: Command | RawCommand) -> bytes:
    """Encode a command as a frame, in the header coding that it names; raises CodecError if it is too large."""
    body, kind = command[7:9]
    header = (encode_json_header if kind == JSON else encode_binary_header)(command[:7])
    size = len(header)
    rest = 4 + size + len(body)
    check_frame_size(4 + rest)
    return _pack(rest, kind << 24 | size) + header + body


def check_frame_size(size: int) -> None:
    """Reject a frame that peers would not accept: raise CodecError for more than 16 MiB, its length field included."""
    if size > FRAME_SIZE_MAX:
        raise CodecError(
            f"a frame of {size} bytes, and peers close the connection if one has more than {FRAME_SIZE_MAX}"
        )
