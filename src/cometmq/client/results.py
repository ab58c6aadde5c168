"""The results of sends and pulls."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from cometmq.codec.bodies.ha_status import HaStatus
from cometmq.codec.record import QUEUE_OFFSET_AT
from cometmq.model.codes import ResponseCode
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue

# The region of a broker that names none (MixAll.DEFAULT_TRACE_REGION_ID).
DEFAULT_REGION = "DefaultRegion"


class SendStatus(StrEnum):
    """The safety of a stored message; with all four values the broker has it."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


SEND_STATUSES = {
    int(ResponseCode.SUCCESS): SendStatus.OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(NamedTuple):
    """The result of a send: status, ids, queue and offset.

    Attributes:
        status: how safe it is there.
        message_id: the id that the producer gave it; of a batch, all of them with commas between.
        offset_message_id: the broker's id of its place; of a batch likewise.
        queue: the queue that took it.
        queue_offset: its offset there; of a batch, the first one's.
        transaction_id: of the send, as the broker answered it.
        region: the broker's region.
        is_trace_on: whether the broker wants traces of what is sent to it.
        recall_handle: of a message for a time: by it an `Admin` takes the message back.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region: str | None = None
    is_trace_on: bool = True
    recall_handle: str | None = None


class Replica(NamedTuple):
    """A member of a master's group: the master, or a slave.

    Attributes:
        broker_name: of the group.
        broker_id: 0 is the master.
        address: where it listens.
        status: what it says of its copies; None: it did not answer.
        error: why not.
        is_refused: it answered, and does not serve this machine or user.
        owner: the address of another broker that has its id at a nameserver; None: it has the id itself.
    """

    broker_name: str
    broker_id: int
    address: str
    status: HaStatus | None
    error: str | None = None
    is_refused: bool = False
    owner: str | None = None


class PullStatus(StrEnum):
    """The outcome of a pull."""

    FOUND = "FOUND"
    NO_NEW_MESSAGE = "NO_NEW_MESSAGE"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


PULL_STATUSES = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MESSAGE,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MESSAGE,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


class RawPull(NamedTuple):
    """The answer to a pull as it came: `codec.record.decode_records(body)` reads it.

    Attributes:
        status: what was found.
        next_offset: where to pull next.
        min_offset: the queue's first offset, as the broker told.
        max_offset: the queue's end: the offset that its next message will get.
        body: whole records, one behind the other; empty unless FOUND.
        suggested_broker_id: which member of the broker group to ask next time.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes
    suggested_broker_id: int = 0

    def first_given(self, offset: int) -> int:
        """The first offset from `offset` on that the answer does not pass over.

        A broker whose oldest file has just gone answers FOUND with the first message behind it.
        """
        if self.status is not PullStatus.FOUND:
            return self.following(offset)
        first = int.from_bytes(self.body[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8])
        # Anything else is no message, which decoding will say.
        return first if first < self.next_offset else offset

    def following(self, offset: int) -> int:
        """The offset to read on from behind this answer to a pull from `offset`; the same where the queue ends there."""
        if self.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
            return max(offset, self.next_offset)
        return max(offset, self.next_offset, self.min_offset)


class PullResult(NamedTuple):
    """The answer to a pull with its messages; attributes as `RawPull`."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: tuple[StoredMessage, ...]


class QueueRange(NamedTuple):
    """The smallest and the next offset of a queue.

    Attributes:
        min_offset: of its first message.
        max_offset: what its next message will get.
    """

    min_offset: int
    max_offset: int

    @property
    def message_count(self) -> int:
        """The number of messages in the queue."""
        return self.max_offset - self.min_offset


class TopicQueues(NamedTuple):
    """The queues of a topic, as its route has them now.

    Attributes:
        readable: those that can be read, sorted.
        ordered: those that the topic's order configuration names, whether their brokers are there or not.
    """

    readable: tuple[MessageQueue, ...]
    ordered: tuple[MessageQueue, ...]


class IndexedMessages(NamedTuple):
    """The messages that brokers' indexes have under a key.

    Attributes:
        places: queues and offsets of its messages; some may be of another key with its hash.
        until_ms: broker -> messages stored there later, ms since 1970, may not be in its index
            yet. A broker that knows nothing of the key is not among them: it may keep no index.
    """

    places: frozenset[tuple[MessageQueue, int]]
    until_ms: Mapping[str, int]
