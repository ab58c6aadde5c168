"""The tuples that are passed between kernel, store, wire, broker and client, each declared once.

Some are made for each message, and a class would cost several times as much. The compiled kernel uses the same tuples by
the numbers of their fields: to add a field, update these numbers in the `.pyx` files.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from cometmq.kernel.filters import PropertyFilter
from cometmq.kernel.mapped_files import MappedFile
from cometmq.kernel.queue_ends import QueueEnd

Buffer = bytes | bytearray | memoryview

# The queues of a store are subclasses; the kernel knows nothing else of them.
End = TypeVar("End", bound=QueueEnd)

# --- wire

# A frame: kind, header start, body start, end.
Frame = tuple[int, int, int, int]

# A command: code, flag, opaque, language, version, remark, fields, body, header coding.
RawCommand = tuple[int, int, int, int, int, str | None, dict[str, str], bytes, int]

# A send: front, queue id, middle, back, opaque and end make up its JSON header, followed by the body.
SendRow = tuple[str, int, str, str, int, str, bytes]
# An encoded frame, or a send to encode.
Outgoing = bytes | SendRow

# A field of a header: name, kind ("s" text, "i" integer, "b" boolean), whether it is required, default, attribute.
FieldRow = tuple[str, str, bool, Any, str]

# A pull: header without its numbers, queue, queue offset, offset to commit, opaque.
SplitPull = tuple[bytes, int, int, int, int]

# Bytes, with the start of a queue's first entry in them and the end of its last.
PlacedEntries = tuple[Buffer, int, int]

# --- fast path of pulls


class AnswerTerms(NamedTuple):
    """The terms for answering pulls that have the same header, for any queue.

    Attributes:
        pieces: Header of the answer, in pieces between these numbers: the next broker, the next, least and largest offset,
            the group's and the topic's flag, the request's number.
        count_max: Maximum number of messages.
        size_max: Maximum size, bytes.
        match: A property filter, or a function that returns whether a tags code is wanted (`TagCodes`); None: all are.
        near_broker: Broker to pull from next.
        far_broker: Broker to pull from next if the messages found are far from the end of the log.
        group_flag: Flag of the group's configuration.
        topic_flag: Flag of the topic's configuration.
        none_pieces: As `pieces`, for the answer that no message matched; empty if the slow path must answer then.
    """

    pieces: tuple[bytes, ...]
    count_max: int
    size_max: int
    match: Callable[[int], bool] | PropertyFilter | None
    near_broker: int
    far_broker: int
    group_flag: int
    topic_flag: int
    none_pieces: tuple[bytes, ...] = ()


# Cached entries: queue offset of the first, queue offset after the last, bytes.
KeptEntries = tuple[int, int, Buffer]

# The log's files from the oldest on, the end of the written log, the offset from which this process wrote it, how many
# bytes before its end are warm, how many of these count as near, and the maximum number and size of messages of a pull that
# is near, and of one that is not.
LogReach = tuple[
    Sequence[MappedFile], int, int, int, int, tuple[tuple[int, int], tuple[int, int]]
]

# A frame, the size of its messages in bytes, their number, and the bytes that were checked to find them.
PulledAnswer = tuple[bytes, int, int, int]

# --- sends of the client

# A possible target of a send: queue, queue id, broker.
Target = tuple[Any, int, str]

# Deadline on its owner's clock, seconds, and the waiter to notify.
Awaited = tuple[float, Any]

# A waiter and its result.
Settled = tuple[Any, Any]

# Limits of sends that are written together: number of messages, size of a body, total size after which no more is added.
PipelinedLimits = tuple[int, int, int]


class SendHead(NamedTuple):
    """The header parts that the sends of one iteration to one topic and broker share.

    Attributes:
        topic: Topic of the messages.
        front: Part before the queue id (`codec.send_text`).
        born: Part between queue id and properties.
        back: Part between properties and opaque.
        end: Part after the opaque.
        id_front: Unique ids without the counter.
        numbers: Counters of the unique ids.
    """

    topic: str
    front: bytes
    born: bytes
    back: bytes
    end: bytes
    id_front: str
    numbers: Iterator[int]


# --- sends

# Limits of sends that are parsed as columns: size of a body, of a frame and of a header, messages of a batch message.
TakeLimits = tuple[int, int, int, int]


class Timing(NamedTuple):
    """The data of a lane of timed messages.

    Attributes:
        slot_of: Returns the start of the slot in which a message waits, ms since 1970, and counts the message; a negative
            number if the slow path must handle the send. Arguments: time in ms; whether that counts from now.
        handle_start: Start of a recall handle, up to the time (`codec.recall_handle`).
    """

    slot_of: Callable[[int, bool], int]
    handle_start: bytes


class Lane(NamedTuple, Generic[End]):
    """The data of a queue for the fast path of sends.

    Attributes:
        queue: Queue of the entries.
        topic_block: Topic as encoded in records.
        answer_start: Header of an answer up to the physical offset in its message id.
        sys_flag: Bits for each record of the topic.
        asked_block: Topic that clients name, as encoded in records; not `topic_block` for delayed or half messages.
        extra: Properties that are added to each message, encoded.
        delay_ms: Delay of messages with a delay level, ms; their tags code is the time when they are due. -1: no delay level.
        timing: Slots and recall handles of timed messages; `answer_start` then contains NO_HANDLE. None: not timed.
    """

    queue: End
    topic_block: bytes
    answer_start: str
    sys_flag: int
    asked_block: bytes
    extra: bytes = b""
    delay_ms: int = -1
    timing: Timing | None = None


NO_HANDLE = ',"recallHandle":""'  # In an `answer_start`: an empty recall handle.

# Stand for half and timed messages, where others that wait have a delay level.
HALF_LEVEL = 1024
TIMED_LEVEL = 1025


def place_of_level(level: int, queue_id: int) -> int:
    """Combine a queue id with a delay level, HALF_LEVEL or TIMED_LEVEL, to find the lane of messages that wait."""
    return level << 32 | queue_id


# A message for the log: queue, topic block, body, properties, tags code, flag, sysFlag, born time in ms, born host,
# reconsume times, prepared offset, transaction bits of the sysFlag. For a message in the delay topic the tags code is None,
# which stands for its due time.
Put = tuple[End, bytes, Buffer, Buffer, int | None, int, int, int, bytes, int, int, int]

# The place of a record: queue offset, physical offset, record size in bytes.
PutResult = tuple[int, int, int]

# A queue entry to be written: queue, queue offset, physical offset, record size, tags code.
Arrival = tuple[End, int, int, int, int]

# A send being stored: opaque, the answer's header up to the physical offset (None: no answer expected), the unique key.
Pending = tuple[int, str | None, str]

# The function that packs a record's head, the record's size without variable parts, host bits of its sysFlag.
HeadRow = tuple[Callable[..., bytes], int, int]

# --- reads, keys

# A piece of the log: physical offsets of its start and end.
Run = tuple[int, int]

# Pieces of the log, number of messages, bytes, number of checked entries, whether one was a placeholder or before the log.
Chosen = tuple[list[Run], int, int, int, bool]

# Messages that were stored together: physical offset after the last, store time in ms, their places, the messages, two
# values that the kernel does not use, columns. If there are columns (a `SendBatch`), these contain the messages and places.
PutBatch = tuple[int, int, Sequence[PutResult], Sequence[Put[End]], Any, Any, Any]

# Three numbers for each key: Java's hash of "topic#key", its record's physical offset, store time in ms.
Keys: TypeAlias = "array[int]"

# By topic and queue id: [queue offset of the next record, the entries of the records before it as a bytearray].
Wanted = dict[bytes, dict[int, list[Any]]]
