"""The loops of the send path over sends, records, queue entries and answers, in plain Python.

They work on tuples (`cometmq.kernel.rows`), bytes and ints; most have compiled twins (`_packing.pyx` and others).
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from cometmq.kernel.crc import crc32
from cometmq.kernel.layouts import (
    CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    QUEUE_ENTRY,
    SHORT_SIZE,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel.queue_ends import has_filled
from cometmq.kernel.rows import (
    Arrival,
    Buffer,
    End,
    HeadRow,
    Pending,
    Put,
    PutResult,
)
from cometmq.model.flags import TRANSACTION_COMMIT

if TYPE_CHECKING:
    from cometmq.kernel.declines import SendBatch

_IN_A_QUEUE = (0, TRANSACTION_COMMIT)  # Half and rolled-back messages are not in a queue.

# The constant parts of an answer between queue offset, unique key and opaque.
OFFSET = '","queueOffset":"'
KEY = '","transactionId":"'
MIDDLE = '"},"flag":1,"language":"PYTHON","opaque":'
END = ',"serializeTypeCurrentRPC":"JSON","version":479}'

# Headers with fewer bytes than this have a prepared start of their frame.
_PREFIX_SIZE_MAX = 1024

# A message id ends with the physical offset in 16 hex digits: 13 that change every 4 KiB of log, and three that are looked
# up, which takes half the time of formatting all of them.
_LOW_BITS = 12
_LOW_MASK = (1 << _LOW_BITS) - 1
_LOW_DIGITS = tuple(f"{low:03X}" for low in range(1 << _LOW_BITS))


def pack_records(
    puts: list[Put[End]],
    first: int,
    position: int,
    end: int,
    layouts: dict[int, HeadRow],
    store_ms: int,
    store_host: bytes,
    due_ms: Callable[[int], int],
    content: list[Buffer],
    arrivals: list[Arrival[End]],
    results: list[PutResult],
) -> tuple[int, int]:
    """Encode messages as records, as many as fit before `end`.

    Args:
        puts: The messages.
        first: Index of the first message to encode.
        position: Physical offset of the first record.
        end: Physical offset that no record may exceed.
        layouts: Record layouts by the size of the born host.
        store_ms: Store time of all records, ms since 1970.
        store_host: Address of this broker in the format of records.
        due_ms: Returns the due time of a message in a queue of the delay topic, which is its tags code.
        content: Receives the records' bytes, in one piece or many.
        arrivals: Receives the queue entries to be written.
        results: Receives the places of the records.

    Returns:
        The index of the first put that was not encoded, and the physical offset after the last record.

    Raises:
        struct.error, OverflowError: A number does not fit its field. `arrivals` then contains the entries of the queues
            whose next offset has already changed.
        KeyError: A born host has an invalid size.
    """
    add, arrive, note = content.extend, arrivals.append, results.append
    in_a_queue, v1_max = _IN_A_QUEUE, TOPIC_BLOCK_V1_MAX
    for index in range(first, len(puts)):
        (queue, topic, body, properties, tags_code, flag, sys_flag, born_ms, born_host,
         reconsume_times, prepared_offset, transaction) = puts[index]  # fmt: skip
        pack, fixed_size, bits = layouts[len(born_host)]
        body_size, properties_size = len(body), len(properties)
        size = fixed_size + body_size + len(topic) + properties_size
        if position + size > end:
            return index, position
        queue_offset = 0
        if transaction in in_a_queue:
            queue_offset = queue.next_offset
        head = pack(
            size, MAGIC_V1 if len(topic) <= v1_max else MAGIC_V2, crc32(body) & CRC_MASK,
            queue.queue_id, flag, queue_offset, position, sys_flag | bits, born_ms,
            born_host, store_ms, store_host, reconsume_times, prepared_offset, body_size,
        )  # fmt: skip
        add((head, body, topic, properties_size.to_bytes(SHORT_SIZE), properties))
        if transaction in in_a_queue:
            queue.next_offset = queue_offset + 1
            code = due_ms(queue.queue_id) if tags_code is None else tags_code
            arrive((queue, queue_offset, position, size, code))
        note((queue_offset, position, size))
        position += size
    return len(puts), position


def show_entries(
    arrivals: list[Arrival[End]],
    dirty: dict[End, None],
    tail_size_max: int,
    full: list[End],
    watched: dict[End, list[int]],
) -> None:
    """Append queue entries to the tails of their queues, and raise each queue's `max_offset`.

    Args:
        arrivals: The entries.
        dirty: Receives queues whose tail was empty.
        tail_size_max: Size of a full tail, bytes.
        full: Receives a queue for each `tail_size_max` bytes that its tail reaches with an entry.
        watched: Receives the tags codes of queues with waiting pulls.
    """
    pack = QUEUE_ENTRY.struct.pack
    for queue, queue_offset, physical_offset, size, tags_code in arrivals:
        tail = queue.tail
        if not tail:
            dirty[queue] = None
        tail += pack(physical_offset, size, tags_code)
        queue.max_offset = queue_offset + 1
        if has_filled(len(tail), tail_size_max):
            full.append(queue)
        if queue.watched:
            watched.setdefault(queue, []).append(tags_code)


def encode_answers(pending: list[Pending], results: list[PutResult]) -> bytes:
    """Encode the answers to sends, given their data and places, as concatenated frames; none for one-way sends."""
    keys = pending[0][2] if len(pending) == 1 else "".join([key for _, _, key in pending])
    if not keys.encode("utf-8", "replace").isalnum():
        pending = [(opaque, start, json.dumps(key)[1:-1]) for opaque, start, key in pending]
    prefixes, low_digits = _PREFIXES, _LOW_DIGITS
    high, high_digits = -1, ""
    frames = []
    for (opaque, start, key), (queue_offset, physical_offset, _) in zip(
        pending, results, strict=True
    ):
        if start is None:
            continue
        if physical_offset >> _LOW_BITS != high:
            high = physical_offset >> _LOW_BITS
            high_digits = f"{high:013X}"
        header = (
            f"{start}{high_digits}{low_digits[physical_offset & _LOW_MASK]}"
            f"{OFFSET}{queue_offset}{KEY}{key}{MIDDLE}{opaque}{END}"
        )
        size = len(header)
        frames.append((prefixes[size] if size < _PREFIX_SIZE_MAX else _prefix(size)) + header)
    return "".join(frames).encode("latin-1")


def as_one(
    one: Pending, results: list[PutResult], host: str
) -> tuple[list[Pending], list[PutResult]]:
    """Convert a batch to a single send for the answer; its message id is those of its records, separated by commas.

    `results` has the places of the batch's records; `host` is the store host in the format of message ids.
    """
    opaque, start, key = one
    _, last_offset, size = results[-1]
    last = [(results[0][0], last_offset, size)]
    if start is None:
        return [one], last
    return [(opaque, start + ids_of(results[:-1], host), key)], last


def ids_of(results: list[PutResult], host: str) -> str:
    """Return for each record the offset digits that end its message id, a comma, and `host`, which begins the next id.

    The text belongs between an answer's start, which ends with `host`, and the offset digits of the last record.
    """
    return "".join([f"{physical_offset:016X},{host}" for _, physical_offset, _ in results])


def answers_of(
    batch: "SendBatch[End]", first: int, last: int, host: str
) -> tuple[list[Pending], list[PutResult]]:
    """Return the two lists for `encode_answers` that answer the requests starting within a range of sends."""
    pending: list[Pending] = []
    results: list[PutResult] = []
    for one, (index, count) in zip(
        batch.pending(first, last), batch.requests(first, last), strict=True
    ):
        answered, last_one = as_one(one, batch.results(index, index + count), host)
        pending += answered
        results += last_one
    return pending, results


def _prefix(size: int) -> str:
    return ((size + 4).to_bytes(4) + size.to_bytes(4)).decode("latin-1")


_PREFIXES = tuple(map(_prefix, range(_PREFIX_SIZE_MAX)))
