"""The byte layouts of frames, records, queue and index entries, batches; each is declared here, once.

Plain Python reads a layout's `struct`, `size` and `at`; the compiled kernel has the same numbers as constants
in `_layouts.pxd`, which `tools/sync_layouts.py` makes from this file (`make sync`). What the bytes mean is drawn in codec.
"""

from struct import Struct


class Layout:
    """Fields one behind the other, each number in network order.

    Attributes:
        struct: packs and unpacks them all.
        size: bytes.
        at: where each begins, bytes from the first, by its name.
    """

    def __init__(self, **fields: str) -> None:
        """`fields`: the letters that `struct` has for their types, by their names."""
        self._fields = fields
        self.struct = Struct(">" + "".join(fields.values()))
        self.size = self.struct.size
        self.at: dict[str, int] = {}
        end = 0
        for name, letter in fields.items():
            self.at[name] = end
            end += Struct(">" + letter).size
        assert end == self.size, "fields stand one behind the other, without gaps"

    def with_types(self, **fields: str) -> "Layout":
        """The fields in their order, some of them with other types."""
        assert fields.keys() <= self._fields.keys(), "fields that are there"
        return Layout(**(self._fields | fields))


# A frame on the wire (docs/format/remoting.md); "header" is its kind in 8 bits and its size in 24.
FRAME_HEAD = Layout(length="i", header="I")

# A record with two IPv4 hosts, up to its body (docs/format/record.md).
RECORD_HEAD = Layout(
    store_size="i",
    magic="I",
    body_crc="I",
    queue_id="i",
    flag="i",
    queue_offset="q",
    physical_offset="q",
    sys_flag="i",
    born_time="q",
    born_host="8s",
    store_time="q",
    store_host="8s",
    reconsume_times="i",
    prepared_offset="q",
    body_size="i",
)
# What every record begins with, and the mark at a log file's end.
RECORD_MARK = Layout(store_size="i", magic="I")

# Of a queue (docs/format/queue-entry.md), of an index file (docs/format/index-file.md), and of the latter
# what can be compared with the log alone.
QUEUE_ENTRY = Layout(physical_offset="q", size="i", tags_code="q")
INDEX_ENTRY = Layout(key_hash="i", physical_offset="q", seconds="i", previous="i")
INDEX_KEY = Layout(physical_offset="q", key_hash="i")

# One message of a batch, up to its body (docs/format/batch.md).
BATCH_HEAD = Layout(item_size="i", magic="I", body_crc="I", flag="i", body_size="i")

# The four-byte marks behind a record's size (MessageDecoder and CommitLog of RocketMQ 5.3.3).
MAGIC_V1 = 0xDAA320A7  # Topic length in one byte.
MAGIC_V2 = 0xDAA320AB  # Topic length in two bytes.
MAGIC_BLANK = 0xCBD43194  # The rest of this log file is empty.

HEADER_SIZE_MAX = 0xFFFFFF  # Of a frame: its size has 24 bits.
HOST_V4_SIZE = 8
HOST_V6_SIZE = 20
SHORT_SIZE = 2  # Of properties in a record and in a batch: their size, in front of them.
TOPIC_SIZE_V1_MAX = 127  # Java reads V1's topic size as a signed byte.
TOPIC_BLOCK_V1_MAX = 1 + TOPIC_SIZE_V1_MAX  # The size in one byte, and so many of them.
PROPERTIES_SIZE_MAX = 32767  # A record's field for it is a signed 16-bit number.
CRC_MASK = 0x7FFFFFFF  # A body's CRC-32 is stored without its sign.

# V1, and no body, topic and properties: 91.
RECORD_SIZE_MIN = RECORD_HEAD.size + 1 + SHORT_SIZE
# Of a record, without hosts, body, topic and properties: 74.
RECORD_FIXED_SIZE = RECORD_HEAD.size - 2 * HOST_V4_SIZE + SHORT_SIZE

BLANK_SIZE = 0x7FFFFFFF  # Of the entry that Java puts before a queue's first (fillPreBlank).
# Tags code of an entry in place of a lost message: no tag's hash, no time, no extended unit's place. The
# low half is 0, for Java looks that up among the hashes of wanted tags (docs/format/queue-entry.md).
GAP_CODE = 0x4741_5021_0000_0000
