"""DLedger's files: a header before each record of its log, and the checkpoint beside it.

    dledger-<dLegerSelfId>/data/00000000000000000000    entries; a file's name is the position of its first byte
    dledger-<dLegerSelfId>/checkpoint                   Java properties: endIndex, committedIndex
    dledger-<dLegerSelfId>/index, currterm              position of each entry; term and vote

| magic 4 | size 4 | index 8 | term 8 | position 8 | channel 4 | chain CRC 4 | body CRC 4 | body size 4 | body |

The size includes the header. The body of a normal entry is a record, whose physical offset is its own position, 48 bytes
after that of the entry. The CRCs are always 0. If an entry does not fit into a file, the rest of it is | -1 4 | its size 4 |.
Source: DLedgerEntryCoder and DLedgerMmapFileStore of DLedger 0.3.1.2, which RocketMQ 5.3.3 uses; DLedgerEntryType of 0.4.
"""

from struct import Struct
from typing import NamedTuple

from cometmq.codec.java_properties import decode_java_properties
from cometmq.model.errors import CodecError
from cometmq.model.text import in_quotes

NORMAL_MAGIC = 1
NOOP_MAGIC = 2  # Begins a leader's term since DLedger 0.4; has no record.
END_MAGIC = -1

_HEAD = Struct(">iiqqqiiii")
ENTRY_HEAD_SIZE = _HEAD.size  # 48


class EntryHead(NamedTuple):
    """The header of an entry.

    Attributes:
        magic: NORMAL_MAGIC, NOOP_MAGIC or, in the last bytes of a file, END_MAGIC with nothing valid but the size.
        size: Size of header and body in bytes; of an end mark, of the file's rest.
        number: Number of the entry, which DLedger calls its index; that of the log's first entry is 0.
        term: Term of the leader that appended the entry.
        position: Position of the entry in the log in bytes.
        body_size: Size of the body in bytes.
    """

    magic: int
    size: int
    number: int
    term: int
    position: int
    channel: int
    chain_crc: int
    body_crc: int
    body_size: int


def decode_entry_head(buffer: bytes, at: int) -> EntryHead:
    """Decode the header at a position of a buffer, without checking it; of bytes that the buffer lacks, it has zeros."""
    return EntryHead._make(_HEAD.unpack(buffer[at : at + _HEAD.size].ljust(_HEAD.size, b"\0")))


def encode_entry_head(head: EntryHead) -> bytes:
    """Encode the header of an entry of a DLedger log."""
    return _HEAD.pack(*head)


def decode_committed_index(checkpoint: bytes) -> int:
    """Return the index of the last committed entry by the file `checkpoint`; -1 if none is committed.

    Raises:
        CodecError: The file has no committed index.
    """
    text = decode_java_properties(checkpoint).get("committedIndex", "")
    try:
        return int(text)
    except ValueError:
        raise CodecError(f"committedIndex is {in_quotes(text[:20])}, not a number") from None
