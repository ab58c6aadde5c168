"""A frame and the command in it: what requests and answers are on the wire.

| field | bytes |
| --- | --- |
| length: of all that follows | 4 |
| header kind: 0 JSON, 1 ROCKETMQ | 1 |
| header length | 3 |
| header | n |
| body | rest |

Finding frames in a stream is `kernel.split_frames`; who waits for an answer is `wire.connection`.
On the hot path a command is the plain tuple `RawCommand`; `Command` is the same nine values by
name.
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
# Netty's frame decoder of RocketMQ closes a connection over this (frameMaxLength), bytes of the whole
# frame, its length field included.
FRAME_SIZE_MAX = 16_777_216

_PREFIX = layouts.FRAME_HEAD.struct

RawCommand = header_json.RawCommand


class Command(NamedTuple):
    """A request or an answer.

    Attributes:
        code: request code, or response code in an answer.
        flag: `model.flags.RESPONSE` and `ONEWAY`.
        opaque: pairs an answer with its request, within one direction of one connection.
        language: `model.codes.Language` number of the sender.
        version: ordinal of the sender's RocketMQ version.
        remark: words for people, or None.
        fields: the custom header, all text.
        body: bytes after the header.
        kind: header coding, `JSON` or `ROCKETMQ`.
    """

    code: int
    flag: int = 0
    opaque: int = 0
    language: int = int(Language.PYTHON)
    version: int = VERSION
    remark: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012  Nobody writes to it.
    body: bytes = b""
    kind: int = JSON

    def without_content(self) -> "Command":
        """The parts of a waiting request that its answer needs; a header may have 64 KB that nobody asked for."""
        return Command(self.code, self.flag, self.opaque)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender waits for no answer."""
        return self.flag & ONEWAY != 0


def decode_command(kind: int, header: bytes, body: bytes) -> RawCommand:
    """The command of one frame.

    Raises:
        CodecError: on an unknown kind or a header that means nothing.
    """
    if kind == JSON:
        return decode_json_command(header, body)
    if kind == ROCKETMQ:
        return (*decode_binary_header(header), body, kind)
    raise CodecError(f"header kind {kind} is neither 0 (JSON) nor 1 (ROCKETMQ)")


def encode_command(command: Command | RawCommand) -> bytes:
    """The whole frame of a command, in the header coding that it names."""
    body = command[7]
    return encode_frame_head(command, len(body)) + body


def encode_frame_head(command: Command | RawCommand, body_size: int) -> bytes:
    """Prefix and header of a frame whose body of `body_size` bytes is written behind it."""
    encode = encode_json_header if command[8] == JSON else encode_binary_header
    header = encode(command[:7])
    size = len(header)
    check_frame_size(8 + size + body_size)
    return _PREFIX.pack(4 + size + body_size, command[8] << 24 | size) + header


def check_frame_size(size: int) -> None:
    """Refuse a frame that no peer would take.

    Args:
        size: of the whole frame, its length field included, bytes.

    Raises:
        CodecError: it is too large.
    """
    if size > FRAME_SIZE_MAX:
        raise CodecError(
            f"a frame of {size} bytes; peers close the connection over {FRAME_SIZE_MAX}"
        )
