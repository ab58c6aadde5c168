"""Sends by hand: pipelined SEND_MESSAGE_V2 frames on one plain socket, nothing of our client in it."""

import json
import struct
from collections.abc import Callable, Sequence

from tests.support.frames import connect, json_frame, parts_of, read_frame
from tests.support.request_fields import pull_fields, send_fields

SEND_MESSAGE_V2 = 310


def send_frame(
    topic: str,
    body: bytes,
    *,
    opaque: int,
    queue_id: int,
    properties: str = "",
    queues: int = 4,
    broker_name: str = "broker-a",
) -> bytes:
    """One request as the official client frames it (SendMessageRequestHeaderV2: a letter a field)."""
    fields = send_fields(topic, queue_id, properties, a="by_hand", d=queues, n=broker_name)
    return json_frame(SEND_MESSAGE_V2, fields, body, opaque=opaque)


def send_all(
    address: str,
    topic: str,
    bodies: Sequence[bytes],
    *,
    queues: int = 4,
    window: int = 64,
    on_answer: Callable[[int, int], None] | None = None,
) -> list[int]:
    """Send `bodies` in turn to the topic's queues, `window` of them in flight; the answers' codes.

    `on_answer(index, code)` is told of each as it comes. Answers may come in any order.

    Raises:
        ConnectionError: the broker went away before all were answered.
    """
    codes = [-1] * len(bodies)
    with connect(address) as peer:
        sent = answered = 0
        while answered < len(bodies):
            while sent < len(bodies) and sent - answered < window:
                frame = send_frame(
                    topic, bodies[sent], opaque=sent, queue_id=sent % queues, queues=queues
                )
                peer.sendall(frame)
                sent += 1
            header = json.loads(parts_of(read_frame(peer))[1])
            codes[header["opaque"]] = header["code"]
            answered += 1
            if on_answer is not None:
                on_answer(header["opaque"], header["code"])
    return codes


PULL_MESSAGE = 11
FOUND = 0
SUBSCRIPTION_IN_REQUEST = 4  # PullSysFlag.FLAG_SUBSCRIPTION: the group need not exist
BODY_SIZE_AT = 84  # in a record with IPv4 hosts (docs/format/record.md)


def pull_frame(topic: str, queue_id: int, offset: int, *, opaque: int = 1) -> bytes:
    """A pull of 32 messages that brings its subscription to all of them and does not wait."""
    fields = pull_fields(
        topic, queue_id, offset, consumerGroup="by_hand", sysFlag=SUBSCRIPTION_IN_REQUEST
    )
    return json_frame(PULL_MESSAGE, fields, opaque=opaque)


def read_queue(
    address: str, topic: str, queue_id: int, *, start: int = 0
) -> list[tuple[int, bytes]]:
    """Queue offset and body of everything in a queue from `start` on, in the order it came."""
    found: list[tuple[int, bytes]] = []
    with connect(address) as peer:
        while True:
            peer.sendall(pull_frame(topic, queue_id, start + len(found)))
            _, header, body = parts_of(read_frame(peer))
            if json.loads(header)["code"] != FOUND:
                return found
            found += records_in(body)


def records_in(body: bytes) -> list[tuple[int, bytes]]:
    """Queue offset and body of each record of a pull answer."""
    found, at = [], 0
    while at < len(body):
        size, queue_offset = struct.unpack_from(">i16xq", body, at)
        body_size = struct.unpack_from(">i", body, at + BODY_SIZE_AT)[0]
        start = at + BODY_SIZE_AT + 4
        found.append((queue_offset, body[start : start + body_size]))
        at += size
    return found
