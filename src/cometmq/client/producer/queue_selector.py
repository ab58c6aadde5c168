"""Selectors of a message's queue: round robin, by hash of a key, at random, or your own function.

A selector is any function of the topic's queues and the message that gives one of them:

    await producer.send(message, selector=by_hash(order_id))

keeps the messages of one order in one queue, hence in order. Follows RocketMQ 5.3.3:
SelectMessageQueueByHash, SelectMessageQueueByRandom, TopicPublishInfo.selectOneMessageQueue.
"""

import random
from collections.abc import Callable, Sequence

from cometmq.model.errors import MessageError
from cometmq.model.java_hash import java_hash
from cometmq.model.message import Message
from cometmq.model.namespace import NO_NAMESPACE, Namespace
from cometmq.model.queue import MessageQueue

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
# Gives the queue of one certain message; None in its place leaves it to round robin, with retries.
Pick = Callable[[Sequence[MessageQueue]], MessageQueue]


def by_hash(key: str) -> Selector:
    """A selector that keeps the messages of a key in one queue, as long as the number of queues stays."""
    value = abs(java_hash(str(key)))

    def select(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        return queues[value % len(queues)]

    return select


def at_random(chance: random.Random | None = None) -> Selector:
    """A selector that takes any queue."""
    source = chance or random.Random()  # noqa: S311  Spreads load; nothing is secret about it.

    def select(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        return source.choice(queues)

    return select


def round_robin(chance: random.Random | None = None) -> Selector:
    """A selector that takes one queue after the other; keep it for all messages of a topic.

    Without a selector sends go round robin, too, and are tried again on another broker.
    """
    turn = RoundRobin(chance or random.Random())  # noqa: S311  Where to begin is no secret.

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return turn.choose(message.topic, queues)

    return select


def nearby_room(
    room_of_broker: Callable[[str], str], own_room: str, within: Selector | None = None
) -> Selector:
    """A selector that takes queues of brokers in one's own room; of any where it has none.

    Args:
        room_of_broker: where the broker of this name stands.
        own_room: where this producer stands.
        within: chooses among them; None: one after the other.
    """
    choose = within or round_robin()

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        near = [queue for queue in queues if room_of_broker(queue.broker_name) == own_room]
        return choose(near or queues, message)

    return select


def at_broker(broker_name: str) -> Pick:
    """A selector that takes any queue at one broker, or at another where it has none: for replies."""

    def pick(queues: Sequence[MessageQueue]) -> MessageQueue:
        return next((queue for queue in queues if queue.broker_name == broker_name), queues[0])

    return pick


def only(queue: MessageQueue | None) -> Pick | None:
    """A picker that always gives this queue; None, which means round robin, without one."""
    return None if queue is None else lambda _queues: queue


def pick_of(
    message: Message,
    queue: MessageQueue | None,
    selector: Selector | None,
    namespace: Namespace = NO_NAMESPACE,
) -> Pick | None:
    """The picker for a message: its given queue, its selector, or None for round robin.

    Raises:
        MessageError: the queue is of another topic.
    """
    if queue is not None:
        if queue.topic != message.topic and queue.topic != namespace.wrap(message.topic):
            raise MessageError(
                f"the message is for {message.topic!r}, the queue is of {queue.topic!r}"
            )
        return lambda _queues: queue
    if selector is not None:
        return lambda queues: selector(queues, message)
    return None


class RoundRobin:
    """Takes one queue after the other, for each topic by itself; a retry goes to another broker.

    Args:
        chance: where to begin, so that many producers do not begin at one queue.
        is_available: whether a broker may be used now (`FaultTable`); None: all may.
    """

    def __init__(
        self, chance: random.Random, is_available: Callable[[str], bool] | None = None
    ) -> None:
        self._chance = chance
        self._is_available = is_available
        self._next: dict[str, int] = {}

    def next_index(self, topic: str, count: int) -> int:
        """The number of the next queue of `topic`, counted on and on; of `count` it is the rest."""
        index = self._next.get(topic)
        return self._chance.randrange(count) if index is None else index

    def went_to(self, topic: str, index: int) -> None:
        """Note that a message of `topic` went to the queue of this number, and the next one goes to the next."""
        self._next[topic] = index + 1

    def choose(
        self, topic: str, queues: Sequence[MessageQueue], failed: Sequence[str] = ()
    ) -> MessageQueue:
        """Return the next queue of `topic`.

        Args:
            topic: whose turn is counted.
            queues: at least one.
            failed: the brokers where attempts failed, the last at the end: all are avoided if there is another, and
                else the last one.
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
