"""The delay levels: which sends are delayed, and where they wait.

A message of level n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX (beyond the last level, as one of the last). Its
properties REAL_TOPIC and REAL_QID are the destination, its queue entry has the time at which it is due. Follows
HookUtils.handleScheduleMessage of RocketMQ 5.3.3.
"""

from collections.abc import Sequence

from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.tables.topics import Topics
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.model.text import in_quotes
from cometmq.model.topic import TopicConfig

# Properties that a message with a delay level does not use (HookUtils.checkIfTimerMessage).
_TIMES = (keys_of.TIMER_DELIVER_MS, keys_of.TIMER_DELAY_SEC, keys_of.TIMER_DELAY_MS)


class DelayLevelTable:
    """The delay levels of a broker; `delays_ms` has the delay of each, starting with level 1 (messageDelayLevel)."""

    def __init__(self, delays_ms: Sequence[int], topics: Topics) -> None:
        self.delays_ms = delays_ms
        self._topics = topics

    def reroute(self, sent: RoutedSend) -> RoutedSend:
        """Reroute a send with a delay level to the level's queue; see `cometmq.broker.inner.reroute`.

        Half messages, and sends without a level, are returned unchanged.

        Raises:
            RequestError: The level is not a number.
        """
        level = level_of(sent.properties)
        if level <= 0 or sent.properties.get(keys_of.TRAN_MSG) == "true":
            return sent  # Half messages are never delayed: their check would come first.
        topic, queue_id, properties = self.place(
            level, sent.topic.name, sent.queue_id, sent.properties
        )
        return sent._replace(
            topic=topic, queue_id=queue_id, properties=properties, is_due_coded=True
        )

    def place(
        self, level: int, topic: str, queue_id: int, properties: dict[str, str]
    ) -> tuple[TopicConfig, int, dict[str, str]]:
        """Return topic and queue where a message waits, and its properties: with the destination, without a timer's.

        Levels count from 1; a level above the last one means the last. `topic` and `queue_id` are the destination.
        """
        level = min(level, len(self.delays_ms))
        properties = properties.copy()
        for name in _TIMES:
            properties.pop(name, None)
        properties[keys_of.DELAY] = str(level)
        properties[keys_of.REAL_TOPIC] = topic
        properties[keys_of.REAL_QID] = str(queue_id)
        return self._topic(), level - 1, properties

    def _topic(self) -> TopicConfig:
        count = len(self.delays_ms)
        return self._topics.get(SCHEDULE_TOPIC) or TopicConfig(SCHEDULE_TOPIC, count, count)


def level_of(properties: dict[str, str]) -> int:
    """Return the level that a message requests, 0 or less for none; raises RequestError if it is not a number."""
    text = properties.get(keys_of.DELAY, "0")
    try:
        return int(text)
    except ValueError:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the property {keys_of.DELAY}={in_quotes(text, 40)} is not a delay level; send a number",
        ) from None
