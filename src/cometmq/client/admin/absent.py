"""Brokers that are missing from an answer about the cluster, because they left or do not answer."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CodecError,
    CometError,
    NetError,
)
from cometmq.model.queue import MessageQueue
from cometmq.model.text import time_text

Value = TypeVar("Value")


class AbsentBroker(NamedTuple):
    """A broker group that cannot be queried, because it left its nameserver or does not answer.

    Attributes:
        name: Name of the broker group.
        why: The reason, worded to follow the name in a sentence.
        cluster: Its cluster; empty if the broker only does not answer.
        left_ms: Time when it left its nameserver, ms since 1970; None if it only does not answer.
        queues: Number of readable queues by topic when it left; None if unknown.
    """

    name: str
    why: str
    cluster: str = ""
    left_ms: int | None = None
    queues: Mapping[str, int] | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.why}"

    def has_any(self, topics: Iterable[str]) -> bool:
        """Return whether the broker may have queues of one of these topics."""
        return self.queues is None or any(topic in self.queues for topic in topics)


def silent_broker(name: str, error: CometError) -> AbsentBroker:
    """Return the `AbsentBroker` for a broker that does not answer, with the error as the reason."""
    return AbsentBroker(name, f"does not answer: {error}")


async def missing_brokers(instance: ClientInstance) -> list[AbsentBroker]:
    """Return the broker groups that left and that the nameserver remembers; empty if it returns no valid list, as RocketMQ's."""
    try:
        missing = await instance.nameserver_api.missing_brokers()
    except (BrokerRefused, CodecError):
        return []
    return [_absent(each) for each in missing]


def _absent(broker: MissingBroker) -> AbsentBroker:
    why = f"left the nameserver at {time_text(max(broker.left_ms, 0))} and has not returned"
    return AbsentBroker(broker.name, why, broker.cluster, broker.left_ms, broker.queues)


def queues_that_answer(
    queues: Iterable[MessageQueue],
    answers: Iterable[Value | CometError],
    silent: dict[str, AbsentBroker],
) -> dict[MessageQueue, Value]:
    """Return a dict of queues to answers, and add the brokers that do not answer to `silent`; raise the first other error."""
    found: dict[MessageQueue, Value] = {}
    for queue, answer in zip(queues, answers, strict=True):
        if isinstance(answer, NetError | BrokerNotFound):
            silent[queue.broker_name] = silent_broker(queue.broker_name, answer)
        elif isinstance(answer, CometError):
            raise answer
        else:
            found[queue] = answer
    return found


def those_that_answer(
    names: Iterable[str], answers: Iterable[Value | CometError], silent: dict[str, AbsentBroker]
) -> dict[str, Value]:
    """Return a dict of broker names to answers, and add the brokers with a NetError to `silent`.

    Raises the first error that is no NetError; or if none answered, the first NetError.
    """
    found: dict[str, Value] = {}
    errors: list[NetError] = []
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, NetError):
            errors.append(answer)
            silent[name] = silent_broker(name, answer)
        elif isinstance(answer, CometError):
            raise answer
        else:
            found[name] = answer
    if errors and not found:
        raise errors[0]
    return found
