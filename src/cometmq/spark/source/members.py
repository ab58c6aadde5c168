"""Chooses the member of a broker group that gives the messages of a range, and the one whose word counts.

A replica may lag behind its master, may have begun later, or may not be read at all. So what a
replica gives is taken, and what it does not give is asked of the master before anybody believes
that it is gone.

Next: cometmq.client.consumer.pull.pull_consumer
"""

import logging
from collections.abc import Callable, Collection, Iterator, MutableMapping
from dataclasses import dataclass

from cometmq.client import PullStatus, RawPull
from cometmq.codec.record import QUEUE_OFFSET_AT
from cometmq.model.errors import BrokerRefused, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, TopicRoute
from cometmq.spark.source.cluster import ReadFrom

log = logging.getLogger(__name__)

ADVANCING = (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE)

Ask = Callable[[int, int], Iterator[RawPull]]
"""The answers from an offset on, of the member with an id."""


@dataclass(frozen=True)
class BrokerGroupMembers:
    """The members of a broker group, for one range.

    Attributes:
        read_from: the user's choice.
        has_master: whether the route names one now.
        replicas: ids of the members beside the master.
        suggested: what brokers suggested last, by queue; kept by whoever keeps the connections.
    """

    read_from: ReadFrom
    has_master: bool
    replicas: Collection[int]
    suggested: MutableMapping[MessageQueue, int]

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, is_all: bool, ask: Ask
    ) -> Iterator[RawPull]:
        """The answers for [start, end), up to the first of the master's that has nothing.

        Args:
            queue: whose.
            start: first queue offset.
            end: queue offset behind the last one.
            is_all: whether the broker leaves out nothing.
            ask: asks a member.

        Raises:
            NetError: there is no master, or it cannot be reached.
            CometError: what the master said.
        """
        offset, member = start, self.chosen(queue)
        while member != MASTER_ID and offset < end:
            following = MASTER_ID
            try:
                for pull in ask(offset, member):
                    if not _is_word_enough(pull, offset, is_all=is_all):
                        break
                    yield pull
                    offset = pull.next_offset
                    if not self._is_suggested(queue, pull, member):
                        following = self.chosen(queue)
                        break
            except (NetError, BrokerRefused) as error:
                log.warning("%s: the master is asked instead: %s", queue, error)
            member = following
        if offset >= end and offset > start:
            return
        if not self.has_master:
            raise NetError(
                f"the master of {queue.broker_name} is not registered; only it knows whether "
                f"{queue} has messages from offset {offset} on"
            )
        for pull in ask(offset, MASTER_ID):
            yield pull
            # What follows comes with the next call, from whom this one names.
            if not self._is_suggested(queue, pull, MASTER_ID):
                return

    def chosen(self, queue: MessageQueue) -> int:
        """The member that is asked first."""
        if self.read_from is ReadFrom.MASTER or not self.replicas:
            return MASTER_ID
        if self.read_from is ReadFrom.SLAVE or not self.has_master:
            return min(self.replicas)
        named = self.suggested.get(queue, MASTER_ID)
        return named if named in self.replicas else MASTER_ID

    def _is_suggested(self, queue: MessageQueue, pull: RawPull, member: int) -> bool:
        """Whether the member may go on, as it says itself."""
        if self.read_from is not ReadFrom.SUGGESTED or not self.replicas:
            return True
        self.note(queue, pull)
        return self.chosen(queue) == member

    def note(self, queue: MessageQueue, pull: RawPull) -> None:
        """Keep whom an answer suggests for what follows."""
        if self.read_from is ReadFrom.SUGGESTED and self.replicas:
            self.suggested[queue] = pull.suggested_broker_id


def members_of(
    route: TopicRoute,
    queue: MessageQueue,
    read_from: ReadFrom,
    suggested: MutableMapping[MessageQueue, int],
) -> BrokerGroupMembers:
    """The members of a queue's broker group, as a route has them."""
    ids = {
        member
        for broker in route.brokers
        if broker.broker_name == queue.broker_name
        for member in broker.addresses
    }
    return BrokerGroupMembers(read_from, MASTER_ID in ids, ids - {MASTER_ID}, suggested)


def first_given(pull: RawPull, offset: int) -> int:
    """The first offset from `offset` on that an answer does not pass over.

    A broker whose oldest file has just gone answers FOUND with the first message behind it.
    """
    if pull.status is PullStatus.NO_MATCHED_MESSAGE:
        return pull.next_offset
    if pull.status is not PullStatus.FOUND:
        return offset
    first = int.from_bytes(pull.body[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8])
    # Anything else is no message, which decoding will say.
    return first if first < pull.next_offset else offset


def _is_word_enough(pull: RawPull, offset: int, *, is_all: bool) -> bool:
    """Whether a replica has all that it was asked for, as far as its answer reaches."""
    if pull.status not in ADVANCING:
        return False
    return not is_all or first_given(pull, offset) == offset
