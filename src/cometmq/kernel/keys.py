"""Which keys of a message the index has, and their hashes: its unique key, then each word of its KEYS.

Follows IndexService.buildIndex of RocketMQ 5.3.3: half messages are indexed, under the topic they
are stored in, and records of the kind "rollback" are not.

Next: cometmq.kernel.reference
"""

from collections.abc import Sequence
from typing import Any

from cometmq.kernel.columns import SendBatch
from cometmq.kernel.layouts import TOPIC_BLOCK_V1_MAX
from cometmq.kernel.reference import java_hash_many
from cometmq.kernel.rows import Buffer, End, Key, PutBatch
from cometmq.model.flags import TRANSACTION_MASK, TRANSACTION_ROLLBACK

NOT_INDEXED = TRANSACTION_ROLLBACK

_UNIQUE = b"UNIQ_KEY"
_KEYS = b"KEYS"
_NAME_END = b"\1"
_VALUE_END = b"\2"
_VALUE_END_BYTE = 2


def index_keys(waiting: list[PutBatch[End]]) -> list[Key]:
    """The keys of new messages.

    Args:
        waiting: batches.

    Returns:
        In the order of the messages.
    """
    texts: list[bytes] = []
    places: list[tuple[int, int]] = []
    for puts, results, store_ms in waiting:
        if isinstance(puts, SendBatch):
            for topic, block, (_, offset, _) in puts.keyed():
                found = hashed_texts(_topic_of(topic) + b"#", block)
                texts += found
                places += [(offset, store_ms)] * len(found)
            continue
        for put, (_, offset, _) in zip(puts, results, strict=True):
            if put[11] != NOT_INDEXED:
                found = hashed_texts(_topic_of(put[1]) + b"#", put[3])
                texts += found
                places += [(offset, store_ms)] * len(found)
    hashes = java_hash_many(texts)
    return [(found, *place) for found, place in zip(hashes, places, strict=True)]


def _topic_of(block: bytes) -> bytes:
    """The topic in a topic block, behind its size."""
    return block[1 if len(block) <= TOPIC_BLOCK_V1_MAX else 2 :]


def record_keys(records: Sequence[tuple[Any, ...]]) -> list[Key]:
    """The same of records that stand in the log (`codec.record.Record`)."""
    texts: list[bytes] = []
    places: list[tuple[int, int]] = []
    for record in records:
        if record[7] & TRANSACTION_MASK != NOT_INDEXED:
            found = hashed_texts(record[15].encode() + b"#", record[16])
            texts += found
            places += [(record[6], record[10])] * len(found)
    return [(found, *place) for found, place in zip(java_hash_many(texts), places, strict=True)]


def hashed_texts(topic: bytes, block: Buffer) -> list[bytes]:
    """What is hashed for a message, "topic#key" for each of its keys, in the index's order.

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
