"""Settings of a broker for delayed and timed messages: RocketMQ's keys."""

from cometmq.access.keys import AccessKeys
from cometmq.model.delay_levels import DELAY_LEVELS
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting


@dataclass(frozen=True, slots=True)
class DelayKeys(AccessKeys):
    """Settings of delayed and timed messages: keys of MessageStoreConfig and BrokerConfig of RocketMQ 5.3.3.

    Attributes:
        delay_levels: the delay levels, from level 1.
        flush_delay_offset_interval_ms: pause between saves of delayOffset.json, ms.
        is_timer_on: messages may have any delivery time; otherwise such sends are refused.
        timer_precision_ms: length of a slot of the timer wheel, ms; a store keeps the value that it was created with.
        timer_max_delay_seconds: sends with a longer delay are refused, s.
        timer_roll_window_slots: messages with more slots ahead pass through the wheel several times.
        timer_flush_interval_ms: pause between saves of the timer's files, ms.
        timer_log_file_size: size of a timerlog file, bytes.
        is_timer_enqueue_stopped: messages stay in the timer's queue and do not enter the wheel.
        is_timer_dequeue_stopped: the wheel delivers nothing.
        is_recall_on: producers may recall timed messages.
    """

    delay_levels: str = setting(DELAY_LEVELS, key="messageDelayLevel")
    flush_delay_offset_interval_ms: int = setting(
        10_000, key="flushDelayOffsetInterval", least=1
    )
    is_timer_on: bool = setting(default=True, key="timerWheelEnable")
    timer_precision_ms: int = setting(1_000, least=100, most=1_000)
    timer_max_delay_seconds: int = setting(
        259_200, key="timerMaxDelaySec", least=1, is_remote=True
    )
    timer_roll_window_slots: int = setting(172_800, key="timerRollWindowSlot")
    timer_flush_interval_ms: int = setting(1_000, least=1)
    timer_log_file_size: int = setting(100 << 20, key="mappedFileSizeTimerLog", least=4096)
    is_timer_enqueue_stopped: bool = setting(
        default=False, key="timerStopEnqueue", is_remote=True
    )
    is_timer_dequeue_stopped: bool = setting(
        default=False, key="timerStopDequeue", is_remote=True
    )
    is_recall_on: bool = setting(default=False, key="recallMessageEnable", is_remote=True)
