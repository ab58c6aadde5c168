"""The files of the timer: a slot of `timerwheel`, a unit of `timerlog`, and `timercheck`.

A slot stands for one piece of time (timerPrecisionMs, 1 s) and names the first and the last of its
units; each unit names the one before it in the same slot:

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
    """A slot.

    Attributes:
        time: what it stands for, in units of the precision since 1970.
        first: position of its first unit in timerlog.
        last: of its last unit.
        unit_count: units that wait, less those that take one back.
        magic: 0; RocketMQ keeps it for later.
    """

    time: int
    first: int
    last: int
    unit_count: int
    magic: int = 0


EMPTY_SLOT = TimerSlot(_NO_UNIT, _NO_UNIT, _NO_UNIT, 0)


class TimerUnit(NamedTuple):
    """A unit: one message that waits.

    Attributes:
        size: 52.
        previous: position of the unit before it in the same slot; -1: it is the first.
        magic: UNIT_* bits.
        write_ms: when it was written, rounded down to the precision.
        delay_ms: behind `write_ms` comes the time at which it is due.
        physical_offset: of the message in the commitlog.
        message_size: of its record, bytes.
        topic_hash: Java's hash of the real topic, for counting.
        reserved: 0.
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
        """The time when the unit is due, ms since 1970."""
        return self.write_ms + self.delay_ms


class TimerCheck(NamedTuple):
    """The progress of the timer, as `timercheck` keeps it.

    Attributes:
        read_ms: slots before this time are delivered.
        log_flushed: timerlog is on the device up to this position.
        queue_offset: messages of the timer's topic before this one are in the wheel.
        master_queue_offset: the same of the master, for a slave.
        state_version: of its data version.
        timestamp: the same, ms.
        counter: the same.
    """

    read_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def encode_unit(unit: TimerUnit) -> bytes:
    """A unit's bytes."""
    return TIMER_UNIT.pack(*unit)


def decode_unit(buffer: bytes | memoryview, position: int = 0) -> TimerUnit:
    """The unit at a position.

    Raises:
        CodecError: none stands there.
    """
    if len(buffer) - position < TIMER_UNIT_SIZE:
        raise CodecError(f"no unit of the timer fits at byte {position} of {len(buffer)}")
    unit = TimerUnit._make(TIMER_UNIT.unpack_from(buffer, position))
    if unit.size != TIMER_UNIT_SIZE or unit.magic & ~_MAGIC_BITS:
        raise CodecError(f"no unit of the timer at byte {position}")
    return unit


def encode_blank(left: int) -> bytes:
    """The mark that the last `left` bytes of a timerlog file hold no unit."""
    return TIMER_BLANK.pack(left, 0, _BLANK_MAGIC)


def is_blank(buffer: bytes | memoryview, position: int) -> bool:
    """Whether the mark of a blank stands at a position."""
    if len(buffer) - position < TIMER_BLANK_SIZE:
        return True
    return bool(TIMER_BLANK.unpack_from(buffer, position)[2] == _BLANK_MAGIC)


def encode_check(check: TimerCheck) -> bytes:
    """The 56 bytes that count; the file has zeros behind them."""
    return TIMER_CHECK.pack(*check)


def decode_check(content: bytes) -> TimerCheck:
    """Decode the file timercheck.

    Raises:
        CodecError: it has fewer than 56 bytes.
    """
    if len(content) < TIMER_CHECK.size:
        raise CodecError(
            f"a timercheck of {len(content)} bytes; its fields alone have {TIMER_CHECK.size}"
        )
    return TimerCheck._make(TIMER_CHECK.unpack_from(content))
