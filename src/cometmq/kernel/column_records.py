"""Makes records, queue entries and answers of sends that are columns, in plain Python.

The same bytes as `sends.pack_records`, `show_entries` and `encode_answers` make of puts. Compiled: `_column_records`.
"""

from cometmq.kernel.columns import SendBatch
from cometmq.kernel.crc import crc32
from cometmq.kernel.layouts import (
    CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    SHORT_SIZE,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel.rows import Buffer, End, HeadRow, Pending, PutResult
from cometmq.kernel.sends import as_one, encode_answers, show_entries


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
        The index of the first send that was not laid out, and the physical offset behind the last.

    Raises:
        struct.error, OverflowError: a queue offset that is none; `take_back` puts right what was packed.
    """
    pieces: list[Buffer] = []
    for index in range(first, _fitting(batch, first, end - position, layouts)):
        queue, topic, _, _ = batch.lanes[index]
        host, body, properties = batch.host(index), batch.body(index), batch.block(index)
        pack, fixed_size, bits = layouts[len(host)]
        size = fixed_size + len(body) + len(topic) + len(properties)
        *_, born_ms, flag, tried, _, _, _, _ = batch.row(index)
        queue_offset = queue.next_offset
        head = pack(
            size, MAGIC_V1 if len(topic) <= TOPIC_BLOCK_V1_MAX else MAGIC_V2,
            crc32(body) & CRC_MASK, queue.queue_id, flag, queue_offset, position, bits, born_ms,
            host, store_ms, store_host, tried, 0, len(body),
        )  # fmt: skip
        pieces += (head, body, topic, len(properties).to_bytes(SHORT_SIZE), properties)
        batch.places.extend((queue_offset, position, size))
        queue.next_offset = queue_offset + 1
        batch.packed = index + 1
        position += size
    if pieces:
        content.append(b"".join(pieces))
        first = batch.packed
    return first, position


def _fitting(batch: SendBatch[End], first: int, room: int, layouts: dict[int, HeadRow]) -> int:
    """The first send, from one on, that there is no room for; all messages of a request lie in one file."""
    for index, count in batch.requests(first, batch.count):
        for each in range(index, index + count):
            room -= layouts[len(batch.host(each))][1] + len(batch.body(each))
            room -= len(batch.lanes[each][1]) + len(batch.block(each))
        if room < 0:
            return index
    return batch.count


def take_back(batch: SendBatch[End]) -> None:
    """Give back the queue offsets of what was packed and could not be written; nothing is packed then."""
    for lane in batch.lanes[: batch.packed]:
        lane[0].next_offset -= 1
    batch.packed = 0
    del batch.places[:]


def show_columns(
    batch: SendBatch[End],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None:
    """Append the queue entries of what is packed to the tails of their queues; see `sends.show_entries`."""
    show_entries(batch.arrivals(), dirty, tail_size_max, full, watched)


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
    if not 0 <= first <= last <= batch.packed:
        raise IndexError("sends that are packed")
    pending, results = answers_of(batch, first, last, host)
    return encode_answers(pending, results) if pending else b""


def answers_of(
    batch: SendBatch[End], first: int, last: int, host: str
) -> tuple[list[Pending], list[PutResult]]:
    """The answers to a range of requests, as `encode_answers` takes them."""
    pending: list[Pending] = []
    results: list[PutResult] = []
    for one, (index, count) in zip(
        batch.pending(first, last), batch.requests(first, last), strict=True
    ):
        answered, last_one = as_one(one, batch.results(index, index + count), host)
        pending += answered
        results += last_one
    return pending, results
