"""Encoding of requests that are written together, and of answers, in plain Python; the compiled twin is in `_answers`."""

import orjson

from cometmq.kernel.reference import FRAME_HEAD
from cometmq.kernel.rows import Outgoing
from cometmq.kernel.sends import END, MIDDLE

_FLAGS = MIDDLE.removeprefix('"}').encode()
_END = END.encode()


def encode_requests(items: list[Outgoing]) -> bytes:
    """Concatenate frames to bytes, encoding those that are given as sends."""
    if len(items) == 1 and isinstance(items[0], bytes):
        return items[0]
    frames: list[bytes] = []
    for item in items:
        if isinstance(item, bytes):
            frames.append(item)
            continue
        front, queue_id, middle, back, opaque, end, body = item
        header = f"{front}{queue_id}{middle}{back}{opaque}{end}".encode()
        size = len(header)
        frames += (FRAME_HEAD.pack(4 + size + len(body), size), header, body)
    return b"".join(frames)


def encode_answer_head(
    code: int, opaque: int, remark: str | None, fields: dict[str, str], body_size: int
) -> bytes:
    """Encode the length prefix and the JSON header of an answer whose body, of `body_size` bytes, is written separately.

    The header is the one that `codec.header_json.encode_json_header` makes.
    """
    some = b',"extFields":' + orjson.dumps(fields) if fields else b""
    said = b"" if remark is None else b',"remark":' + orjson.dumps(remark)
    header = b'{"code":%d%b%b%d%b%b' % (code, some, _FLAGS, opaque, said, _END)
    return FRAME_HEAD.pack(4 + len(header) + body_size, len(header)) + header
