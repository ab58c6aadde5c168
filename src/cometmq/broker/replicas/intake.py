"""Takes the bytes of a master's log into a slave's store: whole records are appended, half of one waits.

Bytes are appended in pieces that do not hold the loop; the half of a record at their end is held, and no
more than that and what came in a read or two.

Next: cometmq.store.raw_log
"""

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.kernel import MAGIC_BLANK, WHY_PLAIN
from cometmq.model.errors import CopyingStopped, RecordIllegal
from cometmq.store.message_store import MessageStore

# Appended in a turn of the loop: some milliseconds of it, with small messages. Pieces of 128 KiB cost a sixth more a message.
PIECE_SIZE = (512 if WHY_PLAIN is None else 64) << 10
# A record is no longer than a frame of RocketMQ and what is put around it.
RECORD_SIZE_MAX = 17 << 20
# What waits to be appended, and what is appended and in no queue yet: beyond it nothing is read.
WAITING_SIZE_MAX = 1 << 20
UNDISPATCHED_SIZE_MAX = 8 << 20


class LogIntake:
    """Bytes of another broker's log on their way into a store.

    Attributes:
        end: physical offset behind all that came.
    """

    def __init__(self, store: MessageStore, start: int) -> None:
        """The first bytes are those at physical offset `start`, where the store's log ends."""
        self._store = store
        self._side = store.replica_side
        self._held: list[bytes | memoryview] = []
        self._size = 0  # Bytes held.
        self._start = start
        self._wanted = BLANK_TAIL_SIZE  # Fewer bytes than this hold no whole record.

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read for now."""
        return self._size >= max(self._wanted, WAITING_SIZE_MAX) or not self.has_room

    @property
    def has_room(self) -> bool:
        """Whether the store has shown enough of what it was given to be given more."""
        return self._side.undispatched < UNDISPATCHED_SIZE_MAX

    @property
    def is_held(self) -> bool:
        """Whether something came that is not in the store."""
        return self._size > 0

    @property
    def is_due(self) -> bool:
        """Whether the bytes held may make a whole record."""
        return self._size >= self._wanted

    @property
    def end(self) -> int:
        """Physical offset behind all that came."""
        return self._start + self._size

    def took(self, offset: int, content: memoryview) -> None:
        """Bytes came, of an object that nobody changes."""
        if not self._held:
            self._start = offset
        assert offset == self.end
        self._held.append(content)
        self._size += len(content)

    def append(self) -> None:
        """Append a piece of what waits: whole records.

        Raises:
            CopyingStopped: these bytes are no records.
            StoreError: the store takes nothing just now, or for good; the bytes wait.
        """
        held = b"".join(self._held)
        self._held = [held]
        piece = held[: max(PIECE_SIZE, self._wanted)]  # Not copied where it is all.
        try:
            end = self._store.append_raw(self._start, piece)
        except RecordIllegal as error:
            raise CopyingStopped(f"what came from the master is no log: {error}") from error
        is_half = end - self._start < len(piece)
        rest = held[end - self._start :]
        self._held, self._size, self._start = [rest] if rest else [], len(rest), end
        self._wanted = self._size_wanted(rest, is_half=is_half)

    def _size_wanted(self, held: bytes, *, is_half: bool) -> int:
        """The number of bytes needed for the next whole record, of which so many are held."""
        if len(held) < BLANK_TAIL_SIZE or not is_half:
            return BLANK_TAIL_SIZE
        size, at = int.from_bytes(held[:4]), 0
        if int.from_bytes(held[4:8]) == MAGIC_BLANK:
            # The blank end of a file is taken with the record behind it.
            at, size = size, BLANK_TAIL_SIZE
            if len(held) >= at + BLANK_TAIL_SIZE:
                size = int.from_bytes(held[at : at + 4])
        if not 0 < size <= RECORD_SIZE_MAX or at > self._side.file_size:
            raise CopyingStopped(
                f"a record of {size} bytes at physical offset {self._start}; {RECORD_SIZE_MAX} is the most"
            )
        return at + size
