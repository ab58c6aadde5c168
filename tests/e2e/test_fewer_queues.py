"""A topic is given fewer queues: first nobody writes to the others, then nobody reads them."""

from collections import Counter

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.embedded import Embedded
from tests.support.processes import wait_until

TOPIC = "Shrinks"
MANY, FEW, EACH = 8, 2, 3


CONSUMING = PushConsumerSettings(
    consume_from=ConsumeFrom.FIRST, rebalance_interval_ms=200, route_interval_ms=200
)
PRODUCING = ProducerSettings(route_interval_ms=200)


def test_fewer_queues_are_written_then_read_and_nothing_is_lost():
    seen: Counter[bytes] = Counter()

    def listen(message: StoredMessage) -> None:
        seen[message.body] += 1

    with (
        Embedded() as cluster,
        Admin(cluster.nameserver) as admin,
        Producer(cluster.nameserver, settings=PRODUCING) as producer,
    ):
        admin.topics.create(TOPIC, queues=MANY)
        wait_until(lambda: len(producer.queues(TOPIC)) == MANY, seconds=20, what="8 queues")
        for queue in producer.queues(TOPIC):
            producer.send_many(
                [Message(TOPIC, b"%d:%d" % (queue.queue_id, n)) for n in range(EACH)],
                queue=queue,
            )
        # As updateTopic -w 2 -r 8: what lies in the others is still read.
        admin.topics.create(TOPIC, queues=FEW, read_queues=MANY)
        wait_until(lambda: len(producer.queues(TOPIC)) == FEW, seconds=20, what="2 queues")
        sent = [producer.send(Message(TOPIC, b"later:%d" % n)) for n in range(10)]
        assert {result.queue.queue_id for result in sent} == set(range(FEW))
        with PushConsumer(
            cluster.nameserver,
            group="reads",
            listener=listen,
            subscriptions=[TOPIC],
            settings=CONSUMING,
        ):
            count = MANY * EACH + len(sent)
            wait_until(lambda: len(seen) == count, seconds=20, what="all messages")
            # Then the empty ones are given up.
            admin.topics.create(TOPIC, queues=FEW)
            route = admin.topics.route
            wait_until(lambda: route(TOPIC).queues[0].read_queues == FEW, seconds=20, what="2")
            producer.send(Message(TOPIC, b"last"))
            wait_until(lambda: b"last" in seen, seconds=20, what="the last message")
    assert set(seen.values()) == {1}
