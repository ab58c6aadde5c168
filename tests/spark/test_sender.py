"""Batches on their way: bounded, in order where it matters, tried again where it may help."""

from dataclasses import dataclass, field

import pytest

from cometmq.client.results import SendResult, SendStatus
from cometmq.model.errors import (
    BrokerRefused,
    CometError,
    RequestTimeout,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.java_hash import java_hash
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Batch, Place
from cometmq.spark.sink.columns import Target
from cometmq.spark.sink.sender import Sender, Stored
from cometmq.spark.sink.settings import SinkSettings


@dataclass
class Sending:
    cluster: "Cluster"
    queue: MessageQueue
    body: bytes

    def result(self) -> SendResult:
        self.cluster.under_way -= 1
        if self.cluster.failures:
            raise self.cluster.failures.pop(0)
        offset = self.cluster.stored.setdefault(self.queue, 0)
        self.cluster.stored[self.queue] += len(self.body)
        self.cluster.order.append((self.queue, self.body))
        return SendResult(SendStatus.OK, "", "", self.queue, offset)


@dataclass
class Cluster:
    """Takes batches; a byte is a message."""

    queues: list[MessageQueue]
    failures: list[CometError] = field(default_factory=list)
    stored: dict[MessageQueue, int] = field(default_factory=dict)
    order: list[tuple[MessageQueue, bytes]] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    def new_message_id(self) -> str:
        return "id"

    def writable_queues(self, topic: str) -> list[MessageQueue]:
        return [queue for queue in self.queues if queue.topic == topic]

    def send_batch(self, topic: str, queue: MessageQueue | None, body: bytes) -> Sending:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return Sending(self, queue or self.writable_queues(topic)[0], body)


QUEUES = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in (0, 1)]


def make(*failures: CometError, **options: str) -> tuple[Sender, Cluster]:
    cluster = Cluster(QUEUES, list(failures))
    return Sender(cluster, SinkSettings.parse({"nameserver": "x:1", **options})), cluster


def batch(body: bytes, queue: MessageQueue | None = None) -> Batch:
    return Batch(Place("t", queue), len(body), body)


def test_no_more_is_under_way_than_allowed_and_all_is_waited_for():
    sender, cluster = make(maxInflight="3")
    for _ in range(10):
        sender.send(batch(b"xx"))
    sender.finish()
    assert cluster.most_under_way == 3
    assert cluster.under_way == 0
    assert sender.stored == {QUEUES[0]: Stored(rows=20, first=0, last=19)}


def test_a_queue_that_rows_chose_gets_one_request_at_a_time():
    sender, cluster = make()
    for number in range(5):
        sender.send(batch(bytes([number]), QUEUES[1]))
        assert cluster.under_way == 1
    sender.finish()
    assert [body[0] for _, body in cluster.order] == [0, 1, 2, 3, 4]


def test_a_failed_request_is_tried_again_before_the_next_of_its_queue():
    sender, cluster = make(RequestTimeout("no word"))
    sender.send(batch(b"1", QUEUES[1]))
    sender.send(batch(b"2", QUEUES[1]))
    sender.finish()
    assert [body for _, body in cluster.order] == [b"1", b"2"]


def test_a_request_that_fails_too_often_fails_the_task():
    sender, _ = make(*[RequestTimeout("no word")] * 3, retries="2")
    sender.send(batch(b"1", QUEUES[1]))
    with pytest.raises(RequestTimeout, match="no word"):
        sender.finish()


def test_what_a_broker_refuses_is_not_tried_again():
    sender, cluster = make(BrokerRefused(13, "too long", "x:1"))
    sender.send(batch(b"1", QUEUES[1]))
    with pytest.raises(BrokerRefused, match="too long"):
        sender.finish()
    assert not cluster.order


def test_a_key_chooses_the_queue_that_javas_clients_choose():
    sender, _ = make()
    place = sender.place_of(Target("t", sharding_key="order-17"))
    assert place == Place("t", QUEUES[abs(java_hash("order-17")) % 4])
    assert sender.place_of(Target("t")) == Place("t")


def test_rows_name_a_queue_of_a_broker():
    sender, _ = make()
    assert sender.place_of(Target("t", "b", 1)).queue == QUEUES[3]
    for wrong in (Target("t", "c", 1), Target("t", "b"), Target("t", queue_id=1)):
        with pytest.raises(SettingsError, match="they must name one"):
            sender.place_of(wrong)
    with pytest.raises(TopicNotFound):
        sender.place_of(Target("other", "b", 1))
