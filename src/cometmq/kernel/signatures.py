"""Whether sends are signed, looked at in the bytes of a connection, before they are commands.

What the signature of a request is stands in `cometmq.codec.signature`. Here are sends alone, as official clients write and
sign them (`send_headers`): their fields, `AccessKey` and `Signature`. Whatever else there is ends the run, and the
careful way asks about it. Compiled: `_signatures`.

Next: cometmq.kernel.taking
"""

import hmac
from base64 import b64encode

from cometmq.kernel.layouts import FRAME_HEAD, HEADER_SIZE_MAX
from cometmq.kernel.send_headers import ACCESS_KEY, SIGNATURE, STRANGE, Header, read_header

_HEAD = FRAME_HEAD.struct


def signing_key(secret: bytes) -> bytes:
    """The key of a secret for `signed_sends`; only the kernel that made it can read it."""
    return secret


def signed_sends(
    data: bytes,
    position: int,
    count_max: int,
    user: bytes,
    key: bytes,
    frame_size_max: int,
    header_size_max: int,
) -> tuple[int, list[bytes]]:
    """Count the sends in a row that a user has signed, and collect the topics that they name.

    Args:
        data: what was read.
        position: where the first frame begins.
        count_max: most sends.
        user: his access key.
        key: of his secret, made by `signing_key`.
        frame_size_max: bytes of a whole frame.
        header_size_max: bytes.

    Returns:
        Their number, up to the first frame that is another, in any way unusual, or not signed by him; and each topic once.
    """
    count, size = 0, len(data)
    topics: list[bytes] = []
    while size - position >= FRAME_HEAD.size and count < count_max:
        length, head = _HEAD.unpack_from(data, position)
        start, header_size = position + FRAME_HEAD.size, head & HEADER_SIZE_MAX
        end = position + 4 + length
        if not 4 <= length <= frame_size_max - 4 or end > size:
            break
        if header_size > min(header_size_max, length - 4):
            break
        header = read_header(head >> 24, data[start : start + header_size])
        if header is None:
            break
        fields = header.fields
        topic = fields.get(b"b")
        if topic is None or fields.get(ACCESS_KEY) != user:
            break
        if not _is_signed(header, data[start + header_size : end], key):
            break
        if topic not in topics:
            topics.append(topic)
        count += 1
        position = end
    return count, topics


def _is_signed(header: Header, body: bytes, key: bytes) -> bool:
    if STRANGE in header.fields or SIGNATURE not in header.fields:
        return False
    content = b"".join([*header.in_order(), body])
    made = b64encode(hmac.digest(key, content, "sha1"))
    return hmac.compare_digest(made, header.fields[SIGNATURE])
