"""`cometmq offset`: shows and moves the offsets of consumer groups.

A command that moves offsets first shows the moves. With --dry-run it then ends; without, it asks unless --yes is given.
"""

from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, Command, Lines, ask, lists, made_command
from cometmq.cli.groups import ProgressLine, progress_lines
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    START_EARLIEST,
    START_LATEST,
    AnyGroup,
    AsJson,
    AtBroker,
    DryRun,
    GroupName,
    GroupOption,
    Nameserver,
    TopicName,
    TopicOption,
    Yes,
    confirm,
    keyword,
    read_time,
)
from cometmq.cli.output import json_of, note, print_json, print_lines
from cometmq.model.errors import SettingsError
from cometmq.model.names import is_retry_topic, is_system_group
from cometmq.model.text import plural, printable

if TYPE_CHECKING:
    from cometmq import MessageQueue

_FILE_SIZE_MAX = 64 << 20

offsets = typer.Typer()

Wanted = dict["MessageQueue", int]
To = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="New position: earliest, latest, or a time such as 2026-05-01T12:00.",
    ),
]
ToOffset = Annotated[
    int | None, typer.Option(min=0, help="New offset, for the queues given with --queue.")
]
Queues = Annotated[list[int] | None, typer.Option(min=0, help="Only this queue.")]


@offsets.command("show")
@lists(ProgressLine._fields, "No offsets are committed.")
async def show_offsets(
    clients: Clients,
    group: AnyGroup = None,
    *,
    topic: TopicOption = None,
) -> Lines:
    """Show the offsets and the lag of a group, or of all but system groups, by queue.

    Status 1 when a broker left or does not answer. With --json and --watch each look prints one line, so that a file
    can keep a history of lag.
    """
    missing = await clients.admin.brokers.missing()
    if group is None:
        states = [
            each for each in await clients.admin.groups.list() if not is_system_group(each.name)
        ]
    else:
        states = [await clients.admin.groups.show(group)]
    at_ms = clients.instance.clock.now_ms()
    lines = [line for state in states for line in progress_lines(state, at_ms, topic)]
    return Lines(lines, chain(missing, *(each.absent for each in states)))


class MoveLine(NamedTuple):
    """The move of a group's offset in one queue.

    Attributes:
        topic: Topic of the queue.
        broker: Broker of the queue.
        queue: Queue id.
        offset: Committed offset; without one None, or 0 if the queue's first message counts as in memory.
        new: New offset.
        moves: Number of messages skipped, or negative if consumed again; None if `offset` is None.
    """

    topic: str
    broker: str
    queue: int
    offset: int | None
    new: int
    moves: int | None


class ExportedOffset(NamedTuple):
    """An offset in an export.

    Attributes:
        topic: Topic of the queue.
        broker: Broker of the queue.
        queue: Queue id.
        offset: Offset of the next message that the group consumes.
    """

    topic: str
    broker: str
    queue: int
    offset: int


class OffsetExport(NamedTuple):
    """An export of a group's offsets.

    Attributes:
        group: Name of the group.
        exported_ms: Time of the export, ms since 1970.
        offsets: Its committed offsets.
    """

    group: str
    exported_ms: int
    offsets: list[ExportedOffset]


class _MovePlan(NamedTuple):
    """A move of a group's offsets: how to find the new offsets and how to move the group.

    Attributes:
        group: Name of the group.
        find: Returns the new offsets by queue.
        do: Moves the group; may query the new offsets again.
    """

    group: str
    find: Callable[[Clients], Awaitable[Wanted]]
    do: Callable[[Clients, Wanted], Awaitable[object]]


def _move(
    plan: Callable[..., _MovePlan],
    nameserver: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Print the moves of a group and, unless `dry_run`, ask for confirmation (unless `yes`) and move the group.

    Raises typer.BadParameter if there is no queue to move in, and typer.Abort if the user refuses.
    """
    move = plan(**given)

    async def look(clients: Clients) -> tuple[Wanted, list[MoveLine]]:
        wanted = await move.find(clients)
        moves = await clients.admin.offsets.moves(move.group, wanted)
        return wanted, [
            MoveLine(
                each.queue.topic,
                each.queue.broker_name,
                each.queue.queue_id,
                each.offset,
                each.new,
                each.skipped,
            )
            for each in moves
        ]

    wanted, lines = ask(nameserver, look)
    if not lines:
        raise typer.BadParameter(
            "the topic has no such queue or broker; cometmq topic show shows them"
        )
    if as_json:
        print_json(lines)
    else:
        print_lines(MoveLine._fields, lines)
    if dry_run:
        return
    confirm(said_of(move.group, lines), yes=yes)
    ask(nameserver, lambda clients: move.do(clients, wanted))
    note(f"Group {move.group} continues at these offsets.")


def _moves(plan: Callable[..., _MovePlan]) -> Command:
    """Make a command that moves a group as `plan` says; it gets the options that all of these commands have."""
    return made_command(
        plan,
        _move,
        keyword("nameserver", Nameserver, NAMESERVER_DEFAULT),
        keyword("dry_run", DryRun, False),
        keyword("yes", Yes, False),
        keyword("as_json", AsJson, False),
    )


@offsets.command()
@_moves
def reset(
    group: GroupName,
    topic: TopicName,
    *,
    to: To = None,
    to_offset: ToOffset = None,
    queue: Queues = None,
    broker: AtBroker = None,
) -> _MovePlan:
    """Move the offsets of a group in a topic to --to or --to-offset; its members continue there.

    --queue may be repeated.
    """
    if (to is None) == (to_offset is None):
        raise typer.BadParameter("give exactly one of --to and --to-offset", param_hint="reset")
    whole = _to_time(group, topic, None if to is None else read_place(to))
    if not queue and broker is None and to_offset is None:
        return whole

    async def find(clients: Clients) -> Wanted:
        return {
            each: offset if to_offset is None else to_offset
            for each, offset in (await whole.find(clients)).items()
            if (not queue or each.queue_id in queue) and broker in (None, each.broker_name)
        }

    return _MovePlan(
        group, find, lambda clients, wanted: clients.admin.offsets.set(group, wanted)
    )


@offsets.command()
@_moves
def skip(group: GroupName, topic: TopicName) -> _MovePlan:
    """Move a group to the end of a topic, past its messages that the group has not consumed."""
    return _to_time(group, topic, None)


def _to_time(group: str, topic: str, time_ms: int | None) -> _MovePlan:
    async def find(clients: Clients) -> Wanted:
        await clients.admin.groups.show(group)  # A misspelt group is an error.
        return await clients.admin.offsets.at(topic, time_ms)

    return _MovePlan(
        group,
        find,
        lambda clients, _: clients.admin.offsets.reset(group, topic, time_ms),
    )


@offsets.command()
@_moves
def copy(
    source: GroupName,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="The group that gets the offsets.",
            autocompletion=complete.groups,
        ),
    ],
    *,
    topic: TopicOption = None,
) -> _MovePlan:
    """Set the offsets of the group TO to the committed offsets of GROUP."""
    return _MovePlan(
        target,
        lambda clients: _standing(clients, source, topic),
        lambda clients, wanted: clients.admin.offsets.set(target, wanted),
    )


@offsets.command("export")
def export_offsets(
    group: GroupName,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write. Default: stdout.")
    ] = None,
    *,
    topic: TopicOption = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Write the committed offsets of a group as JSON to FILE or stdout."""

    async def work(clients: Clients) -> OffsetExport:
        standing = await _standing(clients, group, topic)
        lines = [
            ExportedOffset(queue.topic, queue.broker_name, queue.queue_id, offset)
            for queue, offset in standing.items()
        ]
        return OffsetExport(group, clients.instance.clock.now_ms(), lines)

    content = json_of(ask(nameserver, work)) + b"\n"
    if file is None:
        typer.echo(content, nl=False)
        return
    file.write_bytes(content)
    note(f"The offsets of group {group} are in {file}.")


@offsets.command("import")
@_moves
def import_offsets(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that `cometmq offset export` wrote.")
    ],
    *,
    group: GroupOption = None,
) -> _MovePlan:
    """Set the offsets of the exported group, or of --group, to those of an export."""
    if file.stat().st_size > _FILE_SIZE_MAX:
        raise SettingsError(
            f"{file} is not an export of offsets: it has more than {_FILE_SIZE_MAX} bytes"
        )
    whose, wanted = read_export(file.read_bytes(), str(file))
    target = group or whose

    async def find(_: Clients) -> Wanted:
        return wanted

    return _MovePlan(target, find, lambda clients, _: clients.admin.offsets.set(target, wanted))


def read_place(text: str) -> int | None:
    """Parse a position to ms since 1970 ("earliest": 0, "latest": None); raise typer.BadParameter if it is invalid."""
    if text == START_LATEST:
        return None
    if text == START_EARLIEST:
        return 0
    return read_time(text, option="--to", also=f"{START_EARLIEST}, {START_LATEST}, ")


async def _standing(clients: Clients, group: str, topic: str | None) -> Wanted:
    """Return the committed offsets of a group by queue, in a topic (None: in all topics but retry topics).

    Raises typer.BadParameter if there are none.
    """
    progress = await clients.admin.offsets.progress(group, topic)
    found = {
        queue: each.consumer_offset
        for queue, each in sorted(progress.items())
        if each.is_committed and (topic is not None or not is_retry_topic(queue.topic))
    }
    if not found:
        raise typer.BadParameter(
            f"group {printable(group)} has no committed offsets of this topic",
            param_hint="GROUP",
        )
    return found


def said_of(group: str, lines: list[MoveLine]) -> str:
    """Return the confirmation question before offsets are moved."""
    moves = [line.moves or 0 for line in lines]
    passed, again = sum(max(each, 0) for each in moves), -sum(min(each, 0) for each in moves)
    return f"Reset group {group}? It skips {passed} {plural(passed, 'message')} and consumes {again} {plural(again, 'message')} again."


def read_export(content: bytes, name: str) -> tuple[str, Wanted]:
    """Parse an export of offsets, called `name` in errors; return its group and the offsets by queue.

    Raises SettingsError if it is not an export.
    """
    from cometmq.codec.bodies.json_object import load_object
    from cometmq.model.errors import CodecError
    from cometmq.model.queue import MessageQueue

    try:
        top = load_object(content, name)
        found = {}
        for part in top.objects("offsets"):
            queue = MessageQueue(part.text("topic"), part.text("broker"), part.int32("queue"))
            found[queue] = part.int64("offset")
        return top.text("group"), found
    except CodecError as error:
        raise SettingsError(f"this is not an export of offsets: {error}") from None
