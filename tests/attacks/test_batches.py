"""A batch of very many small messages: nobody else waits for it, and all of it is there."""

import struct

from tests.attacks import by_hand
from tests.attacks.stranger import Answered, Stranger
from tests.support.good_client import GoodClient
from tests.support.memory import MIB, MemoryWatch
from tests.support.request_fields import send_fields

SEND_BATCH, GET_MAX_OFFSET = 320, 30
SUCCESS, MESSAGE_ILLEGAL = 0, 13
MESSAGES = 150_000


def item(body: bytes, properties: bytes = b"") -> bytes:
    """A message of a batch, as an official client writes it."""
    head = struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, 0, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


def send(peer: Stranger, topic: str, body: bytes) -> Answered:
    fields = send_fields(topic, a="by_hand", d=1, m="true", n="broker-a")
    return peer.ask(SEND_BATCH, fields, body)


def count(peer: Stranger, topic: str) -> int:
    return int(peer.ask(GET_MAX_OFFSET, {"topic": topic, "queueId": "0"}).fields["offset"])


def make(address: str, topic: str) -> None:
    with Stranger(address) as peer:
        by_hand.send(peer, topic, queues=1)


def test_a_batch_of_very_many_messages_holds_nobody_up(standing):
    """150,000 messages in one batch of 3.4 MB are all stored, each with its id, and others do not wait for them."""
    make(standing.address, "Small")
    body = item(b"x") * MESSAGES
    with (
        GoodClient(standing.address, standing.pid) as good,
        MemoryWatch(standing.pid) as watch,
        Stranger(standing.address) as peer,
    ):
        answer = send(peer, "Small", body)
        assert answer.code == SUCCESS, answer.remark
        assert answer.fields["queueOffset"] == "1"
        assert len(set(answer.fields["msgId"].split(","))) == MESSAGES
        assert count(peer, "Small") == MESSAGES + 1
    good.check()
    watch.check(growth_max=64 * MIB)


def test_a_large_batch_that_is_broken_at_its_end_leaves_nothing(standing):
    """A batch is looked through before its first piece is stored."""
    make(standing.address, "Broken")
    with Stranger(standing.address) as peer:
        answer = send(peer, "Broken", item(b"x") * 20_000 + item(b"x")[:-1])
        assert answer.code == MESSAGE_ILLEGAL, answer
        assert "the batch item at byte" in answer.remark
        assert count(peer, "Broken") == 1
