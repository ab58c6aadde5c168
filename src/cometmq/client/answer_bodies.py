"""Decodes bodies of answers within bounds, so that a broken broker does not stop the event loop.

A small body is read at once. A large one is read in a thread: a megabyte of JSON that is not strict takes a
second. What a client asks for by itself, again and again, has a bound of its own; what its user asks for may fill
a frame (docs/operate/limits.md).
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from cometmq.model.errors import CodecError

Value = TypeVar("Value")

# Of a route, the brokers of a cluster, a group's members or shares. A route of 10,000 brokers has 2 MB.
OWN_SIZE_MAX = 2 << 20
_SIZE_AT_ONCE = 16 << 10


async def read_body(
    decode: Callable[[bytes], Value], body: bytes, what: str, *, size_max: int | None = None
) -> Value:
    """Decode the body of an answer.

    Args:
        decode: reads it.
        body: of the answer.
        what: it is, for the error.
        size_max: bytes that it may have; None: a frame's.

    Raises:
        CodecError: it is larger, or cannot be read.
    """
    if size_max is not None and len(body) > size_max:
        raise CodecError(
            f"{what} has {len(body)} bytes, and {size_max} is the most that a client reads; is it "
            "a nameserver or broker that answers there?"
        )
    if len(body) <= _SIZE_AT_ONCE:
        return decode(body)
    return await asyncio.to_thread(decode, body)
