"""Detection of queues that a read should cover but cannot, usually because their brokers are offline.

A nameserver forgets a broker when its connection closes, so the queues in a route do not show that some are
missing. A missing broker is known if a CometMQ nameserver remembers it, or an order configuration names it. If the
option `brokers` is set, it is the complete list of required brokers instead.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cometmq.admin import MissingBroker
from cometmq.model.errors import CometError, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes, plural
from cometmq.offline.columns.names import nearest
from cometmq.spark.source.cluster import SourceCluster
from cometmq.spark.source.settings import SourceSettings

log = logging.getLogger(__name__)

# Maximum number of brokers, or topics of one, named in an error or a warning.
NAMED_MAX = 5


_CURE = (
    "A read now would return fewer rows. Start these brokers and read again, or, if they were removed for "
    'good, name those that must be there, e.g. .option("brokers", "broker-a"); with '
    "failOnDataLoss=false the read continues without them"
)


class QueuesMissing(CometError):
    """Raised if a bounded read lacks queues known to be missing, unless `failOnDataLoss` is false."""


class BrokerSilent(NetError):
    """Raised if a broker cannot be found or does not answer when a read requests the offsets of its queues."""

    def __init__(self, queues: Sequence[MessageQueue], error: CometError) -> None:
        found = missing_by_broker(queues, f"it is registered but does not answer: {error}")
        super().__init__(
            f"{_said(found)}. A read now would return fewer rows. Read again when they answer; with "
            "failOnDataLoss=false a batch continues without them"
        )
        self.missing = found


@dataclass(frozen=True)
class MissingBrokerQueues:
    """Missing queues of one broker; `why` says how it is known that they are missing."""

    broker: str
    queues: Sequence[MessageQueue]
    why: str

    def __str__(self) -> str:
        topics: dict[str, int] = {}
        for queue in self.queues:
            if not queue.topic:  # The broker's queues are unknown.
                return f"broker {in_quotes(self.broker)} ({self.why})"
            topics[queue.topic] = topics.get(queue.topic, 0) + 1
        some = ", ".join(
            f"{count} of {in_quotes(topic)}"
            for topic, count in list(topics.items())[:NAMED_MAX]
        )
        return f"{some} at broker {in_quotes(self.broker)} ({self.why})"


def missing_queues(
    settings: SourceSettings, covered: Sequence[MessageQueue], cluster: SourceCluster
) -> list[MissingBrokerQueues]:
    """Return, by broker, queues that a read should cover but that are missing: their brokers have none in `covered`.

    With the option `brokers`, there is an entry for each broker that it names and that has no queue in `covered`, with
    assumed queues if they are unknown.
    """
    there = {queue.broker_name for queue in covered}
    required = set(settings.brokers) - there
    if settings.brokers and not required:
        return []
    left = cluster.missing_brokers()
    found = _remembered(settings, left)
    found += _in_order(cluster, covered)
    by_broker: dict[str, MissingBrokerQueues] = {}
    for each in found:
        queues = [queue for queue in each.queues if settings.topics.covers(queue)]
        if queues and each.broker not in there:
            by_broker.setdefault(each.broker, replace(each, queues=queues))
    if settings.brokers:
        names = {*cluster.brokers(), *(each.name for each in left)}
        return [
            by_broker.get(name) or _of_name(name, covered, names) for name in sorted(required)
        ]
    return sorted(by_broker.values(), key=lambda each: each.broker)


def missing_by_broker(queues: Sequence[MessageQueue], why: str) -> list[MissingBrokerQueues]:
    """Return missing queues grouped by broker, one entry per broker; `why` is the reason to name in messages."""
    by_broker: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    return [MissingBrokerQueues(broker, each, why) for broker, each in by_broker.items()]


def check_missing(
    found: Iterable[MissingBrokerQueues],
    settings: SourceSettings,
    *,
    wanted: Callable[[Sequence[MessageQueue]], Sequence[MessageQueue]] = list,
) -> None:
    """Raise QueuesMissing if any queues are missing, or only log a warning if `failOnDataLoss` is false.

    Args:
        found: The missing queues.
        settings: Settings of the read.
        wanted: Selects the queues that concern the query.
    """
    lacking = [replace(each, queues=wanted(each.queues)) for each in found]
    lacking = [each for each in lacking if each.queues]
    if not lacking:
        return
    what = _said(lacking)
    if settings.fail_on_data_loss:
        raise QueuesMissing(f"{what}. {_CURE}")
    log.warning("%s. failOnDataLoss is false: the read continues without them", what)


def warn_of_missing(found: Sequence[MissingBrokerQueues]) -> None:
    """Log a warning about queues that are missing when a continuous stream starts, if there are any."""
    if found:
        log.warning(
            "%s. The stream reads these queues as soon as they are available, as if they had been available from "
            "its start",
            _said(found),
        )


def _said(found: Sequence[MissingBrokerQueues]) -> str:
    count = sum(len(each.queues) for each in found)
    more = (
        f" and at {len(found) - NAMED_MAX} other {plural(len(found) - NAMED_MAX, 'broker')}"
        if len(found) > NAMED_MAX
        else ""
    )
    which = "; ".join(map(str, found[:NAMED_MAX])) + more
    return f"{count} {'queue is' if count == 1 else 'queues are'} missing: {which}"


def _remembered(
    settings: SourceSettings, left: Sequence[MissingBroker]
) -> list[MissingBrokerQueues]:
    """Return an entry for each offline broker that the nameserver remembers, with its queues (maybe none) of the wanted topics."""
    topics = settings.topics.wanted(lambda: [topic for each in left for topic in each.queues])
    return [
        MissingBrokerQueues(
            each.name,
            [
                MessageQueue(topic, each.name, number)
                for topic in topics
                for number in range(each.queues.get(topic, 0))
            ],
            f"it left the nameserver at {_time(each.left_ms)} and has not returned",
        )
        for each in left
    ]


def _in_order(
    cluster: SourceCluster, covered: Sequence[MessageQueue]
) -> list[MissingBrokerQueues]:
    """Return, by broker, all queues in the order configurations of the topics of `covered`, also of brokers that are online."""
    named = cluster.ordered_queues(sorted({queue.topic for queue in covered}))
    return missing_by_broker(
        named, "the topic's order configuration names it, but it is not registered"
    )


def _of_name(
    name: str, covered: Sequence[MessageQueue], known: Collection[str]
) -> MissingBrokerQueues:
    """Return assumed queues of a missing broker that only `brokers` names: per topic as many as another has at most.

    If no queue of the topics is known, the result has one placeholder queue without a topic.
    """
    counts: dict[str, int] = {}
    for queue in covered:
        counts[queue.topic] = max(counts.get(queue.topic, 0), queue.queue_id + 1)
    queues = [
        MessageQueue(topic, name, number)
        for topic, count in counts.items()
        for number in range(count)
    ]
    if name in known:
        why = "the option 'brokers' names it, but it has no queue of the topics"
    else:
        hint = nearest(name, sorted(known))
        why = f"the option 'brokers' names it, but it is not registered{hint}"
    if queues:
        why += "; its number of queues is assumed to be that of the other brokers"
    return MissingBrokerQueues(name, queues or [MessageQueue("", name, 0)], why)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
