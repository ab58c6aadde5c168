"""The results of sends, pulls and queries."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from cometmq.codec.bodies.ha_status import HaStatus
from cometmq.codec.record import QUEUE_OFFSET_AT
from cometmq.model.codes import ResponseCode
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue

# Region of a broker that reports none (MixAll.DEFAULT_TRACE_REGION_ID).
DEFAULT_REGION = "DefaultRegion"


class SendStatus(StrEnum):
    """The outcome of a send that a broker accepted: OK, or which flush or replication did not come in time.

    FLUSH_DISK_TIMEOUT: not flushed to the master's disk in time; FLUSH_SLAVE_TIMEOUT: not on enough slaves in time;
    SLAVE_NOT_AVAILABLE: too few usable slaves. The broker has appended the message in all three cases, but after a
    FLUSH_DISK_TIMEOUT may have lost it again (failed disk, truncated log). OK does not imply a flush.
    """

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
        status: OK, or which flush or replication did not come in time.
        message_id: Unique id (UNIQ_KEY) of a message or encoded batch, empty without one; `send_batch`: all, with commas.
        offset_message_id: Id with the broker's address and the physical offset; for a batch usually several; may be empty.
        queue: Queue that the message was sent to; a delayed or half message is first stored in a system topic.
        queue_offset: Offset at which it is stored; for a batch, that of the first message.
        transaction_id: Transaction id in the broker's answer, or None.
        region: Region of the broker, or None if the answer has none.
        is_trace_on: Whether the broker wants producers to write message traces.
        recall_handle: Handle with which `Admin` can cancel a message sent with `deliver`; None if the broker gave none.
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
    """A member of a broker group: the master or a slave.

    Attributes:
        broker_name: Name of the broker group.
        broker_id: 0 for the master.
        address: "host:port" of the broker.
        status: Its replication status; None if it refused or gave no valid answer.
        error: Why there is no status; None if there is one.
        is_refused: Whether it answered but does not permit this machine or user.
        owner: Address of another broker that a nameserver lists under the same id; None: this broker owns the id.
    """

    broker_name: str
    broker_id: int
    address: str
    status: HaStatus | None
    error: str | None = None
    is_refused: bool = False
    owner: str | None = None


class PullStatus(StrEnum):
    """The outcome of a pull.

    Attributes:
        FOUND: The broker returned messages.
        NO_NEW_MESSAGE: There is nothing at the offset, usually because the queue ends there (NO_NEW_MSG in Java).
        NO_MATCHED_MESSAGE: No message passed the filter, or the broker cannot return any now (NO_MATCHED_MSG in Java).
        OFFSET_ILLEGAL: The offset is outside of the queue, or the broker has reset the group's offset.
    """

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
    """The undecoded answer to a pull; `codec.record.decode_records(body)` decodes the messages.

    Attributes:
        status: Outcome of the pull.
        next_offset: Offset for the next pull, as the broker reported it (see also `following`).
        min_offset: First offset of the queue, as the broker reported it.
        max_offset: End of the queue as the broker reported it: the offset after its last message there.
        body: Complete concatenated records; empty unless FOUND.
        suggested_broker_id: Member of the broker group to pull from next time.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes
    suggested_broker_id: int = 0

    def first_given(self, offset: int) -> int:
        """Return the offset of the first message in this answer to a pull from `offset`; unless FOUND, as `following`.

        It can be larger than `offset`: a broker may skip deleted messages, or those that do not match the filter.
        """
        if self.status is not PullStatus.FOUND:
            return self.following(offset)
        first = int.from_bytes(self.body[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8])
        # Anything else is not a message; decoding will report it.
        return first if first < self.next_offset else offset

    def following(self, offset: int) -> int:
        """Return the next offset to read after this answer to a pull from `offset`; at least `offset`."""
        if self.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
            return max(offset, self.next_offset)
        return max(offset, self.next_offset, self.min_offset)


class PullResult(NamedTuple):
    """The decoded answer to a pull: status and offsets as in `RawPull`, and the messages, perhaps none even if FOUND."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: tuple[StoredMessage, ...]


class TopicQueues(NamedTuple):
    """The queues of a topic according to its current route.

    Attributes:
        readable: Queues that can be read, sorted.
        ordered: Queues in the topic's order configuration, even if their brokers are offline; empty without one.
    """

    readable: tuple[MessageQueue, ...]
    ordered: tuple[MessageQueue, ...]


class IndexedMessages(NamedTuple):
    """The messages that the indexes of a topic's master brokers have for a key.

    Attributes:
        places: Queues and offsets of the messages; some may belong to another key with the same hash.
        until_ms: By broker, until when its index is complete, ms since 1970, 0 if unknown; later messages may be missing.
            Brokers that found nothing are not included, because they may keep no index.
    """

    places: frozenset[tuple[MessageQueue, int]]
    until_ms: Mapping[str, int]
