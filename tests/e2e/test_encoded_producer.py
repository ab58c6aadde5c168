"""Messages that were encoded before they are sent, and the ends of half messages, at a real broker."""

import zlib
from collections.abc import Iterator

import pytest

from cometmq import ProducerSettings, PullConsumer, SendResult, TransactionState
from cometmq.admin import HalfMessage
from cometmq.codec.batch import encode_batch
from cometmq.connect import (
    CheckedHalfMessage,
    EncodedBatch,
    EncodedMessage,
    EncodedProducer,
    QueueReader,
    TopicQueues,
)
from cometmq.embedded import Embedded
from cometmq.errors import BrokerRefused, ClientClosed, CometError, MessageError
from cometmq.model import properties as keys_of
from cometmq.model.flags import COMPRESSED, TRANSACTION_PREPARED
from tests.support.processes import wait_until


@pytest.fixture(scope="module")
def served() -> Iterator[Embedded]:
    with Embedded(settings={"maxMessageSize": "65536"}) as mq:
        yield mq


@pytest.fixture
def producer(served: Embedded) -> Iterator[EncodedProducer]:
    settings = ProducerSettings(body_size_max=1 << 30)
    with EncodedProducer(served.nameserver, group="imports", settings=settings) as producer:
        yield producer


def block(producer: EncodedProducer, **more: str) -> tuple[str, str]:
    """A new id, and a property block with it."""
    message_id = producer.next_id()
    properties = {**more, keys_of.UNIQ_KEY: message_id}
    return message_id, "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def test_messages_and_batches_go_side_by_side_and_each_has_its_outcome(served, producer):
    queue = producer.queues("encoded")[0]
    ids, blocks = zip(*(block(producer, k=f"v{each}") for each in range(4)), strict=True)
    items = encode_batch([(7, b"in a batch", each.encode()) for each in blocks[2:]])
    one, long, batch = producer.send_each(
        [
            EncodedMessage("encoded", b"alone", blocks[0], flag=5),
            EncodedMessage("encoded", bytes(100_000), blocks[1]),
            EncodedBatch("encoded", items),
        ],
        queue=queue,
    )
    assert isinstance(one, SendResult)
    assert (one.message_id, one.queue) == (ids[0], queue)
    assert isinstance(long, BrokerRefused)
    assert isinstance(batch, SendResult)
    with PullConsumer(served.nameserver) as consumer:
        found = consumer.fetch(queue, 0).messages
    wanted = {ids[0]: (b"alone", 5, "v0"), **{
        each: (b"in a batch", 7, f"v{number}") for number, each in zip((2, 3), ids[2:], strict=True)
    }}  # fmt: skip
    assert {
        each.message_id: (bytes(each.body), each.flag, each.properties["k"]) for each in found
    } == wanted


def test_a_send_that_nobody_waits_for_gives_a_future(producer):
    _, properties = block(producer)
    sent = producer.send_each_async([EncodedMessage("unwaited", b"x", properties)])
    assert isinstance(sent.result(10)[0], SendResult)
    closed = EncodedProducer("127.0.0.1:1", group="imports")
    with pytest.raises(ClientClosed, match="is not running"):
        closed.send_each([])


@pytest.mark.parametrize(
    ("number", "wrong", "error"),
    [
        (0, EncodedMessage("whole", b"y", "\ud800"), TypeError),
        (1, EncodedMessage("other", b"y", ""), MessageError),
    ],
)
def test_nothing_is_sent_if_a_message_cannot_be_encoded_or_does_not_belong_to_the_queue(
    producer, number, wrong, error
):
    queue = producer.queues("whole")[number]
    good = EncodedMessage("whole", b"x", block(producer)[1])
    with pytest.raises(error):
        producer.send_each([good, wrong], queue=queue)
    (sent,) = producer.send_each([good], queue=queue)
    assert isinstance(sent, SendResult)
    assert sent.queue_offset == 0


@pytest.mark.parametrize(
    ("body", "sys_flag"), [(b"x", 0), (zlib.compress(bytes(5 << 20)), COMPRESSED)]
)
def test_a_judge_without_a_mark_is_asked_about_every_half_message(body, sys_flag):
    asked = []

    def judge(half: CheckedHalfMessage) -> TransactionState:
        asked.append(half.properties[keys_of.UNIQ_KEY])
        return TransactionState.COMMIT

    settings = {"transactionTimeOut": 0, "transactionCheckInterval": 200}
    with (
        Embedded(settings=settings) as mq,
        EncodedProducer(mq.nameserver, group="judged", judge=judge) as producer,
    ):
        marks = {keys_of.TRAN_MSG: "true", keys_of.PRODUCER_GROUP: "judged"}
        message_id, properties = block(producer, **marks)
        flags = TRANSACTION_PREPARED | sys_flag
        producer.send_each([EncodedMessage("t", body, properties, 0, flags)])
        wait_until(lambda: message_id in asked, seconds=10, what="a check")


@pytest.mark.parametrize("state", [TransactionState.COMMIT, TransactionState.ROLLBACK])
def test_half_messages_are_ended_and_it_can_be_asked_whether_they_are_there(
    served, producer, state
):
    topic = f"halves-{state.name}"
    marks = {keys_of.TRAN_MSG: "true", keys_of.PRODUCER_GROUP: producer.group}
    messages = [
        EncodedMessage(topic, b"half", block(producer, **marks)[1], 0, TRANSACTION_PREPARED)
        for _ in range(3)
    ]
    halves = [
        HalfMessage.of(each)
        for each in producer.send_each(messages)
        if isinstance(each, SendResult)
    ]
    assert len(halves) == 3
    assert producer.committed(halves) == [False] * 3
    lost = halves[0]._replace(broker_name="nobody")
    ended = producer.end([*halves, lost], state)
    assert ended[:3] == [None] * 3
    assert isinstance(ended[3], CometError)
    if state is TransactionState.COMMIT:
        wait_until(
            lambda: producer.committed(halves) == [True] * 3,
            seconds=30,
            what="they are indexed",
        )
        return
    with QueueReader(served.nameserver) as reader:
        found = reader.queues([topic])[topic]
        assert isinstance(found, TopicQueues)
        ends = reader.max_offsets(found.readable)
    assert set(ends.values()) == {0}
    assert producer.committed(halves) == [False] * 3
