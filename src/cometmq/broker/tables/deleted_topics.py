"""Remembers the log's end at the deletion of a topic or group, so that a new one of that name inherits no message.

A record of a deleted topic may still be pending in the log: for a delay level, a timer, the end of its transaction, a
retry or the end of a pop check point. Such a record is before the end that the log had at the deletion, and is
discarded when it is due, even if a topic of that name was created again. An entry is kept at least as long as the log
holds a record before its end, unless there are too many. The file is deletedTopics.json, which RocketMQ does not have
and ignores.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from cometmq.broker.tables.saving import Saver
from cometmq.codec.bodies.deleted_topics import (
    DeletedTopic,
    decode_deleted_topics,
    encode_deleted_topics,
)
from cometmq.store.config_file import ConfigFile

# Largest number of deleted topics to remember, some 12 MB; beyond it, the oldest deletion is forgotten.
DELETED_MAX = 50_000


def deleted_group(group: str) -> str:
    """Return the name under which the deletion of a consumer group is stored; no topic can have it."""
    return f"@{group}"


def group_of_deletion(name: str) -> str | None:
    """Return the group whose deletion is stored under a name (`deleted_group`); None if that is a topic's."""
    return name[1:] if name.startswith("@") else None


class DeletedTopics:
    """The remembered deletions of topics and groups.

    Attributes:
        on_note: Called with the name of each deletion that is noted, see `deleted_group`.
    """

    def __init__(self, file: ConfigFile, *, pool: Executor) -> None:
        self.on_note: list[Callable[[str], None]] = []
        self._file = file
        self._topics: dict[str, DeletedTopic] = {}  # In order of deletion.
        self.saver = Saver(file, self._snapshot, pool)

    def __len__(self) -> int:
        return len(self._topics)

    def load(self) -> None:
        """Read deletedTopics.json; if it and its .bak are missing or cannot be decoded, no deletion is known."""
        found = self._file.load(decode_deleted_topics, is_needed=False)
        self._topics = dict(found or {})

    def note(self, name: str, end: int, now_ms: int) -> asyncio.Future[None]:
        """Note a deletion of a topic or group at `now_ms` (epoch ms); the future is done when it is on disk, or fails.

        `end` is the physical offset after the last record that may be of the deleted one. If too many deletions are
        remembered, the oldest is forgotten.
        """
        known = self._topics.pop(name, None)
        self._add(name, DeletedTopic(max(end, known.end if known else 0), now_ms))
        for noted in self.on_note:
            noted(name)
        return self.saver.save_soon()

    def get(self, name: str) -> DeletedTopic | None:
        """Return the remembered deletion of this name, or None."""
        return self._topics.get(name)

    def names(self) -> list[str]:
        """Return the names of all remembered deletions, in their order."""
        return list(self._topics)

    def put(self, name: str, deletion: DeletedTopic | None) -> None:
        """Remember exactly this deletion of a name, or None, as the leader of the group does; too many: as `note`."""
        known = self._topics.pop(name, None)
        if deletion is not None:
            self._add(name, deletion)
        if known != deletion:
            self.saver.save_soon()

    def _add(self, name: str, deletion: DeletedTopic) -> None:
        self._topics[name] = deletion
        while len(self._topics) > DELETED_MAX:
            del self._topics[next(iter(self._topics))]

    def covers(self, name: str, physical_offset: int) -> bool:
        """Return whether a record of a topic or group was stored before a remembered deletion of that name."""
        found = self._topics.get(name)
        return found is not None and physical_offset < found.end

    def was_deleted(self, name: str, *, since_ms: int = 0) -> bool:
        """Return whether a deletion of this topic or group is remembered, at `since_ms` (epoch ms) or later."""
        found = self._topics.get(name)
        return found is not None and found.deleted_ms >= since_ms

    def fit(self, begin: int, end: int) -> None:
        """Adapt to a log from `begin` to `end`: forget deletions up to `begin`, and limit the others to `end`.

        A log that was truncated, or lost its last records, gets new ones after its end.
        """
        fitting = {
            name: each._replace(end=min(each.end, end))
            for name, each in self._topics.items()
            if each.end > begin
        }
        if fitting != self._topics:
            self._topics = fitting
            self.saver.changed()

    def _snapshot(self) -> Callable[[], str]:
        topics = dict(self._topics)
        return lambda: encode_deleted_topics(topics)
