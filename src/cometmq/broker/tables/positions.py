"""The rule by which the broker counts what a consumer group has not consumed; metrics and consoles share it.

A group continues at the offset that it has committed, or to which it has popped. Without one, the count begins at the
first offset that the group's members are known to have pulled, or else at the queue's first message. Messages that were
popped, except by pops in order, and neither acknowledged nor delivered again count, too, although the offset passed them.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from cometmq.broker.tables.members import Members
from cometmq.broker.tables.offsets import Offsets
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.model.names import is_retry_topic
from cometmq.steps.steps import Steps
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

Place = tuple[str, str, int]  # Group, topic, queue.


class Position(NamedTuple):
    """The position of a group in a queue.

    Attributes:
        queue: None if there is none, for example because it never had a message.
        next: Queue offset from which messages count as not consumed.
        end: The offset after the queue's last readable message; 0 without a queue.
        in_flight: Number of messages popped, except by pops in order, and neither acknowledged nor delivered again.
        is_committed: Whether the group has committed an offset of the queue.
    """

    queue: ConsumeQueue | None
    next: int
    end: int
    in_flight: int
    is_committed: bool

    @property
    def lag(self) -> int:
        """Number of messages that count as not consumed by the group."""
        return max(self.end - self.next, 0) + self.in_flight


class Pops(Protocol):
    """The positions of groups that pop, as the pop feature knows them."""

    @property
    def has_uncommitted(self) -> bool:
        """Whether any group has popped messages to an offset that is not committed yet."""
        ...

    def next_offset(self, place: Place) -> int | None:
        """Return the offset at which the next pop begins, or None if the group has no offset there."""
        ...

    def in_flight(self) -> Steps[Mapping[Place, int]]:
        """Count messages popped, except in order, and neither acknowledged nor delivered again, by group and queue."""
        ...


class GroupPositions:
    """The positions of all groups at this broker.

    Attributes:
        pops: Set by the broker's pop feature.
    """

    def __init__(
        self,
        store: MessageStore,
        *,
        topics: Topics,
        offsets: Offsets,
        members: Members,
        is_slave: bool = False,
    ) -> None:
        """Count for a master, or with `is_slave` for a slave, whose log may begin later than a group's offset."""
        self.pops: Pops | None = None
        self._is_slave = is_slave
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._members = members
        topics.on_change.append(self._topic_changed)

    def _topic_changed(self, topic: str) -> None:
        if self._topics.get(topic) is None:
            self._members.forget_topic(topic)

    def pairs(self) -> list[tuple[str, str, Mapping[int, int]]]:
        """Return group, topic and offsets for each topic in which a group has some or to which its members subscribe.

        Left out: of the topics with offsets, most to which its members no longer subscribe; of those without, missing
        ones, retry topics that never had a message, and all of a broadcasting group. The offsets are by queue and live.
        """
        found: list[tuple[str, str, Mapping[int, int]]] = []
        wanted: dict[str, Container[str] | None] = {}
        for place, offsets in self._offsets.places():
            topic, _, group = place.partition(TOPIC_GROUP_SEPARATOR)
            if group not in wanted:
                wanted[group] = self._subscribed(group)
            if _is_among(topic, wanted[group]):
                found.append((group, topic, offsets))
        for members in self._members.consumer_groups():
            found += [(members.name, topic, {}) for topic in self._begun(members.name)]
        return found

    def topics_of(self, group: str, committed: list[str]) -> list[str]:
        """Return the topics that `pairs` pairs with a group; `committed` are all topics in which it has offsets."""
        subscribed = self._subscribed(group)
        consumed = [topic for topic in committed if _is_among(topic, subscribed)]
        return consumed + list(self._begun(group))

    def is_broadcast(self, group: str) -> bool:
        """Return whether a group has registered members and, by its last heartbeat, each consumes all messages."""
        members = self._members.consumer_group(group)
        return members is not None and members.model == BROADCASTING

    def _subscribed(self, group: str) -> Container[str] | None:
        """Return the topics to which a group's members subscribe; None if they subscribe to none, or are unknown."""
        members = self._members.consumer_group(group)
        return None if members is None else members.subscriptions or None

    def _begun(self, group: str) -> Iterator[str]:
        """Yield the existing topics that a group's members subscribe to and in which it has no offset.

        Retry topics that never had a message are left out, and all topics if the group is a broadcasting one.
        """
        members = self._members.consumer_group(group)
        if members is None or members.model == BROADCASTING:
            return
        for topic in members.subscriptions:
            if (
                self._offsets.has_any(group, topic)
                or (config := self._topics.get(topic)) is None
            ):
                continue
            # Each group has a retry topic, mostly an empty one; Java shows no line for that.
            if not is_retry_topic(topic) or any(
                self._store.queue(topic, number) is not None
                for number in range(config.read_queues)
            ):
                yield topic

    def in_flight(self) -> Steps[Mapping[Place, int]]:
        """Count the popped messages as `Pops.in_flight`, by group, topic and queue; none without a pop feature."""
        if self.pops is None:
            return {}
        return (yield from self.pops.in_flight())

    def begins(self, topic: str, count: int) -> list[tuple[int, int]]:
        """Return the first offset and the end of each of a topic's first `count` queues; (0, 0) if it is missing."""
        queues = self._store.queues_by_number(topic) or {}
        return [
            (0, 0)
            if (queue := queues.get(queue_id)) is None
            else (queue.min_offset, queue.max_offset)
            for queue_id in range(count)
        ]

    def is_committed_all(self, group: str) -> bool:
        """Return whether a group's positions follow from its offsets alone, apart from messages in flight.

        If not, what its members have pulled counts, or pops that are not committed yet.
        """
        members = self._members.consumer_group(group)
        if members is not None and members.first_pulls:
            return False
        return self.pops is None or not self.pops.has_uncommitted

    def passed(
        self, committed: Mapping[int, int], begins: list[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return two sums over a topic's queues: the messages before a group's offsets, and offsets less first offsets.

        Nothing is added for a queue without an offset of the group or, on a master, with one before its first message.

        Args:
            committed: Its offsets by queue; nothing else may be known of it (`is_committed_all`).
            begins: First offset and end of each queue of the topic (`begins`).
        """
        messages = grown = 0
        for queue_id, offset in committed.items():
            if queue_id < len(begins):
                first, end = begins[queue_id]
                if offset > first or self._is_slave:
                    grown += offset - first
                    messages += min(end, offset) - first
        return messages, grown

    def of(
        self,
        group: str,
        topic: str,
        queue_ids: Iterable[int],
        in_flight: Mapping[Place, int],
    ) -> list[Position]:
        """Return the positions of a group in queues of a topic, in the order of `queue_ids`.

        A list of groups has 72,000 of them for 300 groups in 30 topics each, so what the queues share is looked up once.
        `in_flight` is the result of the method of that name.
        """
        committed = self._offsets.live(group, topic)
        members = self._members.consumer_group(group)
        pulled = members.first_pulls if members is not None else {}
        pops = self.pops if self.pops is not None and self.pops.has_uncommitted else None
        queues = self._store.queues_by_number(topic) or {}
        found = []
        for queue_id in queue_ids:
            known = offset = committed.get(queue_id)
            if (
                pops is not None
                and (popped := pops.next_offset((group, topic, queue_id))) is not None
            ):
                offset = popped
            first, end, queue = 0, 0, queues.get(queue_id)
            if queue is not None:
                first, end = queue.min_offset, queue.max_offset
            if offset is None and pulled:
                offset = pulled.get((topic, queue_id))
            if offset is None or (offset < first and not self._is_slave):
                offset = first
            held = in_flight.get((group, topic, queue_id), 0) if in_flight else 0
            found.append(Position(queue, offset, end, held, known is not None))
        return found


def _is_among(topic: str, subscribed: Container[str] | None) -> bool:
    """Return whether a topic with offsets is consumed by members with these subscriptions; None: any is."""
    # No member subscribes to the topics from which it pops retries.
    return subscribed is None or topic in subscribed or is_retry_topic(topic)
