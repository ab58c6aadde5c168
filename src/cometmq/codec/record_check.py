"""Checks whether bytes form a complete record.

The sizes must add up and, if it is checked, the body CRC must match; topic and properties are not read.
"""

from struct import Struct

from cometmq.codec.record import (
    BLANK_TAIL_SIZE,
    BODY_CRC_AT,
    HOST_BITS,
    QUEUE_ID_AT,
    RECORD_HEADS,
    SYS_FLAG_AT,
    body_crc,
)
from cometmq.kernel import (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    WalkEnd,
    layouts,
    why_no_record,
)
from cometmq.model.errors import CodecError

_RECORD_MARK = layouts.RECORD_MARK.struct
_SYS_FLAG = Struct(">i")


class NoRecordError(CodecError):
    """The bytes at a position are not a valid record; the message describes what they are.

    Attributes:
        why: What is there instead: WalkEnd.BLANK, EMPTY, SHORT (the bytes end first), or UNKNOWN for anything else.
    """

    def __init__(self, why: WalkEnd, text: str) -> None:
        super().__init__(text)
        self.why = why


def check_record(
    buffer: bytes | bytearray | memoryview, position: int, *, is_crc_checked: bool = True
) -> int:
    """Return the size in bytes of the record at a position, after checking that it is complete.

    Without `is_crc_checked` (`checkCRCOnRecover`), the body and its CRC are not read.

    Raises:
        NoRecordError: Blank (continue in the next file), empty, short, or no valid record.
    """
    left = len(buffer) - position
    if left < BLANK_TAIL_SIZE:
        raise NoRecordError(WalkEnd.SHORT, f"only {max(left, 0)} bytes left at byte {position}")
    size: int
    size, magic = _RECORD_MARK.unpack_from(buffer, position)
    if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_SIZE_MIN:
        why = why_no_record(size, magic)
        raise NoRecordError(
            why, f"there is no record at byte {position}: size {size}, magic {magic:#010x}"
        )
    if size > left:
        raise NoRecordError(
            WalkEnd.SHORT,
            f"the record at byte {position} has {size} bytes, but only {left} are left",
        )
    end = position + size
    (sys_flag,) = _SYS_FLAG.unpack_from(buffer, position + SYS_FLAG_AT)
    layout = RECORD_HEADS[sys_flag & HOST_BITS]
    start = position + layout.size
    body_end = start + int.from_bytes(buffer[start - 4 : start], signed=True)
    found = _parts_end(buffer, start=start, body_end=body_end, end=end, magic=magic) - position
    if found != size:
        raise NoRecordError(
            WalkEnd.UNKNOWN,
            f"the record at byte {position} has the size {size}, but its parts have {found} bytes",
        )
    if is_crc_checked:
        crc = body_crc(memoryview(buffer)[start:body_end])
        stored = int.from_bytes(buffer[position + BODY_CRC_AT : position + QUEUE_ID_AT])
        if crc != stored:
            raise NoRecordError(
                WalkEnd.UNKNOWN,
                f"the record at byte {position} has the body CRC {stored:#010x}, but its body has {crc:#010x}",
            )
    return size


def _parts_end(
    buffer: bytes | bytearray | memoryview, *, start: int, body_end: int, end: int, magic: int
) -> int:
    """Return the end of the properties according to the stored sizes; 0 if body or topic do not fit into the record."""
    width = 1 if magic == MAGIC_V1 else 2
    topic_start = body_end + width
    if body_end < start or topic_start > end:
        return 0
    topic_end = topic_start + int.from_bytes(buffer[body_end:topic_start])
    if topic_end + 2 > end:
        return 0
    return topic_end + 2 + int.from_bytes(buffer[topic_end : topic_end + 2])
