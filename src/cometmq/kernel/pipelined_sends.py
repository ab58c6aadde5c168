"""Plain sends that leave together, and the answers to them: one call for each of both, whatever their number.

    frames = pack_pipelined_sends(sends, waiting, 0, head, limits, awaited, deadline)
    position, sends, settled, size = plain_answers(data, 0, awaited, 32)

Plain is a message that has a body of bytes, and nothing else but a tag, a key (neither long), and whether a flush is waited for. Plain is an
answer of success, as official brokers and ours write it, to one of these. Whatever is not ends the call, and its caller goes on
with it in the way that is there for all. Compiled: `_pipelined_sends`.
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
# What a message has, in the order in which `_properties` looks at it.
parts_of = attrgetter(
    "topic", "body", "tag", "keys", "properties", "flag", "delay_level", "wait_store_ok", "deliver"
)  # fmt: skip
# Of a tag and of a key, characters: with both the properties still are far from the most that a record has room for.
TEXT_SIZE_PLAIN = 4096
# Text that JSON writes as it is, of ASCII.
_PLAIN = re.compile(rf"[ !#-\[\]-~]{{1,{TEXT_SIZE_PLAIN}}}")


class PipelinedSends:
    """Plain sends to one broker that left together, and what their results have in common.

    Attributes:
        first: opaque of the first; those of the others follow it.
        targets: the queues that they went to, one after the other.
        turn: which of these the first one went to.
        sent: message, who waits, bytes of its body and its id of each; None of one that was answered.
        size: bytes of their bodies.
        status: of each result.
        make: makes a result of its values.
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
    """Make frames of plain sends to one topic and broker, as far as they go.

    Args:
        sends: its `sent` and `size` are filled.
        waiting: messages, each with who waits for its result.
        start: the first of them.
        head: what their headers have in common.
        limits: how many, and of which sizes.
        awaited: each is entered here by its opaque, which nobody else may have.
        deadline: of their answers.
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
    """The body of a plain message to this topic; None of any other."""
    if type(message) is not Message:
        return None
    of, body, _, _, properties, flag, delay_level, _, deliver = parts_of(message)
    if of != topic or type(body) is not bytes or len(body) > size_max:
        return None
    return None if properties or flag or delay_level or deliver is not None else body


def _properties(message: Message) -> bytes | None:
    """The properties of a plain message as JSON writes them, up to its id; None where they are not plain."""
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
    """Take plain answers to sends that left together, as far as they go; they are awaited no more. None without a compiler.

    Args:
        data: what was received.
        position: where a frame begins in it.
        awaited: who waits, by opaque.
        count_max: answers at most.

    Returns:
        The place where they end, whose they are (None: there is none), who waited for each with its result, and bytes of
        the bodies that were sent.
    """
    return position, None, [], 0
