"""Statistics of topics, groups and the broker in the last minute, hour and day, with BrokerStatsManager's names.

Each name is a table of counters and one of its numbers; the format of keys depends on the name. `mqadmin statsAll`,
`clusterList` and consoles use them. Follows BrokerStatsManager of RocketMQ 5.3.3.
"""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.broker.counters.growth import Growth, TallyGrowth
from cometmq.broker.counters.tally_table import WHOLE, TallyTable
from cometmq.broker.parts import Parts
from cometmq.codec.bodies.stats import StatsWindow
from cometmq.codec.headers.console import BrokerStatsRequest
from cometmq.kernel import Tally
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.steps import Steps, turn_end

_TALLIES_AT_ONCE = 500  # Then other work runs.
_SWEEP_SECONDS = 3_600.0

# The components of keys, in order.
_CLUSTER, _TOPIC, _OF_GROUP = ("cluster",), ("topic",), ("topic", "group")
_QUEUE, _QUEUE_OF_GROUP = ("topic", "queue"), ("topic", "queue", "group")
_QUEUE_FIRST, _QUEUE_FIRST_OF_GROUP = ("queue", "topic"), ("queue", "topic", "group")

Pick = Callable[[Growth], tuple[int, int]]


def _count(growth: Growth) -> tuple[int, int]:
    return growth.count, growth.times


def _size(growth: Growth) -> tuple[int, int]:
    return growth.size, growth.times


def _time_each(growth: Growth) -> tuple[int, int]:
    """Return the total duration in ms and the number of messages, for an average per message."""
    return growth.time_us // 1000, growth.count


def _time_of_calls(growth: Growth) -> tuple[int, int]:
    """Return the total duration in ms and the number of additions (pulls, reads of pops), for an average of these."""
    return growth.time_us // 1000, growth.times


class StatsRow(NamedTuple):
    """A statistic of BrokerStatsManager.

    Attributes:
        table: Name of the table of counters.
        key: The components of its keys.
        pick: Returns the sum and the number of summands from a growth.
        is_users: Whether system topics and groups are excluded.
    """

    table: str
    key: tuple[str, ...]
    pick: Pick
    is_users: bool = False


NAMES = {
    "TOPIC_PUT_NUMS": StatsRow("puts", _TOPIC, _count),
    "TOPIC_PUT_SIZE": StatsRow("puts", _TOPIC, _size),
    "TOPIC_PUT_LATENCY": StatsRow("puts", _QUEUE_FIRST, _time_each),
    "QUEUE_PUT_NUMS": StatsRow("puts", _QUEUE, _count),
    "QUEUE_PUT_SIZE": StatsRow("puts", _QUEUE, _size),
    "QUEUE_GET_NUMS": StatsRow("gets", _QUEUE_OF_GROUP, _count),
    "QUEUE_GET_SIZE": StatsRow("gets", _QUEUE_OF_GROUP, _size),
    "GROUP_GET_NUMS": StatsRow("gets", _OF_GROUP, _count),
    "GROUP_GET_SIZE": StatsRow("gets", _OF_GROUP, _size),
    "GROUP_GET_LATENCY": StatsRow("gets", _QUEUE_FIRST_OF_GROUP, _time_of_calls),
    "GROUP_GET_FROM_DISK_NUMS": StatsRow("from_disk", _OF_GROUP, _count),
    "GROUP_GET_FROM_DISK_SIZE": StatsRow("from_disk", _OF_GROUP, _size),
    "GROUP_ACK_NUMS": StatsRow("acks", _OF_GROUP, _count),
    "GROUP_CK_NUMS": StatsRow("check_points", _OF_GROUP, _count),
    "SNDBCK_PUT_NUMS": StatsRow("sent_back", _OF_GROUP, _count),
    "DLQ_PUT_NUMS": StatsRow("dead", _OF_GROUP, _count),
    "SNDBCK2DLQ_TIMES": StatsRow("dead", _OF_GROUP, _count),
    "BROKER_PUT_NUMS": StatsRow("puts", _CLUSTER, _count),
    "BROKER_GET_NUMS": StatsRow("gets", _CLUSTER, _count),
    "BROKER_ACK_NUMS": StatsRow("acks", _CLUSTER, _count),
    "BROKER_CK_NUMS": StatsRow("check_points", _CLUSTER, _count),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": StatsRow("puts", _CLUSTER, _count, is_users=True),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": StatsRow("gets", _CLUSTER, _count, is_users=True),
    "BROKER_GET_FROM_DISK_NUMS": StatsRow("from_disk", _CLUSTER, _count),
    "BROKER_GET_FROM_DISK_SIZE": StatsRow("from_disk", _CLUSTER, _size),
}


class BrokerStats:
    """The statistics of a broker, computed from the growth of its counters."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cluster = parts.settings.cluster_name
        self._growth = TallyGrowth(parts.clock.monotonic())
        self._sweep_at = parts.clock.monotonic() + _SWEEP_SECONDS

    def windows(
        self, request: BrokerStatsRequest
    ) -> tuple[StatsWindow, StatsWindow, StatsWindow]:
        """Return about how much a statistic grew in the last minute, hour and day; RequestError if it is unknown."""
        name, key = request.stats_name, request.stats_key
        known = NAMES.get(name)
        found = None if known is None else self._find(known, key)
        if known is None or found is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist"
            )
        minute, hour, day = [
            _window(known.pick(growth), growth.seconds)
            for growth in self._growth.of(found, self._parts.clock.monotonic())
        ]
        return minute, hour, day

    def _find(self, name: StatsRow, key: str) -> Tally | None:
        """Return the tally that a statistic's key names, or None if there is none.

        If the key is only an existing topic, a missing tally is created (beyond TALLIES_MAX tallies, a wider one is
        returned, as by `TallyTable.of`). Except for the cluster, a tally without samples is not returned if KEPT_MAX
        others have some, because its growth is unknown.
        """
        table: TallyTable = getattr(self._parts.counters, name.table)
        if name.key is _CLUSTER:
            if key != self._cluster:
                return None
            return table.users if name.is_users else table.all
        parts = dict(zip(name.key, key.split("@"), strict=False))
        queue = parts.get("queue", str(WHOLE))
        if (
            len(parts) < len(name.key)
            or not queue.removeprefix("-").isdecimal()
            or len(queue) > 9
        ):
            return None
        topic, group = parts["topic"], parts.get("group", "")
        found = table.get(topic, group, int(queue))
        if found is None and name.key is _TOPIC and self._parts.topics.get(topic) is not None:
            found = table.of(topic)
        if found is None or not self._growth.is_kept(found):
            return None
        return found

    # --- samples

    def sample(self) -> Steps[None]:
        """Sample the tallies that have grown; called about every 10 s unless the broker is idle.

        At most once an hour, the tallies of groups that do not exist are removed.
        """
        fresh, now = self._parts.counters.fresh, self._parts.clock.monotonic()
        while fresh:
            for tally in fresh[:_TALLIES_AT_ONCE]:
                self._growth.note(tally, now)
            del fresh[:_TALLIES_AT_ONCE]
            yield from turn_end()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_SECONDS
            yield from self._sweep()

    def _sweep(self) -> Steps[None]:
        for table in self._parts.counters.tables:
            for topic in table.topics():
                self._forget(
                    table.forget(topic, lambda group: self._parts.groups.peek(group) is None)
                )
                yield from turn_end()

    def forget_topic(self, topic: str) -> None:
        """Remove the tallies of a topic if it was deleted; called for each change of a topic."""
        if self._parts.topics.get(topic) is None:
            for table in self._parts.counters.tables:
                self._forget(table.forget(topic))

    def _forget(self, tallies: list[Tally]) -> None:
        for tally in tallies:
            self._growth.forget(tally)


def _window(picked: tuple[int, int], seconds: float) -> StatsWindow:
    gain, times = picked
    return StatsWindow(
        gain,
        gain / seconds if seconds > 0 else 0.0,
        gain / times if times else 0.0,
    )
