"""Choice of the member of a broker group (master or slave) to read a range of messages from.

If a slave has no more messages or cannot be read, the master is queried before messages are considered deleted.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Collection, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass

from cometmq.client.consumer.pull.read_from import ReadFrom
from cometmq.client.results import PullStatus, RawPull
from cometmq.model.errors import BrokerNotFound, BrokerRefused, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, TopicRoute

log = logging.getLogger(__name__)

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
            is_all: Whether all are wanted: if a slave's answer does not begin with the offset asked for, ask the master.
            ask: Yields a member's pull answers; called with the first offset and the member's id.

        Raises:
            NetError: The chosen slaves do not have all up to `end`, and there is no master or it cannot be reached.
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
    """Return whether a slave's answer can be used: it moves on, and with `is_all` does not skip the wanted offset."""
    if pull.status not in ADVANCING:
        return False
    return not is_all or pull.first_given(offset) == offset
