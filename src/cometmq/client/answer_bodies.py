"""Decoding of the bodies of answers, with an optional limit on their size; large ones are decoded in a thread.

The limits are in docs/operate/limits.md.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from cometmq.model.errors import CodecError

Value = TypeVar("Value")

# For routes, the brokers of a cluster, and members or queues of a group. A route of 10,000 brokers has 2 MB.
OWN_SIZE_MAX = 2 << 20
_SIZE_AT_ONCE = 16 << 10


async def read_body(
    decode: Callable[[bytes], Value], body: bytes, what: str, *, size_max: int | None = None
) -> Value:
    """Return the decoded body of an answer or request; decode it in a thread if it has more than 16 KiB.

    Args:
        decode: Function that decodes the body.
        body: Encoded body.
        what: Name of the body's content, for the error that it is too large.
        size_max: Maximum size in bytes; None: no limit but that of a frame.

    Raises:
        CodecError: The body is too large or malformed.
    """
    if size_max is not None and len(body) > size_max:
        raise CodecError(
            f"{what} has {len(body)} bytes, and a client reads at most {size_max}; is it "
            "a nameserver or broker that answers at this address?"
        )
    if len(body) <= _SIZE_AT_ONCE:
        return decode(body)
    return await asyncio.to_thread(decode, body)
