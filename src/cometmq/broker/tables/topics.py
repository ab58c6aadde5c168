"""The topics of a broker, as TopicConfigManager of RocketMQ 5.3.3 keeps them, in topics.json."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.deleted_topics import DeletedTopics, deleted_group
from cometmq.broker.tables.saving import Saver
from cometmq.broker.tables.topic_policies import warn_of_policies
from cometmq.codec.bodies.register import topic_size
from cometmq.codec.bodies.topic_config import (
    TopicsFileEncoder,
    TopicTable,
    decode_topics_file,
)
from cometmq.model import names
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.model.flags import (
    PERM_INHERIT,
    PERM_READ,
    PERM_READ_WRITE,
    is_inherited,
)
from cometmq.model.text import listed, plural
from cometmq.model.topic import TopicConfig
from cometmq.store.config_file import ConfigFile

# Largest number of queues of a topic: each costs memory; RocketMQ itself creates 1024 for BenchmarkTest.
QUEUES_MAX = 65_536
# Size limit of all topics in bytes, encoded for registration at nameservers, before compression: fits a frame even if
# nothing can be compressed.
TABLE_SIZE_MAX = 15 << 20

_BATCH = {"queue.type": "BatchCQ"}
_log = logging.getLogger(__name__)

_DELAY_QUEUES = 18  # One for each delay level (TopicValidator.SCHEDULE_TOPIC_QUEUE_NUM).
_BENCHMARK_QUEUES = 1024
_CLUSTER_QUEUES = 16  # TopicConfig's own default.


class Topics:
    """The table of topics.

    Attributes:
        clock: The clock for versions and deletions.
        version: The DataVersion of the table; each change here replaces it by a newer one.
        is_whole: Whether no topic should be missing: for example because topics.json itself was read, not its .bak.
        whole_version: The version read at the start, or a later one of a table that was taken for complete.
        was_copy: Whether topics.json was marked as a slave's when it was read; older versions marked it so.
        is_promoted: Whether this broker was promoted from a slave in this run, and has not become one again.
        on_change: Called with the name of each topic that was created, changed or deleted, except by `make_again`.
        on_delete: Called with the name of each deleted topic, before `on_change`: tables and features that store
            something by topic forget it (`forget_topic`).
        deleted: The remembered deletions of topics and groups.
        refused: Number of refused creations and changes: too many topics, or too large for a registration.
        is_logged: Whether changes go through the log of the group that this broker leads. A topic is then deleted when a
            majority has that in its log; only then its queues are.
    """

    def __init__(
        self, file: ConfigFile, settings: BrokerSettings, *, clock: Clock, pool: Executor
    ) -> None:
        self.clock = clock
        self.version = self.whole_version = DataVersion(clock.now_ms())
        self.is_whole = self.is_logged = False
        self.refused = 0
        self.was_copy = self.is_promoted = False
        self.on_change: list[Callable[[str], None]] = []
        self.on_delete: list[Callable[[str], None]] = []
        self.deleted = DeletedTopics(file.beside("deletedTopics.json"), pool=pool)
        self._file = file
        self._settings = settings
        self._topics: dict[str, TopicConfig] = {}
        self._size = 0
        self._derived_count = 0  # Retry and dead-letter topics.
        self._system: set[str] = set()
        self._encoder = TopicsFileEncoder()
        self.saver = Saver(file, self._snapshot, pool)
        self._unsaved: dict[str, asyncio.Future[None]] = {}

    def load(self) -> None:
        """Read topics.json (if missing or damaged, its .bak or nothing) and deletedTopics.json; add system topics."""
        self.deleted.load()
        found = self._file.load(decode_topics_file, is_needed=False)
        self.is_whole = self._file.is_whole
        if found is not None:
            table, self.was_copy = found
            self._topics = dict(table.topics)
            self.version = self.whole_version = table.version
            warn_of_policies(self._topics)
        self._system.update(config.name for config in self._system_topics())
        for config in self._topics.values():
            self._count(config, 1)
        self.add_system_topics()

    def promote(self, least: int = 0) -> None:
        """Mark the broker as a promoted slave and raise the epoch of the table's version, to `least` or more."""
        self.is_promoted = True
        epoch = max(self.version.state_version + 1, least)
        self.version = replace(self.version, state_version=epoch)
        _log.info("this broker was a slave and is now the master, with epoch %d", epoch)
        self._changed()

    def add_system_topics(self) -> None:
        """Create the system topics that the settings want and that are missing, and call `on_change` for each."""
        missing = [each for each in self._system_topics() if each.name not in self._topics]
        self._system.update(config.name for config in missing)
        self._set({config.name: config for config in missing})
        if missing:
            self._changed()
        for config in missing:
            for listener in self.on_change:
                listener(config.name)

    def make_again(self, counts: Mapping[str, int], batch_topics: Collection[str]) -> list[str]:
        """Recreate users' missing topics that have messages and return their names; add missing queues to other topics.

        `counts` are the numbers of queues that topics need for their messages; `batch_topics` are those with batch
        queues.
        """
        made = [
            TopicConfig(name, count, count, attributes=_BATCH if name in batch_topics else {})
            for name, count in self.unknown(counts).items()
        ]
        widened = [
            replace(config, read_queues=counts[name], write_queues=counts[name])
            for name, config in self._topics.items()
            if counts.get(name, 0) > config.queue_count
            and not name.startswith(names.LMQ_PREFIX)
        ]
        self._set({config.name: config for config in (*made, *widened)})
        if made or widened:
            self._changed()
        if made:
            _log.warning(
                "not in topics.json: %d %s with queues, recreated with read and write permission and as many "
                "queues as have messages: %s. Their former attributes are not known here",
                len(made), plural(len(made), "topic"), _shown({config.name: config.read_queues for config in made}),
            )  # fmt: skip
        if widened:
            _log.warning(
                "given more queues, because topics.json has fewer than have messages: %d %s: %s",
                len(widened), plural(len(widened), "topic"), _shown({config.name: config.read_queues for config in widened}),
            )  # fmt: skip
        return [config.name for config in made]

    def say_unknown(self, counts: Mapping[str, int]) -> None:
        """Log one warning that names up to 20 users' topics in `counts` (queues by topic) that the table lacks."""
        unknown = self.unknown(counts)
        if unknown:
            _log.warning(
                "not in topics.json, so no client can read them: %d %s with queues: %s. They were deleted, or topics.json is "
                "older than the log; `cometmq topic create NAME --queues N` makes a topic readable again",
                len(unknown), plural(len(unknown), "topic"), _shown(unknown),
            )  # fmt: skip

    def unknown(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return those of `counts` whose names are users' topics, no light queues, and not in the table."""
        return {
            name: count
            for name, count in counts.items()
            if name not in self._topics and not self.is_system(name)
            and not name.startswith(names.LMQ_PREFIX)
        }  # fmt: skip

    def _system_topics(self) -> list[TopicConfig]:
        settings = self._settings
        cluster, broker = settings.cluster_name, settings.broker_name
        make = TopicConfig
        inherit = PERM_READ_WRITE | PERM_INHERIT
        made = [
            make(names.SELF_TEST_TOPIC, 1, 1),
            make(names.BENCHMARK_TOPIC, _BENCHMARK_QUEUES, _BENCHMARK_QUEUES),
            make(
                cluster, _CLUSTER_QUEUES, _CLUSTER_QUEUES,
                inherit if settings.is_cluster_topic else PERM_INHERIT,
            ),
            make(broker, 1, 1, inherit if settings.is_broker_topic else PERM_INHERIT),
            make(names.OFFSET_MOVED_TOPIC, 1, 1),
            make(names.SCHEDULE_TOPIC, _DELAY_QUEUES, _DELAY_QUEUES),
            make(f"{cluster}_{names.REPLY_TOPIC_SUFFIX}", 1, 1),
            make(
                f"{names.REVIVE_LOG_PREFIX}{cluster}",
                settings.revive_queues,
                settings.revive_queues,
            ),
            make(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, 1, PERM_INHERIT),
            make(names.HALF_TOPIC, 1, 1),
            make(names.OP_HALF_TOPIC, 1, 1),
            make(names.WHEEL_TIMER_TOPIC, 1, 1),
        ]  # fmt: skip
        if settings.is_topic_auto_created:
            queues = settings.default_topic_queues
            made.append(make(names.DEFAULT_TOPIC, queues, queues, inherit))
        if settings.is_trace_topic:
            made.append(make(settings.trace_topic, 1, 1))
        return made

    # --- reading

    def get(self, name: str) -> TopicConfig | None:
        """Return the topic, or None; with enableLmq, there is one for each name of a light queue."""
        found = self._topics.get(name)
        if found is None and self._settings.is_light_read and name.startswith(names.LMQ_PREFIX):
            # A light queue is in no table (LmqTopicConfigManager); this broker only reads it.
            return TopicConfig(name, 1, 1, PERM_READ)
        return found

    def existing(self, name: str) -> TopicConfig:
        """Return the topic as `get` does; raise RequestError (TOPIC_NOT_EXIST) if there is none."""
        found = self.get(name)
        if found is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
            )
        return found

    def table(self) -> TopicTable:
        """Return a snapshot of all topics."""
        return TopicTable(self.version, dict(self._topics))

    def is_system(self, name: str) -> bool:
        """Return whether a topic is one of this broker's system topics or has a reserved name."""
        return name in self._system or names.is_system_topic(name)

    def system_names(self) -> list[str]:
        """Return the names of this broker's system topics, sorted."""
        return sorted(self._system)

    def saving_of(self, name: str) -> asyncio.Future[None] | None:
        """Return a future that is done when the topic's last `put` or `delete` is on disk; None if it is already.

        A failed save is requested again: no producer gets an answer for a topic that a power failure would remove.
        """
        saving = self._unsaved.get(name)
        if saving is None or not saving.done():
            return saving
        # The save may have ended in this iteration of the loop, before `_saved` was called.
        if saving.exception() is None:
            return None
        return self._await_save(name, self.saver.save_soon())

    # --- changing

    def put(self, config: TopicConfig) -> asyncio.Future[None]:
        """Create or change a topic; the future is done when that is on disk, or fails.

        Raises:
            RequestError: There are too many topics for a new one that is no system topic, or they would not fit into a
                registration at nameservers; or the topic is being deleted from the log of a group.
        """
        known = self._topics.get(config.name)
        self._check_room(config, known)
        self._check_gone(config.name, known)
        self._set({config.name: config})
        return self._changed(config.name)

    def delete(self, name: str, *, end: int) -> asyncio.Future[tuple[None, None]]:
        """Delete a topic from the table and call `on_delete`; the future is done when that is on disk, or fails.

        The caller deletes its queues. `end` is the physical offset of the log's end: all earlier records of the topic
        are of the deleted one.
        """
        known = self._topics.pop(name, None)
        if known is not None:
            self._count(known, -1)
        noted = self._forget(name, end)
        return asyncio.gather(noted, self._changed(name))

    def _check_gone(self, name: str, known: TopicConfig | None) -> None:
        """Raise RequestError while the old queues of a topic are not deleted yet; a new topic must not inherit them.

        If the save of the deletion has failed, it is requested again.
        """
        if self.is_logged and known is None and self.saving_of(name) is not None:
            raise RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"topic {name} is being deleted, and cannot be created before; try again",
            )

    def _forget(self, name: str, end: int) -> asyncio.Future[None]:
        noted = self.deleted.note(name, end, self.clock.now_ms())
        self.forget(name)
        return noted

    def note_deleted_group(self, group: str, end: int) -> asyncio.Future[None]:
        """Note that the log's records of a group before `end` are of a deleted one; return a future of the save."""
        return self.deleted.note(deleted_group(group), end, self.clock.now_ms())

    def take(self, table: TopicTable, *, end: int | None) -> list[str]:
        """Apply a master's topics and version, and return the names of the topics that were deleted.

        `end` is the physical offset of the log's end when the table was read; topics that the table lacks are deleted,
        except for system topics. If it is None, the logs are not known to match, and nothing is deleted.
        """
        gone = [
            name
            for name in (self._topics.keys() - table.topics.keys() if end is not None else ())
            if not self.is_system(name)
        ]
        changed: dict[str, TopicConfig | None] = {
            name: config
            for name, config in table.topics.items()
            if self._topics.get(name) != config
        }
        self.is_whole = self.is_whole or end is not None
        if self.is_whole:
            self.whole_version = table.version
        if not (gone or changed) and self.version == table.version:
            return []
        changed.update(dict.fromkeys(gone))
        self._set(changed)
        for name in gone:
            self._forget(name, end or 0)
        self._renewed(changed, table.version)
        return gone

    def apply(self, changes: Mapping[str, TopicConfig | None]) -> None:
        """Set topics, or remove those that are None, as the leader of the group has them; system topics stay."""
        changed = {
            name: config
            for name, config in changes.items()
            if self._topics.get(name) != config
            and not (config is None and self.is_system(name))
        }
        if changed:
            self._set(changed)
            self._renewed(changed, self.version.next(self.clock.now_ms()))

    def forget(self, name: str) -> None:
        """Let everything that stores something by topic forget a deleted one (`on_delete`)."""
        for forget in self.on_delete:
            forget(name)

    def _set(self, changes: Mapping[str, TopicConfig | None]) -> None:
        for name, config in changes.items():
            known = self._topics.get(name)
            if known is not None:
                self._count(known, -1)
            if config is None:
                self._topics.pop(name, None)
            else:
                self._topics[name] = config
                self._count(config, 1)

    def _renewed(self, names: Iterable[str], version: DataVersion) -> None:
        self.version = version
        self.saver.save_soon()
        for name in names:
            for listener in self.on_change:
                listener(name)

    def _count(self, config: TopicConfig, sign: int) -> None:
        self._size += sign * topic_size(config)
        self._derived_count += sign * names.is_derived_topic(config.name)

    def _check_room(self, config: TopicConfig, known: TopicConfig | None) -> None:
        size = self._size + topic_size(config) - (0 if known is None else topic_size(known))
        if size > max(TABLE_SIZE_MAX, self._size):
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"topic {config.name} is refused: names and attributes of all topics would have "
                f"{size} bytes, but a registration at nameservers has room for {TABLE_SIZE_MAX}; delete some topics",
            )
        if known is not None or self.is_system(config.name):
            return
        is_derived = names.is_derived_topic(config.name)
        others = len(self._topics) - self._derived_count - len(self._system)
        count, most = self._derived_count if is_derived else others, self._settings.topics_max
        if count >= most:
            kind = "retry and dead-letter topics" if is_derived else "topics"
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"topic {config.name} cannot be created: this broker has {count} {kind}, and "
                f"topicsMax is {most}; delete some, or raise it",
            )

    def ensure(self, name: str, *, queues: int, perm: int, sys_flag: int = 0) -> TopicConfig:
        """Return a topic that the broker needs, for example for retries or transactions, with enough queues.

        The topic is created (with `perm` and `sys_flag`), or gets more queues, if it has less than `queues`, a number that
        is limited to 1 to QUEUES_MAX.

        Raises:
            RequestError: The name is too long for a directory, there are too many topics (not for a system topic), or
                they would not fit into a registration at nameservers.
        """
        queues = min(max(queues, 1), QUEUES_MAX)
        found = self._topics.get(name)
        if found is None:
            names.check_length(name)
            found = TopicConfig(name, queues, queues, perm, sys_flag=sys_flag)
            self.put(found)
        elif min(found.read_queues, found.write_queues) < queues:
            found = replace(
                found,
                read_queues=max(found.read_queues, queues),
                write_queues=max(found.write_queues, queues),
            )
            self.put(found)
        return found

    def make_from(self, default_topic: str, name: str, *, queues: int) -> TopicConfig | None:
        """Create a topic on its first send, with at most the queues of the default topic.

        Returns None if the default topic does not exist, has no write queue or must not be inherited from, or if
        `queues` is less than 1.

        Raises:
            RequestError: There are too many topics, or they would not fit into a registration at nameservers.
        """
        source = self._topics.get(default_topic)
        if source is None:
            return None
        perm = source.perm
        if default_topic == names.DEFAULT_TOPIC and not self._settings.is_topic_auto_created:
            perm &= ~PERM_INHERIT
        if not is_inherited(perm):
            return None
        count = min(max(queues, 0), source.write_queues)
        if count == 0:
            return None
        made = replace(
            source,
            name=name, read_queues=count, write_queues=count,
            perm=perm & ~PERM_INHERIT, ordered=False, attributes={},
        )  # fmt: skip
        self.put(made)
        return made

    def _changed(self, name: str | None = None) -> asyncio.Future[None]:
        self.version = self.version.next(self.clock.now_ms())
        saving = self.saver.save_soon()
        if name is not None:
            self._await_save(name, saving)
            for listener in self.on_change:
                listener(name)
        return saving

    def _await_save(self, name: str, saving: "asyncio.Future[None]") -> "asyncio.Future[None]":
        self._unsaved[name] = saving
        saving.add_done_callback(lambda done: self._saved(name, done))
        return saving

    def _saved(self, name: str, done: "asyncio.Future[None]") -> None:
        if self._unsaved.get(name) is done and done.exception() is None:
            del self._unsaved[name]

    def _snapshot(self) -> Callable[[], str]:
        table = self.table()
        return lambda: self._encoder.encode(table)


def _shown(counts: Mapping[str, int]) -> str:
    """Return a text of up to 20 names with their numbers of queues, for a log line."""
    return listed(
        f"{name} ({count} {plural(count, 'queue')})" for name, count in counts.items()
    )
