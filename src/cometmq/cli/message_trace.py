"""`cometmq message trace` and `message resend`: the trace of a message, and sending or consuming it again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.text import Text

from cometmq.cli import complete
from cometmq.cli.asking import Clients, Shown, shows
from cometmq.cli.messages import messages
from cometmq.cli.options import GroupOption, TopicName
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


class TraceLine(NamedTuple):
    """A record of a message's trace.

    Attributes:
        kind: Pub, SubBefore, SubAfter, EndTransaction or Recall.
        time_ms: Time of the event, ms since 1970; None if unknown.
        group: Producer or consumer group.
        topic: Topic of the message; None if the record has none.
        broker: Address of the broker that stored it; None if the record has none.
        request: Shared by SubBefore and SubAfter of one listener call; None for other records.
        took_ms: Duration of the send, or of the listener's call, ms.
        ok: Whether it succeeded.
        tries: Number of earlier deliveries.
        outcome: Outcome of the listener call; None for other records.
    """

    kind: str
    time_ms: int | None
    group: str
    topic: str | None
    broker: str | None
    request: str | None
    took_ms: int
    ok: bool
    tries: int
    outcome: str | None


class ResendOutcome(NamedTuple):
    """The outcome of `cometmq message resend`.

    Attributes:
        ok: Whether it succeeded.
        how: Status of the send, or result of the listener.
        id: Message id of the copy, or of the consumed message.
        remark: Exception of the listener; None without one.
    """

    ok: bool
    how: str
    id: str
    remark: str | None = None


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
        [*map(trace_line, found)],
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
    group: GroupOption = None,
) -> Shown:
    """Send a copy of a message to its topic, or have a member of --group consume it now, which no other group gets.

    Status 1 if it is not found or not consumed.
    """
    message = await clients.admin.messages.by_id(topic, message_id)
    if message is None:
        notes().print("[dim]No message matches.")
        raise typer.Exit(ExitStatus.FOUND)
    if group is None:
        sent = await clients.admin.messages.resend(message)
        said = ResendOutcome(True, str(sent.status), sent.message_id)
    else:
        said = await _consume(clients, message, group)
    text = printable(" ".join(str(each) for each in said if each is not None))
    return Shown(said, lambda: screen().print(text, markup=False), is_finding=not said.ok)


async def _consume(clients: Clients, message: "StoredMessage", group: str) -> ResendOutcome:
    from cometmq.admin import DirectResult

    outcome = await clients.admin.messages.consume(message, group)
    if outcome is None:
        how = f"group {group} has no connected member"
        return ResendOutcome(False, how, message.message_id)
    is_well = outcome.result in {DirectResult.SUCCESS, DirectResult.COMMIT}
    return ResendOutcome(is_well, str(outcome.result), message.message_id, outcome.remark)


def trace_line(record: "Trace") -> TraceLine:
    """Return a record of a message's trace as a line for `print_json`."""
    from cometmq.admin import TraceKind

    is_call = record.kind is TraceKind.SUB_AFTER
    return TraceLine(
        str(record.kind),
        record.time_ms or None,
        record.group,
        record.topic or None,
        record.store_host or None,
        record.request_id or None,
        record.took_ms,
        record.is_success,
        record.tries,
        record.outcome.name if is_call else None,
    )


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
