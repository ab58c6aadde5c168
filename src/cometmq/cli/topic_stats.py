"""`cometmq topic stats`, `queues` and `perm`: traffic, queues and permissions of a topic."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.cli.asking import Clients, Lines, Shown, lists, missing_with, watches
from cometmq.cli.groups import behind_s
from cometmq.cli.options import AtBroker, TopicName
from cometmq.cli.output import print_totals
from cometmq.cli.topics import topics
from cometmq.model.errors import BrokerNotFound, BrokerRefused
from cometmq.model.flags import is_readable, is_writable
from cometmq.model.text import in_quotes

if TYPE_CHECKING:
    from cometmq.admin import StatsWindows, TopicState

_PUT = "TOPIC_PUT_NUMS"


class QueueStateLine(NamedTuple):
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
        members: Number of its connected members.
    """

    group: str
    lag: int
    lag_unknown: list[str]
    behind_s: int | None
    rate_per_s: float
    members: int


class PermLine(NamedTuple):
    """The permission of a topic at a broker.

    Attributes:
        broker: Name of the broker.
        read: Whether the topic may be consumed there.
        write: Whether it may be sent to there.
    """

    broker: str
    read: bool
    write: bool


@topics.command()
@lists(QueueStateLine._fields, "The topic has no queues.")
async def queues(clients: Clients, topic: TopicName) -> Lines:
    """Show each queue of a topic, its permissions and its messages; status 1 when only some brokers answer."""
    held = await clients.admin.topics.show(topic)
    return Lines(queue_lines(held), held.absent)


@topics.command()
@watches
async def stats(clients: Clients, topic: TopicName) -> Shown:
    """Show the rates of a topic, and the groups that read it with their lag; status 1 when only some brokers answer."""
    held = await clients.admin.topics.show(topic)
    brokers = sorted({queue.broker_name for queue in held.queues})
    windows = [await _put(clients, broker, topic) for broker in brokers]
    now_ms = clients.instance.clock.now_ms()
    groups = [
        ReaderLine(
            each.name,
            each.lag.known,
            list(each.lag.unknown),
            behind_s(each, now_ms),
            round(each.rate, 3),
            len(each.members),
        )
        for each in await clients.admin.topics.groups(topic)
    ]
    found = stats_json(topic, held, windows)

    def show() -> None:
        print_totals([name.removeprefix("put_") for name in found], [list(found.values())])
        if groups:
            print_totals(ReaderLine._fields, groups)

    return Shown({**found, "groups": groups}, show, held.absent)


@topics.command()
@lists(PermLine._fields, "No broker has this topic.", is_watched=False)
async def perm(
    clients: Clients,
    topic: TopicName,
    *,
    read: Annotated[
        bool | None, typer.Option("--read/--no-read", help="Whether the topic may be consumed.")
    ] = None,
    write: Annotated[
        bool | None,
        typer.Option("--write/--no-write", help="Whether producers may send to the topic."),
    ] = None,
    broker: AtBroker = None,
) -> Lines:
    """Show a topic's permission at each broker; flags such as --no-write change it first.

    Status 1 when a broker that may have the topic has left its nameserver, unless --broker is given.
    """
    admin = clients.admin
    if read is not None or write is not None:
        bits = await admin.topics.set_perm(topic, read=read, write=write, broker=broker)
    else:
        bits = {name: each.perm for name, each in (await admin.topics.configs(topic)).items()}
    lines = [
        PermLine(name, is_readable(each), is_writable(each))
        for name, each in sorted(bits.items())
        if broker in (None, name)
    ]
    if not lines and broker is not None:
        raise BrokerNotFound(f"broker {in_quotes(broker)} has no topic {in_quotes(topic)}")
    return Lines(lines, () if broker is not None else await missing_with(clients, topic))


def queue_lines(held: "TopicState") -> list[QueueStateLine]:
    """Return a line for each queue of a topic in the brokers' answers, joined with the topic's route."""
    data = {each.broker_name: each for each in held.routed}
    lines = []
    for queue, each in sorted(held.queues.items()):
        known = data.get(queue.broker_name)
        lines.append(
            QueueStateLine(
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


async def _put(clients: Clients, broker: str, topic: str) -> "StatsWindows | None":
    try:
        return await clients.admin.brokers.stats(broker, _PUT, topic)
    except (BrokerRefused, BrokerNotFound):  # Nothing is stored yet, or its master is away.
        return None


def stats_json(
    topic: str, held: "TopicState", windows: "list[StatsWindows | None]"
) -> dict[str, Any]:
    """Return the traffic of a topic as a dict for `print_json`."""
    known = [each for each in windows if each is not None]
    sums = {
        f"put_{name}": sum(getattr(each, name).sum for each in known) if known else None
        for name in ("minute", "hour", "day")
    }
    return {
        "topic": topic,
        "messages": held.messages.known,
        "messages_unknown": list(held.messages.unknown),
        "in_per_s": held.put_rate,
        **sums,
    }
