"""The keys under which the index has a message, and their hashes: its unique key, then each word of its KEYS.

Follows IndexService.buildIndex of RocketMQ 5.3.3: half messages are indexed under the topic in which they are stored, and
records of the kind "rollback" are not indexed.
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
KEY_NUMBERS = 3  # Per key in `Keys`.


def keys_of(hashes: Sequence[int], offsets: Sequence[int], times: Sequence[int]) -> Keys:
    """Combine to `Keys`: Java's hashes of "topic#key", with physical offset and store time (ms) of each key's record.

    Raises ValueError if the lengths differ.
    """
    found = array("q", bytes(3 * len(hashes) * 8))
    found[0::3], found[1::3], found[2::3] = (
        array("q", each) for each in (hashes, offsets, times)
    )
    return found


def index_keys(waiting: Sequence[PutBatch[End]]) -> Keys:
    """Return the index keys (`Keys`) of newly stored batches of messages, in their order; a rollback has none."""
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
    """Hash texts "topic#key" to index keys, each with its record's physical offset and store time."""
    hashes = java_hash_many(texts)
    return keys_of(hashes, [offset for offset, _ in places], [time for _, time in places])


def _topic_of(block: bytes) -> bytes:
    return block[1 if len(block) <= TOPIC_BLOCK_V1_MAX else 2 :]  # Without its size.


def record_keys(records: Sequence[tuple[Any, ...]]) -> Keys:
    """Return the index keys of records (`Record`), each with physical offset and store time; a rollback has none."""
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
    """Insert keys into an index file, like `reference.index_insert`.

    Args:
        slots: Newest entry of each slot, 0 if there is none; modified.
        number: Number of the first new entry.
        keys: The keys.
        begin_ms: First store time of the file, relative to which entries store time, ms; 0: none yet.
        changed: A byte for each page of the slots, set to 1 if the page is modified.
        before: Number of slots that would fit into the file before the first one.
        a_page: Number of slots per page.

    Returns:
        The bytes of the entries (docs/format/index-file.md), and the number of slots that had no valid entry before.
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
    """Return the texts to hash for a message, "topic#key" for each key, in the index's order.

    `topic` ends with the separator, "topic#"; `block` has the properties as stored in the record.
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
    """Return the last non-empty value of a name in a property block (docs/format/properties.md), or None."""
    wanted = name + _NAME_END
    end = len(block)
    while (start := block.rfind(wanted, 0, end)) >= 0:
        if start == 0 or block[start - 1] == _VALUE_END_BYTE:
            value = block[start + len(wanted) :].partition(_VALUE_END)[0]
            if value:
                return value
        # This is the end of a longer name, a part of a value, or an empty value: continue before it.
        end = start + len(wanted) - 1
    return None
