"""A client that a test has beside itself: it says which groups it is in, and keeps what the broker asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

from cometmq.codec.bodies.heartbeat import (
    ConsumerPart,
    Heartbeat,
    ProducerPart,
    encode_heartbeat,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.subscription import Subscription, parse_subscription
from cometmq.net.answer import Answer
from cometmq.net.channel import Channel
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from tests.unit.broker.conftest import Served


def wishes(*topics: str, expression: str = "*", version: int = 1) -> tuple[Subscription, ...]:
    """Subscriptions to what an expression of tags lets through."""
    return tuple(parse_subscription(topic, expression, version=version) for topic in topics)


def beat_of(
    *consumers: ConsumerPart, produces: Iterable[str] = (), client_id: str = "c1"
) -> bytes:
    """The body of a heartbeat."""
    producers = tuple(ProducerPart(group) for group in produces)
    return encode_heartbeat(Heartbeat(client_id, producers, consumers))


class Member:
    """A connection of its own, to be closed in the end.

    Attributes:
        asked: What the broker asked, in order.
    """

    def __init__(
        self,
        served: Served,
        client_id: str = "me@1",
        answer: Callable[[Command, Channel], Answer | None] = lambda *_: None,
    ) -> None:
        self.client_id = client_id
        self.asked: list[Command] = []
        self._answer = answer
        self._address = served.broker.address
        self.channels = Channels(loop_clock(), on_request=self._take)

    def _take(self, command: Command, channel: Channel) -> Answer | None:
        self.asked.append(command)
        return self._answer(command, channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channels.close()

    async def ask(self, code: int, fields=None, body: bytes = b"") -> Command:
        command = Command(int(code), fields=fields or {}, body=body)
        return await self.channels.call(self._address, command)

    async def beat(self, *consumers: ConsumerPart, produces: Iterable[str] = ()) -> Command:
        """Say which groups it is in; the answer, which is no error."""
        body = beat_of(*consumers, produces=produces, client_id=self.client_id)
        answer = await self.ask(RequestCode.HEART_BEAT, body=body)
        assert answer.code == 0, answer.remark
        return answer
