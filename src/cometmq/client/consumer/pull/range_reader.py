"""Reads a range of a queue in order, with several pulls in flight.

Offsets of a queue have no gaps, so the next pull can be sent before the previous one is answered. If an answer covers
fewer offsets than requested (a Java broker by default returns at most 32 messages, or 8 from disk), the rest is usually
requested again, and the next pulls request fewer. The range is read from a member of the broker group; if a slave has
no more messages or cannot be read, the master is queried before messages are considered deleted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, replace

from cometmq.client.consumer.pull.pulls import Puller, PullTerms
from cometmq.client.consumer.pull.read_from import ReadFrom
from cometmq.client.results import PullStatus, RawPull
from cometmq.codec.remoting import Command
from cometmq.model.errors import BrokerNotFound, BrokerRefused, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, TopicRoute

log = logging.getLogger(__name__)

# A pull in flight: its first offset, the offset after its last, and the answer.
_Pull = tuple[int, int, asyncio.Future[Command]]


class RangeReader:
    """Reads the messages of one queue from the offset `start` to before `end`, with at most `depth` pulls in flight.

    `ask` are the parameters of the pulls; its `max_count` is the initial number of messages per pull.
    """

    def __init__(
        self,
        puller: Puller,
        queue: MessageQueue,
        *,
        start: int,
        end: int,
        ask: PullTerms,
        depth: int,
    ) -> None:
        self._puller = puller
        self._queue = queue
        self._next = start
        self._end = end
        # The queue's end according to the latest answer. A pull beyond it is useless, and a Java broker even writes an
        # event for it (OFFSET_MOVED_EVENT).
        self._known_end = start + ask.max_count
        self._ask = ask
        self._step = ask.max_count
        self._depth = depth
        self._under_way: deque[_Pull] = deque()

    async def read(self) -> AsyncGenerator[RawPull, None]:
        """Yield the answers in order, until `end`, the queue's end or no progress; raise as `Puller.pull` does.

        If messages are deleted, usually one answer is OFFSET_ILLEGAL, and reading goes on at its `next_offset`.
        """
        try:
            while await self._fill():
                first, behind, answer = self._under_way.popleft()
                pull = self._puller.read(self._queue, await answer)
                yield pull
                if not await self._go_on(first, behind, pull):
                    return
        finally:
            self._drop()

    async def _fill(self) -> bool:
        end = min(self._end, self._known_end)
        while self._next < end and len(self._under_way) < self._depth:
            behind = min(self._next + self._step, end)
            self._under_way.append(await self._pull(self._next, behind))
            self._next = behind
        return bool(self._under_way)

    async def _pull(self, first: int, behind: int) -> _Pull:
        ask = replace(self._ask, max_count=behind - first)
        return first, behind, await self._puller.start(self._queue, first, ask)

    async def _go_on(self, first: int, behind: int, pull: RawPull) -> bool:
        self._known_end = pull.max_offset
        if pull.next_offset <= first or pull.status is PullStatus.NO_NEW_MESSAGE:
            return False
        if pull.status is PullStatus.OFFSET_ILLEGAL:
            # The following pulls may be for deleted messages, too; start again at the broker's offset.
            self._drop()
            self._next = pull.next_offset
        elif pull.next_offset < behind:
            self._step = max(1, pull.next_offset - first)
            self._under_way.appendleft(await self._pull(pull.next_offset, behind))
        elif self._step < self._ask.max_count and behind - first == self._step:
            self._step = min(self._step * 2, self._ask.max_count)
        return True

    def _drop(self) -> None:
        for _, _, answer in self._under_way:
            # No task awaits them: without this a lost connection would be reported for each.
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._under_way.clear()


ADVANCING = (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE)

Ask = Callable[[int, int], AsyncGenerator[RawPull, None]]
"""The answers from an offset on, of the member with an id."""


@dataclass(frozen=True)
class BrokerGroupMembers:
    """The members of a broker group, for reading one range.

    Attributes:
        read_from: The user's choice.
        has_master: Whether the route currently has a master.
        replicas: Ids of the slaves.
        suggested: The member that a broker last suggested for a queue, by queue; shared between ranges.
    """

    read_from: ReadFrom
    has_master: bool
    replicas: Collection[int]
    suggested: MutableMapping[MessageQueue, int]

    async def pulls(
        self, queue: MessageQueue, *, start: int, end: int, is_all: bool, ask: Ask
    ) -> AsyncGenerator[RawPull, None]:
        """Yield the pull answers for the offsets [start, end): from the chosen slave, if any, as far as it can, then the master.

        It may end before `end`, for example if the master has no more messages or suggests a slave.

        Args:
            queue: Queue to read.
            start: First queue offset.
            end: Queue offset after the last message.
            is_all: Whether no offset may be left out: if a slave's answer begins after the offset asked for, ask the
                master.
            ask: Yields a member's pull answers; called with the first offset and the member's id.

        Raises:
            NetError: The chosen slaves did not return all up to `end`, and there is no master or it cannot be reached.
            CometError: Another error of the master, no route can be fetched, or a slave's answer is malformed.
        """
        offset, member = start, self._chosen(queue)
        while member != MASTER_ID and offset < end:
            following = MASTER_ID
            try:
                async with aclosing(ask(offset, member)) as answers:
                    async for pull in answers:
                        if not _is_word_enough(pull, offset, is_all=is_all):
                            break
                        goes_on = self._is_suggested(queue, pull, member)
                        offset = pull.next_offset
                        yield pull
                        if not goes_on:
                            following = self._chosen(queue)
                            break
            except (NetError, BrokerNotFound, BrokerRefused) as error:
                log.warning("A slave could not serve %s; using the master: %s", queue, error)
            member = following
        if offset >= end and offset > start:
            return
        if not self.has_master:
            raise NetError(
                f"the master of {queue.broker_name} is not registered; only it knows whether "
                f"{queue} has messages from offset {offset} on"
            )
        async with aclosing(ask(offset, MASTER_ID)) as answers:
            async for pull in answers:
                goes_on = self._is_suggested(queue, pull, MASTER_ID)
                yield pull
                # The next call continues with the member that this answer suggests.
                if not goes_on or pull.status not in ADVANCING:
                    return

    def _chosen(self, queue: MessageQueue) -> int:
        if self.read_from is ReadFrom.MASTER or not self.replicas:
            return MASTER_ID
        if self.read_from is ReadFrom.SLAVE or not self.has_master:
            return min(self.replicas)
        named = self.suggested.get(queue, MASTER_ID)
        return named if named in self.replicas else MASTER_ID

    def _is_suggested(self, queue: MessageQueue, pull: RawPull, member: int) -> bool:
        """With ReadFrom.SUGGESTED and slaves, record the suggested member; return False if another one is to be read next."""
        if self.read_from is not ReadFrom.SUGGESTED or not self.replicas:
            return True
        self.suggested[queue] = pull.suggested_broker_id
        return self._chosen(queue) == member


def members_of(
    route: TopicRoute,
    queue: MessageQueue,
    read_from: ReadFrom,
    suggested: MutableMapping[MessageQueue, int],
) -> BrokerGroupMembers:
    """Return the members of a queue's broker group according to a route."""
    ids = {
        member
        for broker in route.brokers
        if broker.broker_name == queue.broker_name
        for member in broker.addresses
    }
    return BrokerGroupMembers(read_from, MASTER_ID in ids, ids - {MASTER_ID}, suggested)


def _is_word_enough(pull: RawPull, offset: int, *, is_all: bool) -> bool:
    """Return whether a slave's answer suffices: FOUND or no match; with `is_all`, also that it begins at the offset."""
    if pull.status not in ADVANCING:
        return False
    return not is_all or pull.first_given(offset) == offset
