"""The keys of a message that the index has, and their hashes: its unique key, then each word of its KEYS.

Follows IndexService.buildIndex of RocketMQ 5.3.3: half messages are indexed, under the topic they
are stored in, and records of the kind "rollback" are not.
"""

from array import array
from collections.abc import Sequence
from typing import Any

from cometmq.kernel.layouts import TOPIC_BLOCK_V1_MAX
from cometmq.kernel.reference import index_insert, java_hash_many
from cometmq.kernel.rows import Buffer, End, Keys, PutBatch
from cometmq.model.flags import TRANSACTION_MASK, TRANSACTION_ROLLBACK

NOT_INDEXED = TRANSACTION_ROLLBACK

_UNIQUE = b"UNIQ_KEY"
_KEYS = b"KEYS"
_NAME_END = b"\1"
_VALUE_END = b"\2"
_VALUE_END_BYTE = 2
_INT_MAX = (1 << 31) - 1
KEY_NUMBERS = 3  # Of each key in `Keys`.


def keys_of(hashes: Sequence[int], offsets: Sequence[int], times: Sequence[int]) -> Keys:
    """Keys whose hashes are known.

    Args:
        hashes: Java's hash of each "topic#key".
        offsets: physical offset of each key's record, bytes.
        times: store time of each key's record, ms.

    Raises:
        ValueError: these are not as many of each.
    """
    found = array("q", bytes(3 * len(hashes) * 8))
    found[0::3], found[1::3], found[2::3] = (
        array("q", each) for each in (hashes, offsets, times)
    )
    return found


def index_keys(waiting: Sequence[PutBatch[End]]) -> Keys:
    """The keys of new messages.

    Args:
        waiting: batches, in a list.

    Returns:
        In the order of the messages.
    """
    texts: list[bytes] = []
    places: list[tuple[int, int]] = []
    for _, store_ms, results, puts, _, _, _ in waiting:
        for put, (_, offset, _) in zip(puts, results, strict=True):
            if put[11] != NOT_INDEXED:
                found = hashed_texts(_topic_of(put[1]) + b"#", put[3])
                texts += found
                places += [(offset, store_ms)] * len(found)
    return joined_keys(texts, places)


def joined_keys(texts: list[bytes], places: list[tuple[int, int]]) -> Keys:
    """Keys of texts, each with its record's physical offset and store time."""
    hashes = java_hash_many(texts)
    return keys_of(hashes, [offset for offset, _ in places], [time for _, time in places])


def _topic_of(block: bytes) -> bytes:
    """The topic in a topic block, behind its size."""
    return block[1 if len(block) <= TOPIC_BLOCK_V1_MAX else 2 :]


def record_keys(records: Sequence[tuple[Any, ...]]) -> Keys:
    """The keys and their places of records in the log (`codec.record.Record`)."""
    texts: list[bytes] = []
    places: list[tuple[int, int]] = []
    for record in records:
        if record[7] & TRANSACTION_MASK != NOT_INDEXED:
            found = hashed_texts(record[15].encode() + b"#", record[16])
            texts += found
            places += [(record[6], record[10])] * len(found)
    return joined_keys(texts, places)


def insert_keys(
    slots: "memoryview[int]",
    number: int,
    keys: Keys,
    begin_ms: int,
    changed: bytearray,
    before: int,
    a_page: int,
) -> tuple[bytes, int]:
    """Enter keys into an index file, as `reference.index_insert` does.

    Args:
        slots: the newest entry of each slot, 0 where there is none; changed.
        number: the number of the first entry to be made.
        keys: them.
        begin_ms: the file's first store time, which its entries count from; 0: there is none yet.
        changed: of each page of the file that slots stand in, whether one of them was changed; set to 1.
        before: for how many slots there would be room in the file before the first.
        a_page: how many a page has.

    Returns:
        The entries' bytes (docs/format/index-file.md), and how many slots had none before.
    """
    for java_hash in keys[0::3]:
        slot = (abs(java_hash) & _INT_MAX) % len(slots)
        changed[(before + slot) // a_page] = 1
    seconds = [
        max(0, min((time - begin_ms) // 1000, _INT_MAX)) if begin_ms > 0 else 0
        for time in keys[2::3]
    ]
    return index_insert(slots, number, keys[0::3], keys[1::3], seconds)


def hashed_texts(topic: bytes, block: Buffer) -> list[bytes]:
    """The texts that are hashed for a message, "topic#key" for each key, in the index's order.

    Args:
        topic: its topic with the mark behind it, "topic#".
        block: its properties as the record stores them.
    """
    block = bytes(block)  # No copy if it is bytes already.
    unique = find_value(block, _UNIQUE)
    texts = [] if unique is None else [topic + unique]
    if _KEYS in block:
        words = find_value(block, _KEYS)
        if words is not None:
            texts += [topic + word for word in words.split(b" ") if word]
    return texts


def find_value(block: bytes, name: bytes) -> bytes | None:
    """The value of one property of a block as it stands there, never empty; the last one counts.

    Args:
        block: properties (docs/format/properties.md).
        name: of the property.
    """
    wanted = name + _NAME_END
    end = len(block)
    while (start := block.rfind(wanted, 0, end)) >= 0:
        if start == 0 or block[start - 1] == _VALUE_END_BYTE:
            value = block[start + len(wanted) :].partition(_VALUE_END)[0]
            if value:
                return value
        # The end of a longer name, a piece of a value, or an empty value: look before it.
        end = start + len(wanted) - 1
    return None
