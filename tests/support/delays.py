"""Messages that wait: sent by hand to any broker, and found where they were delivered."""

import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cometmq.codec.record import Record, decode_records
from tests.support.frames import ask, connect, json_frame, parts_of, read_frame
from tests.support.load import send_frame
from tests.support.request_fields import pull_fields

PULL_MESSAGE = 11
SEND_BACK = 36
QUEUES = 4
SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class Wish:
    """A message and how long it shall wait: by a delay level, or by the timer."""

    name: str
    delay_ms: int
    level: int = 0

    def properties(self) -> str:
        """As they are sent."""
        key = f"UNIQ_KEY\1{self.name:0>32}\2"
        if self.level:
            return f"{key}DELAY\1{self.level}\2"
        return f"{key}TIMER_DELAY_MS\1{self.delay_ms}\2"


def send_wishes(address: str, topic: str, wishes: Sequence[Wish]) -> dict[str, int]:
    """Send messages, and wait for all answers; by the name of each, when it was sent, ms."""
    asked = {}
    with connect(address) as peer:
        for number, wish in enumerate(wishes):
            frame = send_frame(
                topic, wish.name.encode(), opaque=number, queue_id=number % QUEUES,
                queues=QUEUES, properties=wish.properties(),
            )  # fmt: skip
            asked[wish.name] = int(time.time() * SECOND_MS)
            peer.sendall(frame)
        for _ in wishes:
            header = json.loads(parts_of(read_frame(peer))[1])
            assert header["code"] == 0, header
    return asked


def lying_in(address: str, topic: str, queues: int = QUEUES) -> list[Record]:
    """Everything in a topic."""
    found: list[Record] = []
    with connect(address) as peer:
        for queue_id in range(queues):
            offset = 0
            while records := pull(peer, topic, queue_id, offset):
                found += records
                offset = records[-1].queue_offset + 1
    return found


def pull(peer: socket.socket, topic: str, queue_id: int, offset: int) -> list[Record]:
    """Up to 32 messages."""
    fields = pull_fields(topic, queue_id, offset, consumerGroup="by_hand")
    peer.sendall(json_frame(PULL_MESSAGE, fields))
    _, header, body = parts_of(read_frame(peer))
    return decode_records(body) if json.loads(header)["code"] == 0 else []


def send_back(address: str, record: Record, group: str, delay_level: int) -> int:
    """Give a message back as a consumer does; the answer's code."""
    fields = {
        "offset": str(record.physical_offset), "group": group, "delayLevel": str(delay_level),
        "originMsgId": "", "originTopic": record.topic, "unitMode": "false",
        "maxReconsumeTimes": "16",
    }  # fmt: skip
    code: int = ask(address, SEND_BACK, fields)[0]["code"]
    return code
