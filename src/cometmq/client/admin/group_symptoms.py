"""Diagnosis of consumer groups, their members and dead letters, and of topics: finds problems and gives advice."""

from collections.abc import Iterator, Mapping, Sequence

from cometmq.client.admin.facts import (
    BAD,
    NOTE,
    WARNING,
    ClusterFacts,
    StuckMember,
    Symptom,
    duration,
    number_of,
    some,
)
from cometmq.client.admin.states import GroupState
from cometmq.codec.bodies.conflicts import CLIENT_ID
from cometmq.codec.bodies.running import RunningState
from cometmq.model.flags import is_readable, is_writable
from cometmq.model.names import is_system_group
from cometmq.model.text import plural, time_text

# A group that consumed nothing for so long although messages wait is probably not needed any more.
ABANDONED_MS = 24 * 3600 * 1000


def group_symptoms(facts: ClusterFacts) -> Iterator[Symptom]:
    """Yield the problems of groups, of their members, of their dead letters and of topics."""
    yield from _of_groups(facts)
    yield from _of_members(facts)
    yield from _of_letters(facts)
    yield from _of_topics(facts)


def stuck_members(
    group: GroupState, running: Mapping[str, RunningState], before_ms: int
) -> list[StuckMember]:
    """Return the members that hold messages of a queue and have consumed none of it since `before_ms`.

    In this queue a message must have waited since then, too: a message that was just stored keeps no member.

    Args:
        group: The group, with the oldest waiting message of each queue.
        running: What its members report, by client id.
        before_ms: Time, ms since 1970.
    """
    found = []
    for client_id, state in sorted(running.items()):
        started = number_of(state.properties.get("PROP_CONSUMER_START_TIMESTAMP"))
        held, since = 0, []
        for queue, each in state.queues.items():
            progress = group.progress.get(queue)
            if not each.cached_count or progress is None or progress.oldest_ms <= 0:
                continue
            # A member that has consumed nothing yet has tried since its start.
            last_ms = max(each.consumed_ms or int(started or 0), progress.oldest_ms)
            if last_ms <= before_ms:
                held += each.cached_count
                since.append(last_ms)
        if since:
            found.append(StuckMember(client_id, held, min(since)))
    return found


def _of_groups(facts: ClusterFacts) -> Iterator[Symptom]:
    for group in facts.groups:
        if is_system_group(group.name):
            continue
        if group.stopped_at:
            yield _of_stopped(group)
        elif not group.lag.known or group.unread:
            continue
        elif not group.members:
            yield _of_abandoned(group, facts)
        elif stuck := facts.stuck.get(group.name):
            yield _of_stuck(group, stuck, facts)
        else:
            yield from _of_slow(group, facts)


def _waiting(group: GroupState) -> str:
    return f"{group.lag} {plural(group.lag.known, 'message waits', 'messages wait')} for it"


def _of_stopped(group: GroupState) -> Symptom:
    waiting = f", and {_waiting(group)}" if group.lag.known else ""
    return Symptom(
        "stopped", group.name, BAD if group.lag.known else NOTE,
        f"it may not consume at {some(group.stopped_at)}{waiting}",
        f"cometmq group set {group.name} --consume",
    )  # fmt: skip


def _of_abandoned(group: GroupState, facts: ClusterFacts) -> Symptom:
    since = group.oldest_ms
    is_old = since is not None and facts.now_ms - since > ABANDONED_MS
    return Symptom(
        "abandoned", group.name, WARNING if is_old and group.lag.known <= facts.lag_max else BAD,
        f"it has no members, and {_waiting(group)}",
        f"start its members; if the group is not needed any more, delete it: cometmq group delete {group.name}",
        since,
    )  # fmt: skip


def _of_stuck(group: GroupState, stuck: Sequence[StuckMember], facts: ClusterFacts) -> Symptom:
    since = min(each.since_ms for each in stuck)
    named = some([f"{each.client_id} ({each.held})" for each in stuck])
    return Symptom(
        "progress", group.name, BAD,
        f"{plural(len(stuck), 'a member holds', 'members hold')} messages and {plural(len(stuck), 'has', 'have')} "
        f"acknowledged none for {duration(facts.now_ms - since)}: {named}; {_waiting(group)}",
        f"cometmq group show {group.name} --threads shows where its listener hangs; then restart that member",
        since,
    )  # fmt: skip


def _of_slow(group: GroupState, facts: ClusterFacts) -> Iterator[Symptom]:
    show = f"cometmq group show {group.name} --running"
    since = group.oldest_ms
    is_late = since is not None and facts.now_ms - since >= facts.wait_ms
    oldest = f", the oldest for {duration(facts.now_ms - since)}" if since is not None else ""
    if is_late and not group.rate:
        is_bad = group.lag.known > facts.lag_max
        yield Symptom(
            "progress", group.name, BAD if is_bad else WARNING,
            f"{_waiting(group)}{oldest}, and its members consumed none in the last minute",
            f"check with {show} what its members do; restart those that hang", since,
        )  # fmt: skip
    elif is_late or group.lag.known > facts.lag_max:
        yield Symptom(
            "group", group.name, BAD if group.lag.known > facts.lag_max else WARNING,
            f"{_waiting(group)}{oldest}, and it consumes {group.rate:.1f} per second",
            f"check with {show} whether a listener is slow or one queue is far behind; add members, "
            "up to the number of queues", since,
        )  # fmt: skip


def _of_letters(facts: ClusterFacts) -> Iterator[Symptom]:
    for each in facts.letters:
        last = f", the last since {time_text(each.last_ms)}" if each.last_ms else ""
        yield Symptom(
            "letters", each.group, WARNING,
            f"{each.letters} dead {plural(each.letters, 'letter waits', 'letters wait')}{last}",
            f"cometmq dlq show {each.group} shows the newest; when the listener is fixed, cometmq dlq replay {each.group} "
            f"sends them again; cometmq dlq delete {each.group} deletes them",
            each.first_ms or None,
        )  # fmt: skip


def _of_topics(facts: ClusterFacts) -> Iterator[Symptom]:
    for topic, perms in sorted(facts.perms.items()):
        unread = sorted(name for name, perm in perms.items() if not is_readable(perm))
        unwritten = sorted(name for name, perm in perms.items() if not is_writable(perm))
        if unread:
            both = " and producers may not send to it" if unread == unwritten else ""
            yield Symptom(
                "topic", topic, WARNING, f"consumers may not read it{both} at {some(unread)}",
                f"cometmq topic set {topic} --read{' --write' if both else ''} permits it again",
            )  # fmt: skip
        if unwritten and unwritten != unread:
            yield Symptom(
                "topic", topic, NOTE, f"producers may not send to it at {some(unwritten)}",
                f"cometmq topic set {topic} --write permits it again",
            )  # fmt: skip


def _of_members(facts: ClusterFacts) -> Iterator[Symptom]:
    for conflict in facts.conflicts:
        sides = "; ".join(f"{', '.join(side.clients)}: {side.says}" for side in conflict.sides)
        is_id = conflict.kind == CLIENT_ID
        yield Symptom(
            "members", conflict.group, BAD,
            f"{'several members have the same client id' if is_id else 'members have different subscriptions'}: "
            f"{sides}",
            "give each process an instance name of its own" if is_id
            else "start all members with the same subscriptions: otherwise the group misses messages",
        )  # fmt: skip
    for group, queues in sorted(facts.unread.items()):
        yield Symptom(
            "queues", group, BAD, f"no member reads {some(list(map(str, queues)))}",
            f"cometmq group show {group} --running shows which member has which queue; restart the member that "
            "does not consume",
        )  # fmt: skip
