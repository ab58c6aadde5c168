"""`cometmq topic`: list, create, change and delete topics."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import Clients, Lines, changes, changes_if_sure, lists
from cometmq.cli.options import AtBroker, AtCluster, System, TopicName, place_text, read_pairs
from cometmq.cli.output import print_errors
from cometmq.model.errors import BrokerRefused, CodecError, TopicNotFound
from cometmq.model.flags import PERM_READ_WRITE, is_readable, is_writable
from cometmq.model.text import plural, printable

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

NoAttributes = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Remove this attribute.")
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


@topics.command("list")
@lists(TopicLine._fields, "There are no topics. The first message sent to a topic creates it.")
async def list_topics(
    clients: Clients,
    *,
    system: System = False,
) -> Lines:
    """Show topics, their queues and how many messages they hold; status 1 when some cannot be read."""
    missing = await clients.admin.brokers.missing()
    names = [
        name
        for name, kind in (await clients.admin.topics.kinds()).items()
        if system or kind in ("messages", "dead letters")
    ]
    states = await asyncio.gather(*(_bounds(clients, name, missing) for name in names))
    is_unread = print_errors(reason for state in states for reason in state.uncounted)
    return Lines(
        [topic_line(name, state) for name, state in zip(names, states, strict=True)],
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
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> str:
    """Create a topic at every master, at one broker or in one cluster; a topic that exists there is an error."""
    place_text(broker, cluster)
    if known := await _brokers_with(clients, topic, broker, cluster):
        raise typer.BadParameter(
            f"topic {printable(topic)} exists at {', '.join(known)}; cometmq topic set changes it, and --broker NAME "
            "creates it at another broker",
            param_hint="TOPIC",
        )
    configs = await clients.admin.topics.create(
        topic,
        queues=queues,
        read_queues=read_queues,
        attributes=dict(read_pairs(attribute or [], option="--attribute")),
        cluster=cluster,
        broker=broker,
    )
    return _held_text(topic, configs, broker)


async def _brokers_with(
    clients: Clients, topic: str, broker: str | None, cluster: str | None
) -> list[str]:
    """Return the brokers, of these, that have a topic, by its route: a user who may create it need not read it."""
    try:
        route = await clients.admin.topics.route(topic)
    except TopicNotFound:
        return []
    return [
        each.broker_name
        for each in route.brokers
        if broker in (None, each.broker_name) and cluster in (None, each.cluster)
    ]


@topics.command("set")
@changes
async def change(
    clients: Clients,
    topic: TopicName,
    *,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    attribute: Attributes = None,
    no_attribute: NoAttributes = None,
    read: Annotated[
        bool | None, typer.Option("--read/--no-read", help="Whether the topic may be consumed.")
    ] = None,
    write: Annotated[
        bool | None,
        typer.Option("--write/--no-write", help="Whether producers may send to the topic."),
    ] = None,
    broker: AtBroker = None,
    cluster: AtCluster = None,
) -> str:
    """Change some settings of a topic at every master that has it, at one broker or in one cluster; the others stay."""
    place_text(broker, cluster)
    attributes: dict[str, str | None] = dict.fromkeys(no_attribute or ())
    attributes.update(read_pairs(attribute or [], option="--attribute"))
    counts = {
        "write_queues": queues,
        "read_queues": queues if read_queues is None else read_queues,
    }
    changes = {name: count for name, count in counts.items() if count is not None}
    if not changes and not attributes and read is None and write is None:
        raise typer.BadParameter("name at least one option to change", param_hint="set")
    configs = await clients.admin.topics.set(
        topic,
        changes,
        read=read,
        write=write,
        attributes=attributes,
        cluster=cluster,
        broker=broker,
    )
    return _held_text(topic, configs, broker)


def _held_text(topic: str, configs: "Mapping[str, TopicConfig]", broker: str | None) -> str:
    texts = {name: _config_text(config) for name, config in sorted(configs.items())}
    if len(set(texts.values())) == 1 and broker is None:
        said = f"{next(iter(texts.values()))} on each broker"
    else:
        said = ", ".join(f"{text} on {name}" for name, text in texts.items())
    return f"{topic} has {said}."


def _config_text(config: "TopicConfig") -> str:
    count = config.write_queues
    text = f"{count} {plural(count, 'queue')}"
    if config.read_queues != count:
        text += f" to write and {config.read_queues} to read"
    access = _access(config.perm)
    return text if access == _access(PERM_READ_WRITE) else f"{text} (permission: {access})"


def _deletion(topic: str, cluster: str | None) -> str:
    return f"Delete topic {topic} and all its messages{place_text(None, cluster)}?"


@topics.command()
@changes_if_sure(_deletion)
async def delete(clients: Clients, topic: TopicName, *, cluster: AtCluster = None) -> str:
    """Delete a topic and its messages, on every master and at every nameserver, or in one cluster."""
    await clients.admin.topics.route(topic)  # An unknown topic is an error.
    await clients.admin.topics.delete(topic, cluster=cluster)
    return f"Topic {topic} is deleted{place_text(None, cluster)}."


def topic_line(topic: str, state: "TopicState") -> TopicLine:
    """Return the row of a topic in the list of topics."""
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
