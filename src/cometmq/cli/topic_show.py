"""`cometmq topic show`: traffic, settings, queues and readers of a topic."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from cometmq.cli.asking import Choice, Clients, Result, Shown, chooses
from cometmq.cli.groups import behind_s
from cometmq.cli.options import TopicName
from cometmq.cli.output import print_errors, print_part, print_totals
from cometmq.cli.topics import TopicLine, topic_line, topics
from cometmq.model.errors import BrokerNotFound, BrokerRefused
from cometmq.model.flags import is_readable, is_writable

if TYPE_CHECKING:
    from cometmq.admin import GroupState, StatsWindows, TopicConfig, TopicState

_PUT = "TOPIC_PUT_NUMS"


class TrafficLine(NamedTuple):
    """The number of messages that were stored in a topic.

    Attributes:
        in_per_s: Messages stored per second; 0 also if the user may not query it.
        minute: Messages stored within the last minute; None if no broker reports it.
        hour: Messages stored within the last hour; None if no broker reports it.
        day: Messages stored within the last day; None if no broker reports it.
    """

    in_per_s: float
    minute: int | None
    hour: int | None
    day: int | None


class TopicSettingsLine(NamedTuple):
    """The settings of a topic at a broker.

    Attributes:
        broker: Name of the broker.
        read: Whether the topic may be consumed there.
        write: Whether it may be sent to there.
        read_queues: Number of queues that consumers see.
        write_queues: Number of queues that producers see.
        attributes: Its attributes (5.x), as "name=value"; without message.type it is for normal messages.
    """

    broker: str
    read: bool
    write: bool
    read_queues: int
    write_queues: int
    attributes: list[str]


class QueueLine(NamedTuple):
    """A queue of a topic.

    Attributes:
        broker: Broker of the queue.
        queue: Queue id.
        read: Whether the permission and the number of read queues in the route let consumers read it.
        write: Whether the permission and the number of write queues in the route let producers send to it.
        first: Offset of its first message.
        next: Offset of its next message.
        messages: Number of messages in it.
        last_ms: Store time of its last message, ms since 1970; None if unknown.
    """

    broker: str
    queue: int
    read: bool
    write: bool
    first: int
    next: int
    messages: int
    last_ms: int | None


class ReaderLine(NamedTuple):
    """A group that has offsets in a topic, or members that subscribe to it.

    Attributes:
        group: Name of the group.
        lag: Known number of the topic's messages after its offsets; 0 if its connected members are broadcasting.
        lag_unknown: Reasons why the lag may be larger.
        behind_s: Age of the topic's oldest message that is known not to be consumed, seconds; None without one.
        rate_per_s: Messages consumed per second, of all its topics, as brokers estimate it.
        members: Number of its connected members; None if they may not be read.
    """

    group: str
    lag: int
    lag_unknown: list[str]
    behind_s: int | None
    rate_per_s: float
    members: int | None


class ShownTopic(NamedTuple):
    """The output of `cometmq topic show`.

    Attributes:
        topic: The topic, as in the list of topics.
        traffic: Messages stored in it.
        settings: Its settings at each broker.
        queues: Its queues.
        groups: The groups that read it.
    """

    topic: TopicLine
    traffic: TrafficLine
    settings: list[TopicSettingsLine]
    queues: list[QueueLine]
    groups: list[ReaderLine]


@topics.command()
@chooses(QueueLine._fields)
async def show(clients: Clients, choice: Choice, topic: TopicName) -> Shown:
    """Show the traffic, settings, queues and reading groups of a topic; status 1 when data of a broker is missing.

    --sort and --limit concern its queues. Status 1 also when the user may not read some of it.
    """
    admin, refused = clients.admin, list[str]()
    # Any consumer may query the offsets of queues.
    held = await _permitted(admin.topics.show(topic), refused)
    held = held or await admin.topics.bounds(topic)
    brokers = sorted({queue.broker_name for queue in held.queues})
    windows = await asyncio.gather(*(_put(clients, broker, topic) for broker in brokers))
    configs, groups = None, None
    if held.routed:  # Otherwise all its brokers are away.
        configs = await _permitted(admin.topics.configs(topic), refused)
        groups = await _permitted(admin.topics.groups(topic), refused)
    found = ShownTopic(
        topic_line(topic, held),
        traffic_line(held, windows),
        settings_lines(configs or {}),
        choice.of(queue_lines(held)),
        reader_lines(groups or [], clients.instance.clock.now_ms()),
    )
    is_unread = print_errors(chain(refused, *(each.unread for each in groups or ())))
    return Shown(found, lambda: _print(found), held.absent, is_finding=is_unread)


async def _permitted(answer: Awaitable[Result], refused: list[str]) -> Result | None:
    """Return an answer of brokers; if one refuses, add its reason to `refused` and return None."""
    try:
        return await answer
    except BrokerRefused as error:
        refused.append(str(error))
        return None


def _print(found: ShownTopic) -> None:
    print_totals((*TopicLine._fields, *TrafficLine._fields), [(*found.topic, *found.traffic)])
    print_part("settings", TopicSettingsLine._fields, found.settings)
    print_part("queues", QueueLine._fields, found.queues)
    print_part("groups", ReaderLine._fields, found.groups)


def queue_lines(held: "TopicState") -> list[QueueLine]:
    """Return a line for each queue of a topic in the brokers' answers, joined with the topic's route."""
    data = {each.broker_name: each for each in held.routed}
    lines = []
    for queue, each in sorted(held.queues.items()):
        known = data.get(queue.broker_name)
        lines.append(
            QueueLine(
                queue.broker_name,
                queue.queue_id,
                known is not None
                and is_readable(known.perm)
                and queue.queue_id < known.read_queues,
                known is not None
                and is_writable(known.perm)
                and queue.queue_id < known.write_queues,
                each.min_offset,
                each.max_offset,
                each.message_count,
                each.updated_ms if each.updated_ms > 0 else None,
            )
        )
    return lines


def settings_lines(configs: "Mapping[str, TopicConfig]") -> list[TopicSettingsLine]:
    """Return the settings of a topic, a line for each broker."""
    return [
        TopicSettingsLine(
            broker,
            is_readable(each.perm),
            is_writable(each.perm),
            each.read_queues,
            each.write_queues,
            [f"{name}={value}" for name, value in sorted(each.attributes.items())],
        )
        for broker, each in sorted(configs.items())
    ]


def reader_lines(groups: "Sequence[GroupState]", now_ms: int) -> list[ReaderLine]:
    """Return the groups that read a topic, a line each."""
    return [
        ReaderLine(
            each.name,
            each.lag.known,
            list(each.lag.unknown),
            behind_s(each, now_ms),
            round(each.rate, 3),
            None if each.unread else len(each.members),
        )
        for each in groups
    ]


def traffic_line(held: "TopicState", windows: "Sequence[StatsWindows | None]") -> TrafficLine:
    """Return the traffic of a topic, the sum of what brokers report."""
    known = [each for each in windows if each is not None]
    sums = (
        sum(getattr(each, name).sum for each in known) if known else None
        for name in ("minute", "hour", "day")
    )
    return TrafficLine(held.put_rate, *sums)


async def _put(clients: Clients, broker: str, topic: str) -> "StatsWindows | None":
    try:
        return await clients.admin.brokers.stats(broker, _PUT, topic)
    except (BrokerRefused, BrokerNotFound):  # Nothing is stored yet, or its master is away.
        return None
