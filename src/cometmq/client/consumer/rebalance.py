"""Rebalancing: finds out which queues of each topic this member pulls, from the members of the group or from brokers.

A member does so about every 20 s (by default), sooner after a failure, and when a broker reports a change. Follows
RebalanceImpl of RocketMQ 5.3.3.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from cometmq.client.api.asking import first_answer
from cometmq.client.api.members import MemberApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.connection.routes import QUEUES_MAX
from cometmq.client.consumer.pop.pop_loop import PopContext, PopLoop
from cometmq.client.consumer.settings import ConsumerSettings
from cometmq.codec.bodies.assignment import POP, Assignment, AssignmentQuery
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerRefused,
    ClientError,
    CodecError,
    CometError,
    TopicNotFound,
)
from cometmq.model.names import is_retry_topic, pop_retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes
from cometmq.net.tasks import Tasks

# Maximum number of brokers to query, so that an unresponsive one leaves enough time for the others.
_ASKED_MAX = 3

_SHARING = "getting queues"

_log = logging.getLogger(__name__)


class BrokerAssignment:
    """The queues of one member, as assigned by brokers: runs a loop for each queue that is to be popped.

    Queues that are to be pulled are returned to the member, as if it had computed them itself (docs/design/0014). Follows
    RebalanceImpl.getRebalanceResultFromBroker of RocketMQ 5.3.3.

    Attributes:
        loops: Pop loops, by queue, of the assigned queues that are to be popped.

    Args:
        popping: Context that the loops share.
        want: Called with a topic that must also be pulled.
        unwant: Called with a topic that must no longer be pulled.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        popping: PopContext,
        *,
        want: Callable[[str], None],
        unwant: Callable[[str], None],
    ) -> None:
        self.loops: dict[MessageQueue, PopLoop] = {}
        self._instance = instance
        self._api = MemberApi(instance)
        self._group = group
        self._popping = popping
        self._want = want
        self._unwant = unwant
        self._dropped: list[PopLoop] = []
        self._tasks = Tasks(f"{group} pop")

    async def pulled(self, topic: str, addresses: Sequence[str]) -> list[MessageQueue] | None:
        """Return the queues of a topic that this member must pull; start and stop the loops of those to be popped.

        There are none if the topic was unsubscribed meanwhile. Returns None if the broker assigns no queues (before
        5.0), so that the members must. Of the brokers at `addresses`, the first that answers decides.

        Raises:
            NetError: No broker answered.
            BrokerRefused, CodecError: The first broker that answered refused, or its answer is invalid.
            ClientError: The broker has no assignment, for example as it does not know the group yet; or ClientClosed.
        """
        query = AssignmentQuery(topic, self._group, self._instance.client_id)
        try:
            assigned = await first_answer(
                lambda address: self._api.assignment(address, query),
                addresses,
                seconds=self._instance.request_timeout_ms / 1000,
            )
        except BrokerRefused as refused:
            if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            self._keep(topic, ())
            return None
        if assigned is None:
            await self._instance.beat()
            raise ClientError(
                f"the broker has no consumer group {in_quotes(self._group)} yet; the next heartbeat creates it"
            )
        _check_topic(topic, assigned)
        if self._popping.subscription_of(topic) is None:
            return []
        popped = [each.queue for each in assigned if each.mode == POP]
        pulled = [each.queue for each in assigned if each.mode != POP]
        self._keep(topic, popped)
        if not is_retry_topic(topic):
            # Popped messages that were not acknowledged are in this topic, and consumers that pull must read it.
            retries = pop_retry_topic(topic, self._group)
            if popped:
                self._unwant(retries)
            elif pulled:
                self._want(retries)
        return pulled

    def drop(self, topic: str) -> None:
        """Send no further pop for a topic; messages of earlier ones are still delivered."""
        self._keep(topic, ())

    def _keep(self, topic: str, queues: Iterable[MessageQueue]) -> None:
        wanted = set(queues)
        self._dropped = [loop for loop in self._dropped if not loop.is_at_rest]
        for queue in [each for each in self.loops if each.topic == topic]:
            if queue not in wanted:
                _log.info("Group %s stops popping from %s", self._group, queue)
                loop = self.loops.pop(queue)
                loop.is_dropped = True
                self._dropped.append(loop)
        for queue in sorted(wanted - self.loops.keys()):
            _log.info("Group %s pops from %s", self._group, queue)
            loop = self.loops[queue] = PopLoop(queue, self._popping)
            self._tasks.spawn(loop.run(), f"pop {queue}")

    async def stop(self) -> None:
        """Stop popping; messages that were popped may still be acknowledged."""
        await asyncio.gather(*(loop.stop() for loop in (*self.loops.values(), *self._dropped)))
        await self._tasks.close()

    async def close(self) -> None:
        """Acknowledge consumed messages and try to return the others to the brokers; call `stop` first."""
        loops = [*self.loops.values(), *self._dropped]
        self.loops.clear()
        self._dropped.clear()
        await asyncio.gather(*(loop.close() for loop in loops))
        await self._popping.tasks.close()


def _check_topic(topic: str, assigned: list[Assignment]) -> None:
    for each in assigned:
        if each.queue.topic != topic:
            raise CodecError(
                f"the broker was asked for queues of topic {in_quotes(topic)} and assigned {each.queue}"
            )
    if len(assigned) > QUEUES_MAX:
        raise CodecError(
            f"the broker assigned {len(assigned)} queues of topic {in_quotes(topic)}; a client accepts at most "
            f"{QUEUES_MAX}"
        )


class Rebalance:
    """Computes the queues that one member pulls: all if broadcasting, else those assigned by a broker or by `allocation`.

    Attributes:
        is_complete: Whether the last `work_out` succeeded for every topic and found this member in every list of members
            that it fetched; the member clears it if it could not take or give up a queue, to rebalance again soon.
        assigned: Asks a broker for the assignment, and pops queues itself; None: the members compute the assignment, as
            they do if the broker cannot (before 5.0).
    """

    def __init__(
        self, instance: ClientInstance, group: str, settings: ConsumerSettings
    ) -> None:
        self.is_complete = False
        self.assigned: BrokerAssignment | None = None
        self._instance = instance
        self._api = MemberApi(instance)
        self._group = group
        self._is_broadcasting = settings.broadcasting
        self._allocate = settings.allocation

    async def work_out(self, topics: Iterable[str]) -> dict[str, list[MessageQueue]]:
        """Return a dict of topics to the queues that this member must pull, without topics whose queues are not known.

        Failures are usually logged. Queues to be popped are not returned; `assigned` pops them itself.
        """
        self.is_complete = True
        shares = {}
        for topic in topics:
            try:
                shares[topic] = await self._share(topic)
            except CometError as error:
                self.is_complete = False
                # Brokers create a retry topic on the first heartbeat, which takes a moment.
                if not (isinstance(error, TopicNotFound) and is_retry_topic(topic)):
                    place = f"for the group {self._group}"
                    if isinstance(error, TopicNotFound):
                        place = f"of the topic {topic} {place}"
                    work, member = _SHARING, (self._group, topic)
                    self._instance.outages.failed(work, place, error, member)
            else:
                self._instance.outages.worked(_SHARING, (self._group, topic))
        return shares

    async def _share(self, topic: str) -> list[MessageQueue]:
        queues = (await self._instance.known(topic)).read_queues
        if self._is_broadcasting:
            return list(queues)
        if self.assigned is not None:
            pulled = await self.assigned.pulled(topic, await self._addresses(topic))
            if pulled is not None:
                return pulled
        try:
            members = await self._members(topic)
        except BrokerRefused:
            # A new or restarted broker knows no member of this group, so it does not know us either.
            await self._instance.beat()
            raise
        if self._instance.client_id not in members:
            # A restarted broker does not know us, and the others have taken over our queues.
            self.is_complete = False
            await self._instance.beat()
        return self._allocate(queues, members, self._instance.client_id)

    async def _addresses(self, topic: str) -> list[str]:
        """Return the addresses of up to three of the topic's brokers in random order, or raise TopicNotFound."""
        known = await self._instance.known(topic)
        addresses = [
            address
            for broker in known.route.brokers
            if (address := broker.master_or_any()) is not None
        ]
        if not addresses:
            raise TopicNotFound(f"no broker of topic {in_quotes(topic)} is registered")
        return self._instance.chance.sample(addresses, min(len(addresses), _ASKED_MAX))

    async def _members(self, topic: str) -> tuple[str, ...]:
        return await first_answer(
            lambda address: self._api.members(address, self._group),
            await self._addresses(topic),
            seconds=self._instance.request_timeout_ms / 1000,
        )
