"""`cometmq message find`: finds messages by key, id, offset or time, without changing a group's offsets."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli.asking import Clients, ask_listed, missing_with
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver, TopicName, read_time
from cometmq.cli.output import (
    message_json,
    message_line,
    notes,
    print_json,
    screen,
)
from cometmq.cli.patience import patient
from cometmq.model.errors import BrokerNotFound, BrokerRefused, NetError
from cometmq.model.exit_status import ExitStatus
from cometmq.model.message import StoredMessage
from cometmq.model.names import TOOLS_GROUP

if TYPE_CHECKING:
    from cometmq import AsyncAdmin, AsyncPullConsumer, MessageQueue
    from cometmq.admin import AbsentBroker

COUNT_DEFAULT = 32

messages = typer.Typer(help="Find messages and what happened to them.", no_args_is_help=True)

Found = list[StoredMessage]

Key = Annotated[
    str | None, typer.Option("--key", help="Messages with this key, from the index.")
]
Queue = Annotated[
    int | None,
    typer.Option("--queue", min=0, help="Only in this queue. Default: all queues."),
]
CountMax = Annotated[
    int, typer.Option("--max", min=1, metavar="COUNT", help="Maximum number of messages.")
]
MessageId = Annotated[
    str | None,
    typer.Option(
        "--id", help="The message with this id: the producer's message id, or the offset id."
    ),
]
AtOffset = Annotated[
    int | None, typer.Option("--offset", min=0, help="The message at this offset of a queue.")
]
StoreTime = Annotated[
    str | None,
    typer.Option(
        "--time", help="The first messages stored at or after this time: 2026-05-01T12:00."
    ),
]


@messages.callback()
def group() -> None:
    """Do nothing: the callback of the command group `cometmq message`."""


@messages.command()
def find(
    topic: TopicName,
    *,
    key: Key = None,
    id_: MessageId = None,
    offset: AtOffset = None,
    time: StoreTime = None,
    queue: Queue = None,
    count_max: CountMax = COUNT_DEFAULT,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Find messages by one of --key, --id, --offset and --time; status 1 when there is none, or a broker is missing."""
    _check_one([key, id_, offset, time])
    begin = None if time is None else read_time(time, option="--time")
    places, is_found = _Places(topic, queue, count_max), False

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        from cometmq import AsyncPullConsumer, ConsumerSettings

        nonlocal is_found
        async with AsyncPullConsumer(
            group=TOOLS_GROUP, settings=patient(ConsumerSettings), instance=clients.instance
        ) as consumer:
            if key is not None:
                found = await _by_key(clients.admin, topic, key, count_max)
            elif id_ is not None:
                found = await _by_id(clients.admin, topic, id_)
            else:
                found = await places.of(consumer, offset, begin)
            wanted = [each for each in found if queue in (None, each.queue.queue_id)]
            dead = await _dead_of(consumer, wanted) if key or id_ else set()
        _print(wanted, dead, as_json=as_json)
        is_found = bool(wanted)
        # An id that is found needs no other broker.
        return () if id_ and wanted else await missing_with(clients, topic)

    ask_listed(nameserver, look)
    if not is_found:
        raise typer.Exit(ExitStatus.FOUND)


def _check_one(options: list[object]) -> None:
    if sum(option is not None for option in options) != 1:
        text = "give exactly one of --key, --id, --offset and --time"
        raise typer.BadParameter(text, param_hint="find")


def _print(found: Found, dead: set[str], *, as_json: bool) -> None:
    """Print the found messages, and mark those whose offset id is in `dead`: their topic was deleted."""
    for message in found:
        is_dead = message.offset_message_id in dead
        if as_json:
            print_json({**message_json(message), "deleted": is_dead})
        else:
            line = message_line(message)
            screen().print(
                line.append("  of a deleted topic", style="red") if is_dead else line
            )
    if not found:
        notes().print("[dim]No message matches.")


async def _dead_of(consumer: "AsyncPullConsumer", found: Found) -> set[str]:
    from cometmq.admin import deleted_messages

    return await deleted_messages(consumer, found) if found else set()


async def _by_key(admin: "AsyncAdmin", topic: str, key: str, count_max: int) -> Found:
    return await admin.messages.by_key(topic, key, count_max=count_max)


async def _by_id(admin: "AsyncAdmin", topic: str, message_id: str) -> Found:
    """Return, in a list, the message of a producer's id or else an offset message id; empty if none is in `topic`."""
    from cometmq.admin import is_offset_message_id

    found = await admin.messages.by_id(topic, message_id)
    if found is None and is_offset_message_id(message_id):
        try:
            found = await admin.messages.view(message_id)
        except (BrokerNotFound, BrokerRefused, NetError):
            # Both kinds of id look alike; most name no broker.
            return []
    return [] if found is None or found.topic != topic else [found]


class _Places:
    """Finds messages of a topic by offset or time, in queues with one id or in all."""

    def __init__(self, topic: str, queue_id: int | None, count_max: int) -> None:
        self._topic = topic
        self._queue_id = queue_id
        self._count_max = count_max

    async def of(
        self, consumer: "AsyncPullConsumer", offset: int | None, begin_ms: int | None
    ) -> Found:
        """Return the messages at an offset; without one (None), those stored at or after `begin_ms`, ms since 1970."""
        if offset is not None:
            return await self.at_offset(consumer, offset)
        return await self.since(consumer, begin_ms or 0)

    async def at_offset(self, consumer: "AsyncPullConsumer", offset: int) -> Found:
        """Return the messages at an offset, one from each searched queue that holds it."""
        found = await self._from_each(consumer, lambda _: _ready(offset), count=1)
        return [message for message in found if message.queue_offset == offset]

    async def since(self, consumer: "AsyncPullConsumer", time_ms: int) -> Found:
        """Return up to `count_max` messages stored at a time (ms since 1970) or later, sorted by store time."""
        found = await self._from_each(
            consumer,
            lambda queue: consumer.offset_by_time(queue, time_ms),
            count=self._count_max,
        )
        found.sort(key=lambda message: message.stored_ms)
        return found[: self._count_max]

    async def _from_each(
        self,
        consumer: "AsyncPullConsumer",
        begin: "Callable[[MessageQueue], Awaitable[int]]",
        *,
        count: int,
    ) -> Found:
        queues = [
            queue
            for queue in await consumer.queues(self._topic)
            if self._queue_id in (None, queue.queue_id)
        ]

        async def read(queue: "MessageQueue") -> Found:
            found: Found = []
            offset = await begin(queue)
            while len(found) < count:  # A broker returns at most 32 at a time by default.
                pull = await consumer.fetch(queue, offset, max_count=count - len(found))
                if pull.next_offset == offset:
                    break
                found += pull.messages
                offset = pull.next_offset
            return found

        found = await asyncio.gather(*map(read, queues))
        return [message for part in found for message in part]


async def _ready(offset: int) -> int:
    return offset
