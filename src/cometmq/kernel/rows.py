"""The tuples that go between kernel, store, wire and broker: each is declared here, once.

On the way of a message a tuple is made for each, and a tuple costs what a class would cost several times; the
compiled kernel takes and makes the same ones, by the numbers of their fields. Who adds a field looks for its number in
the `.pyx` files. What else goes in and out is bytes, whole numbers and text.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from cometmq.kernel.mapped_files import MappedFile
from cometmq.kernel.queue_ends import QueueEnd

Buffer = bytes | bytearray | memoryview

# A store's queue is a queue's end and more; here nothing else of it is known.
End = TypeVar("End", bound=QueueEnd)

# --- the wire

# kind, header start, body start, end: where a frame stands.
Frame = tuple[int, int, int, int]

# code, flag, opaque, language, version, remark, fields, body, header coding: a command.
RawCommand = tuple[int, int, int, int, int, str | None, dict[str, str], bytes, int]

# front, queue id, middle, back, opaque, end, body: five texts and two numbers are the JSON header of a send.
SendRow = tuple[str, int, str, str, int, str, bytes]
# What becomes a frame: a frame, or a send.
Outgoing = bytes | SendRow

# name, kind ("s" text, "i" whole number, "b" truth value), whether it is required, default: a field of a header.
FieldRow = tuple[str, str, bool, Any]

# header without its numbers, queue, queue offset, offset to commit, opaque: a pull.
SplitPull = tuple[bytes, int, int, int, int]

# Bytes, and where in them the first entry of a queue begins and the last one ends.
PlacedEntries = tuple[Buffer, int, int]

# --- pulls that are answered at a glance


class AnswerTerms(NamedTuple):
    """The terms by which pulls with one header are answered, wherever they read.

    Attributes:
        pieces: the header of their answer, with a place for a number between each two: the next broker, the next, least and
            largest offset, the group's and the topic's flag, the request's number.
        count_max: most messages.
        size_max: most bytes.
        match: which tags codes are wanted; None: all.
        near_broker: to pull from next.
        far_broker: the same where what was found is old.
        group_flag: of the group's configuration.
        topic_flag: of the topic's.
    """

    pieces: tuple[bytes, ...]
    count_max: int
    size_max: int
    match: Callable[[int], bool] | None
    near_broker: int
    far_broker: int
    group_flag: int
    topic_flag: int


# Queue offsets of the first and behind the last, and the bytes: entries that are kept.
KeptEntries = tuple[int, int, Buffer]

# The log's files from the oldest on, how far it is written, from which offset on this process wrote it, how much before its
# end is warm, how much of that counts as near, and most messages and bytes of a pull of what is near, and of what is not.
LogReach = tuple[
    Sequence[MappedFile], int, int, int, int, tuple[tuple[int, int], tuple[int, int]]
]

# A frame, bytes of the messages in it, and how many these are.
PulledAnswer = tuple[bytes, int, int]

# --- our client's sends

# A queue, its number, its broker: where a send may go.
Target = tuple[Any, int, str]

# On the clock of its owner, seconds, and who is told: one who waits for an answer.
Awaited = tuple[float, Any]

# Who waits for a result, and the result.
Settled = tuple[Any, Any]

# Most messages, most bytes of one's body, and bytes of bodies after which no more is begun: what leaves together.
PipelinedLimits = tuple[int, int, int]


class SendHead(NamedTuple):
    """The parts of the headers that sends of one turn to one topic and broker have in common.

    Attributes:
        topic: whose messages they are.
        front: up to the queue's number (`codec.send_text`).
        born: behind it, up to the properties.
        back: behind these, up to the opaque.
        end: behind the opaque.
        id_front: of their unique ids, without the count.
        numbers: the counts.
    """

    topic: str
    front: bytes
    born: bytes
    back: bytes
    end: bytes
    id_front: str
    numbers: Iterator[int]


# --- sends

# Most bytes of a body, of a frame and of a header, most messages of a batch message: what is taken as columns.
TakeLimits = tuple[int, int, int, int]


class Lane(NamedTuple, Generic[End]):
    """A queue as the hot path wants it.

    Attributes:
        queue: where entries go.
        topic_block: the topic as records hold it.
        answer_start: header of an answer, up to the physical offset in its message id.
        sys_flag: bits that each record of this topic gets.
    """

    queue: End
    topic_block: bytes
    answer_start: str
    sys_flag: int


# queue, topic block, body, properties, tags code, flag, sysFlag, born time in ms, born host, reconsume times,
# prepared offset, transaction bits of the sysFlag: a message for the log. A tags code of None stands for the
# due time of a message in the delay topic.
Put = tuple[End, bytes, Buffer, Buffer, int | None, int, int, int, bytes, int, int, int]

# queue offset, physical offset, record size in bytes: where it lies.
PutResult = tuple[int, int, int]

# queue, queue offset, physical offset, record size, tags code: a queue entry that is due.
Arrival = tuple[End, int, int, int, int]

# opaque, the answer's header up to the physical offset (None when nobody waits for an answer), the unique
# key: a send whose record is being written.
Pending = tuple[int, str | None, str]

# How a record's head is packed, its bytes beside the parts, host bits of its sysFlag.
HeadRow = tuple[Callable[..., bytes], int, int]

# --- reads, keys

# Physical offsets of a piece of the log: its start, its end.
Run = tuple[int, int]

# Pieces of the log, how many messages they hold, their bytes, how many entries were looked at, and whether
# a message was missing from the log.
Chosen = tuple[list[Run], int, int, int, bool]

# physical offset behind the last, store time in ms, where each lies, messages, what the kernel does not look at (two),
# columns: what was put at once. Where there are columns (a `SendBatch`), these know the messages and where they lie.
PutBatch = tuple[int, int, Sequence[PutResult], Sequence[Put[End]], Any, Any, Any]

# Three numbers for each key: Java's hash of "topic#key", its record's physical offset, store time in ms.
Keys: TypeAlias = "array[int]"

# For each topic, for each of its queues by number: [queue offset of the next record, the entries of those
# before it as a bytearray].
Wanted = dict[bytes, dict[int, list[Any]]]
