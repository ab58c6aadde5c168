"""The files of the timer: slots of `timerwheel`, units of `timerlog`, and `timercheck`.

A slot covers one time unit (timerPrecisionMs, by default 1 s) and holds the positions of its first and last log unit;
each log unit holds the position of the previous one in the same slot:

| size 4 | previous 8 | magic 4 | write time 8 | delay 4 | physical offset 8 | size 4 | hash 4 | 0 8 |

Source: Slot, TimerWheel, TimerLog and TimerCheckpoint of RocketMQ 5.3.3; docs/format/timer.md.
"""

from struct import Struct
from typing import NamedTuple

from cometmq.model.errors import CodecError

TIMER_SLOT = Struct(">qqqii")
TIMER_SLOT_SIZE = TIMER_SLOT.size  # 32

TIMER_UNIT = Struct(">iqiqiqiiq")
TIMER_UNIT_SIZE = TIMER_UNIT.size  # 52

TIMER_BLANK = Struct(">iqI")
TIMER_BLANK_SIZE = TIMER_BLANK.size  # 16
_BLANK_MAGIC = 0xCBD43194  # TimerLog.BLANK_MAGIC_CODE

TIMER_CHECK = Struct(">qqqqqqq")
TIMER_CHECK_SIZE = 4096

# Bits of a unit's magic (TimerMessageStore).
UNIT_DEFAULT = 1
UNIT_ROLL = 2
UNIT_DELETE = 4
_MAGIC_BITS = 0xF

_NO_UNIT = -1


class TimerSlot(NamedTuple):
    """A slot of the timer wheel: the messages that the timer handles in one time unit.

    Attributes:
        time: The time that it covers, in units of the precision since 1970.
        first: Position of its first unit in timerlog, bytes; -1 for an empty slot.
        last: Position of its last unit in timerlog, bytes; likewise.
        unit_count: Number of its units, with -1 for each that cancels a message; after a recovery approximate.
        magic: 0; reserved by RocketMQ.
    """

    time: int
    first: int
    last: int
    unit_count: int
    magic: int = 0


EMPTY_SLOT = TimerSlot(_NO_UNIT, _NO_UNIT, _NO_UNIT, 0)


class TimerUnit(NamedTuple):
    """A unit of timerlog: one waiting message, or one that cancels another (UNIT_DELETE).

    Attributes:
        size: 52.
        previous: Position of the previous unit in the same slot; -1 for the first.
        magic: UNIT_* bits.
        write_ms: Time of writing, ms since 1970, rounded down to the precision.
        delay_ms: Time from `write_ms` until the message is due or, with UNIT_ROLL, moved to a later slot; ms.
        physical_offset: Commitlog offset of the message, bytes.
        message_size: Size of its record, bytes.
        topic_hash: Java's hash of the real topic, for statistics.
    """

    size: int
    previous: int
    magic: int
    write_ms: int
    delay_ms: int
    physical_offset: int
    message_size: int
    topic_hash: int
    reserved: int = 0

    @property
    def time_ms(self) -> int:
        """Time when the message is due or, with UNIT_ROLL, moved to a later slot, ms since 1970."""
        return self.write_ms + self.delay_ms


class TimerCheck(NamedTuple):
    """The progress of the timer, as stored in `timercheck`.

    Attributes:
        read_ms: The timer, or that of a slave's master, has handled the slots before this time, ms since 1970.
        log_flushed: timerlog is flushed to the disk up to this position, bytes.
        queue_offset: The timer has read its topic up to this queue offset.
        master_queue_offset: The master's `queue_offset`; on a master, its own.
        state_version: State version of the data version.
        timestamp: Time of the data version, ms.
        counter: Counter of the data version.
    """

    read_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def encode_unit(unit: TimerUnit) -> bytes:
    """Encode a unit of timerlog to 52 bytes."""
    return TIMER_UNIT.pack(*unit)


def decode_unit(buffer: bytes | memoryview, position: int = 0) -> TimerUnit:
    """Decode the timerlog unit at a byte position; raises CodecError without a valid one."""
    if len(buffer) - position < TIMER_UNIT_SIZE:
        raise CodecError(f"no timer unit fits at byte {position} of {len(buffer)}")
    unit = TimerUnit._make(TIMER_UNIT.unpack_from(buffer, position))
    if unit.size != TIMER_UNIT_SIZE or unit.magic & ~_MAGIC_BITS:
        raise CodecError(f"there is no timer unit at byte {position}")
    return unit


def encode_blank(left: int) -> bytes:
    """Encode the mark for a timerlog file whose last `left` bytes contain no unit."""
    return TIMER_BLANK.pack(left, 0, _BLANK_MAGIC)


def is_blank(buffer: bytes | memoryview, position: int) -> bool:
    """Return whether a blank mark ends a timerlog file at a position, or fewer than its 16 bytes are left."""
    if len(buffer) - position < TIMER_BLANK_SIZE:
        return True
    return bool(TIMER_BLANK.unpack_from(buffer, position)[2] == _BLANK_MAGIC)


def encode_check(check: TimerCheck) -> bytes:
    """Encode the 56 used bytes of the file timercheck; the rest of the file is zeros."""
    return TIMER_CHECK.pack(*check)


def decode_check(content: bytes) -> TimerCheck:
    """Decode the file timercheck; raises CodecError if it has fewer than 56 bytes."""
    if len(content) < TIMER_CHECK.size:
        raise CodecError(
            f"timercheck has {len(content)} bytes, but its fields need {TIMER_CHECK.size}"
        )
    return TimerCheck._make(TIMER_CHECK.unpack_from(content))
