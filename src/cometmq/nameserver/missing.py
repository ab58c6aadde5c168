"""Memory of broker groups whose last member has left and not returned, and of their readable queues.

RocketMQ's nameserver forgets a broker when its connection closes, so that a reader of all queues of a topic silently
reads less. Here broker groups with readable queues are remembered for some time, in memory and with a limit in bytes.
Routes do not contain them; clients can query them with GET_MISSING_BROKERS.
"""

import logging
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.text import plural, printable

_log = logging.getLogger(__name__)

RESERVED_SECONDS = 72 * 3600.0
# A broker that unregistered is being restarted or was taken out of service.
ORDERLY_SECONDS = 3600.0
BYTES_MAX = 4 << 20
_TOPIC_BYTES = 64  # Approximate bytes of an entry besides the topic's name.


class _Remembered(NamedTuple):
    """A broker group that left, until when it is remembered at most (monotonic seconds), and its approximate bytes."""

    broker: MissingBroker
    until: float
    size: int


@dataclass(slots=True)
class MissingBrokers:
    """Remembers broker groups that left: at most `reserved_seconds` (0: none), and 1 h at most if they unregistered."""

    reserved_seconds: float = RESERVED_SECONDS
    _brokers: dict[str, _Remembered] = field(default_factory=dict)

    def note(self, broker: MissingBroker, *, now: float, is_orderly: bool) -> None:
        """Remember a broker group that left, and its queues; `now` is the monotonic time in seconds.

        A group that unregistered (`is_orderly`) is remembered for ORDERLY_SECONDS at most. Without queues, if above
        BYTES_MAX, or with `reserved_seconds` 0, a group is ignored. Beyond BYTES_MAX in total, the oldest are forgotten.
        """
        seconds = min(self.reserved_seconds, ORDERLY_SECONDS if is_orderly else float("inf"))
        size = _size(broker)
        if not seconds or not broker.queues:
            return
        if size > BYTES_MAX:
            _log.warning(
                "Broker %s has too many topics to be remembered while it is unavailable; %d %s cannot be reported "
                "as missing",
                printable(broker.name)[:100],
                len(broker.queues),
                plural(len(broker.queues), "topic"),
            )
            return
        self._brokers.pop(broker.name, None)
        total = size + sum(each.size for each in self._brokers.values())
        for name in list(self._brokers):
            if total <= BYTES_MAX:
                break
            # Forget the one that left first.
            total -= self._brokers.pop(name).size
        self._brokers[broker.name] = _Remembered(broker, now + seconds, size)

    def back(self, broker_name: str) -> None:
        """Forget a broker group that has registered again, if it is still remembered."""
        self._brokers.pop(broker_name, None)

    def forget_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget the queues of a deleted topic on missing brokers, in one cluster or in all."""
        for name, each in list(self._brokers.items()):
            queues = each.broker.queues
            if topic in queues and cluster in (None, each.broker.cluster):
                left = {other: count for other, count in queues.items() if other != topic}
                self._brokers[name] = each._replace(broker=replace(each.broker, queues=left))

    def known(self, now: float) -> list[MissingBroker]:
        """Return the missing brokers that are still remembered at a monotonic time, and forget the others."""
        self._brokers = {name: each for name, each in self._brokers.items() if each.until > now}
        return [each.broker for each in self._brokers.values()]


def _size(broker: MissingBroker) -> int:
    return sum(len(topic) for topic in broker.queues) + _TOPIC_BYTES * (len(broker.queues) + 1)
