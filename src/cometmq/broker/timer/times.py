"""Reroutes sends with a delivery time to rmq_sys_wheel_timer, the topic where they wait.

The property TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS has the time; the broker adds TIMER_OUT_MS, the start of
the wheel's slot. Follows HookUtils.transformTimerMessage of RocketMQ 5.3.3.
"""

from functools import partial

from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.parts import Parts
from cometmq.broker.tables.topics import Topics
from cometmq.codec.recall_handle import recall_handle_start
from cometmq.kernel.rows import Timing
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import WHEEL_TIMER_TOPIC
from cometmq.model.topic import TopicConfig

_SECOND_MS = 1000
# Properties that only the timer writes and trusts.
_OF_THE_TIMER = (keys_of.TIMER_ROLL_TIMES, keys_of.TIMER_ENQUEUE_MS, keys_of.TIMER_DEQUEUE_MS)
_DELETE_KEY_MAX = 512  # Characters; the running slot keeps all keys of its second.
_DIGITS_MAX = 18  # Of a number that fits 64 bits.


class TimedSends:
    """Reroutes sends with a delivery time to the topic where they wait."""

    def __init__(self, parts: Parts) -> None:
        self._events = parts.counters.events
        self._settings = parts.settings
        self._topics = parts.topics
        self._clock = parts.clock

    def reroute(self, sent: RoutedSend) -> RoutedSend:
        """Reroute a send with a delivery time to the timer's topic; see `cometmq.broker.inner.reroute`.

        Returned unchanged are sends without a delivery time, delayed and half messages, messages to the timer's topic
        itself and, with the timer on, messages whose time is over.

        Raises:
            RequestError: The time is invalid or too far ahead, the timer is off, or the send is a recall of a message of
                another topic, with too long a key, or whose time is over.
        """
        properties = sent.properties
        if (
            not _asks_for_time(properties)
            or sent.topic.name == WHEEL_TIMER_TOPIC
            or sent.is_due_coded
            or properties.get(keys_of.TRAN_MSG) == "true"
        ):
            return sent
        if not self._settings.is_timer_on:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                "the message has a delivery time, but the timer is off (timerWheelEnable=false)",
            )
        _check_taken_back(properties, sent.topic.name)
        now_ms = self._clock.now_ms()
        deliver_ms = wanted_ms(properties, now_ms)
        if deliver_ms is None:
            raise _illegal("its delivery time is not a number of seconds or milliseconds")
        if deliver_ms <= now_ms:
            if keys_of.TIMER_DEL_UNIQKEY in properties:
                raise _illegal("the message to recall is already delivered")
            return sent
        limit = self._settings.timer_max_delay_seconds
        if deliver_ms - now_ms > limit * _SECOND_MS:
            raise _illegal(f"its delivery time is more than {limit} s ahead (timerMaxDelaySec)")
        properties = {
            **{name: text for name, text in properties.items() if name not in _OF_THE_TIMER},
            keys_of.TIMER_OUT_MS: str(self._slot(sent.topic.name, deliver_ms, now_ms)),
            keys_of.REAL_TOPIC: sent.topic.name,
            keys_of.REAL_QID: str(sent.queue_id),
        }
        return sent._replace(
            topic=timer_topic(self._topics),
            queue_id=0,
            properties=properties,
            timing_of=self._timing_of,
        )

    def _timing_of(self, topic: str) -> Timing:
        return Timing(
            partial(self._fast_slot, topic),
            recall_handle_start(topic, self._settings.broker_name),
        )

    def _fast_slot(self, topic: str, time_ms: int, is_delay: bool) -> int:  # noqa: FBT001  The compiled kernel calls it.
        """Return the slot's start for a send of the fast path, and count the send; -1: the slow path must handle it."""
        now_ms = self._clock.now_ms()
        deliver_ms = now_ms + time_ms if is_delay else time_ms
        limit_ms = self._settings.timer_max_delay_seconds * _SECOND_MS
        if not (self._settings.is_timer_on and 0 < deliver_ms - now_ms <= limit_ms):
            return -1
        return self._slot(topic, deliver_ms, now_ms)

    def _slot(self, topic: str, deliver_ms: int, now_ms: int) -> int:
        """Return the start of a message's slot, and count its delay; a time on a slot boundary is in the slot before that."""
        self._events.took(
            "rocketmq_delay_message_latency_seconds",
            topic,
            time_us=(deliver_ms - now_ms) * 1_000,
        )
        precision_ms = self._settings.timer_precision_ms
        return (deliver_ms - 1) // precision_ms * precision_ms


def timer_topic(topics: Topics) -> TopicConfig:
    """Return the topic in which timed messages wait."""
    return topics.get(WHEEL_TIMER_TOPIC) or TopicConfig(WHEEL_TIMER_TOPIC, 1, 1)


def delete_key(topic: str, unique_key: str) -> str:
    """Return the key by which a recall names a message (TimerMessageStore.buildDeleteKey)."""
    return f"{topic}+{unique_key}"


def is_of_topic(key: str, topic: str) -> bool:
    """Return whether a key of `delete_key` names a message of a topic."""
    return key.startswith(delete_key(topic, ""))


def _check_taken_back(properties: dict[str, str], topic: str) -> None:
    """Raise RequestError for a recall of a message of another topic (RocketMQ allows that), or with too long a key."""
    key = properties.get(keys_of.TIMER_DEL_UNIQKEY)
    if key is None:
        return
    if len(key) > _DELETE_KEY_MAX:
        raise _illegal(
            f"{keys_of.TIMER_DEL_UNIQKEY} has {len(key)} characters; at most {_DELETE_KEY_MAX} are allowed"
        )
    if not is_of_topic(key, topic):
        raise _illegal(
            f"{keys_of.TIMER_DEL_UNIQKEY} does not name a message of topic {topic}; send it to the topic "
            "of the message to recall"
        )


def _asks_for_time(properties: dict[str, str]) -> bool:
    """Return whether a send has a delivery time that no broker has processed yet (HookUtils.checkIfTimerMessage)."""
    return keys_of.TIMER_OUT_MS not in properties and (
        keys_of.TIMER_DELIVER_MS in properties
        or keys_of.TIMER_DELAY_MS in properties
        or keys_of.TIMER_DELAY_SEC in properties
    )


def wanted_ms(properties: dict[str, str], sent_ms: int) -> int | None:
    """Return the requested delivery time, epoch ms; a delay counts from `sent_ms`. None if there is no valid time."""
    for name, unit_ms, start_ms in (
        (keys_of.TIMER_DELAY_SEC, _SECOND_MS, sent_ms),
        (keys_of.TIMER_DELAY_MS, 1, sent_ms),
        (keys_of.TIMER_DELIVER_MS, 1, 0),
    ):
        text = properties.get(name)
        if text is not None:
            digits = text.removeprefix("-")
            if not digits.isdecimal() or not digits.isascii() or len(digits) > _DIGITS_MAX:
                return None
            return start_ms + int(text) * unit_ms
    return None


def _illegal(reason: str) -> RequestError:
    return RequestError(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal: {reason}")
