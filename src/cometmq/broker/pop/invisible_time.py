"""The limits of the time for which a popped message may be hidden.

RocketMQ's broker does not check this time, but its timer, which stores check points, accepts at most timerMaxDelaySec; its
proxy allows 12 hours. Without a limit, a message could be hidden for ever.
"""

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.errors import invalid_parameter


def check_invisible_time(invisible_ms: int, least_ms: int, settings: BrokerSettings) -> None:
    """Raise RequestError (INVALID_PARAMETER) if a time is shorter than `least_ms` or longer than timerMaxDelaySec."""
    most_ms = settings.timer_max_delay_seconds * 1000
    if not least_ms <= invisible_ms <= most_ms:
        raise invalid_parameter(
            f"invisibleTime must be {least_ms} to {most_ms} ms (timerMaxDelaySec), not {invisible_ms}"
        )
