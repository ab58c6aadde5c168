"""The rates at which groups consume, from the last samples of all offsets.

Pulls count nothing for it: if an offset grew by n since a sample, n messages count as consumed.
"""

from collections import deque

from cometmq.broker.tables.offsets import Offsets
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.model.clock import Clock

WINDOW_SECONDS = 60.0  # As the tps of RocketMQ's StatsItem.
SAMPLE_SECONDS = 10.0


class ConsumeRateSamples:
    """The last samples of the offsets of groups, at most six, normally 10 s apart."""

    def __init__(self, offsets: Offsets, clock: Clock) -> None:
        self._offsets = offsets
        self._clock = clock
        self._samples: deque[tuple[float, dict[str, int]]] = deque(
            maxlen=int(WINDOW_SECONDS / SAMPLE_SECONDS)
        )

    def sample(self) -> bool:
        """Sample all offsets; return whether the kept samples differ, so that sampling should continue."""
        self._samples.append((self._clock.monotonic(), self._offsets.consumed_counts()))
        return any(counts != self._samples[0][1] for _, counts in self._samples)

    def rate(self, group: str, topic: str) -> float:
        """Return about the messages per second that a group consumed of a topic in the last minute. For any thread."""
        key = topic + TOPIC_GROUP_SEPARATOR + group
        # A copy, because the loop adds samples meanwhile.
        known = [(at, counts[key]) for at, counts in list(self._samples) if key in counts]
        if not known:
            return 0.0
        at = self._clock.monotonic()
        # There are no samples while nothing changes, so the last one before the window is its start.
        began, first = [
            *known[:1],
            *(each for each in known if each[0] <= at - WINDOW_SECONDS),
        ][-1]
        # Directly after a sample, a few messages would appear as thousands a second.
        seconds = min(max(at - began, SAMPLE_SECONDS), WINDOW_SECONDS)
        now = self._offsets.consumed_count(key)
        return max((first if now is None else now) - first, 0) / seconds
