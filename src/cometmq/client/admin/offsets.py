"""Offsets of consumer groups, as `AsyncAdmin.offsets`: committed offsets, lag, and moves of groups.

A broker with useServerSideResetOffset stores the offset and redirects the members at their next pull. Any other broker only
notifies the members of a time, so exact offsets can be stored only while no member is connected.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cometmq.client.admin.absent import missing_brokers
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.states import group_not_found
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.codec.bodies.stats import QueueBounds, QueueProgress
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerNotFound, RequestError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

# Setting of a broker that moves groups itself.
_MOVES_ITSELF = "useServerSideResetOffset"


class OffsetMove(NamedTuple):
    """The move of a group's offset in one queue.

    Attributes:
        queue: The queue.
        offset: Committed offset; without one None, or 0 if the queue's first message counts as in memory.
        new: New offset.
    """

    queue: MessageQueue
    offset: int | None
    new: int

    @property
    def skipped(self) -> int | None:
        """Number of messages that the group skips; negative if it consumes some again, None without a committed offset."""
        return None if self.offset is None else self.new - self.offset


class AsyncOffsetAdmin(AsyncNoun):
    """The methods that show and move the committed offsets of consumer groups."""

    _noun = "offsets"

    async def committed(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """Return a group's committed offset in each queue of a topic; None in a queue without one.

        Brokers report 0 instead of None for a queue whose first message counts as in memory.
        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        queues = (await self._live.known(self._full(topic))).read_queues
        found = await self._offsets.committed_offsets(self._full(group), queues)
        return self._short_queues(dict(zip(queues, all_of(found.values()), strict=True)))

    async def progress(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """Return the offsets, lag and times of a group by queue, as brokers report them, of a topic or of all its topics.

        A broker group without a master is answered for by its slave of the lowest id. Raises BrokerNotFound without any
        broker, or if the nameserver remembers a broker that left and may have more queues; `Admin.groups.show` then returns
        what is known. Queues of brokers that RocketMQ's nameserver has forgotten are missing in the result.
        """
        group = self._full(group)
        topic = topic and self._full(topic)
        for broker in await missing_brokers(self._live):
            if topic is None or broker.has_any([topic]):
                raise BrokerNotFound(
                    f"the offsets of group {in_quotes(group)} are not known for all queues: {broker}; start that "
                    "broker, or see what is known (cometmq group show, Admin.groups.show)"
                )
        api = self._live.nameserver_api
        addresses = await api.readable_brokers()
        if not addresses:
            addresses = await api.masters()  # Raises an error that no broker is registered.
        answers = await side_by_side(
            lambda address: self._brokers.progress(address, group, topic), addresses.values()
        )
        return self._short_queues(
            {queue: each for queues in all_of(answers) for queue, each in queues.items()}
        )

    async def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Return a group's number of unconsumed messages by queue, as in `progress`, also for queues without an offset.

        Args:
            group: The consumer group.
            topic: Topic of the queues; None: all topics in which it has offsets, or (not with Java brokers) that its
                members subscribe to.

        Raises:
            GroupNotFound: No broker knows the group; a misspelt group thus does not seem to be without a backlog.
            BrokerNotFound: No broker is registered, or one that may have more queues has left.
        """
        progress = await self.progress(group, topic)
        if not progress:
            known = await self._each_master(self._brokers.groups)
            if not any(self._full(group) in groups for groups in known.values()):
                raise group_not_found(group)
        return {queue: each.lag for queue, each in progress.items()}

    async def at(self, topic: str, timestamp_ms: int | None) -> dict[MessageQueue, int]:
        """Return the offsets to which `reset` would move a group, by queue, without moving it.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        queues = (await self._live.known(self._full(topic))).read_queues
        return self._short_queues(await self._at(queues, timestamp_ms))

    async def moves(self, group: str, offsets: Mapping[MessageQueue, int]) -> list[OffsetMove]:
        """Return the moves that `set` would make to these offsets, sorted by queue, without making them.

        Raises TopicNotFound if the nameserver has no route of a topic.
        """
        now: dict[MessageQueue, int | None] = {}
        for topic in sorted({queue.topic for queue in offsets}):
            now |= await self.committed(group, topic)
        return [
            OffsetMove(queue, now.get(queue), new) for queue, new in sorted(offsets.items())
        ]

    async def reset(
        self, group: str, topic: str, timestamp_ms: int | None
    ) -> dict[MessageQueue, int]:
        """Move a group in all queues of a topic to a time, where its members continue; return the new offset by queue.

        Args:
            group: The consumer group.
            topic: Topic of the queues.
            timestamp_ms: Go on at the first message stored at or after this time, ms since 1970; 0: the first; None:
                the end.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
            BrokerNotFound: A broker of the topic has no master at the moment.
            BrokerRefused: A broker refuses, for example because it does not know the group.
        """
        group, topic = self._full(group), self._full(topic)
        at_ms = -1 if timestamp_ms is None else timestamp_ms
        queues = (await self._live.known(topic)).read_queues
        offsets: dict[MessageQueue, int] = {}
        for name in sorted({queue.broker_name for queue in queues}):
            address = self._live.address(name)
            moved = await self._brokers.reset_offsets(address, group, topic, at_ms)
            if moved is None:  # No member is connected: store the offsets.
                ours = [queue for queue in queues if queue.broker_name == name]
                moved = await self._at(ours, timestamp_ms)
                await self._offsets.commit_all(group, moved)
            offsets.update(moved)
        return self._short_queues(offsets)

    async def _at(
        self, queues: Sequence[MessageQueue], timestamp_ms: int | None
    ) -> dict[MessageQueue, int]:
        if timestamp_ms is None:
            found = await self._offsets.max_offsets(queues)
        elif timestamp_ms == 0:
            found = await self._offsets.min_offsets(queues)
        else:
            found = await self._offsets.offsets_by_time(dict.fromkeys(queues, timestamp_ms))
        return dict(zip(queues, all_of(found.values()), strict=True))

    async def _bounds(
        self, queues: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, QueueBounds]:
        for topic in {queue.topic for queue in queues}:
            known = set((await self._live.known(topic)).read_queues)
            for queue in queues:
                if queue.topic == topic and queue not in known:
                    raise RequestError(
                        ResponseCode.INVALID_PARAMETER,
                        f"no route has the queue {queue}; does its topic exist, and is its broker registered?",
                    )
        found = await self._offsets.bounds(queues)
        return dict(zip(found, all_of(found.values()), strict=True))

    async def _put_at(
        self, address: str, group: str, offsets: Mapping[MessageQueue, int]
    ) -> None:
        if await self._brokers.consumer_connections(address, group) is None:
            await self._offsets.commit_all(group, offsets)
            return
        settings = await self._brokers.settings(address)
        if settings.values.get(_MOVES_ITSELF) != "true":
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"group {in_quotes(group)} has connected members, and the broker at {address} cannot reset them to "
                f"an offset ({_MOVES_ITSELF} is not true): stop the members, or reset the group to a time",
            )
        all_of(
            await side_by_side(
                lambda pair: self._brokers.put_offset(address, group, *pair), offsets.items()
            )
        )

    async def set(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move a group to given offsets (the next to consume, by queue); connected members continue there.

        Raises:
            TopicNotFound: The nameserver has no route of a topic.
            RequestError: A queue or offset does not exist, or a broker cannot move members; others may have moved theirs.
        """
        group = self._full(group)
        offsets = {self._namespace.wrap_queue(queue): each for queue, each in offsets.items()}
        bounds = await self._bounds(offsets)
        for queue, offset in offsets.items():
            first, end = bounds[queue].min_offset, bounds[queue].max_offset
            if not first <= offset <= end:
                raise RequestError(
                    ResponseCode.INVALID_PARAMETER,
                    f"{queue} has the offsets {first} to {end}: a group cannot continue at {offset}",
                )
        for name in sorted({queue.broker_name for queue in offsets}):
            ours = {queue: each for queue, each in offsets.items() if queue.broker_name == name}
            await self._put_at(self._live.address(name), group, ours)
