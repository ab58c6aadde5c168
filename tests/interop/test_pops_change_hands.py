"""What was popped and not acknowledged comes again from the broker that opens the store next, Java's or ours."""

import contextlib
import signal
import time

import pytest

from cometmq import Producer, SimpleConsumer, StoredMessage
from cometmq.client.consumer.pop.pops import receipt_of
from cometmq.errors import TopicNotFound
from tests.interop import reference
from tests.interop.handover import handover
from tests.interop.ours import bodies, messages
from tests.support import processes

TOPIC, GROUP = "PopsOn", "poppers"
SETTINGS = {
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "defaultTopicQueueNums": 2,
}
COUNT = 20
INVISIBLE_MS = 12_000

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def receive(
    names: str, count: int, seconds: float
) -> tuple[SimpleConsumer, list[StoredMessage]]:
    consumer = SimpleConsumer(names, group=GROUP, subscriptions=[TOPIC])
    consumer.start()
    got: list[StoredMessage] = []
    end = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < end:
        # The first send made the topic, which its broker tells the nameserver a moment later.
        with contextlib.suppress(TopicNotFound):
            got += consumer.receive(32, invisible_ms=INVISIBLE_MS, wait_ms=3_000)
    return consumer, got


@pytest.mark.parametrize(
    ("first", "how", "second"),
    [
        (processes.broker, signal.SIGTERM, reference.broker),
        (reference.broker, signal.SIGTERM, processes.broker),
    ],
    ids=["ours stops, then Java", "Java stops, then ours"],
)
def test_the_other_broker_hands_out_again_what_is_left(tmp_path, first, how, second):
    with handover(tmp_path, SETTINGS) as (names, begin):
        writer = begin(first)
        with Producer(names) as producer:
            producer.send_many(messages(TOPIC, bodies("p", COUNT)))
        consumer, given = receive(names, COUNT, 30)
        assert sorted(message.body for message in given) == bodies("p", COUNT)
        done, left = given[: COUNT // 2], given[COUNT // 2 :]
        consumer.ack(done)
        time.sleep(0.5)  # Acknowledgements are on record.
        consumer.close()
        writer.end(how)
        begin(second)
        consumer, again = receive(names, len(left), 60)
        consumer.close()
    assert sorted(m.body for m in again) == sorted(m.body for m in left)
    first_end = min(receipt_of(m).pop_time_ms for m in left) + INVISIBLE_MS
    assert min(receipt_of(m).pop_time_ms for m in again) >= first_end
    assert {m.reconsume_times for m in again} == {1}
