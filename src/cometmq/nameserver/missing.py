"""Brokers that have left and not come back, with the queues that are missing meanwhile.

RocketMQ's nameserver forgets a broker when its connection ends, and whoever reads all of a topic then
reads less without knowing. Here it is remembered for a while: by name, in memory, with a bound in
bytes. Routes are made without it, as ever; who wants to know asks (GET_MISSING_BROKERS).
"""

import logging
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.text import plural

_log = logging.getLogger(__name__)

RESERVED_SECONDS = 72 * 3600.0
# A broker that said goodbye is restarted, or taken out of service for good.
ORDERLY_SECONDS = 3600.0
BYTES_MAX = 4 << 20
_TOPIC_BYTES = 64  # What an entry takes beside the topic's name, about.


class _Remembered(NamedTuple):
    """A broker, until when it is remembered (monotonic, seconds), and about what it takes."""

    broker: MissingBroker
    until: float
    size: int


@dataclass(slots=True)
class MissingBrokers:
    """Remembers brokers that left without a word.

    Attributes:
        reserved_seconds: for how long; 0 remembers none.
    """

    reserved_seconds: float = RESERVED_SECONDS
    _brokers: dict[str, _Remembered] = field(default_factory=dict)

    def note(self, broker: MissingBroker, *, now: float, is_orderly: bool) -> None:
        """A broker has left.

        Args:
            broker: who, with what it had.
            now: monotonic time, seconds.
            is_orderly: it said so.
        """
        seconds = min(self.reserved_seconds, ORDERLY_SECONDS if is_orderly else float("inf"))
        size = _size(broker)
        if not seconds or not broker.queues:
            return
        if size > BYTES_MAX:
            _log.warning(
                "too much to be remembered while it is away: %d %s of %.100r",
                len(broker.queues),
                plural(len(broker.queues), "topic"),
                broker.name,
            )
            return
        self._brokers.pop(broker.name, None)
        total = size + sum(each.size for each in self._brokers.values())
        for name in list(self._brokers):
            if total <= BYTES_MAX:
                break
            # The one that left first.
            total -= self._brokers.pop(name).size
        self._brokers[broker.name] = _Remembered(broker, now + seconds, size)

    def back(self, broker_name: str) -> None:
        """A broker of that name is there."""
        self._brokers.pop(broker_name, None)

    def forget_topic(self, topic: str, cluster: str | None = None) -> None:
        """A topic was deleted, in one cluster or everywhere."""
        for name, each in list(self._brokers.items()):
            queues = each.broker.queues
            if topic in queues and cluster in (None, each.broker.cluster):
                left = {other: count for other, count in queues.items() if other != topic}
                self._brokers[name] = each._replace(broker=replace(each.broker, queues=left))

    def known(self, now: float) -> list[MissingBroker]:
        """The brokers that are missing at a monotonic time."""
        self._brokers = {name: each for name, each in self._brokers.items() if each.until > now}
        return [each.broker for each in self._brokers.values()]


def _size(broker: MissingBroker) -> int:
    return sum(len(topic) for topic in broker.queues) + _TOPIC_BYTES * (len(broker.queues) + 1)
