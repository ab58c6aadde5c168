"""The offset at which a group starts in a queue: the committed one, or usually one by the `consume_from` setting.

Follows RebalancePushImpl.computePullFromWhereWithException of RocketMQ 5.3.3.
"""

from collections.abc import Awaitable, Callable

from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.routes import KnownTopic
from cometmq.client.consumer.offset_store import ConsumedProgress
from cometmq.client.consumer.settings import ConsumeFrom, ConsumerSettings
from cometmq.model.clock import Clock
from cometmq.model.errors import BrokerRefused
from cometmq.model.names import is_retry_topic
from cometmq.model.queue import MessageQueue

# Default of consumeTimestamp in DefaultMQPushConsumer: half an hour before the consumer was made.
_BEFORE_START_MS = 30 * 60 * 1000


class StartOffset:
    """Finds the offset at which a group, or a broadcasting member, starts to pull a queue.

    Args:
        progress: Stored offsets.
        offsets: Queries brokers for offsets.
        settings: The `consume_from` rule and its time.
        clock: Current time. Without a time in `settings`, TIMESTAMP means half an hour before this object was made.
        known: Returns the route of a topic.
        group: Group with offsets at the brokers; None for a broadcasting member, which keeps its own.
    """

    def __init__(
        self,
        progress: ConsumedProgress,
        offsets: OffsetApi,
        settings: ConsumerSettings,
        clock: Clock,
        known: Callable[[str], Awaitable[KnownTopic]],
        group: str | None,
    ) -> None:
        self._progress = progress
        self._offsets = offsets
        self._known = known
        self._group = group
        # Queues whose start was found by the rule: their committed offsets are not evidence that the group consumed earlier.
        self._ruled: set[MessageQueue] = set()
        # Queues whose topic was deleted meanwhile. In a new queue of that name the group starts at 0, whatever its rule.
        self._lost: set[MessageQueue] = set()
        self._rule = settings.consume_from
        given_ms = settings.consume_timestamp_ms
        self._timestamp_ms = clock.now_ms() - _BEFORE_START_MS if given_ms is None else given_ms

    async def find(self, queue: MessageQueue) -> int:
        """Return the first offset to pull: the stored one, or else 0 after `lose`, or else as `consume_from` says.

        LAST starts retry topics, and queues younger than what the group has consumed at other brokers, at 0; TIMESTAMP
        starts retry topics at their end. If a query fails, raises a CometError, mostly BrokerRefused, BrokerNotFound,
        TopicNotFound, NetError or CodecError; then try again.
        """
        stored = await self._progress.read(queue)
        if stored is not None and stored >= 0:
            return stored
        if queue in self._lost:
            return 0
        self._ruled.add(queue)
        is_retry = is_retry_topic(queue.topic)
        match self._rule:
            case ConsumeFrom.FIRST:
                # If offset 0 is deleted, the broker's answer names the first offset.
                return 0
            case ConsumeFrom.LAST:
                return 0 if is_retry else await self._find_last(queue)
            case ConsumeFrom.TIMESTAMP:
                if is_retry:
                    return await self._offsets.max_offset(queue)
                return await self._offsets.offset_by_time(queue, self._timestamp_ms)

    def lose(self, queue: MessageQueue) -> None:
        """Forget the position in a queue of a deleted topic; `find` returns 0 for it unless an offset is stored."""
        self._lost.add(queue)
        self._progress.lose(queue)

    async def _find_last(self, queue: MessageQueue) -> int:
        end = await self._offsets.max_offset(queue)
        if end == 0:
            return 0
        # For a queue that still has its first message a broker reports offset 0 for a new group, but nothing for an
        # empty queue. A message that arrived between the two queries would be skipped, so ask again.
        stored = await self._progress.read(queue)
        if stored is not None and stored >= 0:
            return stored
        return 0 if await self._is_younger_than_group(queue) else end

    async def _is_younger_than_group(self, queue: MessageQueue) -> bool:
        """Return whether a queue is younger than what the group has consumed at other brokers.

        It is younger if it still has offset 0, and its first message was stored after everything that the group has
        consumed in the topic at other brokers, as far as they report its offsets. If answers do not show that, the result
        is False; the errors of `find` are raised if the queue's own broker or a nameserver cannot be queried.
        """
        if self._group is None:
            return False
        others = [
            each
            for each in (await self._known(queue.topic)).read_queues
            if each.broker_name != queue.broker_name and each not in self._ruled
        ]
        committed = await self._offsets.committed_offsets(self._group, others)
        consumed = {
            each: offset
            for each, offset in committed.items()
            if isinstance(offset, int) and offset > 0
        }
        if not consumed or await self._offsets.min_offset(queue) > 0:
            return False
        try:
            first_ms = await self._offsets.first_stored_ms(queue)
        except BrokerRefused:
            return False
        then = await self._offsets.offsets_by_time(dict.fromkeys(consumed, first_ms))
        return all(
            isinstance(offset := then[each], int) and offset >= consumed[each]
            for each in consumed
        )
