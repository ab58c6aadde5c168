"""The cluster as the source and the sink see it, over a real client and a real broker."""

import os
import time
from dataclasses import replace

import pytest

from cometmq import Message, Producer, PullConsumer, Tag
from cometmq.client.results import SendResult
from cometmq.codec.batch import encode_batch
from cometmq.codec.record import decode_records
from cometmq.connect import PullStatus
from cometmq.embedded import Embedded
from cometmq.model.errors import CometError, NetError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import RowBatch, RowPlace
from cometmq.spark.sink.cluster import SinkCluster, sink_cluster
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.source.cluster import PullPlan, SourceCluster, source_cluster
from cometmq.spark.source.settings import SourceSettings

COUNT = 500


def source_settings(nameserver: str) -> SourceSettings:
    options = {"nameserver": nameserver, "subscribe": "t", "group": "spark-test"}
    return SourceSettings.parse(options, is_stream=False)


@pytest.fixture
def source(cluster: Embedded) -> SourceCluster:
    return SourceCluster(source_settings(cluster.nameserver))


@pytest.fixture
def queue(cluster: Embedded, topic: str) -> MessageQueue:
    """A queue with COUNT messages: bodies are their offsets, tags alternate."""
    with Producer(cluster.nameserver) as producer:
        queue = producer.queues(topic)[0]
        messages = [
            Message(topic, str(number).encode(), tag="even" if number % 2 == 0 else "odd")
            for number in range(COUNT)
        ]
        for start in range(0, COUNT, 100):
            producer.send_batch(messages[start : start + 100], queue=queue)
    return queue


def offsets_of(pulls) -> list[int]:
    return [record.queue_offset for pull in pulls for record in decode_records(pull.body)]


@pytest.mark.parametrize(("rows", "depth"), [(1024, 4), (32, 8), (7, 3), (1, 1)])
def test_a_range_comes_whole_and_in_order(source, queue, rows, depth):
    pulls = list(source.pulls(queue, start=3, end=COUNT - 3, plan=PullPlan(rows, depth)))
    assert offsets_of(pulls) == list(range(3, COUNT - 3))
    assert pulls[-1].next_offset == COUNT - 3


def test_a_range_beyond_the_end_stops_with_what_the_broker_says(source, queue):
    pulls = list(source.pulls(queue, start=COUNT, end=COUNT + 9, plan=PullPlan(32, 4)))
    assert [pull.status for pull in pulls] == [PullStatus.NO_NEW_MESSAGE]
    pulls = list(source.pulls(queue, start=COUNT + 50, end=COUNT + 90, plan=PullPlan(32, 4)))
    assert [pull.status for pull in pulls] == [PullStatus.OFFSET_ILLEGAL]
    assert pulls[0].max_offset == COUNT


def test_a_reader_that_stops_early_leaves_nothing_behind(source, queue):
    pulls = source.pulls(queue, start=0, end=COUNT, plan=PullPlan(10, 4))
    next(pulls)
    pulls.close()
    again = source.pulls(queue, start=0, end=5, plan=PullPlan(10, 4))
    assert offsets_of(again) == [0, 1, 2, 3, 4]


def test_the_first_answers_of_many_ranges_come_together(source, queue):
    elsewhere = replace(queue, topic="NoSuchTopic")
    asked = [(queue, 3, 9), (elsewhere, 0, 5), (queue, 100, COUNT), (queue, COUNT, COUNT + 3)]
    short, unknown, long, beyond = source.first_pulls(asked, PullPlan(20, 4))
    assert offsets_of([short]) == list(range(3, 9))
    assert unknown is None
    assert offsets_of([long]) == list(range(100, 120))
    assert beyond.status is PullStatus.NO_NEW_MESSAGE


def test_the_broker_filters_by_tag(source, queue):
    plan = PullPlan(16, 4, Tag("even"))
    found = offsets_of(source.pulls(queue, start=0, end=COUNT, plan=plan))
    assert sorted(set(found)) == list(range(0, COUNT, 2))


def test_offsets_are_known_by_place_time_and_group(cluster, source, queue):
    assert source.min_offsets([queue]) == {queue: 0}
    assert source.max_offsets([queue], patient=True) == {queue: COUNT}
    now_ms = int(time.time() * 1000)
    assert source.offsets_by_time({queue: now_ms + 60_000}) == {queue: COUNT}
    assert source.offsets_by_time({queue: now_ms - 3_600_000}) == {queue: 0}
    with PullConsumer(cluster.nameserver, group="spark-test") as consumer:
        consumer.commit(queue, 42)
    assert source.committed_offsets([queue]) == {queue: 42}


def test_a_cluster_that_reads_is_busy_and_a_closed_one_is_gone(source, queue):
    pulls = source.pulls(queue, start=0, end=COUNT, plan=PullPlan(10, 4))
    states = [source.is_busy]
    next(pulls)
    states.append(source.is_busy)
    pulls.close()
    states.append(source.is_busy)
    assert states == [False, True, False]
    source.close()
    with pytest.raises(CometError):
        source.max_offsets([queue])


def test_the_group_is_told_where_it_goes_on(source, queue):
    source.commit({queue: 77})
    assert source.committed_offsets([queue]) == {queue: 77}


def test_the_size_of_messages_is_known_by_a_look(source, queue):
    size = source.mean_sizes({queue: 0})[queue]
    assert size is not None
    assert 100 < size < 400
    assert source.mean_sizes({queue: COUNT}) == {queue: None}


def test_topics_brokers_and_queues_are_known(source, queue):
    assert queue.topic in source.topics()
    assert queue.broker_name in source.brokers()
    found = source.queues([queue.topic, "nobody-has-it"])
    assert queue in list(found[queue.topic])
    assert isinstance(found["nobody-has-it"], TopicNotFound)
    assert source.max_offsets([queue]) == {queue: COUNT}


def test_batches_are_under_way_together_and_keep_their_own_ids(cluster, topic):
    sink = SinkCluster(SinkSettings.parse({"nameserver": cluster.nameserver}))
    queue = sink.writable_queues(topic)[1]
    ids = sink.ids.make(20).to_pylist()
    assert len(set(ids)) == 20
    bodies = [
        encode_batch([(0, b"x", f"UNIQ_KEY\x01{one}\x02".encode()) for one in ids[n : n + 5]])
        for n in range(0, 20, 5)
    ]
    futures = [sink.start(RowBatch(RowPlace(topic, queue), 5, body)) for body in bodies]
    stored = [outcome for future in futures for outcome in future.result()]
    offsets = [outcome.queue_offset for outcome in stored if isinstance(outcome, SendResult)]
    # Which of them comes first is not promised: a busy broker may have asked for one again.
    assert sorted(offsets) == [0, 5, 10, 15]
    with PullConsumer(cluster.nameserver) as consumer:
        found = [message.message_id for message in consumer.fetch(queue, 0).messages]
    for first, offset in zip(range(0, 20, 5), offsets, strict=True):
        assert found[offset : offset + 5] == ids[first : first + 5]


def test_a_cluster_that_a_task_writes_is_busy_until_it_is_done(cluster):
    sink = SinkCluster(SinkSettings.parse({"nameserver": cluster.nameserver}))
    states = [sink.is_busy]
    with sink.used():
        states.append(sink.is_busy)
    states.append(sink.is_busy)
    assert states == [False, True, False]


def test_a_namespace_stands_at_the_broker_and_nowhere_else(cluster, topic):
    options = {"nameserver": cluster.nameserver, "rocketmq.namespace": "shop"}
    sink = SinkCluster(SinkSettings.parse({**options, "group": "writers"}))
    body = encode_batch([(0, b"x", f"UNIQ_KEY\x01{sink.ids.make(1)[0]}\x02".encode())])
    sent = sink.start(RowBatch(RowPlace(topic, sink.writable_queues(topic)[0]), 1, body))
    assert isinstance(sent.result()[0], SendResult)
    settings = SourceSettings.parse(
        {**options, "subscribePattern": "spark-.*", "group": "readers"}, is_stream=False
    )
    source = SourceCluster(settings)
    assert topic in source.topics()  # Others may have made topics in this namespace.
    found = source.queues([topic, f"{topic}-gone"])
    assert isinstance(found[f"{topic}-gone"], TopicNotFound)
    queues = found[topic]
    assert not isinstance(queues, TopicNotFound)
    queue = next(each for each, end in source.max_offsets(queues).items() if end)
    assert queue.topic == topic
    pulls = list(source.pulls(queue, start=0, end=1, plan=PullPlan(32, 4)))
    assert [each.topic for pull in pulls for each in decode_records(pull.body)] == [
        f"shop%{topic}"
    ]
    source.commit({queue: 1})
    with PullConsumer(cluster.nameserver, group="shop%readers") as consumer:
        assert consumer.committed(replace(queue, topic=f"shop%{topic}")) == 1
    assert source.committed_offsets([queue]) == {queue: 1}
    assert topic not in SourceCluster(source_settings(cluster.nameserver)).topics()


def test_a_nameserver_that_is_not_there_is_a_net_error():
    source = SourceCluster(source_settings("127.0.0.1:1"))
    with pytest.raises(NetError):
        source.queues(["t"])


def test_a_process_shares_one_client_for_each_cluster_and_role(cluster):
    settings = source_settings(cluster.nameserver)
    assert source_cluster(settings) is source_cluster(settings)
    other = replace(settings, group="another")
    assert source_cluster(other) is not source_cluster(settings)
    sink = SinkSettings.parse({"nameserver": cluster.nameserver})
    assert sink_cluster(sink) is sink_cluster(sink)


# Python 3.12 warns of every fork beside threads; Spark's own daemon forks its workers.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_makes_its_own_client(cluster):
    settings = source_settings(cluster.nameserver)
    parent = source_cluster(settings)
    child = os.fork()
    if child == 0:
        is_own = source_cluster(settings) is not parent
        os._exit(0 if is_own and source_cluster(settings).topics() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert parent.topics()
