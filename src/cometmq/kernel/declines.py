"""The fast path of sends without a compiler: it accepts no send, so that the slow path handles all of them.

    bytes of a connection -> `take_sends` -> rows of a `SendBatch` -> `pack_columns`: records; then queue entries, answers, keys

A frame becomes a row of a `SendBatch`, a batch message a row for each of its messages. Parsing stops at an unusual frame.
Accepted sends are stored and answered as by the slow path (`broker.send.admission`), so the fast path may leave any
send to it; in plain Python it would cost more than it saves. The functions here document what their compiled twins do.
"""

from typing import Any, Generic

from cometmq.kernel.rows import (
    Arrival,
    Buffer,
    End,
    HeadRow,
    Lane,
    Pending,
    Put,
    PutResult,
    TakeLimits,
)
from cometmq.kernel.turn_reads import OfPeer, TurnReads


class LaneTable(Generic[End]):
    """The open queues (lanes), whose sends need fewer checks, by topic and queue id; empty without a compiler."""

    def keep(self, topic: str, queue_id: int, lane: Lane[End]) -> None:
        """Let later sends to a queue find its lane and so skip the checks; does nothing without a compiler.

        For half messages, timed ones and those with a delay level `queue_id` is that of `rows.place_of_level`.
        """

    def forget(self, topic: str) -> None:
        """Remove the lanes of a topic, so that its next sends are checked again; does nothing without a compiler."""

    def clear(self) -> None:
        """Remove all lanes; does nothing without a compiler."""


class KnownSigner:
    """A user whose signature the accepted sends must have, with the permitted topics; compiled twin: `_signatures`.

    For the signature of a request see `cometmq.codec.signature`. The twin accepts only sends as official clients write
    and sign them: with their fields, `AccessKey` and `Signature`. Without the twin this is only a record.

    Attributes:
        topics: Topics that the user may send to, as bytes; the owner adds each after checking the user's rights.
        asked: If parsing ended at a validly signed send to a topic not in `topics`, that topic; otherwise None.
    """

    def __init__(self, user: bytes, secret: bytes) -> None:
        """Start with no permitted topics; `user` is the access key."""
        self.topics: set[bytes] = set()
        self.asked: bytes | None = None


class SendBatch(Generic[End]):
    """Sends that are stored together; always empty without the compiled twin, `_columns`.

    A row refers to bytes elsewhere: the body in the received bytes, the properties without JSON escapes in a text of the
    batch (docs/design/0046-columns.md). A batch message has a row for each of its messages, and one request with one answer.

    Attributes:
        count: Number of rows.
        request_count: Number of requests; a batch message is one.
        start: Physical offset of the first record; 0 if none is packed.
    """

    count = request_count = start = 0

    def __init__(self, suffix: bytes) -> None:
        """Start empty; `suffix` has the properties that the broker adds to each message, encoded."""

    def __len__(self) -> int:
        return 0

    def puts(self) -> list[Put[End]]:
        """Return a list of the rows as `Put` tuples, the input of the slow path; empty without a compiler."""
        return []

    def requests(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return first index and number of rows of each request that starts in a range; empty without a compiler."""
        return []

    def pending(self, first: int, last: int) -> list[Pending]:
        """Return a `Pending` tuple for the answer to each request that starts in a range; empty without a compiler."""
        return []

    def results(self, first: int, last: int) -> list[PutResult]:
        """Return a `PutResult` (offsets and size) of each packed row in a range; empty without a compiler."""
        return []

    def arrivals(self) -> list[Arrival[End]]:
        """Return a list of the packed rows' queue entries as `Arrival` tuples; empty without a compiler."""
        return []

    def end_of(self, last: int) -> int:
        """Return the physical offset after the first `last` (over 0) rows. Raises IndexError if not packed or not compiled."""
        raise IndexError(last)


def take_sends(
    batch: SendBatch[End],
    data: bytes,
    position: int,
    count_max: int,
    host: bytes,
    straight: LaneTable[End],
    limits: TakeLimits,
    signer: KnownSigner | None = None,
) -> int:
    """Parse sends from a connection's bytes, up to a frame that is incomplete, no send or unusual; none if not compiled.

    Args:
        batch: Receives a row for each message.
        data: Received bytes; the batch keeps them, because bodies remain in them.
        position: Start of the first frame.
        count_max: Maximum number of requests; a batch message is one.
        host: Client's address in the format of records.
        straight: Open queues, whose sends need fewer checks; a send to another queue is unusual.
        limits: Maximum sizes; a larger send is unusual.
        signer: User whose valid signature each send must have; None: signatures are not checked.

    Returns:
        The position after the last accepted send.
    """
    return position


def take_reads(
    turn: TurnReads[OfPeer],
    batch: SendBatch[End],
    ends: list[tuple[OfPeer, int]],
    count_max: int,
    size_min: int,
    straight: LaneTable[End],
    limits: TakeLimits,
) -> None:
    """Parse sends of connections that delivered one send each, up to any other connection; none without a compiler.

    Args:
        turn: Read batch, from which accepted connections are removed.
        batch: Receives a row for each message.
        ends: Receives the accepted connections, each with the index after its last row.
        count_max: Maximum number of requests; a batch message is one.
        size_min: Stop when fewer bytes than this are waiting.
        straight: As in `take_sends`.
        limits: As in `take_sends`.
    """


def answer_reads(batch: SendBatch[End], ends: list[tuple[OfPeer, int]], host: str) -> None:
    """Answer the packed sends of each connection together; does nothing without a compiler.

    `ends` has the connections as from `take_reads`; `host` is this broker's address in the format of message ids.
    """


def pack_columns(
    batch: SendBatch[End],
    first: int,
    position: int,
    end: int,
    layouts: dict[int, HeadRow],
    store_ms: int,
    store_host: bytes,
    content: list[Buffer],
) -> tuple[int, int]:
    """Encode rows as records, as many as fit before `end`, and keep their places in the batch; none if not compiled.

    Args:
        batch: The sends.
        first: Index of the first row to encode; all before it are packed.
        position: Physical offset of the first record.
        end: Physical offset that no record may exceed.
        layouts: Record layouts by the size of the born host.
        store_ms: Store time of all records, ms since 1970.
        store_host: Address of this broker in the format of records.
        content: Receives the records' bytes.

    Returns:
        The index of the first row that was not encoded, and the physical offset after the last record. No request is
            split between two files.

    Raises:
        KeyError, ValueError: There is no fitting layout for the hosts of a row.
    """
    return first, position


def take_back(batch: SendBatch[End]) -> None:
    """Undo the queue offsets of packed records that could not be written; does nothing without a compiler."""


def show_columns(
    batch: SendBatch[End],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None:
    """Append the queue entries of packed records to their queues' tails (`sends.show_entries`); not if uncompiled."""


def answer_columns(batch: SendBatch[End], first: int, last: int, host: str) -> bytes:
    """Return the frames that answer the requests, but one-way ones, starting in rows `first` to `last` (exclusive).

    `host` is this broker's address in the format of message ids. Raises IndexError if the rows are not packed; always
    empty without a compiler.
    """
    return b""


def count_columns(batch: SendBatch[Any], first: int, last: int, time_us: int) -> None:
    """Add packed rows to the tallies, if any, of their queues; each run of rows of the same queue adds 1 to `Tally.times`.

    The rows are those from index `first` to before `last`; `time_us` is the duration of each, microseconds. Does
    nothing without a compiler.
    """
