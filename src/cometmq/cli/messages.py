"""`cometmq message find`: finds messages by key, id, offset or time, without changing a group's offsets."""

from collections.abc import Collection, Sequence
from typing import Annotated, NamedTuple

import typer

from cometmq.cli.asking import Choice, Clients, Shown, chooses, missing_with
from cometmq.cli.options import KeyFilter, QueueFilter, TopicName, read_time
from cometmq.cli.output import message_line, message_value, notes, screen
from cometmq.model.message import StoredMessage
from cometmq.model.message_json import MessageLine, message_json

LIMIT_DEFAULT = 32

messages = typer.Typer()

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


class DeletedMark(NamedTuple):
    """A mark of a message that was found.

    Attributes:
        deleted: Whether it was sent to a deleted topic of this name and is in no queue.
    """

    deleted: bool


@messages.command()
@chooses(MessageLine._fields, limit=LIMIT_DEFAULT)
async def find(
    clients: Clients,
    choice: Choice,
    topic: TopicName,
    *,
    key: KeyFilter = None,
    id_: MessageId = None,
    offset: AtOffset = None,
    time: StoreTime = None,
    queue: QueueFilter = None,
) -> Shown:
    """Find messages by one of --key, --id, --offset and --time; status 1 when none is found.

    --sort sorts the messages that were found, at most --limit.
    Status 1 also when a broker that may have more has left its nameserver, unless --id found the message.
    """
    if sum(option is not None for option in (key, id_, offset, time)) != 1:
        text = "give exactly one of --key, --id, --offset and --time"
        raise typer.BadParameter(text, param_hint="find")
    admin, limit = clients.admin, choice.limit or LIMIT_DEFAULT
    if time is not None:
        begin = read_time(time, option="--time")
        found = await admin.messages.since(topic, begin, max_count=limit, queue_id=queue)
    elif offset is not None:
        found = await admin.messages.at_offset(topic, offset, queue_id=queue)
    elif key is not None:
        found = await admin.messages.by_key(topic, key, max_count=limit)
    else:
        one = await admin.messages.find(id_ or "", topic=topic)
        found = [] if one is None else [one]
    found = [each for each in found if queue in (None, each.queue.queue_id)]
    found = choice.of(found, message_value)
    dead = await admin.messages.deleted(found) if key or id_ else set()
    return Shown(
        [
            {**message_json(each), **DeletedMark(each.offset_message_id in dead)._asdict()}
            for each in found
        ],
        lambda: _print(found, dead),
        # An id that is found needs no other broker.
        () if id_ and found else await missing_with(clients, topic),
        is_finding=not found,
        is_lines=True,
    )


def _print(found: Sequence[StoredMessage], dead: Collection[str]) -> None:
    """Print the found messages, and mark those whose offset id is in `dead`: their topic was deleted."""
    for message in found:
        line = message_line(message)
        if message.offset_message_id in dead:
            line.append("  of a deleted topic", style="red")
        screen().print(line)
    if not found:
        notes().print("[dim]No message matches.")
