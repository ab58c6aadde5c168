"""The changes of a broker's role: it begins to follow a master, or becomes one, and its tables account for its log."""

import logging

from cometmq.broker.replication.copy_mark import CopyMark, KnownTopics
from cometmq.broker.replication.master_tables import delete_before
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.topics import Topics
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)


def begin_to_follow(mark: CopyMark, topics: Topics, store: MessageStore) -> None:
    """Note at the start of a slave up to where of its log its topics are known, unless that is noted already.

    Raises:
        OSError: the mark could not be written.
    """
    if mark.known is None:
        # Of its own log a former master knows all topics, and a new slave has none.
        log_end = store.max_offset if topics.is_whole else 0
        mark.save(KnownTopics(log_end, topics.version))


def take_over(
    known: KnownTopics, *, topics: Topics, groups: Groups, store: MessageStore
) -> None:
    """Make the tables of a promoted slave account for all messages of its log.

    Topics that are younger than the copied table are made again, with as many queues as have messages. What is
    left of topics that were deleted goes.

    Raises:
        OSError: a file of a queue could not be read.
    """
    # An older topics.json may have been put in place of the one that the mark speaks of.
    is_current = topics.is_whole and topics.loaded_version.counter >= known.version.counter
    start = known.log_end if is_current else 0
    _log.warning(
        "this broker was a slave: its topics and groups are those that its master had at physical offset %d, and its "
        "log ends at %d; what was deleted while this slave was not connected is here again: delete it once more",
        start,
        store.max_offset,
    )
    counts = store.replica_side.queue_counts(start)
    made = topics.make_again(counts, store.batch_topics())
    groups.make_again(made, topics.table().topics)
    for name in topics.unknown(store.queue_counts()) if is_current else ():
        try:
            delete_before(store, name, start)
        except OSError as error:
            _log.warning("files of the deleted topic %s remain: %s", name, error)
        else:
            _log.info("what was left of the deleted topic %s is gone", name)
