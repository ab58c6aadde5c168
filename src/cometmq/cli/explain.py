"""`cometmq explain`, `conflicts` and `transactions`: unconsumed messages, conflicts, and discarded half messages."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, ask_listed, missing_with
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver
from cometmq.cli.output import (
    message_json,
    notes,
    print_json,
    print_message,
    print_table,
    screen,
)
from cometmq.cli.patience import patient
from cometmq.cli.visible import visible
from cometmq.model.exit_status import ExitStatus
from cometmq.model.message import StoredMessage
from cometmq.model.names import TOOLS_GROUP, TRANS_CHECK_MAX_TIME_TOPIC

if TYPE_CHECKING:
    from cometmq.admin import AbsentBroker, Explanation

_MARKS = {True: "yes", False: "NO", None: "?"}

transactions = typer.Typer(
    help="Transactions without a commit or rollback.", no_args_is_help=True
)


@transactions.callback()
def group() -> None:
    """Do nothing: the callback of the command group `cometmq transactions`."""


def explain(
    message_id: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE_ID", help="The message id of its producer, or the offset id."
        ),
    ],
    *,
    group: Annotated[
        str,
        typer.Option(
            "--group",
            "-g",
            help="The consumer group that should have consumed it.",
            autocompletion=complete.groups,
        ),
    ],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            help="Topic of the message. Default: the topics to which the group subscribes.",
            autocompletion=complete.topics,
        ),
    ] = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Explain why a group has not consumed a message; status 1 if something blocks it, or the message is not found.

    Status 1 also if the group has consumed it already.
    """
    from cometmq import Admin, ClientSettings

    with Admin(nameserver, settings=patient(ClientSettings)) as admin:
        found = admin.messages.explain(message_id, group, topic=topic)
    if as_json:
        print_json(_explanation_json(found))
    else:
        _print_explanation(found)
    if not found.is_free:
        raise typer.Exit(ExitStatus.FOUND)


def _print_explanation(found: "Explanation") -> None:
    if found.message is not None:
        print_message(found.message, as_json=False)
    rows = [(_MARKS[each.is_fine], each.check, each.text) for each in found.findings]
    print_table(("fine", "check", ""), rows)
    screen().print(f"[bold]{visible(found.answer)}")


def _explanation_json(found: "Explanation") -> dict[str, object]:
    return {
        "answer": found.answer,
        "message": None if found.message is None else message_json(found.message),
        "findings": [each._asdict() for each in found.findings],
    }


def conflicts(
    *,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Only this group. Default: all groups.",
            autocompletion=complete.groups,
        ),
    ] = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show groups whose members have different subscriptions or the same client id; status 1 if there are any."""
    from dataclasses import asdict

    is_found = False

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        nonlocal is_found
        if group is not None:
            await clients.admin.groups.show(group)  # Raises if the group is misspelt.
        found = await clients.admin.groups.conflicts(group)
        rows = [
            (conflict.group, conflict.kind, ", ".join(side.clients), side.says)
            for conflict in found
            for side in conflict.sides
        ]
        if as_json:
            print_json([asdict(each) for each in found])
        elif rows:
            print_table(("group", "conflict", "members", "say"), rows)
        else:
            notes().print("[dim]The members of every group have the same subscriptions.")
        is_found = bool(found)
        return await missing_with(clients)

    ask_listed(nameserver, look)
    if is_found:
        raise typer.Exit(ExitStatus.FOUND)


@transactions.command()
def discarded(
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show half messages that brokers discarded, for example after too many checks; status 1 when a broker is missing."""

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        found = await _discarded(clients)
        for message in found:
            if as_json:
                print_json(message_json(message))
            else:
                screen().print(message.offset_message_id, end=" ")
                print_message(message, as_json=False)
        if not found:
            notes().print("[dim]No transaction was discarded.")
        return await missing_with(clients)

    ask_listed(nameserver, look)


async def _discarded(clients: Clients) -> list[StoredMessage]:
    from cometmq import AsyncPullConsumer, ConsumerSettings
    from cometmq.model.errors import TopicNotFound

    found: list[StoredMessage] = []
    settings = patient(ConsumerSettings)
    async with AsyncPullConsumer(
        group=TOOLS_GROUP, settings=settings, instance=clients.instance
    ) as consumer:
        try:
            queues = await consumer.queues(TRANS_CHECK_MAX_TIME_TOPIC)
        except TopicNotFound:
            queues = []  # Brokers create the topic with its first message.
        for queue in queues:
            offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while offset < end:
                pull = await consumer.fetch(queue, offset)
                found += pull.messages
                offset = pull.next_offset
    return found


@transactions.command()
def resume(
    offset_id: Annotated[
        str,
        typer.Argument(
            metavar="OFFSET_ID",
            help="Offset id of the half message, from `cometmq transactions discarded`.",
        ),
    ],
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Let the broker check a discarded half message again, from the first check."""
    from cometmq import Admin, ClientSettings

    with Admin(nameserver, settings=patient(ClientSettings)) as admin:
        admin.transactions.resume(offset_id)
    notes().print(f"[dim]The broker will check transaction {visible(offset_id)} again.")
