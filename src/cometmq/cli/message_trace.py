"""`cometmq message trace` and `message resend`: the trace of a message, and sending or consuming it again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cometmq.cli import complete
from cometmq.cli.asking import Clients, ask
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver, TopicName
from cometmq.cli.output import notes, print_json, screen, time_text
from cometmq.cli.visible import visible
from cometmq.model.exit_status import ExitStatus
from cometmq.model.names import TRACE_TOPIC

if TYPE_CHECKING:
    from cometmq import StoredMessage
    from cometmq.codec.trace import Trace

MessageId = Annotated[
    str, typer.Argument(metavar="MESSAGE_ID", help="Message id of the producer.")
]


def trace(
    message_id: MessageId,
    *,
    trace_topic: Annotated[
        str, typer.Option("--trace-topic", metavar="TOPIC", help="The topic with the traces.")
    ] = TRACE_TOPIC,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show the traces of a message as a tree: its send, and calls of listeners; status 1 without traces."""
    from cometmq.model.errors import TopicNotFound

    async def work(clients: Clients) -> "list[Trace]":
        try:
            return await clients.admin.messages.trace(message_id, topic=trace_topic)
        except TopicNotFound:
            if trace_topic != TRACE_TOPIC:
                raise
            return []  # Brokers create it with the first trace.

    found = ask(nameserver, work)
    if as_json:
        print_json([trace_json(each) for each in found])
    elif found:
        _print_tree(message_id, found)
    if not found:
        notes().print(
            "[dim]There is no trace of this message. Check that its producer and consumers have tracing on "
            "(trace=True), and the brokers a trace topic (traceTopicEnable=true)."
        )
        raise typer.Exit(ExitStatus.FOUND)


def resend(
    topic: TopicName,
    message_id: MessageId,
    *,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Let a member of this group consume it now; no other group gets it.",
            autocompletion=complete.groups,
        ),
    ] = None,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Send a copy of a message to its topic, or have a member of a group consume it now; status 1 if it is not found or not consumed."""

    async def work(clients: Clients) -> dict[str, Any] | None:
        message = await clients.admin.messages.by_id(topic, message_id)
        if message is None:
            return None
        if group is None:
            return await _copy(clients, message)
        return await _consume(clients, message, group)

    said = ask(nameserver, work)
    if said is None:
        notes().print("[dim]No message matches.")
        raise typer.Exit(ExitStatus.FOUND)
    if as_json:
        print_json(said)
    else:
        screen().print(visible(" ".join(str(each) for each in said.values() if each is not None)), markup=False)  # fmt: skip
    if not said["ok"]:
        raise typer.Exit(ExitStatus.FOUND)


async def _copy(clients: Clients, message: "StoredMessage") -> dict[str, Any]:
    from cometmq import AsyncProducer, Message

    place = f"{message.topic}:{message.queue.broker_name}:{message.queue.queue_id}:{message.queue_offset}"
    copy = Message(
        message.topic,
        bytes(message.body),
        tag=message.tag,
        keys=message.keys,
        properties={**message.user_properties, "REPLAY_OF": place},
        flag=message.flag,
    )
    async with AsyncProducer(instance=clients.instance) as producer:
        sent = await producer.send(copy)
    return {"ok": True, "how": str(sent.status), "id": sent.message_id, "remark": None}


async def _consume(clients: Clients, message: "StoredMessage", group: str) -> dict[str, Any]:
    from cometmq.admin import DirectResult

    outcome = await clients.admin.messages.consume(message, group)
    if outcome is None:
        nobody = f"group {group} has no connected member"
        return {"ok": False, "how": nobody, "id": message.message_id, "remark": None}
    return {
        "ok": outcome.result in {DirectResult.SUCCESS, DirectResult.COMMIT},
        "how": str(outcome.result),
        "id": message.message_id,
        "remark": outcome.remark,
    }


def trace_json(record: "Trace") -> dict[str, Any]:
    """Return a record of a message's trace as a dict for `print_json`."""
    from cometmq.codec.trace import TraceKind

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
    from rich.tree import Tree

    from cometmq.codec.trace import TraceKind

    root = Tree(Text(visible(message_id), style="bold"))
    groups: dict[str, Tree] = {}
    calls: dict[str, Tree] = {}
    for record in records:
        when = time_text(record.time_ms) if record.time_ms else ""
        if record.kind is TraceKind.SUB_BEFORE:
            parent = groups.get(record.group)
            if parent is None:
                parent = groups[record.group] = root.add(Text(visible(f"group {record.group}")))
            words = f"{when} call, attempt {record.tries + 1}"
            calls[record.request_id] = parent.add(Text(visible(words)))
        elif record.kind is TraceKind.SUB_AFTER:
            parent = calls.get(record.request_id, root)
            style = "green" if record.is_success else "bold red"
            words = f"{record.outcome.name.lower()} after {record.took_ms} ms"
            parent.add(Text(visible(words), style=style))
        else:
            words = f"{when} {record.kind.value} by {record.group} to {record.topic} at {record.store_host}, {record.took_ms} ms"
            root.add(Text(visible(words), style="green" if record.is_success else "bold red"))
    screen().print(root)
