"""Frames of requests that leave together, in plain Python; `_answers` has the compiled twin.

Next: cometmq.net.channel
"""

from typing import Any

from cometmq.kernel.reference import FRAME_HEAD


def encode_requests(items: list[Any]) -> bytes:
    """Frames, one behind the other.

    Args:
        items: of each either the frame, or (front, queue, middle, back, opaque, end, body) of a send:
            five texts and two numbers, which are its JSON header in that order, and its body.
    """
    frames: list[bytes] = []
    for item in items:
        if item.__class__ is bytes:
            frames.append(item)
            continue
        front, queue_id, middle, back, opaque, end, body = item
        header = f"{front}{queue_id}{middle}{back}{opaque}{end}".encode()
        size = len(header)
        frames += (FRAME_HEAD.pack(4 + size + len(body), size), header, body)
    return b"".join(frames)
