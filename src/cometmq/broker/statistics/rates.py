"""The rates at which groups consume: samples of all offsets over the last minute.

The hot path counts nothing for it: an offset that grew by n since a sample is n messages consumed.
"""

from collections import deque

from cometmq.broker.tables.offsets import Offsets
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.model.clock import Clock

WINDOW_SECONDS = 60.0  # As the tps of RocketMQ's StatsItem: the last minute.
SAMPLE_SECONDS = 10.0


class ConsumeRateSamples:
    """Samples of the offsets of groups over the last minute."""

    def __init__(self, offsets: Offsets, clock: Clock) -> None:
        self._offsets = offsets
        self._clock = clock
        self._samples: deque[tuple[float, dict[str, int]]] = deque(
            maxlen=int(WINDOW_SECONDS / SAMPLE_SECONDS)
        )

    def sample(self) -> bool:
        """Remember how far all groups are; every SAMPLE_SECONDS while that changes: whether it did within the window."""
        self._samples.append((self._clock.monotonic(), self._offsets.consumed_counts()))
        return any(counts != self._samples[0][1] for _, counts in self._samples)

    def rate(self, group: str, topic: str) -> float:
        """Messages a second that a group consumed of a topic within the last minute. Any thread."""
        key = topic + TOPIC_GROUP_SEPARATOR + group
        # The loop adds samples meanwhile.
        known = [(at, counts[key]) for at, counts in list(self._samples) if key in counts]
        if not known:
            return 0.0
        at = self._clock.monotonic()
        # Nothing is sampled while nothing changes, so the last sample before the window says how it began.
        began, first = [
            *known[:1],
            *(each for each in known if each[0] <= at - WINDOW_SECONDS),
        ][-1]
        # A moment after a sample a few messages would be thousands a second.
        seconds = min(max(at - began, SAMPLE_SECONDS), WINDOW_SECONDS)
        now = self._offsets.consumed_count(key)
        return max((first if now is None else now) - first, 0) / seconds
