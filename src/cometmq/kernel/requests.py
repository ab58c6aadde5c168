"""Frames of requests that leave together, in plain Python; `_answers` has the compiled twin."""

from cometmq.kernel.reference import FRAME_HEAD
from cometmq.kernel.rows import Outgoing


def encode_requests(items: list[Outgoing]) -> bytes:
    """Frames, one behind the other.

    Args:
        items: each either a frame, or a send.
    """
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
