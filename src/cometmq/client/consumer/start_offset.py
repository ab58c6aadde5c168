"""The offset at which a group begins in a queue: the stored one, else by the group's rule.

Follows RebalancePushImpl.computePullFromWhereWithException of RocketMQ 5.3.3.
"""

from cometmq.client.api.offsets import OffsetApi
from cometmq.client.consumer.offset_store import ConsumedProgress
from cometmq.client.settings import ConsumeFrom, ConsumerSettings
from cometmq.model.clock import Clock
from cometmq.model.names import is_retry_topic
from cometmq.model.queue import MessageQueue

# consumeTimestamp of DefaultMQPushConsumer: half an hour before the consumer was made.
_BEFORE_START_MS = 30 * 60 * 1000


class StartOffset:
    """The rule by which one group begins in its queues.

    Args:
        progress: what is stored.
        offsets: the brokers' answers about queues.
        settings: the rule.
        clock: for the time of the start.
    """

    def __init__(
        self,
        progress: ConsumedProgress,
        offsets: OffsetApi,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._progress = progress
        self._offsets = offsets
        self._rule = settings.consume_from
        self._timestamp_ms = settings.consume_timestamp_ms or clock.now_ms() - _BEFORE_START_MS

    async def find(self, queue: MessageQueue) -> int:
        """The first offset to pull.

        Raises:
            BrokerRefused, BrokerNotFound, TopicNotFound, NetError, CodecError: the broker could
                not be asked; ask again, never guess: a guess may lose messages.
        """
        stored = await self._progress.read(queue)
        if stored is not None and stored >= 0:
            return stored
        is_retry = is_retry_topic(queue.topic)
        match self._rule:
            case ConsumeFrom.FIRST:
                # Where 0 is gone the broker answers where the queue begins.
                return 0
            case ConsumeFrom.LAST:
                return 0 if is_retry else await self._find_last(queue)
            case ConsumeFrom.TIMESTAMP:
                if is_retry:
                    return await self._offsets.max_offset(queue)
                return await self._offsets.offset_by_time(queue, self._timestamp_ms)

    async def _find_last(self, queue: MessageQueue) -> int:
        end = await self._offsets.max_offset(queue)
        if end == 0:
            return 0
        # A broker says of a queue that still has its first message that a new group begins with it, but says
        # nothing of an empty one: a message that came between the two questions would be passed over.
        stored = await self._progress.read(queue)
        return end if stored is None or stored < 0 else stored
