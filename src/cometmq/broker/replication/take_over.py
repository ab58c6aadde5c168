"""Changes of a broker's role: it becomes a slave, or a promoted slave adapts its tables to its log."""

import logging

from cometmq.broker.replication.copy_mark import NEVER_COPIED, CopyMark, KnownTopics
from cometmq.broker.replication.master_tables import delete_before
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.topics import Topics
from cometmq.steps.steps import Steps, turn_end
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)


def begin_to_follow(mark: CopyMark, topics: Topics, end: int) -> KnownTopics:
    """Return the mark that a slave must have on disk when it begins: up to which log offset its topics are known.

    `end` is the physical offset up to which a former master knows the topics of its own log. `topics` is no longer marked as that of a promoted broker.
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

    Unknown topics with messages from after the table was copied are recreated, with as many queues as those need, and
    groups with such retry or dead-letter topics; other unknown topics are deleted. If the table is incomplete or older
    than the mark `known`, all unknown topics count as later ones. Raises OSError if a queue file could not be read.
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
