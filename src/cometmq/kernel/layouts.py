"""The byte layouts of frames, records, queue entries, index entries and batches, each declared once.

Plain Python uses a layout's `struct`, `size` and `at`; the compiled kernel has the same numbers as constants in
`_layouts.pxd`, which `tools/sync_layouts.py` makes from this file (`make sync`). `cometmq.codec` explains the fields.
"""

from struct import Struct


class Layout:
    """Consecutive fields without gaps, numbers in network byte order.

    Attributes:
        struct: Packs and unpacks all fields.
        size: Total size, bytes.
        at: Position of each field by name, bytes.
    """

    def __init__(self, **fields: str) -> None:
        """Create a layout from field names and their `struct` type letters."""
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
        """Return the layout with the types of some fields replaced."""
        assert fields.keys() <= self._fields.keys(), "fields that are there"
        return Layout(**(self._fields | fields))


# A frame on the wire (docs/format/remoting.md); "header" has the header's encoding in 8 bits and its size in 24.
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
# The beginning of every record, and of the mark at the end of a log file.
RECORD_MARK = Layout(store_size="i", magic="I")

# An entry of a queue (docs/format/queue-entry.md), of an index file (docs/format/index-file.md), and the part of the latter
# that can be compared with the log.
QUEUE_ENTRY = Layout(physical_offset="q", size="i", tags_code="q")
INDEX_ENTRY = Layout(key_hash="i", physical_offset="q", seconds="i", previous="i")
INDEX_KEY = Layout(physical_offset="q", key_hash="i")

# One message of a batch, up to its body (docs/format/batch.md).
BATCH_HEAD = Layout(item_size="i", magic="I", body_crc="I", flag="i", body_size="i")

# Four-byte marks after a record's size (MessageDecoder and CommitLog of RocketMQ 5.3.3).
MAGIC_V1 = 0xDAA320A7  # Topic length in one byte.
MAGIC_V2 = 0xDAA320AB  # Topic length in two bytes.
MAGIC_BLANK = 0xCBD43194  # The rest of this log file is empty.

HEADER_SIZE_MAX = 0xFFFFFF  # Of a frame: the field has 24 bits.
HOST_V4_SIZE = 8
HOST_V6_SIZE = 20
SHORT_SIZE = 2  # Size field in front of the properties in a record and in a batch.
TOPIC_SIZE_V1_MAX = 127  # Java reads V1's topic size as a signed byte.
TOPIC_BLOCK_V1_MAX = 1 + TOPIC_SIZE_V1_MAX  # The size in one byte, and the topic.
PROPERTIES_SIZE_MAX = 32767  # A record's field for it is a signed 16-bit number.
CRC_MASK = 0x7FFFFFFF  # A body's CRC-32 is stored without its sign.

# V1 without body, topic and properties: 91.
RECORD_SIZE_MIN = RECORD_HEAD.size + 1 + SHORT_SIZE
# A record without hosts, body, topic and properties: 74.
RECORD_FIXED_SIZE = RECORD_HEAD.size - 2 * HOST_V4_SIZE + SHORT_SIZE

BLANK_SIZE = (
    0x7FFFFFFF  # Size in the entry that Java writes before a queue's first one (fillPreBlank).
)
# Tags code of an entry in place of a lost message: not a tag's hash, a time or the position of an extended unit. The low
# half is 0, because Java looks it up among the hashes of subscribed tags (docs/format/queue-entry.md).
GAP_CODE = 0x4741_5021_0000_0000
