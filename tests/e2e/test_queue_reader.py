"""Ranges of queues as records, and questions about many queues at once, of a real broker."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cometmq import (
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
    Tag,
)
from cometmq.codec.record import Record, decode_records, encode_record
from cometmq.codec.remoting import Command
from cometmq.connect import AsyncQueueReader, PullStatus, QueueReader, RawPull, TopicQueues
from cometmq.embedded import Embedded
from cometmq.errors import (
    BrokerNotFound,
    ClientClosed,
    NetError,
    SettingsError,
    TopicNotFound,
)
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from tests.support.processes import wait_until
from tests.support.scripted import TOPIC, nothing

COUNT = 300


@pytest.fixture
def queue(cluster: Embedded, request: pytest.FixtureRequest) -> MessageQueue:
    """A queue with COUNT messages: bodies are their offsets, tags alternate."""
    topic = request.node.name[5:60]
    with Producer(cluster.nameserver) as producer:
        queue = producer.queues(topic)[0]
        rows = [
            Message(topic, b"%d" % each, tag=("even", "odd")[each % 2], keys=f"k{each}")
            for each in range(COUNT)
        ]
        for start in range(0, COUNT, 100):
            producer.send_batch(rows[start : start + 100], queue=queue)
    return queue


@pytest.fixture
def reader(cluster: Embedded) -> Iterator[QueueReader]:
    with QueueReader(cluster.nameserver, group="copies") as reader:
        yield reader


def offsets_of(pulls: Iterator[RawPull] | list[RawPull]) -> list[int]:
    return [record.queue_offset for pull in pulls for record in decode_records(pull.body)]


def test_a_range_comes_whole_in_order_and_ends_where_it_should(reader, queue):
    assert offsets_of(reader.read(queue, 3, COUNT - 3, max_count=7)) == list(
        range(3, COUNT - 3)
    )
    [beyond] = reader.read(queue, COUNT, COUNT + 9)
    assert (beyond.status, beyond.max_offset) == (PullStatus.NO_NEW_MESSAGE, COUNT)
    found = offsets_of(reader.read(queue, 0, COUNT, expression=Tag("even")))
    assert sorted(set(found)) == list(range(0, COUNT, 2))


def test_the_first_answers_of_many_ranges_come_together_with_errors_in_their_place(
    reader, queue
):
    elsewhere = replace(queue, topic="NoSuchTopic")
    ranges = [(queue, 3, 9), (elsewhere, 0, 5), (queue, 5, 5), (queue, 100, COUNT)]
    short, unknown, empty, long = reader.read_first(ranges, max_count=20)
    assert offsets_of([short]) == list(range(3, 9))
    assert isinstance(unknown, TopicNotFound)
    assert empty is None
    assert offsets_of([long]) == list(range(100, 120))


def test_one_question_is_about_many_queues_and_an_error_stands_in_its_queues_place(
    cluster, reader, queue
):
    away = replace(queue, broker_name="nobody")
    found = reader.queues([queue.topic, "NoSuchTopic"])
    assert isinstance(found["NoSuchTopic"], TopicNotFound)
    named = found[queue.topic]
    assert isinstance(named, TopicQueues)
    assert queue in named.readable
    assert named.ordered == ()
    for answers, wanted in (
        (reader.min_offsets([queue, away]), 0),
        (reader.max_offsets([queue, away]), COUNT),
        (reader.offsets_by_time({queue: int(time.time() * 1000) + 60_000, away: 0}), COUNT),
    ):
        assert answers[queue] == wanted
        assert isinstance(answers[away], BrokerNotFound)
    reader.commit({queue: 77})
    assert reader.committed_offsets([queue]) == {queue: 77}
    with PullConsumer(cluster.nameserver, group="copies") as consumer:
        assert consumer.committed(queue) == 77


def held(command: Command, _peer: Peer) -> Answer:
    """Offsets 0 to 9 and 20 to 29: those between are gone, and who asks for one is told so."""
    start, count = (int(command.fields[name]) for name in ("queueOffset", "maxMsgNums"))
    if 10 <= start < 20:
        moved = {"nextBeginOffset": "20", "minOffset": "20", "maxOffset": "30"}
        return Answer(ResponseCode.PULL_OFFSET_MOVED, fields=moved)
    if start >= 30:
        return nothing(command)
    end = min(start + count, 10 if start < 10 else 30)
    fields = {"nextBeginOffset": str(end), "minOffset": "0", "maxOffset": "30"}
    records = (
        Record(topic=TOPIC, body=b"x", queue_offset=each, physical_offset=1000 + each)
        for each in range(start, end)
    )
    return Answer(fields=fields, body=b"".join(map(encode_record, records)))


@pytest.mark.parametrize("count", [4, 32])
async def test_a_gap_is_said_and_what_lies_behind_it_follows(scripted, count):
    scripted.a.scripts[RequestCode.PULL_MESSAGE] = held
    queue = MessageQueue(TOPIC, "a", 0)
    async with AsyncQueueReader(scripted.names.address) as reader:
        pulls = [pull async for pull in reader.read(queue, 0, 35, max_count=count)]
        later = [pull async for pull in reader.read(queue, 12, 22, max_count=count)]
    assert offsets_of(pulls) == [*range(10), *range(20, 30)]
    gaps = [(each.status, each.following(10)) for each in pulls if not each.body]
    assert gaps[0] == (PullStatus.OFFSET_ILLEGAL, 20)
    assert offsets_of(later) == [20, 21]
    assert later[0].first_given(12) == 20


def test_no_pulls_and_pulls_of_no_messages_are_refused(cluster, reader, queue):
    for counts in ({"depth": 0}, {"max_count": 0}, {"max_count": -1}):
        with pytest.raises(SettingsError, match="it must be at least 1"):
            list(reader.read(queue, 0, 1, **counts))
    with (
        PullConsumer(cluster.nameserver) as consumer,
        pytest.raises(SettingsError, match="max_count=0: it must be at least 1"),
    ):
        consumer.fetch(queue, 0, max_count=0)


def test_what_there_is_is_told(reader, queue):
    assert queue.topic in reader.topics()
    assert queue.broker_name in reader.brokers()
    assert reader.missing_brokers() == []


def test_the_index_tells_places_unless_there_may_be_more(reader, queue, monkeypatch):
    look = lambda: reader.indexed(queue.topic, "k250")  # noqa: E731
    found = wait_until(look, seconds=30, what="the index has it")
    assert found.places == frozenset({(queue, 250)})
    assert reader.indexed(queue.topic, "nothing") is None
    monkeypatch.setattr("cometmq.client.consumer.pull.queue_reader.INDEXED_MAX", 1)
    assert reader.indexed(queue.topic, "k250") is None


def test_topics_have_their_short_names_and_records_the_full_ones(cluster):
    settings = ProducerSettings(namespace="shop")
    with Producer(cluster.nameserver, settings=settings) as producer:
        sent = producer.send(Message("short", b"x"))
    named = PullConsumerSettings(namespace="shop")
    with QueueReader(cluster.nameserver, group="copies", settings=named) as reader:
        assert "short" in reader.topics()
        found = reader.queues(["short"])["short"]
        assert isinstance(found, TopicQueues)
        queue = replace(sent.queue, topic="short")
        assert queue in found.readable
        assert reader.max_offsets([queue]) == {queue: 1}
        [pull] = reader.read(queue, 0, 1)
        assert [each.topic for each in decode_records(pull.body)] == ["shop%short"]
        reader.commit({queue: 1})
        assert reader.committed_offsets([queue]) == {queue: 1}
    with QueueReader(cluster.nameserver) as other:
        assert "short" not in other.topics()


def test_who_is_not_running_or_has_no_nameserver_says_so(cluster, queue):
    reader = QueueReader(cluster.nameserver)
    with pytest.raises(ClientClosed, match="is not running"):
        reader.max_offsets([queue])
    with pytest.raises(ClientClosed, match="is not running"):
        list(reader.read(queue, 0, 5))
    with QueueReader("127.0.0.1:1") as away, pytest.raises(NetError):
        away.queues(["t"])
