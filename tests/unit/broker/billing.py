"""The topic `orders`, the group `billing`, and what a member of it wants."""

from __future__ import annotations

from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.model.codes import RequestCode
from cometmq.model.names import DEFAULT_TOPIC
from cometmq.model.queue import MessageQueue
from tests.support import request_fields
from tests.unit.broker.member import wishes

QUEUE = MessageQueue("orders", "broker-a", 0)
WANTED = ConsumerPart("billing", wishes("orders"))  # As its members say.


async def send(served, body: bytes = b"body", topic: str = "orders", queue: str = "0") -> str:
    fields = request_fields.send_fields(topic, queue, "TAGS\1paid\2", c=DEFAULT_TOPIC, d=2)
    answer = await served.done(RequestCode.SEND_MESSAGE_V2, fields, body)
    return answer.fields["msgId"]


async def commit(served, offset: int, group: str = "billing") -> None:
    fields = {"consumerGroup": group, "topic": "orders", "queueId": "0",
              "commitOffset": str(offset)}  # fmt: skip
    await served.done(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


def pull_fields(offset: int, *, suspend: bool = False) -> dict[str, str]:
    return request_fields.pull_fields(
        "orders",
        offset=offset,
        consumerGroup="billing",
        sysFlag=6 if suspend else 4,
        suspendTimeoutMillis=9000,
    )
