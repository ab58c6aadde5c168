"""The topic `orders`, the group `billing`, and a hand-made client of it."""

from __future__ import annotations

from cometmq.codec.bodies.heartbeat import (
    ConsumerPart,
    Heartbeat,
    ProducerPart,
    encode_heartbeat,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.names import DEFAULT_TOPIC
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import parse_subscription
from cometmq.net.answer import Answer
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from tests.support import request_fields

QUEUE = MessageQueue("orders", "broker-a", 0)


async def send(served, body: bytes = b"body", topic: str = "orders", queue: str = "0") -> str:
    fields = request_fields.send_fields(topic, queue, "TAGS\1paid\2", c=DEFAULT_TOPIC, d=2)
    answer = await served.ask(RequestCode.SEND_MESSAGE_V2, fields, body)
    assert answer.code == 0, answer.remark
    return answer.fields["msgId"]


async def commit(served, offset: int, group: str = "billing") -> None:
    fields = {"consumerGroup": group, "topic": "orders", "queueId": "0",
              "commitOffset": str(offset)}  # fmt: skip
    assert (await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


def pull_fields(offset: int, *, suspend: bool = False) -> dict[str, str]:
    return request_fields.pull_fields(
        "orders",
        offset=offset,
        consumerGroup="billing",
        sysFlag=6 if suspend else 4,
        suspendTimeoutMillis=9000,
    )


class Client:
    """A member of the group `billing`, whose answers to a broker's questions are given."""

    def __init__(self, served, answers: dict[int, Answer], version: int = 479) -> None:
        self.asked: list = []
        self._answers = answers
        self._version = version
        self.channels = Channels(loop_clock(), on_request=self._take)
        self._broker = served.broker

    def _take(self, command, _channel):
        self.asked.append(command)
        return self._answers.get(command.code)

    async def join(self) -> None:
        wanted = (parse_subscription("orders", "*", version=1),)
        heartbeat = Heartbeat(
            "me@1", (ProducerPart("asks"),), (ConsumerPart("billing", wanted),)
        )
        command = Command(
            RequestCode.HEART_BEAT, version=self._version, body=encode_heartbeat(heartbeat)
        )
        answer = await self.channels.call(self._broker.address, command)
        assert answer.code == 0, answer.remark
