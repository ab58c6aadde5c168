"""`cometmq topic`: list, show, create and delete topics."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import Clients, Lines, Shown, changes, changes_if_sure, lists, watches
from cometmq.cli.options import AtBroker, AtCluster, TopicName, place_text, read_pairs
from cometmq.cli.output import print_errors, print_table
from cometmq.model.errors import BrokerRefused, CodecError
from cometmq.model.flags import is_readable, is_writable
from cometmq.model.text import plural

if TYPE_CHECKING:
    from cometmq.admin import AbsentBroker, TopicConfig, TopicState

Queues = Annotated[
    int | None, typer.Option(min=1, help="Number of queues on each broker; 8 for a new topic.")
]
ReadQueues = Annotated[
    int | None,
    typer.Option(min=1, help="Number of queues that consumers read, if not --queues."),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="An attribute (5.x), such as message.type=FIFO or retention.hours=24; may be repeated.",
    ),
]

topics = typer.Typer()


class TopicLine(NamedTuple):
    """A topic in the list that `cometmq topic list` prints.

    Attributes:
        topic: Name of the topic.
        queues: Number of its queues at all brokers, with known ones of absent brokers.
        access: Permissions in words, several if brokers differ.
        messages: Known number of messages in it.
        messages_unknown: Reasons why there may be more.
        brokers: Brokers that have, or may have, queues of it.
    """

    topic: str
    queues: int
    access: str
    messages: int
    messages_unknown: list[str]
    brokers: list[str]


class QueueLine(NamedTuple):
    """A queue of a topic.

    Attributes:
        broker: Broker of the queue.
        queue: Queue id.
        first: Offset of its first message.
        next: Offset of its next message.
        messages: Number of messages in it.
    """

    broker: str
    queue: int
    first: int
    next: int
    messages: int


@topics.command("list")
@lists(TopicLine._fields, "There are no topics. The first message sent to a topic creates it.")
async def list_topics(
    clients: Clients,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also list system topics.")] = False,
) -> Lines:
    """Show topics, their queues and how many messages they hold; status 1 when some cannot be read."""
    missing = await clients.admin.brokers.missing()
    names = [
        name
        for name, kind in (await clients.admin.topics.kinds()).items()
        if all_ or kind in ("messages", "dead letters")
    ]
    states = await asyncio.gather(*(_bounds(clients, name, missing) for name in names))
    is_unread = print_errors(reason for state in states for reason in state.uncounted)
    return Lines(
        [_line(name, state) for name, state in zip(names, states, strict=True)],
        [*missing, *(each for state in states for each in state.absent)],
        is_finding=is_unread,
    )


async def _bounds(
    clients: Clients, topic: str, missing: "Sequence[AbsentBroker]"
) -> "TopicState":
    """Return the offsets of a topic's queues, or only the reason why the topic cannot be read."""
    from cometmq.admin import TopicState

    try:
        return await clients.admin.topics.bounds(topic, missing)
    except (BrokerRefused, CodecError) as error:
        return TopicState({}, uncounted=(f"{topic} cannot be read: {error}",))


@topics.command()
@changes
async def create(
    clients: Clients,
    topic: TopicName,
    *,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    attribute: Attributes = None,
    no_attribute: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Remove this attribute.")
    ] = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> str:
    """Create a topic at every master, or change the given settings of an existing one; the others stay."""
    place_text(broker, cluster)
    attributes: dict[str, str | None] = dict.fromkeys(no_attribute or ())
    attributes.update(read_pairs(attribute or [], option="--attribute"))
    configs = await clients.admin.topics.create(
        topic,
        queues=queues,
        read_queues=read_queues,
        attributes=attributes,
        cluster=cluster,
        broker=broker,
    )
    counts = {name: _queues_text(config) for name, config in sorted(configs.items())}
    if len(set(counts.values())) == 1 and broker is None:
        said = f"{next(iter(counts.values()))} on each broker"
    else:
        said = ", ".join(f"{count} on {name}" for name, count in counts.items())
    return f"{topic} has {said}."


def _queues_text(config: "TopicConfig") -> str:
    count = config.write_queues
    text = f"{count} {plural(count, 'queue')}"
    is_alike = config.read_queues == count
    return text if is_alike else f"{text} to write and {config.read_queues} to read"


@topics.command()
@watches
async def show(clients: Clients, topic: TopicName) -> Shown:
    """Show the readable queues of a topic with their offsets and messages; status 1 when data of a broker is missing."""
    held = await clients.admin.topics.bounds(topic)
    lines = [
        QueueLine(
            queue.broker_name,
            queue.queue_id,
            each.min_offset,
            each.max_offset,
            each.message_count,
        )
        for queue, each in held.queues.items()
    ]
    return Shown(
        {"topic": topic, "queues": lines},
        lambda: print_table(QueueLine._fields, lines),
        held.absent,
    )


def _deletion(topic: str, cluster: str | None) -> str:
    return f"Delete topic {topic} and all its messages{place_text(None, cluster)}?"


@topics.command()
@changes_if_sure(_deletion)
async def delete(clients: Clients, topic: TopicName, *, cluster: AtCluster = None) -> str:
    """Delete a topic and its messages, on every master and at every nameserver, or in one cluster."""
    await clients.admin.topics.route(topic)  # An unknown topic is an error.
    await clients.admin.topics.delete(topic, cluster=cluster)
    return f"Topic {topic} is deleted{place_text(None, cluster)}."


def _line(topic: str, state: "TopicState") -> TopicLine:
    queues = {
        each.broker_name: max(each.read_queues, each.write_queues) for each in state.routed
    }
    for broker in state.absent:
        queues.setdefault(broker.name, (broker.queues or {}).get(topic, 0))
    return TopicLine(
        topic=topic,
        queues=sum(queues.values()),
        access=", ".join(sorted({_access(each.perm) for each in state.routed})) or "none",
        messages=state.messages.known,
        messages_unknown=list(state.messages.unknown),
        brokers=sorted(queues),
    )


def _access(perm: int) -> str:
    words = ["read"] * is_readable(perm) + ["write"] * is_writable(perm)
    return " and ".join(words) or "none"
