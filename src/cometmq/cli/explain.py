"""`cometmq explain`, `group conflicts` and `transactions`: unconsumed messages, conflicts, and discarded half messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import (
    Choice,
    Clients,
    Lines,
    Shown,
    changes,
    chooses,
    lists,
    missing_with,
    shows,
)
from cometmq.cli.groups import groups
from cometmq.cli.options import AnyGroup, NeededGroup, TopicOption
from cometmq.cli.output import message_value, notes, print_message, print_table, screen
from cometmq.model.message import StoredMessage
from cometmq.model.message_json import MessageLine
from cometmq.model.text import printable

if TYPE_CHECKING:
    from cometmq.admin import Explanation

_MARKS = {True: "yes", False: "NO", None: "?"}

transactions = typer.Typer()


@shows
async def explain(
    clients: Clients,
    message_id: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_ID", help="The message id of its producer, or the offset id."
        ),
    ],
    *,
    group: NeededGroup,
    topic: TopicOption = None,
) -> Shown:
    """Explain why a group has not consumed a message; status 1 if something blocks it, or the message is not found.

    Without --topic the topics to which the group subscribes are searched. Status 1 also if the group has consumed it
    already.
    """
    found = await clients.admin.messages.explain(message_id, group, topic=topic)
    return Shown(
        {**found._asdict(), "answer": found.answer},
        lambda: _print_explanation(found),
        is_finding=not found.is_free,
    )


def _print_explanation(found: "Explanation") -> None:
    if found.message is not None:
        print_message(found.message, as_json=False)
    rows = [(_MARKS[each.is_fine], each.check, each.text) for each in found.findings]
    print_table(("fine", "check", ""), rows)
    screen().print(f"[bold]{printable(found.answer)}")


class ConflictLine(NamedTuple):
    """Members of a group that agree with each other but not with other members.

    Attributes:
        group: Name of the group.
        kind: SUBSCRIPTION, or CLIENT_ID: several clients have one id.
        clients: These members, "client id@ip:port" each.
        says: Their message model and subscriptions.
    """

    group: str
    kind: str
    clients: list[str]
    says: str


@groups.command()
@lists(ConflictLine._fields, "The members of every group have the same subscriptions.")
async def conflicts(
    clients: Clients,
    group: AnyGroup = None,
) -> Lines:
    """Show groups whose members have different subscriptions or the same client id; status 1 if there are any.

    Status 1 also when a broker has left its nameserver.
    """
    if group is not None:
        await clients.admin.groups.show(group)  # Raises if the group is misspelt.
    lines = [
        ConflictLine(conflict.group, str(conflict.kind), list(side.clients), side.says)
        for conflict in await clients.admin.groups.conflicts(group)
        for side in conflict.sides
    ]
    return Lines(lines, await missing_with(clients), is_finding=bool(lines))


@transactions.command("list")
@chooses(MessageLine._fields)
async def list_discarded(clients: Clients, choice: Choice) -> Shown:
    """List the half messages that brokers discarded, for example after too many checks.

    Status 1 when a broker has left its nameserver.
    """
    found = choice.of(await clients.admin.transactions.discarded(), message_value)
    return Shown(
        found,
        lambda: _print_discarded(found),
        await missing_with(clients),
        is_lines=True,
    )


def _print_discarded(found: Sequence[StoredMessage]) -> None:
    for message in found:
        screen().print(message.offset_message_id, end=" ")
        print_message(message, as_json=False)
    if not found:
        notes().print("[dim]No transaction was discarded.")


@transactions.command()
@changes
async def resume(
    clients: Clients,
    offset_id: Annotated[
        str,
        typer.Argument(
            metavar="OFFSET_ID",
            help="Offset id of the half message, from `cometmq transactions list`.",
        ),
    ],
) -> str:
    """Let the broker check a discarded half message again, from the first check."""
    await clients.admin.transactions.resume(offset_id)
    return f"The broker will check transaction {offset_id} again."
