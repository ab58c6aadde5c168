"""`cometmq group`: consumer groups with their lag, members and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.cli.asking import Clients, Lines, Shown, ask, changes, lists, watches
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    AtBroker,
    AtCluster,
    GroupName,
    Nameserver,
    Yes,
    confirm,
    keyword,
    place_text,
)
from cometmq.cli.output import (
    language_name,
    note,
    print_errors,
    print_table,
    print_totals,
    screen,
)
from cometmq.model.errors import CometError
from cometmq.model.group import GroupConfig
from cometmq.model.names import dead_letter_topic, is_system_group, retry_topic
from cometmq.model.text import printable

if TYPE_CHECKING:
    from cometmq.admin import GroupState, RunningState

groups = typer.Typer()


class GroupLine(NamedTuple):
    """A consumer group in the list.

    Attributes:
        group: Name of the group.
        topics: Topics in which it has offsets or that its members subscribe to, without its retry topic.
        members: Number of its members; None if unknown.
        model: CLUSTERING or BROADCASTING; None without a known member.
        lag: Known number of messages not consumed yet, in all its topics; 0 if it is broadcasting.
        lag_unknown: Reasons why the lag may be larger.
        behind_s: Age of the oldest message that is known not to be consumed, seconds; None without one, or if unknown.
        rate_per_s: Messages consumed per second.
        enabled: Whether no broker forbids it to consume.
    """

    group: str
    topics: list[str]
    members: int | None
    model: str | None
    lag: int
    lag_unknown: list[str]
    behind_s: int | None
    rate_per_s: float
    enabled: bool


class ProgressLine(NamedTuple):
    """The progress of a group in one queue.

    Attributes:
        topic: Topic of the queue.
        broker: Broker of the queue.
        queue: Queue id.
        offset: Committed offset, that of the next message to consume; None without one, or if its broker is absent.
        end: Offset of the queue's next message; None if its broker is absent.
        lag: Number of messages not consumed yet; None if its broker is absent.
        consumed_ms: Store time of the last consumed message, ms since 1970; None if unknown.
        oldest_ms: Store time of the first message not consumed, ms since 1970; None without one, or if unknown.
    """

    topic: str
    broker: str
    queue: int
    offset: int | None
    end: int | None
    lag: int | None
    consumed_ms: int | None
    oldest_ms: int | None


class MemberLine(NamedTuple):
    """A member of a consumer group.

    Attributes:
        client: Client id.
        address: Address that it connects from.
        language: Language of its client.
        version: RocketMQ version that its client reports, as an ordinal of MQVersion.
    """

    client: str
    address: str
    language: str
    version: int


Enabled = Annotated[
    bool | None, typer.Option("--consume/--no-consume", help="Whether the group may consume.")
]
Broadcast = Annotated[
    bool | None,
    typer.Option("--broadcast/--no-broadcast", help="Whether members may broadcast."),
]
Orderly = Annotated[
    bool | None,
    typer.Option("--orderly/--no-orderly", help="Whether messages are popped in order (5.x)."),
]
RetryQueues = Annotated[
    int | None,
    typer.Option(
        "--retry-queues",
        min=0,
        help="Number of queues of its retry topic; 0: a failed message becomes a dead letter at once.",
    ),
]
RetryMax = Annotated[
    int | None,
    typer.Option(
        "--retry-max", min=-1, help="Attempts before a message becomes a dead letter."
    ),
]
Timeout = Annotated[
    int | None,
    typer.Option(
        "--consume-timeout",
        min=1,
        metavar="MINUTES",
        help="Time limit for consuming a message.",
    ),
]

# By field of `GroupConfig`.
_SETTINGS = {
    "consume_enabled": Enabled,
    "broadcast_enabled": Broadcast,
    "orderly": Orderly,
    "retry_queues": RetryQueues,
    "retry_max_times": RetryMax,
    "consume_timeout_minutes": Timeout,
}
_changes_settings = partial(
    changes, options=[keyword(name, kind, None) for name, kind in _SETTINGS.items()]
)


@groups.command("list")
@lists(
    GroupLine._fields, "There are no consumer groups. The first member of a group creates it."
)
async def list_groups(
    clients: Clients,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also list system groups.")] = False,
) -> Lines:
    """Show consumer groups: topics, members, lag, rate; status 1 when some cannot be read."""
    states = await clients.admin.groups.list()
    missing = await clients.admin.brokers.missing()
    now_ms = clients.instance.clock.now_ms()
    return Lines(
        [group_line(each, now_ms) for each in states if all_ or not is_system_group(each.name)],
        chain(missing, *(each.absent for each in states)),
        print_errors(chain(*(each.unread for each in states))),
    )


@groups.command()
@watches
async def show(
    clients: Clients,
    group: GroupName,
    *,
    running: Annotated[
        bool, typer.Option("--running", help="Also show the running state of its members.")
    ] = False,
    threads: Annotated[
        bool, typer.Option("--threads", help="Also show the thread stacks of each member.")
    ] = False,
) -> Shown:
    """Show one group: its settings, members, and lag by queue; status 1 when a broker left or does not answer."""
    state = await clients.admin.groups.show(group)
    said: list[dict[str, Any]] = []
    if running or threads:
        said = [
            await _running(clients, group, member.client_id, stacks=threads)
            for member in state.members
        ]
    line = group_line(state, clients.instance.clock.now_ms())
    return Shown(
        group_json(state, line, said), lambda: _print_group(state, line, said), state.absent
    )


@groups.command()
@_changes_settings
async def create(
    clients: Clients,
    group: GroupName,
    *,
    broker: AtBroker = None,
    cluster: AtCluster = None,
    **settings: Any,
) -> str:
    """Create a consumer group at every master, at one broker or in one cluster; a group that exists there is an error."""
    place = place_text(broker, cluster)
    groups = clients.admin.groups
    if group in await groups.configs(cluster=cluster, broker=broker):
        raise typer.BadParameter(
            f"group {printable(group)} exists; cometmq group set changes it",
            param_hint="GROUP",
        )
    config = GroupConfig(group, **_given(settings))
    await groups.create(config, cluster=cluster, broker=broker)
    return f"Group {group} is created{place or ' at every broker'}."


@groups.command("set")
@_changes_settings
async def change(
    clients: Clients,
    group: GroupName,
    *,
    broker: AtBroker = None,
    cluster: AtCluster = None,
    **settings: Any,
) -> str:
    """Change some settings of a group at every master that has it, at one broker or in one cluster; the others stay."""
    place_text(broker, cluster)
    if not _given(settings):
        raise typer.BadParameter("name at least one option to change", param_hint="set")
    groups = clients.admin.groups
    await groups.show(group)  # A misspelt group is an error.
    changed = await groups.set(group, _given(settings), cluster=cluster, broker=broker)
    return f"Group {group} is changed at {', '.join(sorted(changed))}."


@groups.command()
def delete(
    group: GroupName,
    *,
    keep_offsets: Annotated[
        bool,
        typer.Option(
            "--keep-offsets", help="Keep its offsets; a new group of this name continues there."
        ),
    ] = False,
    topics: Annotated[
        bool, typer.Option("--topics", help="Also delete its retry topic and its dead letters.")
    ] = False,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    yes: Yes = False,
) -> None:
    """Delete a group at every master; without --keep-offsets also its offsets and (CometMQ) retry topics."""
    more = "" if keep_offsets else " and its offsets"
    more += ", its retries and its dead letters" if topics else ""
    confirm(f"Delete {group}{more}?", yes=yes)

    async def work(clients: Clients) -> None:
        known = set(await clients.admin.topics.list()) if topics else set()
        own = [each for each in (retry_topic(group), dead_letter_topic(group)) if each in known]
        if not own:
            await clients.admin.groups.show(group)  # An unknown group is an error.
        await clients.admin.groups.delete(group, delete_offsets=not keep_offsets)
        for topic in own:
            await clients.admin.topics.delete(topic)

    ask(nameserver, work)
    note(f"Group {group} is deleted.")


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


# --- output


def behind_s(state: "GroupState", now_ms: int) -> int | None:
    """Return the age of the oldest message that a group is known not to have consumed, seconds; None without one."""
    return None if state.oldest_ms is None else max(now_ms - state.oldest_ms, 0) // 1000


def group_line(state: "GroupState", now_ms: int) -> GroupLine:
    """Return the row of a group in the list of groups."""
    ours, lag = retry_topic(state.name), state.lag
    return GroupLine(
        state.name,
        [topic for topic in state.topics if topic != ours],
        None if state.unread else len(state.members),
        state.model,
        lag.known,
        list(lag.unknown),
        behind_s(state, now_ms),
        round(state.rate, 3),
        not state.stopped_at,
    )


def progress_lines(state: "GroupState", topic: str | None = None) -> list[ProgressLine]:
    """Return the progress of a group in one topic or all, a line for each queue, known ones of absent brokers too."""
    lines = [
        ProgressLine(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            each.consumer_offset if each.is_committed else None,
            each.broker_offset,
            each.lag,
            each.consumed_ms if each.consumed_ms > 0 else None,
            each.oldest_ms if each.oldest_ms > 0 else None,
        )
        for queue, each in state.progress.items()
    ]
    lines += [
        ProgressLine(name, broker.name, number, None, None, None, None, None)
        for broker in state.absent
        for name in state.topics
        for number in range((broker.queues or {}).get(name, 0))
    ]
    return sorted(line for line in lines if topic in (None, line.topic))


def member_lines(state: "GroupState") -> list[MemberLine]:
    """Return the members of a group, a line each."""
    return [
        MemberLine(each.client_id, each.address, language_name(each.language), each.version)
        for each in state.members
    ]


def group_json(
    state: "GroupState", line: GroupLine, running: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return a group, its settings, members and queues as a dict for `print_json`; `running`: its members' reports."""
    return {
        **line._asdict(),
        "type": state.consume_type,
        "settings": [
            {"broker": broker, **_settings(each)}
            for broker, each in sorted(state.configs.items())
        ],
        "subscriptions": {
            topic: each.expression for topic, each in sorted(state.subscriptions.items())
        },
        "member_list": member_lines(state),
        "queues": progress_lines(state),
        "running": list(running),
    }


def _settings(config: GroupConfig) -> dict[str, Any]:
    return {
        "consume": config.consume_enabled,
        "broadcast": config.broadcast_enabled,
        "orderly": config.orderly,
        "retry_queues": config.retry_queues,
        "retry_max": config.retry_max_times,
        "timeout_minutes": config.consume_timeout_minutes,
    }


async def _running(
    clients: Clients, group: str, client_id: str, *, stacks: bool
) -> dict[str, Any]:
    """Return the state that a member of a group reports, as `running_json`; if the query fails, `error` says why."""
    try:
        state = await clients.admin.groups.running(group, client_id, stacks=stacks)
    except CometError as error:
        return {**_nothing_said(client_id), "error": str(error)}
    return running_json(client_id, state)


def _nothing_said(client_id: str) -> dict[str, Any]:
    return {
        "client": client_id, "settings": {}, "rates": {}, "queues": [], "threads": None, "error": None,
    }  # fmt: skip


def running_json(client_id: str, state: "RunningState") -> dict[str, Any]:
    """Return the state that a member of a group has reported as a dict for `print_json`."""
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "offset": each.commit_offset,
            "cached": each.cached_count,
            "pulled_ms": each.pulled_ms or None,
            "consumed_ms": each.consumed_ms or None,
        }
        for queue, each in sorted(state.queues.items())
    ]
    return {
        **_nothing_said(client_id),
        "settings": dict(sorted(state.properties.items())),
        "rates": dict(sorted(state.rates.items())),
        "queues": queues,
        "threads": state.stacks,
    }


def _print_group(
    state: "GroupState", line: GroupLine, running: Sequence[dict[str, Any]]
) -> None:
    screen().print("\ngroup", style="bold")
    print_totals(line._fields, [line])
    for reason in line.lag_unknown:
        note(reason)
    settings = [
        [broker, *_settings(each).values()] for broker, each in sorted(state.configs.items())
    ]
    _table("settings", ["broker", *_settings(GroupConfig("x"))], settings)
    _table(
        "subscriptions",
        ["topic", "wants"],
        [[topic, each.expression] for topic, each in sorted(state.subscriptions.items())],
    )
    _table("members", MemberLine._fields, member_lines(state))
    _table("queues", ProgressLine._fields, progress_lines(state))
    for said in running:
        _print_running(said)


def _print_running(said: dict[str, Any]) -> None:
    title = f"running: {said['client']}"
    if said["error"]:
        screen().print(f"\n{printable(title)}: {printable(said['error'])}", markup=False)
        return
    rates = [{"topic": topic, **asdict(each)} for topic, each in said["rates"].items()]
    _table(title, list(rates[0]) if rates else [], [list(each.values()) for each in rates])
    _table(
        "has", list(said["queues"][0]) if said["queues"] else [], [list(each.values()) for each in said["queues"]]
    )  # fmt: skip
    _table("settings", ["name", "value"], list(said["settings"].items()))
    if said["threads"]:
        for text in said["threads"].splitlines():
            screen().print(printable(text), markup=False)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        screen().print(f"\n{printable(title)}", style="bold", markup=False)
        print_table(columns, rows)
