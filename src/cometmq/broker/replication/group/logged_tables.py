"""The tables of every broker that a group keeps in its log, in the order in which changes are applied. Features add others.

Topics come before their deletions, and both before everything about them, as on the leader, where a deletion lets everything
else forget the topic.
"""

import logging
from collections.abc import Mapping

from cometmq.broker.parts import LastingParts
from cometmq.broker.replication.master_tables import delete_before
from cometmq.broker.tables.deleted_topics import group_of_deletion
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.locks import QueueLocks
from cometmq.broker.tables.logged_table import (
    LoggedTable,
    numbers_json,
    numbers_of,
    place_key,
    place_of,
)
from cometmq.broker.tables.offsets import Offsets
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.codec.bodies.deleted_topics import DeletedTopic, deletion, deletion_json
from cometmq.codec.bodies.group_config import GroupEntry, group_entry, group_entry_json
from cometmq.codec.bodies.topic_config import topic, topic_json
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, turn_end
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

# Names of the tables that the writer handles in a way of their own.
TOPICS, DELETIONS, OFFSETS = "topics", "deletedTopics", "consumerOffsets"


def logged_tables(parts: LastingParts) -> tuple[LoggedTable, ...]:
    """Return the tables of a broker that its group keeps in the log, in the order in which changes are applied."""
    return (
        _topics(parts.topics),
        _deletions(parts),
        _groups(parts.groups),
        _offsets(parts.offsets),
        _resets(parts.offsets),
        _locks(parts.locks, parts.settings.broker_name),
    )


def _topics(topics: Topics) -> LoggedTable:
    def value(name: str) -> Mapping[str, object] | None:
        config = topics.get(name)
        return None if config is None else topic_json(config)

    def apply(changes: Mapping[str, TopicConfig | None]) -> Steps[None]:
        topics.apply(changes)
        yield from ()

    return LoggedTable(
        TOPICS,
        lambda: list(topics.table().topics),
        value,
        lambda part, name: topic(part.member(name), name),
        apply,
        topics.on_change,
        topics.saver,
    )


def _deletions(parts: LastingParts) -> LoggedTable:
    deleted = parts.topics.deleted

    def value(name: str) -> Mapping[str, object] | None:
        found = deleted.get(name)
        return None if found is None else deletion_json(found)

    def apply(changes: Mapping[str, DeletedTopic | None]) -> Steps[None]:
        for name, found in changes.items():
            if found is not None:
                known = deleted.get(name)
                is_new = known is None or known.end < found.end
                _delete(parts, name, found.end, is_new=is_new)
                yield from turn_end()
            deleted.put(name, found)

    return LoggedTable(
        DELETIONS,
        deleted.names,
        value,
        lambda part, name: deletion(part.member(name)),
        apply,
        deleted.on_note,
        deleted.saver,
    )


def _delete(parts: LastingParts, name: str, end: int, *, is_new: bool) -> None:
    """Delete the queues of a deleted topic, and let the other tables forget it, or a deleted group, if that is new here."""
    group = group_of_deletion(name)
    if group is None:
        delete_queues(parts.store, name, end)
        if is_new:
            parts.topics.forget(name)
    elif is_new:
        parts.groups.forget(group)


def delete_queues(store: MessageStore, topic: str, end: int) -> None:
    """Delete the queues of a topic without a message from physical offset `end` on; files that cannot be are logged.

    Raises StoreBusy if the log is being truncated.
    """
    if not store.queues_of(topic):
        return
    try:
        delete_before(store, topic, end)
    except OSError as error:
        _log.error(
            "some files of the deleted topic %s could not be deleted: %s",
            topic,
            error.strerror or error,
        )


def _groups(groups: Groups) -> LoggedTable:
    def value(name: str) -> Mapping[str, object] | None:
        entry = groups.entry(name)
        return None if entry is None else group_entry_json(entry)

    def apply(changes: Mapping[str, GroupEntry | None]) -> Steps[None]:
        groups.apply(changes)
        yield from ()

    return LoggedTable(
        "groups", groups.names, value, group_entry, apply, groups.on_change, groups.saver
    )


def _offsets(offsets: Offsets) -> LoggedTable:
    def value(key: str) -> Mapping[str, object] | None:
        topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
        return numbers_json(offsets.live(group, topic))

    def apply(changes: Mapping[str, Mapping[int, int] | None]) -> Steps[None]:
        for key, queues in changes.items():
            offsets.put(key, queues or {})
        yield from ()

    return LoggedTable(
        OFFSETS,
        lambda: [key for key, _ in offsets.places()],
        value,
        numbers_of,
        apply,
        offsets.on_change,
        offsets,
    )


def _resets(offsets: Offsets) -> LoggedTable:
    """Return the table of resets that no consumer knows yet; without it, a consumer would continue at its old offset."""

    def apply(changes: Mapping[str, Mapping[int, int] | None]) -> Steps[None]:
        for key, queues in changes.items():
            offsets.put_resets(key, queues or {})
        yield from ()

    return LoggedTable(
        "offsetResets",
        lambda: list(offsets.resets),
        lambda key: numbers_json(offsets.resets.get(key, {})),
        numbers_of,
        apply,
        offsets.on_change,
        offsets,
    )


def _locks(locks: QueueLocks, broker_name: str) -> LoggedTable:
    """Return the table of queue locks, without the times until which they are valid; all members have this broker name."""

    def place(key: str) -> tuple[str, MessageQueue]:
        group, topic, queue_id = place_of(key)
        return group, MessageQueue(topic, broker_name, queue_id)

    def value(key: str) -> Mapping[str, object] | None:
        client_id = locks.holder(*place(key))
        return None if client_id is None else {"clientId": client_id}

    def apply(changes: Mapping[str, str | None]) -> Steps[None]:
        locks.follow({place(key): client_id for key, client_id in changes.items()})
        yield from ()

    return LoggedTable(
        "queueLocks",
        lambda: (place_key(group, q.topic, q.queue_id) for group, q in locks.places()),
        value,
        lambda part, key: part.member(key).text("clientId"),
        apply,
        locks.on_change,
        locks.saver,
    )
