"""`cometmq group`: consumer groups with their lag, members and settings."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.cli.asking import (
    Choice,
    Clients,
    Lines,
    Shown,
    ask,
    changes,
    chooses,
    lists,
)
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    AtBroker,
    AtCluster,
    GroupName,
    Nameserver,
    System,
    Yes,
    confirm,
    keyword,
    place_text,
)
from cometmq.cli.output import language_name, note, print_errors, print_part, screen
from cometmq.model.errors import CometError
from cometmq.model.group import GroupConfig
from cometmq.model.names import dead_letter_topic, is_system_group, retry_topic
from cometmq.model.text import printable

if TYPE_CHECKING:
    from cometmq.admin import ClientConnection, ConsumeRates, GroupState, RunningState

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
        group: Name of the group.
        topic: Topic of the queue.
        broker: Broker of the queue.
        queue: Queue id.
        offset: Committed offset, that of the next message to consume; None without one, or if its broker is absent.
        end: Offset of the queue's next message; None if its broker is absent.
        lag: Number of messages not consumed yet; None if its broker is absent.
        consumed_ms: Store time of the last consumed message, ms since 1970; None if unknown.
        oldest_ms: Store time of the first message not consumed, ms since 1970; None without one, or if unknown.
        at_ms: Time of the query, ms since 1970.
    """

    group: str
    topic: str
    broker: str
    queue: int
    offset: int | None
    end: int | None
    lag: int | None
    consumed_ms: int | None
    oldest_ms: int | None
    at_ms: int


class GroupSettingsLine(NamedTuple):
    """The settings of a group at a broker.

    Attributes:
        broker: Name of the broker.
        consume: Whether the group may consume.
        broadcast: Whether members may broadcast.
        orderly: Whether messages are popped in order (5.x).
        retry_queues: Number of queues of its retry topic; 0: a failed message becomes a dead letter at once.
        retry_max: Attempts before a message becomes a dead letter.
        timeout_minutes: Time limit for consuming a message, minutes.
    """

    broker: str
    consume: bool
    broadcast: bool
    orderly: bool
    retry_queues: int
    retry_max: int
    timeout_minutes: int


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


class HeldQueueLine(NamedTuple):
    """A queue that a member of a group consumes, as the member reports it.

    Attributes:
        topic: Topic of the queue.
        broker: Broker of the queue.
        queue: Queue id.
        offset: Offset of the next message to consume.
        cached: Number of messages that are pulled and not consumed.
        pulled_ms: Time of its last pull, ms since 1970; None without one.
        consumed_ms: Time when a message of it was last consumed, ms since 1970; None without one.
    """

    topic: str
    broker: str
    queue: int
    offset: int
    cached: int
    pulled_ms: int | None
    consumed_ms: int | None


class ReportedMember(NamedTuple):
    """The running state that a member of a group reports.

    Attributes:
        client: Client id.
        settings: Its settings, under its own names.
        rates: Its speed, by topic.
        queues: Queues that it consumes.
        threads: Stacks of its threads; None unless queried.
        error: Why it does not report; None if it does.
    """

    client: str
    settings: Mapping[str, str]
    rates: "Mapping[str, ConsumeRates]"
    queues: list[HeldQueueLine]
    threads: str | None = None
    error: str | None = None


class ShownGroup(NamedTuple):
    """The output of `cometmq group show`.

    Attributes:
        group: The group, as in the list of groups.
        type: CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP; None without a member.
        settings: Its settings at each broker.
        subscriptions: Subscriptions of its members, by topic.
        members: Its connected members.
        queues: Its progress in each queue.
        running: With --running or --threads, the state that its members report.
    """

    group: GroupLine
    type: str | None
    settings: list[GroupSettingsLine]
    subscriptions: Mapping[str, str]
    members: list[MemberLine]
    queues: list[ProgressLine]
    running: list[ReportedMember]


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
    system: System = False,
) -> Lines:
    """Show consumer groups: topics, members, lag, rate; status 1 when some cannot be read."""
    states = await clients.admin.groups.list()
    missing = await clients.admin.brokers.missing()
    now_ms = clients.instance.clock.now_ms()
    return Lines(
        [
            group_line(each, now_ms)
            for each in states
            if system or not is_system_group(each.name)
        ],
        chain(missing, *(each.absent for each in states)),
        print_errors(chain(*(each.unread for each in states))),
    )


@groups.command()
@chooses(ProgressLine._fields)
async def show(
    clients: Clients,
    choice: Choice,
    group: GroupName,
    *,
    running: Annotated[
        bool, typer.Option("--running", help="Also show the running state of its members.")
    ] = False,
    threads: Annotated[
        bool, typer.Option("--threads", help="Also show the thread stacks of each member.")
    ] = False,
) -> Shown:
    """Show one group: its settings, members, and lag by queue; status 1 when a broker left or does not answer.

    --sort and --limit concern its queues.
    """
    state = await clients.admin.groups.show(group)
    now_ms = clients.instance.clock.now_ms()
    found = ShownGroup(
        group_line(state, now_ms),
        state.consume_type,
        [_settings(broker, each) for broker, each in sorted(state.configs.items())],
        {topic: each.expression for topic, each in sorted(state.subscriptions.items())},
        [*map(_member, state.members)],
        choice.of(progress_lines(state, now_ms)),
        [
            await _running(clients, group, member.client_id, stacks=threads)
            for member in (state.members if running or threads else ())
        ],
    )
    return Shown(found, lambda: _print(found), state.absent)


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


def progress_lines(
    state: "GroupState", now_ms: int, topic: str | None = None
) -> list[ProgressLine]:
    """Return the progress of a group in one topic or all, a line for each queue, known ones of absent brokers too."""
    lines = [
        ProgressLine(
            state.name,
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            each.consumer_offset if each.is_committed else None,
            each.broker_offset,
            each.lag,
            each.consumed_ms if each.consumed_ms > 0 else None,
            each.oldest_ms if each.oldest_ms > 0 else None,
            now_ms,
        )
        for queue, each in state.progress.items()
    ]
    lines += [
        ProgressLine(
            state.name, name, broker.name, number, None, None, None, None, None, now_ms
        )
        for broker in state.absent
        for name in state.topics
        for number in range((broker.queues or {}).get(name, 0))
    ]
    return sorted(line for line in lines if topic in (None, line.topic))


def _member(member: "ClientConnection") -> MemberLine:
    return MemberLine(
        member.client_id, member.address, language_name(member.language), member.version
    )


def _settings(broker: str, config: GroupConfig) -> GroupSettingsLine:
    return GroupSettingsLine(
        broker,
        config.consume_enabled,
        config.broadcast_enabled,
        config.orderly,
        config.retry_queues,
        config.retry_max_times,
        config.consume_timeout_minutes,
    )


async def _running(
    clients: Clients, group: str, client_id: str, *, stacks: bool
) -> ReportedMember:
    """Return the state that a member of a group reports; if the query fails, `error` says why."""
    try:
        state = await clients.admin.groups.running(group, client_id, stacks=stacks)
    except CometError as error:
        return ReportedMember(client_id, {}, {}, [], error=str(error))
    return running_member(client_id, state)


def running_member(client_id: str, state: "RunningState") -> ReportedMember:
    """Return the state that a member of a group has reported."""
    queues = [
        HeldQueueLine(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            each.commit_offset,
            each.cached_count,
            each.pulled_ms or None,
            each.consumed_ms or None,
        )
        for queue, each in sorted(state.queues.items())
    ]
    return ReportedMember(
        client_id,
        dict(sorted(state.properties.items())),
        dict(sorted(state.rates.items())),
        queues,
        state.stacks,
    )


def _print(found: ShownGroup) -> None:
    print_part("group", GroupLine._fields, [found.group])
    for reason in found.group.lag_unknown:
        note(reason)
    print_part("settings", GroupSettingsLine._fields, found.settings)
    print_part("subscriptions", ("topic", "wants"), [*found.subscriptions.items()])
    print_part("members", MemberLine._fields, found.members)
    # Group and time are the same in each line.
    print_part("queues", ProgressLine._fields[1:-1], [line[1:-1] for line in found.queues])
    for member in found.running:
        _print_running(member)


def _print_running(member: ReportedMember) -> None:
    title = f"running: {member.client}"
    if member.error:
        screen().print(f"\n{printable(title)}: {printable(member.error)}", markup=False)
        return
    rates = [{"topic": topic, **asdict(each)} for topic, each in member.rates.items()]
    print_part(title, list(rates[0]) if rates else [], [[*each.values()] for each in rates])
    print_part("has", HeldQueueLine._fields, member.queues)
    print_part("settings", ("name", "value"), [*member.settings.items()])
    for text in (member.threads or "").splitlines():
        screen().print(printable(text), markup=False)
