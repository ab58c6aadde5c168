"""Stores a message again elsewhere, for retries, delay levels, timers and others.

Body, user flag, producer host and creation time are those of the stored record. The caller decides topic, queue and properties.
"""

import logging
from collections.abc import Mapping, Sequence

from cometmq.broker.inner.puts import InnerMessage, InnerPuts, in_parts
from cometmq.broker.tables.topic_policies import is_batch_topic
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.table_changes import TABLES_TOPIC
from cometmq.codec.record import HOST_BITS, Record, decode_record
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError, RecordIllegal
from cometmq.model.flags import TRANSACTION_MASK
from cometmq.model.names import REVIVE_LOG_PREFIX, is_written_by_brokers, topic_fault
from cometmq.model.text import in_quotes, plural
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, at_once_or_elsewhere, elsewhere
from cometmq.store.appender import PutResult
from cometmq.store.message_search import MessageSearch
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)
_new_tuple = tuple.__new__

# Largest batch of due messages, stored with one write. Event loop and pool thread may wait 5 ms for each other (the GIL), so
# small batches would be slow.
BATCH_COUNT_MAX = 512
BATCH_SIZE_MAX = 1 << 20
# Messages with the same unique key that are examined: the delivered one, and its retries.
_SAME_KEY_MAX = 32
# A promoted slave checks deliveries that were due up to this long ago, because clocks of two machines differ.
DOUBT_MS = 60_000


def once_more(
    record: Record,
    topic: TopicConfig,
    queue_id: int,
    properties: dict[str, str],
    *,
    reconsume_times: int | None = None,
    is_due_coded: bool = False,
    block: bytes | None = None,
) -> InnerMessage:
    """Return a message with the content of a stored record, for a topic and queue.

    Without `reconsume_times` those of the record are kept. `is_due_coded` means that the destination is the delay topic.
    `block` is the encoded `properties`; None if the put must encode them.
    """
    times = record.reconsume_times if reconsume_times is None else reconsume_times
    # Takes a third of the time of `InnerMessage(...)`, once for each message.
    return _new_tuple(InnerMessage, (
        topic, queue_id, record.body, properties, record.born_timestamp, record.born_host, record.flag,
        record.sys_flag & ~HOST_BITS, times, 0, record.sys_flag & TRANSACTION_MASK, is_due_coded, block, record,
    ))  # fmt: skip


def dispatched_record(store: MessageStore, physical_offset: int) -> Steps[bytes | None]:
    """Return the bytes of the record that begins at a physical offset; None if none does.

    None also for one that is not dispatched yet: no consumer can have consumed it, and a power failure could remove it.
    """
    if not store.min_offset <= physical_offset < store.dispatched_offset:
        return None
    return (
        yield from at_once_or_elsewhere(
            lambda may_wait: store.read_record(physical_offset, may_wait=may_wait)
        )
    )


def named_record(
    store: MessageStore, physical_offset: int
) -> Steps[tuple[bytes, Record] | None]:
    """Return a record that a client names by its position, like `dispatched_record`: its bytes, and decoded.

    None also for a record of a group's tables, which may have passwords.
    """
    found = yield from dispatched_record(store, physical_offset)
    if found is None:
        return None
    record = decode_record(found)
    return None if record.topic == TABLES_TOPIC else (found, record)


def is_of_deleted_topic(record: Record, properties: Mapping[str, str], topics: Topics) -> bool:
    """Return whether a later deletion is remembered of a message's own topic, its destination, or the topic it retries."""
    if not len(topics.deleted):
        return False
    names = (
        record.topic, properties.get(keys_of.REAL_TOPIC), properties.get(keys_of.RETRY_TOPIC)
    )  # fmt: skip
    return any(
        name is not None and topics.deleted.covers(name, record.physical_offset)
        for name in names
    )


def not_delivered(store: MessageStore, records: Sequence[Record]) -> Steps[list[Record]]:
    """Return the waiting messages of which no later copy is found in their destination topic.

    A promoted slave knows its master's progress with a delay of some seconds, so some may have been delivered. The index
    finds a copy by its unique key, among the newest 32 with it; a message without unique key or destination is returned.
    """
    searches = [_search_of(store, record) for record in records]
    return (
        yield from elsewhere(
            lambda: [
                record
                for record, search in zip(records, searches, strict=True)
                if search is None or not _is_delivered(record, search)
            ]
        )
    )


def _search_of(store: MessageStore, record: Record) -> MessageSearch | None:
    try:
        properties = record.properties()
    except CodecError:
        return None
    topic, key = properties.get(keys_of.REAL_TOPIC), properties.get(keys_of.UNIQ_KEY)
    return store.search(topic, key, max_count=_SAME_KEY_MAX) if topic and key else None


def _is_delivered(record: Record, search: MessageSearch) -> bool:
    waiting = record.properties()
    for content in search.run().records:
        found = decode_record(content)
        properties = found.properties()
        if (
            found.physical_offset > record.physical_offset
            and found.topic == properties.get(keys_of.REAL_TOPIC) == waiting[keys_of.REAL_TOPIC]
            and properties.get(keys_of.UNIQ_KEY) == waiting[keys_of.UNIQ_KEY]
        ):
            return True
    return False


def topic_of(record: Record) -> str:
    """Return the topic whose rights are needed for a record: its own or, if it waits in a brokers' topic, its destination."""
    waits = is_written_by_brokers(record.topic)
    return (record.properties().get(keys_of.REAL_TOPIC) if waits else None) or record.topic


def real_place(
    record: Record, properties: dict[str, str], topics: Topics
) -> tuple[TopicConfig, int] | None:
    """Return topic and queue id for which a message waits; None, with a log line, if it cannot be delivered.

    Follows RocketMQ: a message for a topic that this broker does not have is stored all the same, and can be consumed
    once the topic is created. Whether the topic was deleted is not checked.
    """
    name, queue = properties.get(keys_of.REAL_TOPIC, ""), properties.get(keys_of.REAL_QID, "")
    # A store may hold messages that clients sent to the timer's topic before brokers refused that.
    topic = topics.get(name)
    fault = None
    if topic is None:
        fault = topic_fault(name)
    elif topic.attributes and is_batch_topic(topic.attributes):
        fault = "It is a batch topic, which this broker can read but not write to."
    # A timer written by RocketMQ has check points of pop.
    if is_written_by_brokers(name) and not name.startswith(REVIVE_LOG_PREFIX):
        fault = "Only brokers write to this topic."
    if fault is None and not (queue.isdecimal() and len(queue) < 10):
        fault = f"The queue {in_quotes(queue, 40)} is not a number."
    if fault is not None:
        _log.error(
            "the message at physical offset %d of topic %s cannot be delivered to topic %s: %s",
            record.physical_offset, record.topic, in_quotes(name, 255), fault,
        )  # fmt: skip
        return None
    return topic or TopicConfig(name, 1, 1), int(queue)


def put_deliverable(
    inner: InnerPuts, topics: Topics, messages: Sequence[InnerMessage]
) -> list[PutResult]:
    """Store waiting messages; discard and log those of deleted topics and those that are illegal for the store.

    Returns the places of the stored messages.

    Raises:
        StoreError: No message was stored or, if one was illegal and they were stored in parts, only some parts; a later
            attempt may succeed.
    """
    living = [
        message
        for message in messages
        if message.record is None
        or not is_of_deleted_topic(message.record, message.properties, topics)
    ]
    if len(living) < len(messages):
        _log.warning(
            "discarded %d waiting %s, because the topic was deleted",
            len(messages) - len(living),
            plural(len(messages) - len(living), "message"),
        )
    return _put(inner, living) if living else []


def _put(inner: InnerPuts, messages: Sequence[InnerMessage]) -> list[PutResult]:
    results: list[PutResult] = []
    for part, outcome in in_parts(lambda some: inner.put(*some), messages):
        if isinstance(outcome, list):
            results += outcome
        elif isinstance(outcome, (RecordIllegal, CodecError)):
            _log.error(
                "a waiting message for topic %s cannot be stored and is discarded: %s",
                part[0].topic.name, outcome,
            )  # fmt: skip
        else:
            raise outcome
    return results
