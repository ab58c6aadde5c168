"""Batches on their way: bounded, in order where it matters, tried again where it may help."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import cast

import pytest

from cometmq.client.results import SendResult, SendStatus
from cometmq.model.errors import (
    BrokerRefused,
    CometError,
    ConnectionLost,
    RequestTimeout,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.java_hash import java_hash
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Request, RowBatch, RowPlace, SingleSend, SingleSends
from cometmq.spark.sink.cluster import Outcomes, SinkCluster
from cometmq.spark.sink.columns import RowTarget
from cometmq.spark.sink.sender import StoredRows, TaskSender
from cometmq.spark.sink.settings import SinkSettings


class Answers(Future[Outcomes]):
    """What the cluster says of a request, as soon as somebody waits for it."""

    def __init__(self, cluster: "Cluster", queue: MessageQueue, bodies: list[bytes]) -> None:
        super().__init__()
        self.cluster = cluster
        self.queue = queue
        self.bodies = bodies

    def result(self, timeout: float | None = None) -> Outcomes:
        assert timeout is None
        self.cluster.under_way -= 1
        return [self.outcome(body) for body in self.bodies]

    def outcome(self, body: bytes) -> SendResult | CometError:
        if self.cluster.failures:
            return self.cluster.failures.pop(0)
        offset = self.cluster.stored.setdefault(self.queue, 0)
        self.cluster.stored[self.queue] += len(body)
        self.cluster.order.append((self.queue, body))
        return SendResult(self.cluster.statuses.pop(0), "", "", self.queue, offset)


@dataclass
class Cluster:
    """Takes batches; a byte is a message."""

    queues: list[MessageQueue]
    failures: list[CometError] = field(default_factory=list)
    stored: dict[MessageQueue, int] = field(default_factory=dict)
    order: list[tuple[MessageQueue, bytes]] = field(default_factory=list)
    statuses: list[SendStatus] = field(default_factory=lambda: [SendStatus.OK] * 100)
    under_way: int = 0
    most_under_way: int = 0

    def writable_queues(self, topic: str) -> list[MessageQueue]:
        return [queue for queue in self.queues if queue.topic == topic]

    def start(self, request: Request) -> Answers:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        topic, queue = request.place
        bodies = (
            [each.body for each in request.messages]
            if isinstance(request, SingleSends)
            else [request.body]
        )
        return Answers(self, queue or self.writable_queues(topic)[0], bodies)


QUEUES = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in (0, 1)]


def make(*failures: CometError, **options: str) -> tuple[TaskSender, Cluster]:
    cluster = Cluster(QUEUES, list(failures))
    settings = SinkSettings.parse({"nameserver": "x:1", **options})
    return TaskSender(cast("SinkCluster", cluster), settings), cluster


def batch(body: bytes, queue: MessageQueue | None = None) -> RowBatch:
    return RowBatch(RowPlace("t", queue), len(body), body)


def test_no_more_is_under_way_than_allowed_and_all_is_waited_for():
    sender, cluster = make(maxInflight="3")
    for _ in range(10):
        sender.send(batch(b"xx"))
    sender.finish()
    assert cluster.most_under_way == 3
    assert cluster.under_way == 0
    assert sender.stored == {QUEUES[0]: StoredRows(rows=20, first=0, last=19)}


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


def test_a_request_that_fails_too_long_fails_the_task():
    sender, _ = make(*[RequestTimeout("no word")] * 9, deliveryTimeoutMs="250")
    sender.send(batch(b"1", QUEUES[1]))
    with pytest.raises(RequestTimeout, match="no word"):
        sender.finish()


def test_what_a_broker_refuses_is_not_tried_again():
    sender, cluster = make(BrokerRefused(13, "too long", "x:1"))
    sender.send(batch(b"1", QUEUES[1]))
    with pytest.raises(BrokerRefused, match="too long"):
        sender.finish()
    assert not cluster.order


def test_what_a_power_cut_could_take_back_is_sent_again():
    sender, cluster = make()
    cluster.statuses[0] = SendStatus.FLUSH_DISK_TIMEOUT
    sender.send(batch(b"1"))
    sender.finish()
    assert [body for _, body in cluster.order] == [b"1", b"1"]
    assert sender.stored[QUEUES[0]].rows == 1


def test_of_rows_that_travel_alone_those_that_failed_are_sent_again():
    sender, cluster = make()
    cluster.failures = [ConnectionLost("gone")]
    sender.send(
        SingleSends(RowPlace("t"), [SingleSend(0, 0, body, "") for body in (b"1", b"2", b"3")])
    )
    sender.finish()
    assert [body for _, body in cluster.order] == [b"2", b"3", b"1"]
    assert sender.delayed == 3


def test_a_task_has_a_queue_of_its_own_where_that_is_asked_for():
    sender, _ = make()
    sender.own_queue = 6
    assert sender.place_of(RowTarget("t")).queue == QUEUES[2]
    assert sender.place_of(RowTarget("t", "b", 1)).queue == QUEUES[3]


def test_a_key_chooses_the_queue_that_javas_clients_choose():
    sender, _ = make()
    place = sender.place_of(RowTarget("t", sharding_key="order-17"))
    assert place == RowPlace("t", QUEUES[abs(java_hash("order-17")) % 4])
    assert sender.place_of(RowTarget("t")) == RowPlace("t")


def test_rows_name_a_queue_of_a_broker():
    sender, _ = make()
    assert sender.place_of(RowTarget("t", "b", 1)).queue == QUEUES[3]
    for wrong in (RowTarget("t", "c", 1), RowTarget("t", "b"), RowTarget("t", queue_id=1)):
        with pytest.raises(SettingsError, match="they must match exactly one"):
            sender.place_of(wrong)
    with pytest.raises(TopicNotFound):
        sender.place_of(RowTarget("other", "b", 1))
