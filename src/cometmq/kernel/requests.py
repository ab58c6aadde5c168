"""Encoding of frames that are written together, in plain Python; the compiled twin is in `_answers`."""

from cometmq.kernel.reference import FRAME_HEAD
from cometmq.kernel.rows import Outgoing


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
