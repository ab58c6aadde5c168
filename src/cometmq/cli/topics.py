"""`cometmq topic`: what topics there are, what they hold, and how they come and go."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver
from cometmq.cli.output import notes, print_json, print_table
from cometmq.cli.patience import patient
from cometmq.model.errors import BrokerNotFound, NetError
from cometmq.model.flags import is_readable, is_writable
from cometmq.model.names import REPLY_TOPIC_SUFFIX, is_retry_topic, is_system_topic

if TYPE_CHECKING:
    from cometmq.client import AsyncAdmin

Result = TypeVar("Result")

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Its name.")]

topics = typer.Typer(help="List, create, describe and delete topics.", no_args_is_help=True)


class TopicLine(NamedTuple):
    """A topic in the list; `messages` is None where a broker did not say."""

    topic: str
    queues: int
    access: str
    messages: int | None
    brokers: list[str]


class QueueLine(NamedTuple):
    """A queue in the description."""

    broker: str
    queue: int
    first: int
    next: int
    messages: int


@topics.command("list")
def list_topics(
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    all_: Annotated[bool, typer.Option("--all", help="The system's own, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show topics, their queues and how many messages they hold."""
    lines = _with_admin(nameserver, lambda admin: _list(admin, with_system=all_))
    if as_json:
        print_json([line._asdict() for line in lines])
    elif lines:
        print_table(TopicLine._fields, map(_cells, lines))
    else:
        notes().print("[dim]No topic yet. The first message sent to one makes it.")


@topics.command()
def create(
    topic: TopicName,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    queues: Annotated[int, typer.Option(min=1, help="On each broker.")] = 8,
) -> None:
    """Make a topic, or change the number of its queues."""
    _with_admin(nameserver, lambda admin: admin.create_topic(topic, queues=queues))
    notes().print(f"{topic} has {queues} queues on each broker.", markup=False)


@topics.command()
def describe(
    topic: TopicName, *, nameserver: Nameserver = NAMESERVER_DEFAULT, as_json: AsJson = False
) -> None:
    """Show the queues of a topic: broker, first offset, next offset, messages."""
    lines = _with_admin(nameserver, lambda admin: _describe(admin, topic))
    if as_json:
        print_json({"topic": topic, "queues": [line._asdict() for line in lines]})
    else:
        print_table(QueueLine._fields, lines)


@topics.command()
def delete(
    topic: TopicName,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a topic and its messages, on every broker and at every nameserver."""
    if not yes:
        typer.confirm(f"Delete {topic} and all its messages?", abort=True, err=True)

    async def work(admin: "AsyncAdmin") -> None:
        await admin.route(topic)  # What nobody knows cannot be deleted.
        await admin.delete_topic(topic)

    _with_admin(nameserver, work)
    notes().print(f"{topic} is deleted.", markup=False)


def _cells(line: TopicLine) -> tuple[object, ...]:
    messages = "?" if line.messages is None else line.messages
    return line.topic, line.queues, line.access, messages, ", ".join(line.brokers)


def _with_admin(nameserver: str, work: "Callable[[AsyncAdmin], Awaitable[Result]]") -> Result:
    from cometmq.client import AsyncAdmin, ClientSettings
    from cometmq.net.loop import run

    async def main() -> Result:
        async with AsyncAdmin(nameserver, settings=patient(ClientSettings)) as admin:
            return await work(admin)

    return run(main())


async def _list(admin: "AsyncAdmin", *, with_system: bool) -> list[TopicLine]:
    names = await admin.topics()
    if not with_system:
        known = await admin.cluster()
        # Clusters and brokers have topics of their own names; nobody reads those.
        replies = {f"{cluster}_{REPLY_TOPIC_SUFFIX}" for cluster in known.broker_names}
        hidden = {*known.broker_names, *known.brokers, *replies}
        names = [
            name
            for name in names
            if not (name in hidden or is_system_topic(name) or is_retry_topic(name))
        ]
    return list(await asyncio.gather(*(_line(admin, name) for name in names)))


async def _line(admin: "AsyncAdmin", topic: str) -> TopicLine:
    route = await admin.route(topic)
    try:
        held = (await admin.topic_offsets(topic)).values()
        messages = sum(each.message_count for each in held)
    except (NetError, BrokerNotFound):
        messages = None
    return TopicLine(
        topic=topic,
        queues=sum(max(each.read_queues, each.write_queues) for each in route.queues),
        access=", ".join(sorted({_access(each.perm) for each in route.queues})),
        messages=messages,
        brokers=sorted(each.broker_name for each in route.queues),
    )


def _access(perm: int) -> str:
    words = ["read"] * is_readable(perm) + ["write"] * is_writable(perm)
    return " and ".join(words) or "none"


async def _describe(admin: "AsyncAdmin", topic: str) -> list[QueueLine]:
    held = await admin.topic_offsets(topic)
    return [
        QueueLine(
            queue.broker_name,
            queue.queue_id,
            each.min_offset,
            each.max_offset,
            each.message_count,
        )
        for queue, each in sorted(held.items())
    ]
