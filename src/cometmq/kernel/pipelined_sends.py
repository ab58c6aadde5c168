"""Simple sends that are written together, and their answers: one call handles many sends, or many answers.

    frames = pack_pipelined_sends(sends, waiting, 0, head, limits, awaited, deadline)
    position, sends, settled, size = plain_answers(data, 0, awaited, 32)

A simple message has a body of bytes, WAIT, at most a short ASCII tag and key, and no other properties. A simple
answer is a success as official brokers and ours write it. Any other ends the call and is handled by the caller.
The compiled twin is `_pipelined_sends`; this version decodes no answers.
"""

import re
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import Any

from cometmq.kernel.reference import FRAME_HEAD
from cometmq.kernel.rows import Awaited, PipelinedLimits, SendHead, Settled, Target
from cometmq.model.message import Message

OPAQUE_MAX = 0x7FFFFFFF
# The attributes of a message, in the order in which `_properties` reads them.
parts_of = attrgetter(
    "topic", "body", "tag", "keys", "properties", "flag", "delay_level", "wait_store_ok", "deliver"
)  # fmt: skip
# Maximum characters of a tag and of a key: with both, the properties are still far from the limit of a record.
TEXT_SIZE_PLAIN = 4096
# ASCII text that JSON writes without escapes.
_PLAIN = re.compile(rf"[ !#-\[\]-~]{{1,{TEXT_SIZE_PLAIN}}}")


class PipelinedSends:
    """Simple sends to one broker that were written together, with the common data of their results.

    Attributes:
        first: Opaque of the first send; the others follow consecutively.
        targets: Queues, used in turn.
        turn: Index in `targets`, modulo its length, of the first send's queue.
        sent: Message, waiter, body size in bytes and message id of each send; None once it is settled.
        size: Total size of the bodies, bytes.
        status: Status of each result.
        make: Makes a result from its values.
    """

    __slots__ = ("first", "make", "sent", "size", "status", "targets", "turn")

    def __init__(
        self,
        first: int,
        targets: tuple[Target, ...],
        turn: int,
        status: object,
        make: Callable[[tuple[Any, ...]], Any],
    ) -> None:
        self.first = first
        self.targets = targets
        self.turn = turn
        self.sent: list[tuple[Any, Any, int, str] | None] = []
        self.size = 0
        self.status = status
        self.make = make


def pack_pipelined_sends(
    sends: PipelinedSends,
    waiting: list[tuple[Any, Any]],
    start: int,
    head: SendHead,
    limits: PipelinedLimits,
    awaited: dict[int, Awaited],
    deadline: float,
) -> bytes:
    """Encode simple sends to one topic and broker as bytes of frames, up to the first other message or a limit.

    Args:
        sends: Its `sent` and `size` are filled.
        waiting: Messages, each with the waiter for its result.
        start: Index of the first message.
        head: Common parts of the headers.
        limits: Maximum number and sizes.
        awaited: Receives deadline and `sends` by the opaque of each send. Encoding ends at an opaque that is in use.
        deadline: Deadline of the answers.
    """
    topic, front, born, back, end, id_front, numbers = head
    count_max, body_size_max, room = limits
    targets, turn, sent = sends.targets, sends.turn, sends.sent
    broker = targets[turn % len(targets)][2]
    entry = deadline, sends
    opaque = sends.first
    frames: list[bytes] = []
    for message, waiter in islice(waiting, start, start + max(count_max, 0)):
        target = targets[turn % len(targets)]
        if room <= 0 or opaque > OPAQUE_MAX or opaque in awaited or target[2] != broker:
            break
        body = _plain_body(message, topic, body_size_max)
        properties = None if body is None else _properties(message)
        if body is None or properties is None:
            break
        message_id = f"{id_front}{next(numbers) & 0xFFFF:04X}"
        header = b"%b%d%b%b%b\\u0002\"%b%d%b" % (
            front, target[1], born, properties, message_id.encode(), back, opaque, end
        )  # fmt: skip
        size = len(header)
        frames += (FRAME_HEAD.pack(4 + size + len(body), size), header, body)
        sent.append((message, waiter, len(body), message_id))
        awaited[opaque] = entry
        sends.size += len(body)
        room -= len(body)
        opaque += 1
        turn += 1
    return b"".join(frames)


def _plain_body(message: object, topic: str, size_max: int) -> bytes | None:
    """Return a message's body; None if it is too large, of another topic, or not simple apart from tag and keys."""
    if type(message) is not Message:
        return None
    of, body, _, _, properties, flag, delay_level, _, deliver = parts_of(message)
    if of != topic or type(body) is not bytes or len(body) > size_max:
        return None
    return None if properties or flag or delay_level or deliver is not None else body


def _properties(message: Message) -> bytes | None:
    """Return tag, key and WAIT of a message as JSON text, up to its unique id; None if tag or keys are not simple."""
    _, _, tag, keys, _, _, _, wait, _ = parts_of(message)
    written = '"'
    if tag:
        if type(tag) is not str or not _PLAIN.fullmatch(tag):
            return None
        written += f"TAGS\\u0001{tag}\\u0002"
    if keys:
        key = keys[0] if type(keys) is tuple and len(keys) == 1 else keys
        if type(key) is not str or " " in key or not _PLAIN.fullmatch(key):
            return None
        written += f"KEYS\\u0001{key}\\u0002"
    written += f"WAIT\\u0001{'true' if wait else 'false'}\\u0002UNIQ_KEY\\u0001"
    return written.encode()


def plain_answers(
    data: bytes, position: int, awaited: dict[int, Awaited], count_max: int
) -> tuple[int, PipelinedSends | None, list[Settled], int]:
    """Decode consecutive simple answers to sends that were written together, and stop awaiting them.

    This version decodes none; the compiled twin in `_pipelined_sends` does.

    Args:
        data: Received bytes.
        position: Start of a frame.
        awaited: Waiters by opaque.
        count_max: Maximum number of answers.

    Returns:
        The position after them, their sends (None if there are no answers), each waiter with its result, and the total size
            of the sent bodies in bytes.
    """
    return position, None, [], 0
