"""`cometmq message delayed` and `cometmq message recall`: list messages that wait for their time, and recall one."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.cli.asking import Choice, Clients, Shown, changes, chooses
from cometmq.cli.messages import messages
from cometmq.cli.options import TopicOption
from cometmq.cli.output import notes, print_table
from cometmq.model.delay_levels import delay_levels_ms
from cometmq.model.errors import SettingsError
from cometmq.model.message_json import MessageLine, message_json
from cometmq.model.text import time_text

if TYPE_CHECKING:
    from cometmq.admin import DelayedMessage

LIMIT_DEFAULT = 100


class DelayLine(NamedTuple):
    """The JSON of a delayed message in addition to that of any message.

    Attributes:
        due_ms: Time when consumers may receive it, ms since 1970.
        level: Delay level; 0: it waits for a time.
        recall_handle: The HANDLE of `cometmq message recall HANDLE`; None with a level.
    """

    due_ms: int
    level: int
    recall_handle: str | None


@messages.command()
@chooses((*MessageLine._fields, *DelayLine._fields), limit=LIMIT_DEFAULT)
async def delayed(
    clients: Clients,
    choice: Choice,
    *,
    topic: TopicOption = None,
    levels: Annotated[
        str | None,
        typer.Option(
            "--levels", help="messageDelayLevel of all brokers. Default: query each broker."
        ),
    ] = None,
) -> Shown:
    """List messages that wait for a delay level or a time, the next one first.

    Status 1 when a broker does not answer, or has left its nameserver.
    """
    try:
        delay_levels_ms(levels or "")
    except SettingsError as error:
        raise typer.BadParameter(str(error), param_hint="--levels") from None
    waiting = await clients.admin.messages.delayed(levels=levels)
    found = choice.of(
        (each for each in waiting.messages if topic in (None, each.queue.topic)),
        lambda each, name: _json(each).get(name),
    )
    return Shown([*map(_json, found)], lambda: _print(found), waiting.absent, is_lines=True)


def _print(found: "list[DelayedMessage]") -> None:
    if found:
        print_table(
            ("due", "topic", "queue", "waits by", "id", "recall handle"), map(_row, found)
        )
    else:
        notes().print("[dim]No delayed message waits.")


@messages.command()
@changes
async def recall(
    clients: Clients,
    handle: Annotated[
        str,
        typer.Argument(metavar="HANDLE", help="Recall handle, from `cometmq message delayed`."),
    ],
) -> str:
    """Recall a message that waits for its time; the broker needs recallMessageEnable."""
    return f"Recalled message {await clients.admin.messages.recall(handle)}"


def _json(each: "DelayedMessage") -> dict[str, object]:
    return {
        **message_json(each.message),
        "topic": each.queue.topic,
        "broker": each.queue.broker_name,
        "queue": each.queue.queue_id,
        **DelayLine(each.due_ms, each.level, each.recall_handle)._asdict(),
    }


def _row(each: "DelayedMessage") -> tuple[object, ...]:
    return (
        time_text(each.due_ms),
        each.queue.topic,
        each.queue.queue_id,
        f"level {each.level}" if each.level else "time",
        each.message.message_id,
        each.recall_handle or "",
    )
