"""`cometmq send`: sends one message, a message many times, or each non-empty line of stdin.

The lines of one read of stdin are sent together, so a file is sent at full speed and a typed line immediately.
"""

import io
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer

from cometmq.cli import complete
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    AsJson,
    AtBroker,
    Nameserver,
    QueueFilter,
    read_pairs,
)
from cometmq.cli.output import notes, print_json, screen
from cometmq.cli.patience import patient
from cometmq.model.message import Message

if TYPE_CHECKING:
    from cometmq import SendResult
    from cometmq.model.queue import MessageQueue

STDIN = "-"
_READ_SIZE = 256 * 1024  # Bytes: some thousand short lines, one window of the producer.
_GROUP_COUNT = 4096
_AFTER_MAX = 10 * 365 * 86_400.0  # Brokers set a smaller limit, timerMaxDelaySec.


Body = Annotated[
    str,
    typer.Argument(
        metavar="BODY",
        help="The text of the message; '-' sends each line of stdin as a message.",
    ),
]
Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        help="The topic; brokers create it if they are configured to.",
        autocompletion=complete.topics,
    ),
]
Tag = Annotated[str | None, typer.Option(help="Tag by which consumers filter.")]
Keys = Annotated[list[str] | None, typer.Option(help="Key to find it by; may be repeated.")]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="A user property; may be repeated."),
]
Count = Annotated[int, typer.Option(min=1, help="Number of times that BODY is sent.")]
After = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        max=_AFTER_MAX,
        metavar="SECONDS",
        help="Let consumers see it only after this time (5.x).",
    ),
]


class SentLine(NamedTuple):
    """A message that was sent.

    Attributes:
        status: SEND_OK, or which flush or replication did not come in time.
        topic: Topic of its queue.
        broker: Broker of its queue.
        queue: Queue id.
        offset: Offset in the queue.
        id: Message id.
        offset_id: Id by which a broker finds it.
    """

    status: str
    topic: str
    broker: str
    queue: int
    offset: int
    id: str
    offset_id: str


def send(
    topic: Topic,
    body: Body = STDIN,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    tag: Tag = None,
    key: Keys = None,
    property_: Properties = None,
    count: Count = 1,
    queue: QueueFilter = None,
    broker: AtBroker = None,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """Send one message, or many.

    They go to all queues in turn, or to --queue, which several brokers may have: then name one with --broker.
    """
    if broker is not None and queue is None:
        raise typer.BadParameter("it needs --queue", param_hint="--broker")
    if body == STDIN and count != 1:
        raise typer.BadParameter(
            "--count repeats BODY and cannot be combined with reading stdin",
            param_hint="--count",
        )
    is_typed = body == STDIN and sys.stdin.isatty()
    if is_typed:
        notes().print("[dim]Each line is sent as a message. Ctrl-D ends the input.")
    make = partial(
        Message,
        topic,
        tag=tag,
        keys=tuple(key or ()),
        properties=read_pairs(property_ or [], option="--property"),
        deliver=None if after is None else timedelta(seconds=after),
    )
    stdin = cast(io.BufferedReader, sys.stdin.buffer)
    texts = lines(stdin) if body == STDIN else repeated(body.encode(), count)
    groups = ([make(text) for text in group] for group in texts)
    started = time.monotonic()
    sent = _send(nameserver, topic, groups, queue, broker, as_json=as_json)
    if sent != 1 and not is_typed:
        seconds = time.monotonic() - started
        notes().print(f"{sent:,} messages in {seconds:.2f} s, {sent / seconds:,.0f}/s")


def _send(
    nameserver: str,
    topic: str,
    groups: Iterator[list[Message]],
    queue: int | None,
    broker: str | None,
    *,
    as_json: bool,
) -> int:
    """Send all groups of messages, report the results with `show`, and return the number of messages."""
    from cometmq import Producer, ProducerSettings

    sent = 0
    with Producer(nameserver, settings=patient(ProducerSettings)) as producer:
        target = None if queue is None else find_queue(producer.queues(topic), queue, broker)
        for group in groups:
            show(producer.send_many(group, queue=target), as_json=as_json)
            sent += len(group)
    return sent


def lines(stream: io.BufferedIOBase) -> Iterator[list[bytes]]:
    """Yield the non-empty lines of a stream without their line feeds, grouped by reads."""
    rest = b""
    while piece := stream.read1(_READ_SIZE):  # Available bytes; read() would wait for all.
        *whole, rest = (rest + piece).split(b"\n")
        if group := [line for line in whole if line]:
            yield group
    if rest:
        yield [rest]


def repeated(text: bytes, count: int) -> Iterator[list[bytes]]:
    """Yield `text` `count` times, in groups."""
    for start in range(0, count, _GROUP_COUNT):
        yield [text] * min(_GROUP_COUNT, count - start)


def find_queue(
    queues: Sequence["MessageQueue"], wanted: int, broker: str | None
) -> "MessageQueue":
    """Return the queue with this id, at a broker or (None) at the only one that has it.

    Raises typer.BadParameter if there is none, or several brokers have a queue with this id.
    """
    found = [
        queue
        for queue in queues
        if queue.queue_id == wanted and broker in (None, queue.broker_name)
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in sorted(queues))
    if found:
        what = f"several brokers have queue {wanted}; choose one with --broker"
    elif broker is None:
        what = f"no broker has queue {wanted}"
    else:
        what = f"broker {broker} has no queue {wanted}"
    there = f"there is {known}" if known else "no broker accepts messages of the topic now"
    raise typer.BadParameter(f"{what}; {there}", param_hint="--queue")


def show(results: Sequence["SendResult"], *, as_json: bool) -> None:
    """Print each result as JSON; as text only a result that is alone, and those with another status than SEND_OK."""
    for result in results:
        queue = result.queue
        if as_json:
            print_json(
                SentLine(
                    str(result.status),
                    queue.topic,
                    queue.broker_name,
                    queue.queue_id,
                    result.queue_offset,
                    result.message_id,
                    result.offset_message_id,
                )
            )
        elif len(results) == 1 or result.status != "SEND_OK":
            place = f"{queue.broker_name} q{queue.queue_id}#{result.queue_offset}"
            colour = "green" if result.status == "SEND_OK" else "yellow"
            screen().print(f"[{colour}]{result.status}[/] {place} [dim]{result.message_id}")
