"""The fast path of sends, as it is without a compiler: it declines everything, and the slow path does it.

    bytes of a connection -> `take_sends` -> rows of a `SendBatch` -> `pack_columns`: records; then queue entries, answers, keys

A frame becomes a row of a `SendBatch`, a batch message one for each of its messages. Whatever is unusual ends it. What is
taken is stored and answered as the slow path would (`broker.send.admission`), so a fast path may decline anything; in plain
Python it would cost more than it saves. Each function stands here with what it does; what does it is compiled.
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
    """The lanes that sends take without asking, found by topic and queue; compiled in `_lane_table`."""

    def keep(self, topic: str, queue_id: int, lane: Lane[End]) -> None:
        """Have sends to a queue find its lane from now on."""

    def forget(self, topic: str) -> None:
        """Have sends to a topic find none."""

    def clear(self) -> None:
        """Forget all topics."""


class KnownSigner:
    """A user who must have signed the sends that are taken, and the topics to which the user may send; compiled in `_signatures`.

    What the signature of a request is stands in `cometmq.codec.signature`. Here are sends alone, as official clients write and
    sign them: their fields, `AccessKey` and `Signature`. Whatever else there is ends what is taken.

    Attributes:
        topics: their names; who asks for rights adds them.
        asked: of the send that ended a taking, and that the user has signed, the topic that is none of them; None where it ended otherwise.
    """

    def __init__(self, user: bytes, secret: bytes) -> None:
        """No topic is known; `user` is the access key."""
        self.topics: set[bytes] = set()
        self.asked: bytes | None = None


class SendBatch(Generic[End]):
    """Sends that are stored together; compiled in `_columns`.

    A row names bytes that lie elsewhere: the body in what was read, the properties in the batch's text, where they stand
    without the escapes of JSON (docs/design/0046-columns.md). A batch message is a row for each of its messages, and one
    request, which has one answer.

    Attributes:
        count: how many there are.
        request_count: how many requests they came with; a batch message is one.
        start: physical offset of the first; 0 where none is packed.
    """

    count = request_count = start = 0

    def __init__(self, suffix: bytes) -> None:
        """Begin without sends; `suffix` is what the broker adds to each message's properties."""

    def __len__(self) -> int:
        return 0

    def puts(self) -> list[Put[End]]:
        """The sends as puts, an object for each."""
        return []

    def requests(self, first: int, last: int) -> list[tuple[int, int]]:
        """Of each request that begins with one of some sends: which is its first, and how many it has."""
        return []

    def pending(self, first: int, last: int) -> list[Pending]:
        """The fields needed to answer a range of requests, an object for each."""
        return []

    def results(self, first: int, last: int) -> list[PutResult]:
        """The places of a range of packed sends, an object for each."""
        return []

    def arrivals(self) -> list[Arrival[End]]:
        """The queue entries of those that are packed, an object for each."""
        return []

    def end_of(self, last: int) -> int:
        """Physical offset behind the first `last` of them.

        Raises:
            IndexError: they are not packed.
        """
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
    """Take sends from a connection's bytes, up to the first frame that is another or in any way unusual.

    Args:
        batch: gets a row of each message.
        data: what was read; it is kept, for the bodies stay in it.
        position: where the first frame begins.
        count_max: most sends.
        host: the client, as records hold it.
        straight: the lanes that are found without asking.
        limits: what a longer or larger send is no plain one by.
        signer: who must have signed each; None: nobody.

    Returns:
        The position behind the last that was taken.
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
    """Take the sends of those who brought one send each, up to the first who brought anything else.

    Args:
        turn: who is taken waits there no more.
        batch: gets a row of each message.
        ends: gets who is taken, and the index behind the last send of each.
        count_max: most sends.
        size_min: when no more bytes wait than this, it is enough.
        straight: as in `take_sends`.
        limits: the same.
    """


def answer_reads(batch: SendBatch[End], ends: list[tuple[OfPeer, int]], host: str) -> None:
    """Answer the sends of each connection, all of which are packed, with one write.

    Args:
        batch: the sends.
        ends: whose they are.
        host: this broker as message ids have it.
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
    """Lay records out, as many as there is room for; the batch knows then where they lie.

    Args:
        batch: the sends.
        first: where to begin: all before it are packed.
        position: physical offset of the first record.
        end: physical offset that no record may pass.
        layouts: by the size of the born host.
        store_ms: the time of them all.
        store_host: this broker.
        content: gets the records' bytes.

    Returns:
        The index of the first send that was not laid out, and the physical offset behind the last. All messages of
        a request lie in one file.

    Raises:
        struct.error, OverflowError: a queue offset that is none; `take_back` puts right what was packed.
    """
    return first, position


def take_back(batch: SendBatch[End]) -> None:
    """Give back the queue offsets of what was packed and could not be written; nothing is packed then."""


def show_columns(
    batch: SendBatch[End],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None:
    """Append the queue entries of what is packed to the tails of their queues; see `sends.show_entries`."""


def answer_columns(batch: SendBatch[End], first: int, last: int, host: str) -> bytes:
    """The frames that answer the requests that begin with some of those that are packed, one behind the other.

    Args:
        batch: the sends.
        first: the first of those.
        last: behind the last.
        host: this broker as message ids have it.

    Raises:
        IndexError: they are not packed.
    """
    return b""


def count_columns(batch: SendBatch[Any], first: int, last: int, time_us: int) -> None:
    """Add sends that are packed to the tallies of their queues, each run of a queue at once.

    Args:
        batch: the sends.
        first: the first that is counted.
        last: behind the last.
        time_us: how long each took.
    """
