"""Do two stores hold the same messages? Counts and sums by blocks of queue offsets, then only what differs.

    `digest_task` for each task of each store -> `differing_blocks` -> `differences` of these blocks

A block is 1,024 offsets of a queue. Its digest is the sum of a hash of each message: place in the queue,
body, properties, flag, times of the producer. What a broker adds (its place in the log, store time and host)
is left out, so that a mirrored or sent-again copy compares as one made by replication does.

Next: cometmq.spark.store.queue_reader
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.codec.record import (
    BODY_CRC_AT,
    FLAG_AT,
    HOST_BITS,
    QUEUE_ID_AT,
    Record,
    decode_record,
)
from cometmq.model.errors import CodecError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.spark.columns.pieces import take_text
from cometmq.spark.columns.window import RecordWindow
from cometmq.spark.store.folder import LogFile, StoreFolder
from cometmq.spark.store.plan import Task
from cometmq.spark.store.queue_reader import queue_files, read_queue_file
from cometmq.spark.store.scan import Damage, scan

BLOCK_OFFSETS = 1024
DIFFERENCES_MAX = 1000

_FIELDS = ("flag", "born_timestamp", "born_host", "body", "property_block")
# Odd numbers with bits well spread (of splitmix64): each field gets a place of its own in the sum.
_SPREAD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

Hashes = npt.NDArray[np.uint64]
Block = tuple[str, int, int]


class Digest(NamedTuple):
    """Part of a block, as one task has seen it; parts of several tasks add up.

    Attributes:
        topic: of the queue.
        queue_id: its number.
        block: number of the block: queue offset // 1024.
        messages: how many there are.
        digest: sum of their hashes, 64 bits.
    """

    topic: str
    queue_id: int
    block: int
    messages: int
    digest: int


class Difference(NamedTuple):
    """One message that two stores do not have alike.

    Attributes:
        topic: of the queue.
        queue_id: its number.
        offset: its place there.
        what: how, in words.
    """

    topic: str
    queue_id: int
    offset: int
    what: str


def digest_task(folder: StoreFolder, task: Task) -> list[Digest]:
    """The digests of a part of the log; messages without a queue (halves, rolled back) are left out.

    Raises:
        OSError: a file cannot be read.
    """
    sums: dict[Block, tuple[int, int]] = {}
    for split in task:
        for found in scan(folder, split):
            if not isinstance(found, Damage):
                for part in _window_digests(found.window):
                    count, digest = sums.get(part[:3], (0, 0))
                    total = (digest + part.digest) & 0xFFFFFFFFFFFFFFFF
                    sums[part[:3]] = count + part.messages, total
    return [Digest(*block, *of) for block, of in sorted(sums.items())]


def _window_digests(window: RecordWindow) -> Iterator[Digest]:
    kinds = window.sys_flag & TRANSACTION_MASK
    queued = (kinds == 0) | (kinds == TRANSACTION_COMMIT)
    if not queued.all():
        window = window.select(queued)
    if not len(window):
        return
    topics = take_text(pa.py_buffer(window.buffer), window.topic).dictionary_encode()
    codes = np.asarray(topics.indices).astype(np.int64)
    queues = window.int32(QUEUE_ID_AT)
    blocks = window.queue_offset // BLOCK_OFFSETS
    hashes = _hashes(window)
    order = np.lexsort((blocks, queues, codes))
    codes, queues, blocks, hashes = codes[order], queues[order], blocks[order], hashes[order]
    changes = (np.diff(codes) != 0) | (np.diff(queues) != 0) | (np.diff(blocks) != 0)
    begins = np.concatenate(([0], np.flatnonzero(changes) + 1))
    counts = np.diff(np.append(begins, len(order)))
    sums = np.add.reduceat(hashes, begins)
    names = topics.dictionary.to_pylist()
    for at, count, digest in zip(begins.tolist(), counts.tolist(), sums.tolist(), strict=True):
        yield Digest(names[codes[at]], int(queues[at]), int(blocks[at]), count, digest)


def _hashes(window: RecordWindow) -> Hashes:
    """A hash of each message, 64 bits."""
    view = memoryview(window.buffer)
    ends = zip(window.properties.starts.tolist(), window.properties.ends.tolist(), strict=True)
    blocks = np.fromiter(
        (crc32(view[start:end]) for start, end in ends), np.uint64, len(window)
    )
    flags = (window.sys_flag & ~HOST_BITS) << 32 | (window.int32(FLAG_AT) & 0xFFFFFFFF)
    body = window.int32(BODY_CRC_AT).astype(np.uint64) | blocks << np.uint64(32)
    mixed = _mix(window.queue_offset.astype(np.uint64), body)
    mixed = _mix(mixed, window.born_ms().astype(np.uint64))
    mixed = _mix(mixed, window.body.lengths.astype(np.uint64))
    return _mix(mixed, flags.astype(np.uint64))


def _mix(state: Hashes, more: Hashes) -> Hashes:
    """The finisher of splitmix64 over the state and one more field."""
    step, first, second = (np.uint64(number) for number in _SPREAD)
    mixed = (state + step) ^ more
    mixed = (mixed ^ (mixed >> np.uint64(30))) * first
    mixed = (mixed ^ (mixed >> np.uint64(27))) * second
    return mixed ^ (mixed >> np.uint64(31))


def differing_blocks(one: Iterable[Digest], other: Iterable[Digest]) -> list[Block]:
    """The blocks of which two stores do not have the same messages."""
    left, right = _added(one), _added(other)
    return sorted(
        block for block in left.keys() | right.keys() if left.get(block) != right.get(block)
    )


def _added(digests: Iterable[Digest]) -> dict[Block, tuple[int, int]]:
    sums: dict[Block, tuple[int, int]] = {}
    for topic, queue_id, block, messages, digest in digests:
        count, total = sums.get((topic, queue_id, block), (0, 0))
        sums[topic, queue_id, block] = (
            count + messages,
            (total + digest) & 0xFFFFFFFFFFFFFFFF,
        )
    return sums


def differences(
    one: StoreFolder, other: StoreFolder, blocks: Sequence[Block]
) -> list[Difference]:
    """How the messages of some blocks differ, message by message; A is `one`.

    Gives the first thousand. The queues lead to the messages.

    Raises:
        OSError: a file cannot be read.
    """
    found: list[Difference] = []
    for topic, queue_id, block in blocks:
        left, right = (
            _messages(one, topic, queue_id, block),
            _messages(other, topic, queue_id, block),
        )
        for offset in sorted(left.keys() | right.keys()):
            what = _what_differs(left.get(offset), right.get(offset))
            if what is not None:
                found.append(Difference(topic, queue_id, offset, what))
            if len(found) >= DIFFERENCES_MAX:
                return found
    return found


def _what_differs(left: Record | None, right: Record | None) -> str | None:
    if left is None or right is None:
        return f"only {'A' if right is None else 'B'} has it"
    fields = [name for name in _FIELDS if getattr(left, name) != getattr(right, name)]
    if (left.sys_flag ^ right.sys_flag) & ~HOST_BITS:
        fields.append("sys_flag")
    return f"differs in {', '.join(fields)}" if fields else None


def _messages(folder: StoreFolder, topic: str, queue_id: int, block: int) -> dict[int, Record]:
    """The messages of a block by their queue offsets; those that cannot be read are not there."""
    first, stop = block * BLOCK_OFFSETS, (block + 1) * BLOCK_OFFSETS
    log = folder.log_files()
    records: dict[int, Record] = {}
    for file in queue_files(folder, topic):
        if file.queue_id != queue_id or file.first >= stop:
            continue
        entries = read_queue_file(folder, file)
        wanted = (entries.offsets >= first) & (entries.offsets < stop)
        for offset, entry in zip(
            entries.offsets[wanted].tolist(), entries.entries[wanted].tolist(), strict=True
        ):
            record = _record_at(folder, log, entry[0], entry[1])
            if record is not None:
                records[offset] = record
    return records


def _record_at(
    folder: StoreFolder, log: Sequence[LogFile], at: int, size: int
) -> Record | None:
    file = next((each for each in log if each.start <= at < each.end), None)
    if file is None:
        return None
    with folder.opened(file.path) as read_at:
        content = read_at(at - file.start, size)
    try:
        return decode_record(content)
    except CodecError:
        return None
