"""`cometmq message delayed` and `cometmq message recall`: list messages that wait for their time, and recall one."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, ask_listed
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver
from cometmq.cli.output import message_json, notes, print_json, print_table
from cometmq.cli.patience import patient
from cometmq.model.delay_levels import delay_levels_ms
from cometmq.model.errors import SettingsError

if TYPE_CHECKING:
    from cometmq.admin import AbsentBroker, DelayedMessage

COUNT_DEFAULT = 100


def delayed(
    *,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", help="Only messages for this topic.", autocompletion=complete.topics
        ),
    ] = None,
    count_max: Annotated[
        int, typer.Option("--max", min=1, metavar="COUNT", help="Maximum number of messages.")
    ] = COUNT_DEFAULT,
    levels: Annotated[
        str | None,
        typer.Option(
            "--levels", help="messageDelayLevel of all brokers. Default: query each broker."
        ),
    ] = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List messages that wait for a delay level or a time, the next one first; status 1 when a broker is missing."""
    try:
        delay_levels_ms(levels or "")
    except SettingsError as error:
        raise typer.BadParameter(str(error), param_hint="--levels") from None

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        waiting = await clients.admin.messages.delayed(levels=levels)
        found = [each for each in waiting.messages if topic in (None, each.queue.topic)]
        _print(found[:count_max], as_json=as_json)
        return waiting.absent

    ask_listed(nameserver, look)


def _print(found: "list[DelayedMessage]", *, as_json: bool) -> None:
    if as_json:
        for each in found:
            print_json(_json(each))
    elif found:
        print_table(
            ("due", "topic", "queue", "waits by", "id", "recall handle"), map(_row, found)
        )
    else:
        notes().print("[dim]No delayed message waits.")


def recall(
    handle: Annotated[
        str,
        typer.Argument(metavar="HANDLE", help="Recall handle, from `cometmq message delayed`."),
    ],
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Recall a message that waits for its time; the broker needs recallMessageEnable."""
    from cometmq import Admin, ClientSettings

    with Admin(nameserver, settings=patient(ClientSettings)) as admin:
        notes().print(f"[dim]Recalled message {admin.messages.recall(handle)}")


def _json(each: "DelayedMessage") -> dict[str, object]:
    return {
        **message_json(each.message),
        "topic": each.queue.topic,
        "broker": each.queue.broker_name,
        "queue": each.queue.queue_id,
        "dueMs": each.due_ms,
        "level": each.level,
        "recallHandle": each.recall_handle,
    }


def _row(each: "DelayedMessage") -> tuple[object, ...]:
    due = datetime.fromtimestamp(each.due_ms / 1000).astimezone()
    return (
        f"{due:%Y-%m-%d %H:%M:%S}",
        each.queue.topic,
        each.queue.queue_id,
        f"level {each.level}" if each.level else "time",
        each.message.message_id,
        each.recall_handle or "",
    )
