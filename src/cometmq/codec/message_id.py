"""The two ids of a message: one for its place in the log, and the unique id that its producer made.

The offset message id holds the location of a message, so that a broker finds it without an index:

| store host 8 or 20 | physical offset 8 |          as 32 or 56 upper-case hex digits

The unique id (property UNIQ_KEY, usually shown as "msgId") is made by the producer:

| ip 4 or 16 | process 2 | loader 4 | time 4 | counter 2 |          as 32 or 56 digits

Time is in ms since the start of the current month in the producer's time zone. Time and counter distinguish the ids of
one process; the first three fields distinguish processes. Source: MessageDecoder.createMessageId and
MessageClientIDSetter of RocketMQ 5.3.3; docs/format/message-id.md.
"""

from datetime import datetime, tzinfo
from itertools import count
from struct import Struct

from cometmq.codec.host import HOST_V4_SIZE, HOST_V6_SIZE
from cometmq.model.bounded_cache import keep_short
from cometmq.model.clock import Clock
from cometmq.model.errors import CodecError
from cometmq.model.text import in_quotes

_OFFSET = Struct(">q")
_OFFSET_SIZE = 8
_LONG_MASK = (1 << 64) - 1

# A format such as :04X takes longer than two lookups here plus joining.
_BYTES = tuple(f"{byte:02X}" for byte in range(256))


def encode_message_id(store_host: bytes, physical_offset: int) -> str:
    """Encode an offset message id from store host and commitlog offset: 32 hex digits for IPv4, 56 for IPv6.

    Raises:
        CodecError: The host has neither 8 nor 20 bytes, or the offset is out of range.
    """
    if not -(1 << 63) <= physical_offset < 1 << 63:
        raise CodecError(f"physical offset {physical_offset} does not fit into 8 bytes")
    return f"{_host_digits(store_host)}{physical_offset & _LONG_MASK:016X}"


@keep_short(1024)  # Few brokers, but one call per consumed message.
def _host_digits(store_host: bytes) -> str:
    if len(store_host) not in (HOST_V4_SIZE, HOST_V6_SIZE):
        raise CodecError(f"a host has {len(store_host)} bytes; it needs 8 (IPv4) or 20 (IPv6)")
    return store_host.hex().upper()


def decode_message_id(message_id: str) -> tuple[bytes, int]:
    """Decode an offset message id to the store host (8 or 20 bytes) and the physical offset.

    Raises:
        CodecError: The id does not have 32 or 56 hex digits.
    """
    content = _from_hex(message_id, HOST_V4_SIZE + _OFFSET_SIZE, HOST_V6_SIZE + _OFFSET_SIZE)
    (physical_offset,) = _OFFSET.unpack(content[-_OFFSET_SIZE:])
    return content[:-_OFFSET_SIZE], physical_offset


def _from_hex(message_id: str, *sizes: int) -> bytes:
    """Decode a hex id that must have one of the given sizes in bytes; raises CodecError if it has not."""
    # bytes.fromhex alone would accept blanks.
    if len(message_id) in {2 * size for size in sizes} and message_id.isalnum():
        try:
            return bytes.fromhex(message_id)
        except ValueError:
            pass
    digits = " or ".join(str(2 * size) for size in sizes)
    raise CodecError(
        f"{in_quotes(message_id)} is not a message id: it must have {digits} hexadecimal digits"
    )


def _month_start(now_ms: int, zone: tzinfo | None) -> datetime:
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next_month(start: datetime) -> datetime:
    if start.month == 12:
        return start.replace(year=start.year + 1, month=1)
    return start.replace(month=start.month + 1)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


class UniqueIds:
    """A thread-safe generator of unique message ids.

    Attributes:
        numbers: Counter of the ids, for callers that make many ids with one `front`.

    Args:
        ip: Address of this host, 4 or 16 bytes.
        pid: Process id; its low 16 bits are used.
        loader: 32 random bits for containers with the same ip and pid (a class loader hash in Java).
        clock: Source of the time.
        zone: Time zone of the month's start; None is the machine's, as in Java.

    Raises:
        CodecError: The ip has neither 4 nor 16 bytes.
    """

    def __init__(
        self, *, ip: bytes, pid: int, loader: int, clock: Clock, zone: tzinfo | None = None
    ) -> None:
        if len(ip) not in (4, 16):
            raise CodecError(
                f"an IP address has {len(ip)} bytes; it must have 4 (IPv4) or 16 (IPv6)"
            )
        self._ip = ip
        self._clock = clock
        self._zone = zone
        self.numbers = count()  # Atomic: next() is one step under the interpreter's lock.
        self._month = (0, 0)  # Start of this and of the next month, ms.
        self.renew(pid=pid, loader=loader)

    def renew(self, *, pid: int, loader: int) -> None:
        """Make ids of another process from now on; the arguments are as in the constructor."""
        self._prefix = f"{self._ip.hex().upper()}{pid & 0xFFFF:04X}{loader & 0xFFFFFFFF:08X}"
        self._stamp = (-1, "")  # The last ms, and the front of its ids.

    def next_id(self, now_ms: int | None = None) -> str:
        """Return a new unique id of 32 or 56 hex digits; `now_ms` is the current time, if the caller has it already."""
        front = self.front(self._clock.now_ms() if now_ms is None else now_ms)
        number = next(self.numbers)
        return f"{front}{_BYTES[number >> 8 & 0xFF]}{_BYTES[number & 0xFF]}"

    def front(self, now_ms: int) -> str:
        """Return the digits that this generator's ids of a ms share: all but the last 4, which are the counter."""
        stamped, front = self._stamp
        if now_ms != stamped:
            front = self._front_at(now_ms)
            self._stamp = now_ms, front  # In one step, for other threads.
        return front

    def _front_at(self, now: int) -> str:
        start, end = self._month
        if now >= end:
            month = _month_start(now, self._zone)
            self._month = start, end = _ms(month), _ms(_next_month(month))
        # If the clock was set back before the month's start, Java writes 0 as well.
        return f"{self._prefix}{max(now - start, 0):08X}"
