"""Chooses the member of a broker group that gives the messages of a range, and the one whose word counts.

A replica may lag behind its master, may have begun later, or may not be read at all. So what a
replica gives is taken, and what it does not give is asked of the master before anybody believes
that it is gone.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Collection, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum

from cometmq.client.results import PullStatus, RawPull
from cometmq.model.errors import BrokerRefused, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, TopicRoute

log = logging.getLogger(__name__)

ADVANCING = (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE)

Ask = Callable[[int, int], AsyncGenerator[RawPull, None]]
"""The answers from an offset on, of the member with an id."""


class ReadFrom(StrEnum):
    """The member of a broker group that gives the messages.

    Whatever is chosen, only the master is believed that there are none: a replica may lag behind it, or
    have begun later.
    """

    MASTER = "master"
    SLAVE = "slave"
    SUGGESTED = "suggested"


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

    async def pulls(
        self, queue: MessageQueue, *, start: int, end: int, is_all: bool, ask: Ask
    ) -> AsyncGenerator[RawPull, None]:
        """Yield the answers for [start, end), up to the first of the master's that has nothing.

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
        async with aclosing(ask(offset, MASTER_ID)) as answers:
            async for pull in answers:
                goes_on = self._is_suggested(queue, pull, MASTER_ID)
                yield pull
                # What follows comes with the next call, from whom this one names.
                if not goes_on or pull.status not in ADVANCING:
                    return

    def _chosen(self, queue: MessageQueue) -> int:
        """The member that is asked first."""
        if self.read_from is ReadFrom.MASTER or not self.replicas:
            return MASTER_ID
        if self.read_from is ReadFrom.SLAVE or not self.has_master:
            return min(self.replicas)
        named = self.suggested.get(queue, MASTER_ID)
        return named if named in self.replicas else MASTER_ID

    def _is_suggested(self, queue: MessageQueue, pull: RawPull, member: int) -> bool:
        """Whether the member may go on, as it says itself; kept for what follows."""
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
    """The members of a queue's broker group, as a route has them."""
    ids = {
        member
        for broker in route.brokers
        if broker.broker_name == queue.broker_name
        for member in broker.addresses
    }
    return BrokerGroupMembers(read_from, MASTER_ID in ids, ids - {MASTER_ID}, suggested)


def _is_word_enough(pull: RawPull, offset: int, *, is_all: bool) -> bool:
    """Whether a replica has all that it was asked for, as far as its answer reaches."""
    if pull.status not in ADVANCING:
        return False
    return not is_all or pull.first_given(offset) == offset
