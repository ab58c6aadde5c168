"""Settings of a broker for delayed and timed messages: RocketMQ's keys."""

from cometmq.access.keys import AccessKeys
from cometmq.model.delay_levels import DELAY_LEVELS
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting


@dataclass(frozen=True, slots=True)
class DelayKeys(AccessKeys):
    """Of MessageStoreConfig and BrokerConfig of RocketMQ 5.3.3.

    Attributes:
        delay_levels: the delay levels, from level 1.
        flush_delay_offset_interval_ms: pause between saves of delayOffset.json, ms.
        is_timer_on: messages may ask for any time; else such sends are refused.
        timer_precision_ms: what a slot of the wheel stands for, ms; a store keeps the one it
            was begun with.
        timer_max_delay_seconds: sends for a later time are refused, s.
        timer_roll_window_slots: a message beyond so many slots goes through the wheel again.
        timer_flush_interval_ms: pause between saves of the timer's files, ms.
        timer_log_file_size: bytes of a file of timerlog.
        is_timer_enqueue_stopped: messages stay in the timer's queue and do not enter the wheel.
        is_timer_dequeue_stopped: the wheel stands still.
        is_recall_on: producers may take timed messages back.
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
