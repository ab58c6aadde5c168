"""The tables that every slave copies from its master: topics, consumer offsets, groups. Features add others.

Here are also the steps for these tables when a broker becomes a slave, or a slave is promoted.
"""

import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice

from cometmq.broker.replication.copy_mark import NEVER_COPIED, CopyMark, KnownTopics
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.master_table import MasterTable
from cometmq.broker.tables.offsets import OFFSETS_SIZE_MAX, Offsets
from cometmq.broker.tables.saving import Saver, saved
from cometmq.broker.tables.topics import QUEUES_MAX, Topics
from cometmq.codec.bodies.consumer_offset import (
    TOPIC_GROUP_SEPARATOR,
    OffsetTable,
    decode_offset_table,
)
from cometmq.codec.bodies.group_config import GroupTable, decode_group_table
from cometmq.codec.bodies.json_object import load_object
from cometmq.codec.bodies.topic_config import TopicTable, topic_table
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CodecError
from cometmq.model.names import SYSTEM_GROUP_PREFIX, group_fault, topic_fault
from cometmq.model.text import as_given, plural
from cometmq.steps.steps import Steps, elsewhere, turn_end
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

# Number of group-topic pairs whose offsets are applied per loop iteration, some 2 ms.
_OFFSETS_AT_ONCE = 2_000


class OwnTables:
    """Applies a master's topics, groups and consumer offsets to a slave's own tables."""

    def __init__(
        self,
        *,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        store: MessageStore,
        mark: CopyMark | None = None,
    ) -> None:
        """`mark` records up to which log offset the topics here are the master's.

        None: record nothing, and do not wait until copied tables are on disk.
        """
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store
        self._mark = mark
        # Deleted topics that still have queues, with the physical offset before which their messages are.
        self._going: dict[str, int] = {}

    def all(self) -> Sequence[MasterTable]:
        """Return the `MasterTable` of topics, clients' offsets, the broker's own offsets, and groups, in this order."""
        topics, groups, offsets = self._topics, self._groups, self._offsets
        return (
            MasterTable(
                RequestCode.GET_ALL_TOPIC_CONFIG,
                read_topics,
                self._take_topics,
                state=lambda: object() if self._going else topics.version,
                known=self._note_topics,
            ),
            MasterTable(
                RequestCode.GET_ALL_CONSUMER_OFFSET,
                decode_offset_table,
                partial(self._take_offsets, of_system=False),
                # An offset was committed here, and even an unchanged body may confirm it.
                state=lambda: object() if offsets.has_grown else None,
            ),
            # The offsets of the broker's own groups depend on the log, which has the ends of transactions and pops before
            # them: an offset ahead of the log would skip open ones.
            MasterTable(
                RequestCode.GET_ALL_CONSUMER_OFFSET,
                decode_offset_table,
                partial(self._take_offsets, of_system=True),
                needs_log=True,
            ),
            MasterTable(
                RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
                read_groups,
                self._take_groups,
                state=lambda: groups.version,
                known=self._wait_for_groups,
            ),
        )

    def _take_topics(self, table: TopicTable, end: int | None) -> Steps[None]:
        gone = self._topics.take(table, end=end)
        for name in gone:
            self._going[name] = end or 0
        for name, known_end in list(self._going.items()):
            is_back = self._topics.get(name) is not None
            if end is not None and not is_back:
                known_end = end  # noqa: PLW2901  Later messages of the deleted topic are deleted, too.
            try:
                # While the log is being truncated this raises StoreBusy, and the next round continues here.
                is_gone = delete_before(self._store, name, known_end)
            except OSError as error:
                _log.error(
                    "some files of the deleted topic %s could not be deleted: %s",
                    name,
                    error.strerror or error,
                )
                is_gone = True
            if is_gone or is_back:
                del self._going[name]
                _log.info("topic %s was deleted, because the master has deleted it", name)
            else:
                self._going[name] = known_end
            yield from turn_end()
        if gone:
            yield from self._saved(self._offsets.saver)

    def _note_topics(self, end: int | None) -> Steps[None]:
        """Record, once the topics are on disk, up to which log offset they are known to be the master's.

        If `end` is None, the offset stays. Does nothing without a mark, and while a deleted topic still has queues.
        """
        mark = self._mark
        if mark is None or self._going:
            return
        version = self._topics.version
        yield from self._saved(self._topics.saver)
        yield from self._saved(self._topics.deleted.saver)
        if end is None:
            end = mark.known.log_end if mark.known is not None else 0
        known = KnownTopics(end, version)
        yield from elsewhere(lambda: mark.save(known))

    def _wait_for_groups(self, _end: int | None) -> Steps[None]:
        yield from self._saved(self._groups.saver)

    def _saved(self, saver: Saver) -> Steps[None]:
        """Wait until a table's changes are on disk, requesting a save if needed; without a `CopyMark`, do nothing.

        Raises RequestError if the save fails.
        """
        if self._mark is not None:
            yield from saved(saver.saving())

    def _take_groups(self, table: GroupTable, end: int | None) -> Steps[None]:
        gone = self._groups.take(table, is_whole=end is not None)
        for name in gone:
            _log.info("group %s was deleted, because the master has deleted it", name)
            self._topics.note_deleted_group(name, end or 0)
            yield from turn_end()
        if gone:
            yield from self._saved(self._offsets.saver)

    def _take_offsets(
        self, table: OffsetTable, end: int | None, *, of_system: bool
    ) -> Steps[None]:
        theirs = {
            key: queues
            for key, queues in table.offsets.items()
            if _is_of_system(key) is of_system
        }
        waiting, refused = iter(theirs.items()), 0
        while some := list(islice(waiting, _OFFSETS_AT_ONCE)):
            refused += self._offsets.take(some)
            yield from turn_end()
        places = () if end is None else self._offsets.places()
        known = iter([key for key, _ in places if _is_of_system(key) is of_system])
        while names := list(islice(known, _OFFSETS_AT_ONCE)):
            self._offsets.drop_lost(names, theirs)
            yield from turn_end()
        if refused:
            _log.warning(
                "not copied from the master: offsets of %d %s in topics, because all offsets may take at most %d bytes; "
                "delete unused groups",
                refused, plural(refused, "group"), OFFSETS_SIZE_MAX,
            )  # fmt: skip


def delete_before(store: MessageStore, topic: str, end: int) -> bool:
    """Delete the queues of a topic without a message from physical offset `end` on; return whether no queue is left.

    Raises:
        StoreBusy: The log is being truncated.
        OSError: A file could not be deleted.
    """
    queues = store.replica_side.last_messages(topic)
    old = [queue for queue, last in queues if last < end]
    if len(old) == len(queues):
        store.delete_topic(topic)
    else:
        for queue in old:
            store.delete_queue(queue)
    return len(old) == len(queues)


def _is_of_system(key: str) -> bool:
    """Return whether the group of "topic@group" is one of the broker's own: its name starts with CID_RMQ_SYS_."""
    return key.partition(TOPIC_GROUP_SEPARATOR)[2].startswith(SYSTEM_GROUP_PREFIX)


def read_topics(body: bytes) -> TopicTable:
    """Decode a master's topics; names and numbers of queues must be valid here, too.

    Raises:
        CodecError: A topic is invalid or static (mapped queues of 5.x), or the body is not a topic table.
    """
    read = load_object(body, "topic table")
    mapped = list(read.member("topicQueueMappingDetailMap").names())
    if mapped:
        raise CodecError(
            f"the master has static topics ({', '.join(map(str, mapped[:3]))}), which this slave does not support; "
            "delete them, or use a Java broker as its slave"
        )
    table = topic_table(read)
    for name, config in table.topics.items():
        fault = topic_fault(name, is_any_length=True)
        if fault is None and config.name != name:
            fault = f"topic {name} has another name in its entry, {as_given(config.name, 40)}"
        counts = (config.read_queues, config.write_queues)
        if fault is None and not (min(counts) >= 0 and max(counts) <= QUEUES_MAX):
            fault = f"topic {name} has {counts[0]} read and {counts[1]} write queues, but only 0 to {QUEUES_MAX} are supported"
        if fault is not None:
            raise CodecError(fault)
    return table


def read_groups(body: bytes) -> GroupTable:
    """Decode a master's groups; raise CodecError if a name is invalid, or the body is not a group table."""
    table = decode_group_table(body)
    for name in table.groups:
        fault = group_fault(name)
        if fault is not None:
            raise CodecError(fault)
    return table


def begin_to_follow(mark: CopyMark, topics: Topics, end: int) -> KnownTopics:
    """Return the mark that a slave must have on disk when it begins: up to which log offset its topics are known.

    That is the present mark if there is one. Otherwise it is `end`, a physical offset of its own log, if the table of
    topics is whole, else NEVER_COPIED. `topics` is no longer marked as that of a promoted broker.
    """
    topics.is_promoted = False
    if mark.known is not None:
        return mark.known
    # A former master knows all topics of its own log; a new slave has none.
    topics.whole_version = topics.version
    return KnownTopics(end, topics.version) if topics.is_whole else NEVER_COPIED


def take_over(
    known: KnownTopics, *, topics: Topics, groups: Groups, store: MessageStore
) -> Steps[None]:
    """Adapt the topics and groups of a promoted slave to the messages of its log.

    Topics that the table lacks are recreated if they have messages from after it was copied, with as many queues as
    those need, and so are missing groups of such retry or dead-letter topics; other unknown topics lose their queues.
    If the table is incomplete or older than the mark `known`, all unknown topics are recreated. Raises OSError if a
    queue file could not be read.
    """
    # topics.json may have been replaced by an older one than the mark's.
    is_current = topics.is_whole and topics.whole_version.counter >= known.version.counter
    start = known.log_end if is_current else 0
    _log.warning(
        "this broker was a slave: its topics and groups are those that its master had at physical offset %d, and its "
        "log ends at %d; topics and groups that were deleted while it was not connected exist again: delete them again",
        start,
        store.max_offset,
    )
    counts: dict[str, int] = {}
    for _ in store.replica_side.count_queues(start, counts):
        yield from turn_end()
    made = topics.make_again(counts, store.batch_topics())
    groups.make_again(made, topics.table().topics)
    for name in topics.unknown(store.queue_counts()) if is_current else ():
        yield from turn_end()
        try:
            delete_before(store, name, start)
        except OSError as error:
            _log.warning(
                "some files of the deleted topic %s could not be deleted: %s",
                name,
                error.strerror or error,
            )
        else:
            _log.info("the remaining messages of the deleted topic %s were deleted", name)
