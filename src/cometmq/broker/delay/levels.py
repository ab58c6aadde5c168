"""The delay levels: where a message waits, and which sends ask for it.

A message of level n waits in queue n - 1 of SCHEDULE_TOPIC_XXXX; REAL_TOPIC and REAL_QID say where it
goes, and its queue entry holds the time when it is due. Follows HookUtils.handleScheduleMessage of
RocketMQ 5.3.3.
"""

from collections.abc import Sequence
from dataclasses import replace

from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.tables.topics import Topics
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.model.topic import TopicConfig

# What a message of a level has no use for (HookUtils.checkIfTimerMessage).
_TIMES = (keys_of.TIMER_DELIVER_MS, keys_of.TIMER_DELAY_SEC, keys_of.TIMER_DELAY_MS)


class DelayLevelTable:
    """The levels of a broker.

    Attributes:
        delays_ms: of each level, the first is level 1 (messageDelayLevel).
    """

    def __init__(self, delays_ms: Sequence[int], topics: Topics) -> None:
        self.delays_ms = delays_ms
        self._topics = topics

    def reroute(self, sent: RoutedSend) -> RoutedSend:
        """Let a send that asks for a level wait in its queue; see `cometmq.broker.inner.reroute`.

        Raises:
            RequestError: its level is no number.
        """
        level = level_of(sent.properties)
        if level <= 0 or sent.properties.get(keys_of.TRAN_MSG) == "true":
            return sent  # Half messages are never delayed: their check-back would come first.
        topic, queue_id, properties = self.place(
            level, sent.topic.name, sent.queue_id, sent.properties
        )
        return replace(
            sent, topic=topic, queue_id=queue_id, properties=properties, is_due_coded=True
        )

    def place(
        self, level: int, topic: str, queue_id: int, properties: dict[str, str]
    ) -> tuple[TopicConfig, int, dict[str, str]]:
        """The topic and queue where a message waits, and the properties that lead it back.

        Args:
            level: 1 or more; beyond the last it is the last.
            topic: where it goes when it is due.
            queue_id: of that topic.
            properties: of the message; a changed copy is given back.
        """
        level = min(level, len(self.delays_ms))
        properties = {name: text for name, text in properties.items() if name not in _TIMES}
        properties[keys_of.DELAY] = str(level)
        properties[keys_of.REAL_TOPIC] = topic
        properties[keys_of.REAL_QID] = str(queue_id)
        return self._topic(), level - 1, properties

    def _topic(self) -> TopicConfig:
        count = len(self.delays_ms)
        return self._topics.get(SCHEDULE_TOPIC) or TopicConfig(SCHEDULE_TOPIC, count, count)


def level_of(properties: dict[str, str]) -> int:
    """The level that a message asks for; 0 or less: none.

    Raises:
        RequestError: it is no number.
    """
    text = properties.get(keys_of.DELAY, "0")
    try:
        return int(text)
    except ValueError:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the property {keys_of.DELAY}={text!r:.40} is no delay level; send a number",
        ) from None
