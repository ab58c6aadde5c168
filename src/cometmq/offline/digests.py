"""Compares the messages of two copies: first counts and sums by blocks of queue offsets, then only differing blocks.

    `digests_of` the batches of each part of each copy -> `differing_blocks`
    -> `messages_of` the same batches, in these blocks only -> `differences`

A block is 1,024 offsets of a queue. Its digest is the sum of a hash per message of its queue offset, body, properties,
flags and birth time. Other values (such as physical offset, store time and hosts) are left out by default, so that
copies can be compared even if they were not made by replication.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.codec.record import HOST_BITS
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.offline.columns.pieces import contents, crcs
from cometmq.offline.coverage import Queue, queue_runs

BLOCK_OFFSETS = 1024
COMPARED = (
    "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "storeTimestamp",
    "sysFlag", "flag", "bornTimestamp", "body", "properties",
)  # fmt: skip
# Also the values that a broker adds; and retry counts, which a message that was sent again does not have.
COMPARED_EXACTLY = (
    *COMPARED, "bornHost", "storeHost", "reconsumeTimes", "preparedTransactionOffset",
)  # fmt: skip
_FIELDS = ("body", "properties", "flags", "bornTimestamp")
_EXACT_FIELDS = (
    *_FIELDS, "commitLogOffset", "storeTimestamp", "reconsumeTimes",
    "preparedTransactionOffset", "bornHost", "storeHost",
)  # fmt: skip
_ALL_64 = 0xFFFFFFFFFFFFFFFF

# Odd numbers with well-spread bits (from splitmix64), so that each field affects the sum differently.
_SPREAD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

Hashes = npt.NDArray[np.uint64]
Block = tuple[str, str, int, int]
"""Topic, broker, queue, number of the block: queue offset // 1024."""


class BlockDigest(NamedTuple):
    """Digest of a part of a block, as one task computed it; the digests of several tasks add up.

    Attributes:
        broker: Broker of the queue; empty unless both compared copies record it.
        block: Number of the block.
        messages: Number of messages.
        digest: Sum of their hashes, 64 bits.
    """

    topic: str
    broker: str
    queue_id: int
    block: int
    messages: int
    digest: int


class MessageHashes(NamedTuple):
    """A message of a differing block, as one copy has it; `fields` has a number for each compared field: its hash or value."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    fields: tuple[int, ...]


class MessageDifference(NamedTuple):
    """A queue offset at which two copies differ; `what` describes the difference."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    what: str


def queued(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without damage, half messages and rolled-back messages, which are in no queue."""
    if batch.column("topic").null_count:
        batch = batch.filter(batch.column("topic").is_valid())
    kinds = np.asarray(batch.column("sysFlag")) & TRANSACTION_MASK
    keep = (kinds == 0) | (kinds == TRANSACTION_COMMIT)
    return batch if keep.all() else batch.filter(pa.array(keep))


def digests_of(
    batches: Iterable[pa.RecordBatch], *, is_exact: bool = False
) -> list[BlockDigest]:
    """Return the block digests, sorted, of messages with the columns `COMPARED` (or `COMPARED_EXACTLY`)."""
    sums: dict[Block, tuple[int, int]] = {}
    for batch in batches:
        hashes = _hashes(batch, is_exact=is_exact)
        for queue, rows in queue_runs(batch):
            blocks = np.asarray(batch.column("queueOffset"))[rows] // BLOCK_OFFSETS
            of_queue = hashes[rows]
            order = np.argsort(blocks, kind="stable")
            blocks = blocks[order]
            begins = np.concatenate(([0], np.flatnonzero(np.diff(blocks)) + 1))
            counts = np.diff(np.append(begins, len(order)))
            totals = np.add.reduceat(of_queue[order], begins)
            for block, more, total in zip(
                blocks[begins].tolist(), counts.tolist(), totals.tolist(), strict=True
            ):
                count, digest = sums.get((*queue, block), (0, 0))
                sums[*queue, block] = count + more, (digest + total) & _ALL_64
    return [BlockDigest(*block, *of) for block, of in sorted(sums.items())]


def messages_of(
    batches: Iterable[pa.RecordBatch], blocks: AbstractSet[Block], *, is_exact: bool = False
) -> Iterator[MessageHashes]:
    """Yield the messages in the given blocks, each with a number (a hash or the value) for each compared field."""
    by_queue: dict[Queue, list[int]] = {}
    for topic, broker, queue_id, block in sorted(blocks):
        by_queue.setdefault((topic, broker, queue_id), []).append(block)
    for batch in batches:
        offsets = np.asarray(batch.column("queueOffset"))
        for queue, rows in queue_runs(batch):
            chosen = rows[np.isin(offsets[rows] // BLOCK_OFFSETS, by_queue.get(queue, []))]
            if not len(chosen):
                continue
            part = batch.take(pa.array(chosen))
            fields = np.stack(_fields(part, is_exact=is_exact), axis=1).tolist()
            for offset, of_message in zip(offsets[chosen].tolist(), fields, strict=True):
                yield MessageHashes(*queue, offset, tuple(of_message))


def _hashes(batch: pa.RecordBatch, *, is_exact: bool) -> Hashes:
    mixed = np.asarray(batch.column("queueOffset")).astype(np.uint64)
    for field in _fields(batch, is_exact=is_exact):
        mixed = _mix(mixed, field)
    return mixed


def _fields(batch: pa.RecordBatch, *, is_exact: bool) -> tuple[Hashes, ...]:
    flags = (np.asarray(batch.column("sysFlag")).astype(np.int64) & ~HOST_BITS) << 32
    flags |= np.asarray(batch.column("flag")).astype(np.int64) & 0xFFFFFFFF
    born = np.asarray(batch.column("bornTimestamp").view(pa.int64()))
    plain = (
        _body_hashes(batch.column("body")),
        _property_hashes(batch.column("properties")),
        flags.astype(np.uint64),
        born.astype(np.uint64),
    )
    return (*plain, *_added_fields(batch)) if is_exact else plain


def _added_fields(batch: pa.RecordBatch) -> Iterator[Hashes]:
    yield np.asarray(batch.column("commitLogOffset")).astype(np.uint64)
    yield np.asarray(batch.column("storeTimestamp").view(pa.int64())).astype(np.uint64)
    for name in ("reconsumeTimes", "preparedTransactionOffset"):
        yield np.asarray(batch.column(name)).astype(np.int64).astype(np.uint64)
    for name in ("bornHost", "storeHost"):
        yield _body_hashes(batch.column(name))


def _body_hashes(column: pa.Array) -> Hashes:
    """Return CRC and length of each value in one number; for null (an undecodable body), a number that no value has."""
    octets, _, ends = contents(column)
    hashes = crcs(octets, ends).astype(np.uint64)
    hashes |= np.diff(ends).astype(np.uint64) << np.uint64(32)
    if column.null_count:
        hashes[np.asarray(column.is_null())] = _ALL_64
    return hashes


def _property_hashes(column: pa.Array) -> Hashes:
    """Return a hash of each map: its keys, its values, and their boundaries."""
    rows = np.asarray(column.offsets).astype(np.int64)
    total = np.zeros(len(column), np.uint64)
    for child in (column.keys, column.items):
        octets, _, ends = contents(child)
        total = _mix(total, crcs(octets, ends[rows]).astype(np.uint64))
        sizes = pa.py_buffer(np.diff(ends).astype(np.int32))
        total = _mix(total, crcs(sizes, rows * 4).astype(np.uint64))
    return total


def _mix(state: Hashes, more: Hashes) -> Hashes:
    """Apply the finisher of splitmix64 to the state and one more field."""
    step, first, second = (np.uint64(number) for number in _SPREAD)
    mixed = (state + step) ^ more
    mixed = (mixed ^ (mixed >> np.uint64(30))) * first
    mixed = (mixed ^ (mixed >> np.uint64(27))) * second
    return mixed ^ (mixed >> np.uint64(31))


def differing_blocks(one: Iterable[BlockDigest], other: Iterable[BlockDigest]) -> list[Block]:
    """Return the blocks (1,024 offsets of a queue each) whose numbers of messages or digests differ in two copies."""
    left, right = _added(one), _added(other)
    return sorted(
        block for block in left.keys() | right.keys() if left.get(block) != right.get(block)
    )


def _added(digests: Iterable[BlockDigest]) -> Mapping[Block, tuple[int, int]]:
    sums: dict[Block, tuple[int, int]] = {}
    for each in digests:
        count, total = sums.get(each[:4], (0, 0))
        sums[each[:4]] = count + each.messages, (total + each.digest) & _ALL_64
    return sums


def differences(
    one: Iterable[MessageHashes], other: Iterable[MessageHashes]
) -> list[MessageDifference]:
    """Return the differences between two copies' messages of some blocks, sorted; `one` is called A, `other` B."""
    left, right = _by_place(one), _by_place(other)
    found = []
    for place in sorted(left.keys() | right.keys()):
        what = _what_differs(left.get(place, []), right.get(place, []))
        if what is not None:
            found.append(MessageDifference(*place, what))
    return found


def _by_place(
    seen: Iterable[MessageHashes],
) -> dict[tuple[str, str, int, int], list[tuple[int, ...]]]:
    places: dict[tuple[str, str, int, int], list[tuple[int, ...]]] = {}
    for topic, broker, queue_id, offset, fields in seen:
        places.setdefault((topic, broker, queue_id, offset), []).append(tuple(fields))
    return places


def _what_differs(
    left: Sequence[tuple[int, ...]], right: Sequence[tuple[int, ...]]
) -> str | None:
    if not left or not right:
        return f"only {'A' if left else 'B'} has it"
    if len(left) != len(right):
        return f"A has it {len(left)} times, B {len(right)} times"
    # The same record twice is no difference.
    more_left, more_right = Counter(left) - Counter(right), Counter(right) - Counter(left)
    if not more_left:
        return None
    names = [
        name
        # Without the values that brokers add, there are fewer fields than names.
        for name, of_a, of_b in zip(
            _EXACT_FIELDS, min(more_left), min(more_right), strict=False
        )
        if of_a != of_b
    ]
    return f"differs in {', '.join(names)}"
