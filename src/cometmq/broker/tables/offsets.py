"""The offsets that consumer groups committed, by queue: in memory, saved to a file, by default every 5 s.

An offset of a client group is that of the next message to consume. A crash usually loses only the commits of the last
seconds, so consumers get some messages again, as in RocketMQ (at least once). The file is consumerOffset.json, as in
ConsumerOffsetManager of RocketMQ 5.3.3; with light queues (enableLmq) lmqConsumerOffset.json (LmqConsumerOffsetManager).
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor

from cometmq.broker.tables.saving import Logged, Saver, not_logged
from cometmq.codec.bodies.consumer_offset import (
    TOPIC_GROUP_SEPARATOR,
    OffsetTable,
    decode_offset_table,
    encode_light_offsets_file,
    encode_offsets_file,
)
from cometmq.model.clock import Clock
from cometmq.model.data_version import DataVersion
from cometmq.model.names import is_group_of_brokers
from cometmq.model.text import listed, plural
from cometmq.steps.steps import Steps, turn_end
from cometmq.store.config_file import ConfigFile

_log = logging.getLogger(__name__)

# Estimated size limit of the offsets in bytes: some 400,000 of them.
OFFSETS_SIZE_MAX = 48 << 20
_GROUP_IN_TOPIC_SIZE = 500
_OFFSET_SIZE = 120
# How far a committed offset may be beyond a queue's end: as far as a broker may lose with its last second, or a tool
# may be ahead of the messages that it copies.
BEYOND_MAX = 1_024
# Groups in topics that are examined per iteration of the loop, some 2 ms.
_GROUPS_AT_ONCE = 1_000


class Offsets:
    """The table of consumer offsets.

    Attributes:
        resets: By "topic@group" and queue, the offsets of resets that no consumer has been told yet.
        refused: Number of offsets that were not stored because all of them take too much memory.
        on_change: Called with each "topic@group" whose offsets were reset, replaced or deleted, or of whose reset a consumer
            was told; not for commits.
        logged: Waits for the log of the group that this broker leads, if it leads one.
    """

    def __init__(
        self,
        file: ConfigFile,
        *,
        clock: Clock,
        pool: Executor,
        other_file: ConfigFile | None = None,
        is_light: bool = False,
    ) -> None:
        """Use `file`, which is lmqConsumerOffset.json if `is_light`.

        `other_file` is read if neither `file` nor its .bak exists, because enableLmq may have been set differently before.
        """
        self._file = file
        self._other_file = other_file
        self._encode = encode_light_offsets_file if is_light else encode_offsets_file
        self._clock = clock
        self._version = DataVersion(clock.now_ms())
        self._offsets: dict[str, dict[int, int]] = {}
        # When a group committed its first offset in a topic, epoch ms, if that was since the start.
        self._began_ms: dict[str, int] = {}
        self.resets: dict[str, dict[int, int]] = {}
        self._size = 0
        self.refused = 0
        # On a slave, the offsets committed here beyond those last copied from the master; None on a master.
        self._grown: dict[str, dict[int, int]] | None = None
        # On the leader of a group, each "topic@group" with changes that are not in its log yet; None on others.
        self._touched: set[str] | None = None
        self._is_noted = False  # Whether one of these two is kept.
        self.on_change: list[Callable[[str], None]] = []
        self.logged: Logged = not_logged
        self.saver = Saver(file, self._snapshot, pool)

    def load(self) -> None:
        """Read the file of consumer offsets, if any; CodecError: only damaged copies exist. OSError: the disk fails."""
        table = self._file.load(decode_offset_table)
        if table is None and self._other_file is not None:
            table = self._other_file.load(decode_offset_table)
        if table is not None:
            self._offsets = {key: dict(queues) for key, queues in table.offsets.items()}
            self._version = table.version
        self._size = sum(_size_of(key, queues) for key, queues in self._offsets.items())

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a group's offset of a queue, for client groups that of the next message; None without one."""
        queues = self._offsets.get(topic + TOPIC_GROUP_SEPARATOR + group)
        return None if queues is None else queues.get(queue_id)

    def has_any(self, group: str, topic: str) -> bool:
        """Return whether the group has an offset in some queue of the topic."""
        return topic + TOPIC_GROUP_SEPARATOR + group in self._offsets

    def commit(self, group: str, topic: str, queue_id: int, *, offset: int) -> None:
        """Set a group's offset of a queue; it may be smaller than before, as in RocketMQ."""
        key = topic + TOPIC_GROUP_SEPARATOR + group
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
            self._size += _size_of(key, queues)
            self._began_ms[key] = self._clock.now_ms()
        known = queues.get(queue_id)
        if known != offset:  # Each pull brings it, changed or not.
            queues[queue_id] = offset
            if self._is_noted:
                self._note(key, queue_id, known, offset)
            self.saver.changed()
            if known is None:
                self._size += _OFFSET_SIZE

    def _note(self, key: str, queue_id: int, known: int | None, offset: int) -> None:
        """Note a commit for the master, if this is a slave, or for the log, if this broker leads a group."""
        if self._touched is not None:
            self._touched.add(key)
        elif self._grown is not None and (known is None or offset > known):
            self._grown.setdefault(key, {})[queue_id] = offset

    def commit_brought(
        self, group: str, topic: str, queue_id: int, offset: int, queue_end: int
    ) -> None:
        """Commit the offset that a pull request contains, unless it must be ignored.

        It is ignored if it is negative or far beyond the queue's end, if it would be a new entry of a full table, or if
        the group is one of the broker itself.
        """
        if self.get(group, topic, queue_id) == offset:  # As for most pulls.
            return
        if is_group_of_brokers(group):
            return
        if 0 <= offset <= queue_end + BEYOND_MAX and self.has_room(group, topic, queue_id):
            self.commit(group, topic, queue_id, offset=offset)

    def has_room(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether an offset that a client commits may be stored; if not, count and log the refusal."""
        if self._size < OFFSETS_SIZE_MAX or self.get(group, topic, queue_id) is not None:
            return True
        self.refused += 1
        _log.warning(
            "the offset of group %s in topic %s is not stored: all offsets take %d of at most %d bytes; "
            "delete unused groups",
            group, topic, self._size, OFFSETS_SIZE_MAX,
        )  # fmt: skip
        return False

    # --- resets

    def reset(self, group: str, topic: str, queue_id: int, *, offset: int) -> None:
        """Set a group's offset of a queue, and note that the consumer that pulls or pops it next must be told."""
        self.commit(group, topic, queue_id, offset=offset)
        key = topic + TOPIC_GROUP_SEPARATOR + group
        self.resets.setdefault(key, {})[queue_id] = offset
        self._changed(key)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether a queue's offset was reset for a group and no consumer has learned of it yet."""
        return queue_id in self.resets.get(topic + TOPIC_GROUP_SEPARATOR + group, ())

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset of a queue's reset that no consumer was told yet, and mark it as told; None without one."""
        if not self.resets:
            return None
        key = topic + TOPIC_GROUP_SEPARATOR + group
        queues = self.resets.get(key)
        if queues is None:
            return None
        offset = queues.pop(queue_id, None)
        if not queues:
            del self.resets[key]
        if offset is not None:
            self._changed(key)
        return offset

    def put_resets(self, key: str, queues: Mapping[int, int]) -> None:
        """Replace the pending resets of a "topic@group" (no consumer knows them yet) by the leader's, offsets by queue; empty: remove them."""
        self.resets.pop(key, None)
        if queues:
            self.resets[key] = dict(queues)

    # --- a start as a master

    def keep_within(self, end_of: Callable[[str, int], int | None]) -> Steps[None]:
        """Set offsets of client groups beyond a queue's known end to that end, so that groups skip no new messages.

        The queue may have lost its last messages or never had them: offsets reach a slave faster than the log, and a
        power failure may cut only the log. The consumer that pulls the queue next is told the new offset, because it
        may hold a larger one in memory. `end_of` returns the end of a queue by topic and number; None if unknown.
        """
        lowered: Counter[tuple[str, str]] = Counter()
        for number, (key, queues) in enumerate(self.places()):
            if number % _GROUPS_AT_ONCE == _GROUPS_AT_ONCE - 1:
                yield from turn_end()
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            if is_group_of_brokers(group):
                continue  # The feature that owns the group interprets its offsets.
            for queue_id, offset in list(queues.items()):
                end = end_of(topic, queue_id)
                if end is not None and offset > end:
                    lowered[topic, group] += 1
                    self.reset(group, topic, queue_id, offset=end)
        if lowered:
            shown = (
                f"{group} in {topic} ({count} {plural(count, 'queue')})"
                for (topic, group), count in lowered.items()
            )
            _log.warning(
                "set to the end of the queue: %d %s beyond it, which would make groups skip new messages: %s. "
                "The log here lacks messages that were consumed",
                lowered.total(), plural(lowered.total(), "offset"), listed(shown),
            )  # fmt: skip

    # --- on a slave

    def follow(self) -> None:
        """Start to remember new and larger offsets that are committed here, because the master may lack them."""
        self._touched = None
        if self._grown is None:
            self._grown = {}
        self._is_noted = True

    def lead(self, touched: set[str] | None = None) -> None:
        """Stop tracking offsets that a master may lack, because this broker is the master; the offsets stay.

        If this broker leads a group, each "topic@group" with a commit is added to `touched`: now those whose offsets a
        master may lack, and from now on all.
        """
        if touched is not None:
            touched.update(self._grown or ())
        self._grown = None
        self._touched = touched
        self._is_noted = touched is not None

    def grown(self) -> dict[str, dict[int, int]]:
        """Return offsets committed on this slave that its master may lack, by "topic@group" and queue."""
        return {key: dict(queues) for key, queues in (self._grown or {}).items()}

    @property
    def has_grown(self) -> bool:
        """Whether groups committed offsets on this slave beyond those copied from the master; False on a master."""
        return bool(self._grown)

    def take(self, theirs_by_key: Iterable[tuple[str, Mapping[int, int]]]) -> int:
        """Apply a master's offsets, even smaller ones (after a reset); return for how many "topic@group" was no room.

        Larger offsets that groups committed here stay until the master has reached them.
        """
        refused, grown = 0, self._grown or {}
        for key, theirs in theirs_by_key:
            queues = self._offsets.get(key)
            if queues is None:
                if self._size >= OFFSETS_SIZE_MAX:
                    refused += 1
                    continue
                queues = self._offsets[key] = {}
                self._size += _size_of(key, queues)
            here = grown.get(key, {})
            for queue_id, offset in theirs.items():
                if here.get(queue_id, -1) > offset:
                    continue
                here.pop(queue_id, None)
                self._size += 0 if queue_id in queues else _OFFSET_SIZE
                if queues.get(queue_id) != offset:
                    queues[queue_id] = offset
                    self.saver.changed()
            if not here:
                grown.pop(key, None)
        return refused

    def drop_lost(
        self, keys: Iterable[str], theirs_by_key: Mapping[str, Mapping[int, int]]
    ) -> None:
        """Delete the offsets of these "topic@group" that `theirs_by_key` lacks, such as those that the master lacks.

        Offsets committed here and not yet known to the master stay. A group that loses one loses its resets in the topic.
        """
        grown = self._grown or {}
        for key in keys:
            queues, theirs = self._offsets.get(key, {}), theirs_by_key.get(key, {})
            lost = queues.keys() - theirs.keys() - grown.get(key, {}).keys()
            for queue_id in lost:
                del queues[queue_id]
                self._size -= _OFFSET_SIZE
            if not queues and key in self._offsets:
                self._size -= _size_of(key, self._offsets.pop(key))
                self._began_ms.pop(key, None)
            if lost:
                self.resets.pop(key, None)
                self._changed(key)
                self.saver.changed()

    def _changed(self, key: str) -> None:
        for listener in self.on_change:
            listener(key)

    def put(self, key: str, theirs: Mapping[int, int]) -> None:
        """Set the offsets of a "topic@group" to those of the leader of the group of brokers; empty: it has none.

        Larger ones that were committed here stay until the leader has them.
        """
        if theirs:
            self.take([(key, theirs)])
        self.drop_lost([key], {key: theirs})

    # --- all of a group or topic

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets."""
        return [topic for topic, owner in self.topics_and_groups() if owner == group]

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic."""
        return [group for name, group in self.topics_and_groups() if name == topic]

    def topics_and_groups(self) -> Iterator[tuple[str, str]]:
        """Yield each topic with each group that has offsets in it."""
        for key in self._offsets:
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            yield topic, group

    def places(self) -> list[tuple[str, dict[int, int]]]:
        """Return a list of each "topic@group" with its live dict of offsets by queue; callers must not change it."""
        return list(self._offsets.items())

    def live(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the live mapping of a group's offsets in a topic by queue; an empty one if it has none."""
        return self._offsets.get(topic + TOPIC_GROUP_SEPARATOR + group, {})

    def of(self, group: str, topic: str) -> dict[int, int]:
        """Return a copy of all offsets of a group in a topic, by queue; empty if it has none."""
        return dict(self._offsets.get(topic + TOPIC_GROUP_SEPARATOR + group, {}))

    def began_ms(self, group: str, topic: str) -> int | None:
        """Return when a commit gave a group its first offset in a topic, epoch ms; None if none did since this start."""
        return self._began_ms.get(topic + TOPIC_GROUP_SEPARATOR + group)

    def copy(self, group: str, other_group: str, topic: str) -> None:
        """Replace the offsets of `other_group` in a topic by those of `group`, if `group` has any there."""
        offsets = self.of(group, topic)
        if offsets:
            key = topic + TOPIC_GROUP_SEPARATOR + other_group
            if key in self._offsets:
                self._size -= _size_of(key, self._offsets[key])
            self._offsets[key] = offsets
            self._size += _size_of(key, offsets)
            self._changed(key)
            self.saver.changed()

    def consumed_counts(self) -> dict[str, int]:
        """Return the sum of the offsets of each "topic@group". For any thread."""
        # The loop changes both tables meanwhile. copy() and sum() are atomic; list(items()) is not: it allocates a tuple per
        # entry, which may start the garbage collector, which may let the loop run.
        return {key: sum(queues.values()) for key, queues in self._offsets.copy().items()}

    def consumed_count(self, key: str) -> int | None:
        """Return the sum of the offsets of one "topic@group", or None if it has none."""
        queues = self._offsets.get(key)
        return None if queues is None else sum(queues.values())

    def forget_queue(self, group: str, topic: str, queue_id: int) -> None:
        """Forget the offset of a group in one queue, unless it was committed on this slave and the master lacks it."""
        others = self.of(group, topic)
        others.pop(queue_id, None)
        key = topic + TOPIC_GROUP_SEPARATOR + group
        self.drop_lost([key], {key: others})

    def forget_topic(self, topic: str) -> None:
        """Forget all offsets in a deleted topic."""
        self._drop(lambda key: key.partition(TOPIC_GROUP_SEPARATOR)[0] == topic)

    def forget_group(self, group: str) -> None:
        """Forget all offsets of a deleted group."""
        self._drop(lambda key: key.partition(TOPIC_GROUP_SEPARATOR)[2] == group)

    def _drop(self, is_gone: Callable[[str], bool]) -> None:
        for key in [key for key in self._offsets if is_gone(key)]:
            self._size -= _size_of(key, self._offsets.pop(key))
            self._began_ms.pop(key, None)
            self.resets.pop(key, None)
            if self._grown is not None:
                self._grown.pop(key, None)
            self._changed(key)
            self.saver.changed()

    def table(self) -> OffsetTable:
        """Return a snapshot of all consumer offsets."""
        offsets = {key: dict(queues) for key, queues in self._offsets.items()}
        return OffsetTable(self._version, offsets)

    def _snapshot(self) -> Callable[[], str]:
        self._version = self._version.next(self._clock.now_ms())
        table = self.table()
        return lambda: self._encode(table)


def _size_of(key: str, queues: Mapping[int, int]) -> int:
    return _GROUP_IN_TOPIC_SIZE + 2 * len(key) + len(queues) * _OFFSET_SIZE


def topics_by_group(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the topics of each group, in one pass over "topic@group" keys."""
    topics: dict[str, list[str]] = {}
    for key in keys:
        topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
        topics.setdefault(group, []).append(topic)
    return topics
