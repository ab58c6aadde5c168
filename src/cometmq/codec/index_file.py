"""An index file: a hash table from message keys to records, in a file of fixed size.

| header 40 | slot 0 4 | slot 1 4 | ... | entry 0 20 | entry 1 20 | ... |

Header: | begin time 8 | end time 8 | begin offset 8 | end offset 8 | slots used 4 | index count 4 |
Entry:  | key hash 4 | physical offset 8 | seconds 4 | previous entry 4 |

A slot holds the number of the newest entry whose hash maps to it, and each entry holds the number of the previous one.
Entry 0 is never used: the number 0 ends a chain, and the index count of an empty file is 1. Source: IndexFile,
IndexHeader of RocketMQ 5.3.3; docs/format/index-file.md.
"""

from struct import Struct, error
from typing import NamedTuple

from cometmq.kernel import layouts
from cometmq.model.errors import CodecError
from cometmq.model.java_hash import java_hash

INDEX_HEADER = Struct(">qqqqii")
INDEX_HEADER_SIZE = INDEX_HEADER.size  # 40
INDEX_SLOT = Struct(">i")
INDEX_SLOT_SIZE = INDEX_SLOT.size  # 4
INDEX_ENTRY = layouts.INDEX_ENTRY.struct
INDEX_ENTRY_SIZE = INDEX_ENTRY.size  # 20

SLOTS_DEFAULT = 5_000_000  # maxHashSlotNum
ENTRIES_DEFAULT = 20_000_000  # maxIndexNum; includes the unused entry 0

_INT_MIN = -0x80000000
_INT_MAX = 0x7FFFFFFF


class IndexHeader(NamedTuple):
    """The first 40 bytes of an index file.

    Attributes:
        begin_timestamp: Store time of the first indexed record, ms; in an empty file the previous file's end time or 0.
        end_timestamp: Store time of the last indexed record, ms; likewise.
        begin_offset: Commitlog offset of the first indexed record, bytes; likewise.
        end_offset: Commitlog offset of the last indexed record, bytes; likewise.
        slots_used: Number of slots with an entry.
        index_count: Number of the next entry; 1 in a new file.
    """

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots_used: int = 0
    index_count: int = 1


class IndexEntry(NamedTuple):
    """An entry of an index file for one key of one record.

    Attributes:
        key_hash: `key_hash` of topic and key.
        physical_offset: Commitlog offset of the record, bytes.
        seconds: Store time of the record, in s after (about) the file's begin time.
        previous: Number of the previous entry in the same slot; 0 if there is none.
    """

    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


def index_file_size(slots: int = SLOTS_DEFAULT, entries: int = ENTRIES_DEFAULT) -> int:
    """Return the size of an index file in bytes; 420,000,040 with RocketMQ's defaults."""
    return INDEX_HEADER_SIZE + slots * INDEX_SLOT_SIZE + entries * INDEX_ENTRY_SIZE


def slot_position(slot: int) -> int:
    """Return the byte position of slot number `slot`, counted from 0, in an index file."""
    return INDEX_HEADER_SIZE + slot * INDEX_SLOT_SIZE


def entry_position(number: int, slots: int) -> int:
    """Return the byte position of entry `number` in an index file with `slots` slots; entry 0 is never used."""
    return INDEX_HEADER_SIZE + slots * INDEX_SLOT_SIZE + number * INDEX_ENTRY_SIZE


def key_hash(topic: str, key: str) -> int:
    """Return the hash of a topic's message key: that of "topic#key", never negative."""
    value = java_hash(f"{topic}#{key}")
    # Java's Math.abs leaves Integer.MIN_VALUE negative; IndexFile.indexKeyHashMethod maps it to 0.
    return 0 if value == _INT_MIN else abs(value)


def encode_header(header: IndexHeader) -> bytes:
    """Encode the header of an index file to 40 bytes."""
    return INDEX_HEADER.pack(*header)


def decode_header(buffer: bytes | bytearray | memoryview) -> IndexHeader:
    """Decode the header at the start of an index file; raises CodecError if there are fewer than 40 bytes."""
    try:
        return IndexHeader._make(INDEX_HEADER.unpack_from(buffer))
    except error:
        raise CodecError(f"an index header has {len(buffer)} bytes; it must have 40") from None


def encode_entry(entry: IndexEntry) -> bytes:
    """Encode an entry of an index file to 20 bytes."""
    return INDEX_ENTRY.pack(*entry)


def decode_entry(buffer: bytes | bytearray | memoryview, position: int = 0) -> IndexEntry:
    """Decode the index entry at a byte position; raises CodecError if fewer than 20 bytes follow."""
    try:
        return IndexEntry._make(INDEX_ENTRY.unpack_from(buffer, position))
    except error:
        raise CodecError(f"no whole index entry at byte {position} of {len(buffer)}") from None
