"""Selectors, which choose the queue of a message: round robin, by hash of a key, at random, or your own.

A selector is any function that takes the topic's queues and the message, and returns one of the queues:

    await producer.send(message, selector=by_hash(order_id))

keeps the messages of one order in one queue, while the topic's writable queues stay the same. Follows RocketMQ 5.3.3:
SelectMessageQueueByHash, SelectMessageQueueByRandom, TopicPublishInfo.selectOneMessageQueue.
"""

import random
from collections.abc import Callable, Sequence

from cometmq.model.errors import MessageError
from cometmq.model.java_hash import java_hash
from cometmq.model.message import Message
from cometmq.model.namespace import NO_NAMESPACE, Namespace
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
# Chooses the queue of one message. None instead of a Pick means round robin with retries.
Pick = Callable[[Sequence[MessageQueue]], MessageQueue]


def by_hash(key: str) -> Selector:
    """Return a selector that always chooses the same queue for this key, while the topic's writable queues stay the same."""
    value = abs(java_hash(str(key)))

    def select(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        return queues[value % len(queues)]

    return select


def at_random(chance: random.Random | None = None) -> Selector:
    """Return a selector that chooses a random queue."""
    source = chance or random.Random()  # noqa: S311  Spreads load; nothing is secret about it.

    def select(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        return source.choice(queues)

    return select


def round_robin(chance: random.Random | None = None) -> Selector:
    """Return a selector that uses the queues in turn, from a random one on; pass the same object to all sends.

    Sends without queue and selector also use the queues in turn, and may be retried, if possible on another broker.
    """
    turn = RoundRobin(chance or random.Random())  # noqa: S311  Where to begin is no secret.

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return turn.choose(message.topic, queues)

    return select


def nearby_room(
    room_of_broker: Callable[[str], str], own_room: str, within: Selector | None = None
) -> Selector:
    """Return a selector that uses only queues of brokers in the producer's own machine room, or all if there are none.

    `room_of_broker` returns the room of a broker by its name; `within` chooses among the queues, None: round robin.
    """
    choose = within or round_robin()

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        near = [queue for queue in queues if room_of_broker(queue.broker_name) == own_room]
        return choose(near or queues, message)

    return select


def at_broker(broker_name: str) -> Pick:
    """Return a `Pick` for a reply: it picks the first queue of a broker, or the first of all if the broker has none."""

    def pick(queues: Sequence[MessageQueue]) -> MessageQueue:
        return next((queue for queue in queues if queue.broker_name == broker_name), queues[0])

    return pick


def only(
    queue: MessageQueue | None, topic: str, namespace: Namespace = NO_NAMESPACE
) -> Pick | None:
    """Return the `Pick` that always picks this queue; None (round robin, with retries) without a queue.

    Raises MessageError if the queue does not belong to `topic`; both names may have the prefix of the namespace or not.
    """
    if queue is None:
        return None
    if queue.topic != topic and namespace.wrap(queue.topic) != namespace.wrap(topic):
        raise MessageError(
            f"the message has topic {in_quotes(topic)}, but the selected queue belongs to topic "
            f"{in_quotes(queue.topic)}"
        )
    return lambda _queues: queue


def pick_of(
    message: Message,
    queue: MessageQueue | None,
    selector: Selector | None,
    namespace: Namespace = NO_NAMESPACE,
) -> Pick | None:
    """Return the `Pick` that picks `queue`, or else calls `selector`; None (round robin, with retries) without both.

    Raises MessageError if the queue belongs to another topic than the message.
    """
    if queue is not None:
        return only(queue, message.topic, namespace)
    if selector is not None:
        return lambda queues: selector(queues, message)
    return None


class RoundRobin:
    """Uses the queues of each topic in turn, from a random one on; a retry goes to another broker if possible.

    `is_available` returns whether a broker is preferred now (`FaultTable`); None: all are.
    """

    def __init__(
        self, chance: random.Random, is_available: Callable[[str], bool] | None = None
    ) -> None:
        self._chance = chance
        self._is_available = is_available
        self._next: dict[str, int] = {}

    def next_index(self, topic: str, count: int) -> int:
        """Return the counter of the next queue of `topic`; modulo `count` it is the index. Random until the first send."""
        index = self._next.get(topic)
        return self._chance.randrange(count) if index is None else index

    def went_to(self, topic: str, index: int) -> None:
        """Record that a message of `topic` was sent to the queue with this counter; the next message uses the next queue."""
        self._next[topic] = index + 1

    def choose(
        self, topic: str, queues: Sequence[MessageQueue], failed: Sequence[str] = ()
    ) -> MessageQueue:
        """Return the next queue of `topic`, if possible not on a broker that is unavailable or failed in this send.

        `failed` are the brokers of failed attempts, the latest last; if all brokers failed, only the latest is avoided.
        """
        count = len(queues)
        index = self.next_index(topic, count)
        if not failed and self._is_available is None:
            self._next[topic] = index + 1
            return queues[index % count]
        turn = [queues[(index + step) % count] for step in range(count)]
        chosen = self._best(turn, failed)
        self.went_to(topic, index + turn.index(chosen))
        return chosen

    def _best(self, turn: list[MessageQueue], failed: Sequence[str]) -> MessageQueue:
        others = (
            [queue for queue in turn if queue.broker_name not in failed]
            or [queue for queue in turn if queue.broker_name != failed[-1]]
            or turn
        )
        available = self._is_available
        if available is None:
            return others[0]
        return next((queue for queue in others if available(queue.broker_name)), others[0])
