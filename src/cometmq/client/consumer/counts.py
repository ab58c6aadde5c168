"""Counts of a consumer's work by topic, and rates computed from samples of them on request.

While samples are taken, rates cover at most about the last minute, the number of failed messages about the last hour.
"""

from collections import deque
from dataclasses import dataclass, fields, replace

from cometmq.codec.bodies.running import ConsumeRates
from cometmq.model.clock import Clock

SAMPLE_SECONDS = 10.0
# StatsItemSet of RocketMQ reports rates of the last minute, and failures of the last hour.
_WINDOW_SAMPLES = 6
_HOUR_SAMPLES = 360


@dataclass(slots=True)
class TopicCounts:
    """Counts of a consumer for one topic, since it was made or between two samples.

    Attributes:
        pulls: Number of pulls that returned messages, and of pops that returned readable ones with a matching tag.
        pull_ms: Total time of these requests until their answers are processed, including long polling, ms.
        pulled: Number of messages pulled, even if unreadable or without a matching tag, and popped (only the others).
        calls: Number of listener calls that have ended; those for consoles (309) are not counted.
        consume_ms: Total time of these listener calls, ms.
        consumed: Number of messages whose listener call succeeded, counted at each call.
        failed: Number of messages whose listener call failed, counted at each try; not all of them are redelivered.
    """

    pulls: int = 0
    pull_ms: float = 0.0
    pulled: int = 0
    calls: int = 0
    consume_ms: float = 0.0
    consumed: int = 0
    failed: int = 0

    def called(self, seconds: float, count: int, *, is_consumed: bool) -> None:
        """Count a call of the listener that took `seconds`, and its `count` messages as consumed or as failed."""
        self.calls += 1
        self.consume_ms += seconds * 1000
        if is_consumed:
            self.consumed += count
        else:
            self.failed += count

    def since(self, earlier: "TopicCounts") -> "TopicCounts":
        """Return the difference between these counts and earlier ones."""
        names = [field.name for field in fields(self)]
        return TopicCounts(*(getattr(self, name) - getattr(earlier, name) for name in names))


class Counts:
    """The counts of one consumer, by topic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, TopicCounts] = {}
        self._samples: deque[tuple[float, dict[str, TopicCounts]]] = deque(maxlen=_HOUR_SAMPLES)
        self.sample()

    def of(self, topic: str) -> TopicCounts:
        """Return the counts of a topic, for updating."""
        return self._topics.setdefault(topic, TopicCounts())

    def sample(self) -> None:
        """Take a sample of the counts; must be called every SAMPLE_SECONDS."""
        now = {topic: replace(counts) for topic, counts in self._topics.items()}
        self._samples.append((self._clock.monotonic(), now))

    def totals(self) -> dict[str, TopicCounts]:
        """Return copies of the counts of each topic since the consumer was made."""
        return {topic: replace(counts) for topic, counts in self._topics.items()}

    def rates(self) -> dict[str, ConsumeRates]:
        """Return a dict of topics to rates since at most six samples ago (1 min), with failures since at most 360 (1 h)."""
        at, minute_ago = self._samples[max(0, len(self._samples) - _WINDOW_SAMPLES)]
        seconds = self._clock.monotonic() - at
        _, hour_ago = self._samples[0]
        rates = {}
        for topic, counts in self._topics.items():
            recent = counts.since(minute_ago.get(topic, TopicCounts()))
            rates[topic] = ConsumeRates(
                _ratio(recent.pull_ms, recent.pulls),
                _ratio(recent.pulled, seconds),
                _ratio(recent.consume_ms, recent.calls),
                _ratio(recent.consumed, seconds),
                _ratio(recent.failed, seconds),
                counts.failed - hour_ago.get(topic, TopicCounts()).failed,
            )
        return rates


def _ratio(amount: float, of: float) -> float:
    return amount / of if of > 0 else 0.0
