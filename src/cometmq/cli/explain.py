"""`cometmq explain`, `group conflicts` and `transactions`: unconsumed messages, conflicts, and discarded half messages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli.asking import Clients, Shown, changes, missing_with, shows, watches
from cometmq.cli.groups import groups
from cometmq.cli.options import group_option, topic_option
from cometmq.cli.output import notes, print_message, print_table, screen
from cometmq.model.message import StoredMessage
from cometmq.model.message_json import message_json
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
    group: Annotated[str, group_option("The consumer group that should have consumed it.")],
    topic: Annotated[
        str | None,
        topic_option(
            "Topic of the message. Default: the topics to which the group subscribes."
        ),
    ] = None,
) -> Shown:
    """Explain why a group has not consumed a message; status 1 if something blocks it, or the message is not found.

    Status 1 also if the group has consumed it already.
    """
    found = await clients.admin.messages.explain(message_id, group, topic=topic)
    return Shown(
        _explanation_json(found),
        lambda: _print_explanation(found),
        is_finding=not found.is_free,
    )


def _print_explanation(found: "Explanation") -> None:
    if found.message is not None:
        print_message(found.message, as_json=False)
    rows = [(_MARKS[each.is_fine], each.check, each.text) for each in found.findings]
    print_table(("fine", "check", ""), rows)
    screen().print(f"[bold]{printable(found.answer)}")


def _explanation_json(found: "Explanation") -> dict[str, object]:
    return {
        "answer": found.answer,
        "message": None if found.message is None else message_json(found.message),
        "findings": found.findings,
    }


@groups.command()
@watches
async def conflicts(
    clients: Clients,
    *,
    group: Annotated[str | None, group_option("Only this group. Default: all groups.")] = None,
) -> Shown:
    """Show groups whose members have different subscriptions or the same client id; status 1 if there are any.

    Status 1 also when a broker has left its nameserver.
    """
    if group is not None:
        await clients.admin.groups.show(group)  # Raises if the group is misspelt.
    found = await clients.admin.groups.conflicts(group)
    rows = [
        (conflict.group, conflict.kind, ", ".join(side.clients), side.says)
        for conflict in found
        for side in conflict.sides
    ]

    def show() -> None:
        if rows:
            print_table(("group", "conflict", "members", "say"), rows)
        else:
            notes().print("[dim]The members of every group have the same subscriptions.")

    return Shown(
        found,
        show,
        await missing_with(clients),
        is_finding=bool(found),
    )


@transactions.command()
@watches
async def discarded(clients: Clients) -> Shown:
    """Show half messages that brokers discarded, for example after too many checks.

    Status 1 when a broker has left its nameserver.
    """
    found = await clients.admin.transactions.discarded()
    return Shown(
        [*map(message_json, found)],
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
            help="Offset id of the half message, from `cometmq transactions discarded`.",
        ),
    ],
) -> str:
    """Let the broker check a discarded half message again, from the first check."""
    await clients.admin.transactions.resume(offset_id)
    return f"The broker will check transaction {offset_id} again."
