"""The offset of each consumer group in each queue: in memory, saved every 5 s to a file.

An offset is the next one to consume. A crash loses at most the commits of the last seconds, so that a
consumer sees a few messages again; that is RocketMQ's promise too (at least once). The file is
consumerOffset.json, as ConsumerOffsetManager of RocketMQ 5.3.3 keeps it; with light queues
(enableLmq) lmqConsumerOffset.json has all of it instead, as LmqConsumerOffsetManager has it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from itertools import islice

from cometmq.broker.tables.saving import Saver
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
from cometmq.model.text import plural
from cometmq.store.config_file import ConfigFile

_log = logging.getLogger(__name__)

# What the offsets of consumers may take, bytes as they are estimated: some 400,000 of them.
OFFSETS_SIZE_MAX = 48 << 20
_GROUP_IN_TOPIC_SIZE = 500
_OFFSET_SIZE = 120
# How far beyond a queue's end a group may stand: as far as a broker may lose with its last second, or a tool may
# be ahead of the messages that it copies.
BEYOND_MAX = 1_024
_SHOWN_MAX = 20  # Groups in topics in one line of the log.


class Offsets:
    """The table of consumer offsets.

    Attributes:
        resets: by "topic@group" and queue, of which nobody was told yet: offsets to go on from.
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
        """The table is empty until `load`.

        Args:
            file: what is kept.
            clock: for its version.
            pool: where it is written.
            other_file: what is taken where `file` is not there: enableLmq was set otherwise.
            is_light: `file` is lmqConsumerOffset.json.
        """
        self._file = file
        self._other_file = other_file
        self._encode = encode_light_offsets_file if is_light else encode_offsets_file
        self._clock = clock
        self._version = DataVersion(clock.now_ms())
        self._offsets: dict[str, dict[int, int]] = {}
        # When a group committed its first offset in a topic, ms since 1970, if that was since the start.
        self._began_ms: dict[str, int] = {}
        self.resets: dict[str, dict[int, int]] = {}
        self._size = 0
        # Of a slave: what groups committed here, beyond what its master said last; None: not a slave's.
        self._grown: dict[str, dict[int, int]] | None = None
        self.saver = Saver(file, self._snapshot, pool)

    def load(self) -> None:
        """Read the file.

        Raises:
            CodecError: the file means nothing; the message names it.
        """
        table = self._file.load(decode_offset_table)
        if table is None and self._other_file is not None:
            table = self._other_file.load(decode_offset_table)
        if table is not None:
            self._offsets = {key: dict(queues) for key, queues in table.offsets.items()}
            self._version = table.version
        self._size = sum(_size_of(key, queues) for key, queues in self._offsets.items())

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset to consume, or None when the group has none there."""
        queues = self._offsets.get(topic + TOPIC_GROUP_SEPARATOR + group)
        return None if queues is None else queues.get(queue_id)

    def has_any(self, group: str, topic: str) -> bool:
        """Return whether the group has an offset in some queue of the topic."""
        return topic + TOPIC_GROUP_SEPARATOR + group in self._offsets

    def commit(self, group: str, topic: str, queue_id: int, *, offset: int) -> None:
        """The group will go on at `offset`; a smaller one than before is taken, as in RocketMQ."""
        key = topic + TOPIC_GROUP_SEPARATOR + group
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
            self._size += _size_of(key, queues)
            self._began_ms[key] = self._clock.now_ms()
        known = queues.get(queue_id)
        if known != offset:  # Each pull tells it, changed or not.
            queues[queue_id] = offset
            if self._grown is not None and (known is None or offset > known):
                self._grown.setdefault(key, {})[queue_id] = offset
            self.saver.changed()
            if known is None:
                self._size += _OFFSET_SIZE

    def commit_brought(
        self, group: str, topic: str, queue_id: int, offset: int, queue_end: int
    ) -> None:
        """Keep the offset that a pull brings.

        Ignored are offsets far beyond the queue's end, without room, and of groups of the broker itself.
        """
        if self.get(group, topic, queue_id) == offset:  # Of most pulls.
            return
        if is_group_of_brokers(group):
            return
        if 0 <= offset <= queue_end + BEYOND_MAX and self.has_room(group, topic, queue_id):
            self.commit(group, topic, queue_id, offset=offset)

    def has_room(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether an offset that a client names may be kept: a new one only where there are not too many."""
        if self._size < OFFSETS_SIZE_MAX or self.get(group, topic, queue_id) is not None:
            return True
        _log.warning(
            "no offset of group %s in topic %s is kept: all offsets take %d bytes, and %d are the most; "
            "delete groups that nobody uses",
            group, topic, self._size, OFFSETS_SIZE_MAX,
        )  # fmt: skip
        return False

    # --- resets

    def reset(self, group: str, topic: str, queue_id: int, *, offset: int) -> None:
        """The group must go on at `offset`; whoever pulls that queue next is told so."""
        self.commit(group, topic, queue_id, offset=offset)
        key = topic + TOPIC_GROUP_SEPARATOR + group
        self.resets.setdefault(key, {})[queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a reset waits that nobody was told of yet."""
        return queue_id in self.resets.get(topic + TOPIC_GROUP_SEPARATOR + group, ())

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset of a reset that nobody was told of yet; with this call somebody is."""
        if not self.resets:
            return None
        key = topic + TOPIC_GROUP_SEPARATOR + group
        queues = self.resets.get(key)
        if queues is None:
            return None
        offset = queues.pop(queue_id, None)
        if not queues:
            del self.resets[key]
        return offset

    # --- a start as a master

    def keep_within(self, end_of: Callable[[str, int], int | None]) -> None:
        """Set each offset beyond the end of its queue to that end.

        The queue has lost its last messages, or never had them: offsets come to a slave faster than the log,
        and a power cut may take the log's end alone. A group would skip every message up to its offset. Each
        member learns of its new offset with its next pull, since it may hold a larger one in memory.

        Args:
            end_of: Returns the end of a queue by topic and number; None if that is not known.
        """
        lowered: dict[str, int] = {}
        for key, queues in self._offsets.items():
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            if is_group_of_brokers(group):
                continue  # Its feature knows what its offsets mean.
            for queue_id, offset in queues.items():
                end = end_of(topic, queue_id)
                if end is not None and offset > end:
                    lowered[key] = lowered.get(key, 0) + 1
                    self.reset(group, topic, queue_id, offset=end)
        if lowered:
            shown = ", ".join(
                f"{group} in {topic} ({count} {plural(count, 'queue')})"
                for (topic, _, group), count in (
                    (key.partition(TOPIC_GROUP_SEPARATOR), count)
                    for key, count in islice(lowered.items(), _SHOWN_MAX)
                )
            )
            _log.warning(
                "set to the end of the queue: %d %s beyond it, else groups would skip new messages: %s%s. "
                "Messages that were consumed are not in the log here",
                sum(lowered.values()), plural(sum(lowered.values()), "offset"), shown, ", ..." if len(lowered) > _SHOWN_MAX else "",
            )  # fmt: skip

    # --- of a slave

    def follow(self) -> None:
        """From now on what is committed here is remembered, until the master has it."""
        self._grown = {}

    def grown(self) -> dict[str, dict[int, int]]:
        """The offsets committed here beyond what the master said last, by "topic@group" and queue."""
        return {key: dict(queues) for key, queues in (self._grown or {}).items()}

    @property
    def has_grown(self) -> bool:
        """Whether anything was."""
        return bool(self._grown)

    def take(self, theirs_by_key: Iterable[tuple[str, Mapping[int, int]]]) -> int:
        """Take a master's offsets, a smaller one than before too, since a reset goes back.

        What groups committed here since the master was lost stays until the master is as far.

        Returns:
            How many groups in topics found no room.
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
        """Forget, of some "topic@group", what their master does not have: a topic may be deleted and be there again.

        What groups committed here, and the master was not told yet, stays.
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
                self.saver.changed()

    # --- all of a group or topic

    def topics_of(self, group: str) -> list[str]:
        """The topics in which a group has offsets."""
        return self._halves(group, is_of_group=True)

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have offsets in a topic."""
        return self._halves(topic, is_of_group=False)

    def _halves(self, name: str, *, is_of_group: bool) -> list[str]:
        pairs = (key.partition(TOPIC_GROUP_SEPARATOR) for key in self._offsets)
        if is_of_group:
            return [topic for topic, _, group in pairs if group == name]
        return [group for topic, _, group in pairs if topic == name]

    def topics_and_groups(self) -> Iterator[tuple[str, str]]:
        """Yield each topic with each group that has offsets in it."""
        for key in self._offsets:
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            yield topic, group

    def places(self) -> list[tuple[str, dict[int, int]]]:
        """Each "topic@group" with the offsets of its queues, which may change; not to be changed."""
        return list(self._offsets.items())

    def of(self, group: str, topic: str) -> dict[int, int]:
        """All offsets of a group in a topic, by queue."""
        return dict(self._offsets.get(topic + TOPIC_GROUP_SEPARATOR + group, {}))

    def began_ms(self, group: str, topic: str) -> int | None:
        """Return when a group committed its first offset in a topic, ms; None if that was before this start."""
        return self._began_ms.get(topic + TOPIC_GROUP_SEPARATOR + group)

    def copy(self, group: str, other_group: str, topic: str) -> None:
        """Set another group's offsets in a topic to those of this group, if it has any."""
        offsets = self.of(group, topic)
        if offsets:
            key = topic + TOPIC_GROUP_SEPARATOR + other_group
            if key in self._offsets:
                self._size -= _size_of(key, self._offsets[key])
            self._offsets[key] = offsets
            self._size += _size_of(key, offsets)
            self.saver.changed()

    def consumed_counts(self) -> dict[str, int]:
        """The sum of the offsets of each "topic@group"; its growth is what was consumed. Any thread."""
        # The loop changes both tables meanwhile. copy() and sum() each take theirs in one go; list(items())
        # does not: it makes a tuple for each, and the collector that this may begin may let the loop go on.
        return {key: sum(queues.values()) for key, queues in self._offsets.copy().items()}

    def consumed_count(self, key: str) -> int | None:
        """The sum of the offsets of one "topic@group"; None where it has none."""
        queues = self._offsets.get(key)
        return None if queues is None else sum(queues.values())

    def forget_queue(self, group: str, topic: str, queue_id: int) -> None:
        """Forget the offset of a group in one queue."""
        others = self.of(group, topic)
        others.pop(queue_id, None)
        key = topic + TOPIC_GROUP_SEPARATOR + group
        self.drop_lost([key], {key: others})

    def forget_topic(self, topic: str) -> None:
        """The topic is gone."""
        self._drop(lambda key: key.partition(TOPIC_GROUP_SEPARATOR)[0] == topic)

    def forget_group(self, group: str) -> None:
        """The group is gone."""
        self._drop(lambda key: key.partition(TOPIC_GROUP_SEPARATOR)[2] == group)

    def _drop(self, is_gone: Callable[[str], bool]) -> None:
        for key in [key for key in self._offsets if is_gone(key)]:
            self._size -= _size_of(key, self._offsets.pop(key))
            self._began_ms.pop(key, None)
            self.resets.pop(key, None)
            if self._grown is not None:
                self._grown.pop(key, None)
            self.saver.changed()

    def table(self) -> OffsetTable:
        """All offsets, as they are now."""
        offsets = {key: dict(queues) for key, queues in self._offsets.items()}
        return OffsetTable(self._version, offsets)

    def save_if_dirty(self) -> None:
        """Save what was committed since the last save; the caller's timer decides when."""
        self.saver.save_if_dirty()

    async def close(self) -> None:
        """Bring everything to disk."""
        await self.saver.close()

    def _snapshot(self) -> Callable[[], str]:
        self._version = self._version.next(self._clock.now_ms())
        table = self.table()
        return lambda: self._encode(table)


def _size_of(key: str, queues: Mapping[int, int]) -> int:
    """About how many bytes the offsets of a group in a topic take."""
    return _GROUP_IN_TOPIC_SIZE + 2 * len(key) + len(queues) * _OFFSET_SIZE


def topics_by_group(keys: Iterable[str]) -> dict[str, list[str]]:
    """The topics of each group in one pass over "topic@group"."""
    topics: dict[str, list[str]] = {}
    for key in keys:
        topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
        topics.setdefault(group, []).append(topic)
    return topics
