"""`cometmq message trace` and `message resend`: the trace of a message, and sending or consuming it again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cometmq.cli import complete
from cometmq.cli.asking import Clients, Shown, shows
from cometmq.cli.messages import messages
from cometmq.cli.options import TopicName, group_option
from cometmq.cli.output import note, notes, screen
from cometmq.model.exit_status import ExitStatus
from cometmq.model.names import TRACE_TOPIC
from cometmq.model.text import printable, time_text

if TYPE_CHECKING:
    from cometmq import StoredMessage
    from cometmq.admin import Trace

MessageId = Annotated[
    str, typer.Argument(metavar="MESSAGE_ID", help="Message id of the producer.")
]


@messages.command()
@shows
async def trace(
    clients: Clients,
    message_id: MessageId,
    *,
    trace_topic: Annotated[
        str,
        typer.Option(
            "--trace-topic",
            metavar="TOPIC",
            help="The topic with the traces.",
            autocompletion=complete.topics,
        ),
    ] = TRACE_TOPIC,
) -> Shown:
    """Show the traces of a message as a tree: its send, and calls of listeners; status 1 without traces."""
    from cometmq.model.errors import TopicNotFound

    try:
        found = await clients.admin.messages.trace(message_id, topic=trace_topic)
    except TopicNotFound:
        if trace_topic != TRACE_TOPIC:
            raise
        found = []  # Brokers create it with the first trace.
    if not found:
        note(
            "There is no trace of this message. Check that its producer and consumers have tracing on "
            "(trace=True), and the brokers a trace topic (traceTopicEnable=true)."
        )
    return Shown(
        [trace_json(each) for each in found],
        lambda: _print_tree(message_id, found),
        is_finding=not found,
    )


@messages.command()
@shows
async def resend(
    clients: Clients,
    topic: TopicName,
    message_id: MessageId,
    *,
    group: Annotated[
        str | None,
        group_option("Let a member of this group consume it now; no other group gets it."),
    ] = None,
) -> Shown:
    """Send a copy of a message to its topic, or have a member of a group consume it now; status 1 if it is not found or not consumed."""
    message = await clients.admin.messages.by_id(topic, message_id)
    if message is None:
        notes().print("[dim]No message matches.")
        raise typer.Exit(ExitStatus.FOUND)
    if group is None:
        sent = await clients.admin.messages.resend(message)
        said = _outcome(True, str(sent.status), sent.message_id)
    else:
        said = await _consume(clients, message, group)
    text = printable(" ".join(str(each) for each in said.values() if each is not None))
    return Shown(said, lambda: screen().print(text, markup=False), is_finding=not said["ok"])


async def _consume(clients: Clients, message: "StoredMessage", group: str) -> dict[str, Any]:
    from cometmq.admin import DirectResult

    outcome = await clients.admin.messages.consume(message, group)
    if outcome is None:
        return _outcome(False, f"group {group} has no connected member", message.message_id)
    is_well = outcome.result in {DirectResult.SUCCESS, DirectResult.COMMIT}
    return _outcome(is_well, str(outcome.result), message.message_id, outcome.remark)


def _outcome(
    is_well: bool, how: str, message_id: str, remark: str | None = None
) -> dict[str, Any]:
    return {"ok": is_well, "how": how, "id": message_id, "remark": remark}


def trace_json(record: "Trace") -> dict[str, Any]:
    """Return a record of a message's trace as a dict for `print_json`."""
    from cometmq.admin import TraceKind

    is_call = record.kind is TraceKind.SUB_AFTER
    return {
        "kind": str(record.kind),
        "time_ms": record.time_ms or None,
        "group": record.group,
        "topic": record.topic or None,
        "broker": record.store_host or None,
        "request": record.request_id or None,
        "took_ms": record.took_ms,
        "ok": record.is_success,
        "tries": record.tries,
        "outcome": record.outcome.name if is_call else None,
    }


def _print_tree(message_id: str, records: "Sequence[Trace]") -> None:
    if not records:
        return
    from rich.tree import Tree

    from cometmq.admin import TraceKind

    root = Tree(Text(printable(message_id), style="bold"))
    groups: dict[str, Tree] = {}
    calls: dict[str, Tree] = {}
    for record in records:
        when = time_text(record.time_ms) if record.time_ms else ""
        if record.kind is TraceKind.SUB_BEFORE:
            parent = groups.get(record.group)
            if parent is None:
                parent = groups[record.group] = root.add(
                    Text(printable(f"group {record.group}"))
                )
            words = f"{when} call, attempt {record.tries + 1}"
            calls[record.request_id] = parent.add(Text(printable(words)))
        elif record.kind is TraceKind.SUB_AFTER:
            parent = calls.get(record.request_id, root)
            style = "green" if record.is_success else "bold red"
            words = f"{record.outcome.name.lower()} after {record.took_ms} ms"
            parent.add(Text(printable(words), style=style))
        else:
            words = f"{when} {record.kind.value} by {record.group} to {record.topic} at {record.store_host}, {record.took_ms} ms"
            root.add(Text(printable(words), style="green" if record.is_success else "bold red"))
    screen().print(root)
