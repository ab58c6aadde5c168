"""RocketMQ's default delay levels, and a parser of the setting that defines others (messageDelayLevel)."""

from cometmq.model.errors import SettingsError
from cometmq.model.numbers import whole_number

# Delay levels of a message sent back to its broker (CONSUMER_SEND_MSG_BACK): with 0 the broker chooses by the number of
# tries, a negative one sends the message to the dead letter topic.
BROKERS_CHOICE = 0
DEAD_LETTER = -1
# The first retry uses this delay level: 10 s.
FIRST_RETRY_LEVEL = 3
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def delay_levels_ms(text: str) -> tuple[int, ...]:
    """Return the delay of each level in ms, starting with level 1; raise SettingsError if a word is no delay."""
    levels = []
    for word in text.split():
        number = whole_number(word[:-1])
        if word[-1] not in _UNITS_MS or number is None:
            raise SettingsError(
                f"messageDelayLevel: {word} is not a delay; write a number with the unit s, m, h or d"
            )
        levels.append(number * _UNITS_MS[word[-1]])
    return tuple(levels)
