"""Rebalancing: finds out which queues of each topic this member pulls, from the members of the group or from brokers.

A member does so about every 20 s (by default), sooner after a failure, and when a broker reports a change. Follows
RebalanceImpl of RocketMQ 5.3.3.
"""

from collections.abc import Iterable

from cometmq.client.api.asking import first_answer
from cometmq.client.api.members import MemberApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.broker_assignment import BrokerAssignment
from cometmq.client.settings import ConsumerSettings
from cometmq.model.errors import BrokerRefused, CometError, TopicNotFound
from cometmq.model.names import is_retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

# Maximum number of brokers to query, so that an unresponsive one leaves enough time for the others.
_ASKED_MAX = 3

_SHARING = "getting queues"


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
        """Return the addresses of up to three of the topic's brokers in random order; TopicNotFound without any."""
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
