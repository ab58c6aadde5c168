"""A store is the same to both: a Java broker opens what ours wrote, and ours what a Java broker wrote."""

import signal
from collections.abc import Callable
from functools import partial

import pytest

from tests.interop import peer, reference
from tests.interop.handover import handover
from tests.support import processes
from tests.support.load import send_all
from tests.support.processes import Program

COUNT = 3_000
TOPIC = "ChangesHands"
SETTINGS: dict[str, object] = {"autoCreateTopicEnable": "true", "defaultTopicQueueNums": 4}
Broker = Callable[..., Program]
NEWEST: Broker = partial(reference.broker, version=reference.NEWEST)

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


def bodies() -> list[bytes]:
    return [b"%05d" % number + b"x" * (number % 700) for number in range(COUNT)]


@pytest.mark.parametrize(
    ("first", "how", "second"),
    [
        (processes.broker, signal.SIGTERM, reference.broker),
        (processes.broker, signal.SIGKILL, reference.broker),
        (reference.broker, signal.SIGKILL, processes.broker),
        (processes.broker, signal.SIGTERM, NEWEST),
        (processes.broker, signal.SIGKILL, NEWEST),
        (NEWEST, signal.SIGTERM, processes.broker),
        (NEWEST, signal.SIGKILL, processes.broker),
    ],
    # A Java broker that stops cleanly before ours starts is in test_relay.
    ids=[
        "ours stops, then Java",
        "ours is killed, then Java",
        "Java is killed, then ours",
        "ours stops, then the newest Java",
        "ours is killed, then the newest Java",
        "the newest Java stops, then ours",
        "the newest Java is killed, then ours",
    ],
)
def test_every_message_is_read_by_the_other_broker(tmp_path, first, how, second):
    with handover(tmp_path, SETTINGS) as (names, begin):
        writer = begin(first)
        assert send_all(writer.address, TOPIC, bodies()) == [0] * COUNT
        writer.end(how)
        begin(second)
        told = peer.read(names, TOPIC, COUNT)
    assert sorted(message.body for message in told) == bodies()
    for queue_id in range(4):
        offsets = sorted(told.queue_offset for told in told if told.queue_id == queue_id)
        assert offsets == list(range(COUNT // 4))
