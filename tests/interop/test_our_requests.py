"""Our client's requests, traces and answers to consoles, on a Java broker and on ours."""

import pytest

from cometmq import (
    Message,
    Producer,
    ProducerSettings,
    StoredMessage,
)
from cometmq.client.sync.portal import portal
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets
from cometmq.codec.bodies.running import DirectResult, decode_direct, decode_running
from cometmq.codec.remoting import Command
from cometmq.codec.trace import TraceKind, decode_traces
from cometmq.model.codes import RequestCode
from cometmq.model.errors import RequestTimeout
from cometmq.model.names import TRACE_TOPIC
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from tests.interop.ours import SECONDS, Box, pushed
from tests.support import topics
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def test_who_asks_gets_the_reply(names, topic, group):
    with Producer(names, group=group) as answering, Producer(names) as asking:

        def listen(message: StoredMessage) -> None:
            if message.body != b"nobody":
                answering.reply(message, b"re:" + message.body)

        with pushed(names, group, listen, topic):
            for number in range(4):
                reply = asking.request(Message(topic, b"%d" % number), timeout_ms=30_000)
                assert reply.body == b"re:%d" % number
            with pytest.raises(RequestTimeout):
                asking.request(Message(topic, b"nobody"), timeout_ms=500)


def test_traces_are_where_java_looks_for_them(names, topic, group):
    settings = ProducerSettings(trace=True)
    with Producer(names, group=group, settings=settings) as producer:
        sent = producer.send(Message(topic, b"traced", keys="order-17"))
    box = Box()
    with pushed(names, group, box, topic, trace=True):
        wait_until(lambda: box.messages, seconds=SECONDS, what="the message")
    kinds = {
        trace.kind
        for message in topics.read(names, TRACE_TOPIC)
        if sent.message_id in message.keys
        for trace in decode_traces(message.body)
    }
    assert kinds >= {TraceKind.PUB, TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER}


def test_a_console_asks_our_consumer_and_moves_it(names, producer, topic, group):
    box = Box()
    sent = producer.send(Message(topic, b"again"))
    channels = portal().do(lambda: Channels(SystemClock()))

    def ask(code: int, **fields: str) -> Command:
        command = Command(int(code), fields=fields)
        answer: Command = portal().call(channels.call, broker, command, timeout_ms=15_000)
        assert answer.code == 0, answer.remark
        return answer

    with pushed(names, group, box, topic) as consumer:
        wait_until(lambda: box.messages, seconds=SECONDS, what="the message")
        broker = box.messages[0].store_host
        state = decode_running(
            ask(
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                consumerGroup=group, clientId=consumer.client_id, jstackEnable="false",
            ).body
        )  # fmt: skip
        assert state.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert sent.queue in state.queues
        outcome = decode_direct(
            ask(
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                consumerGroup=group, clientId=consumer.client_id,
                msgId=sent.offset_message_id, topic=topic,
            ).body
        )  # fmt: skip
        assert outcome.result is DirectResult.SUCCESS
        assert len(box.messages) == 2
        moved = ask(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            topic=topic, group=group, timestamp="0", isForce="true", queueId="-1",
        )  # fmt: skip
        assert decode_queue_offsets(moved.body)[sent.queue] == 0
        wait_until(lambda: len(box.messages) == 3, seconds=60, what="the message again")
    portal().call(channels.close)
