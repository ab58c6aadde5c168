"""Appends received bytes of a master's log to a slave's store; a record that is not whole yet waits for its rest.

Most bytes are received in the buffer from which the store reads them. They are appended in pieces, so as not to block
the loop for long.
"""

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.kernel import MAGIC_BLANK, WHY_PLAIN
from cometmq.model.errors import CopyingStopped, RecordIllegal
from cometmq.store.message_store import MessageStore

# Bytes appended per loop iteration. Pieces of 512 KiB cost a tenth more per message than the largest.
PIECE_SIZE_MIN = 64 << 10
PIECE_SIZE = 1 << 20 if WHY_PLAIN is None else PIECE_SIZE_MIN
# If an append takes longer, the next piece is half as large: 1 MiB of small messages takes 1 ms, but of delayed ones 22 ms
# and of light queues 56 ms, because the compiled kernel leaves these to Python.
_LONG_SECONDS = 0.008
# Largest size of a record: a frame of RocketMQ plus what the record adds.
RECORD_SIZE_MAX = 17 << 20
# Size of the buffer in which bytes are received and wait to be appended.
ROOM_SIZE = 2 << 20
_LITTLE = 64 << 10  # Bytes that are cheap to move.
_MEND_THE_MASTER = (
    "The master's log is damaged there. Stop the master, and repair its store with `cometmq store repair DIR --yes`, "
    "which keeps the records after the damage; then copying continues by itself"
)
# If more appended bytes than this are not dispatched yet, nothing is read.
UNDISPATCHED_SIZE_MAX = 8 << 20


class LogIntake:
    """The bytes of a master's log on their way into a slave's store.

    Attributes:
        size: Number of bytes that have been received but not appended.
        piece_size: Largest number of bytes to append per loop iteration, if no record is larger.
    """

    def __init__(self, store: MessageStore, start: int) -> None:
        """Expect bytes from `start`, the physical end of the store's log, on; an empty log may begin elsewhere."""
        self._store = store
        self._side = store.replica_side
        self._room = bytearray(ROOM_SIZE)
        self._from = 0  # Index of the first byte that is held,
        self._start = start  # and its physical offset.
        self.size = 0
        self.piece_size = PIECE_SIZE_MIN  # Until the first measurement.
        self._wanted = BLANK_TAIL_SIZE  # Fewer bytes cannot hold a whole record.

    @property
    def is_full(self) -> bool:
        """Whether no more bytes should be read from the master for now."""
        is_out = self._to == len(self._room) or self.size >= ROOM_SIZE
        return not self.has_room or (is_out and self.is_due)

    @property
    def has_room(self) -> bool:
        """Whether the slave's store has dispatched enough of the appended bytes to accept more."""
        return self._side.undispatched < UNDISPATCHED_SIZE_MAX

    @property
    def is_due(self) -> bool:
        """Whether enough bytes were received, but not appended, to try an append."""
        return self.size >= self._wanted

    @property
    def end(self) -> int:
        """Physical offset after the bytes that were received, appended or not."""
        return self._start + self.size

    @property
    def _to(self) -> int:
        return self._from + self.size

    def space(self, size: int) -> memoryview:
        """Return the buffer for the next bytes from the master, of `size` bytes or less."""
        if not self.size and not self._side.undispatched:
            # The old bytes are not needed, and this memory is in the processor's cache.
            self._from = 0
        left = len(self._room) - self._to
        is_large = len(self._room) > ROOM_SIZE and self.size < _LITTLE
        if not left or (left < size and not self.is_due) or is_large:
            self._move()
        return memoryview(self._room)[self._to : self._to + size]

    def _move(self) -> None:
        """Move the held bytes to the start of a buffer, the same or a new one, with room for a whole record."""
        size = max(ROOM_SIZE, self._wanted)
        if self.size >= size:  # Received although reading was stopped.
            size = self.size + _LITTLE
        if not self._from and size == len(self._room):
            return
        held = memoryview(self._room)[self._from : self._to]
        # Dispatch may still read the old buffer.
        if size != len(self._room) or self._side.undispatched:
            self._room = bytearray(size)
        memoryview(self._room)[: self.size] = held
        self._from = 0

    def took(self, offset: int, content: memoryview) -> None:
        """Note received bytes: in the buffer that `space` returned, or from elsewhere, which are copied there."""
        if not self.size:
            self._start = offset
        assert offset == self.end
        if content.obj is not self._room:
            self.space(len(content))[:] = content
        self.size += len(content)

    def append(self) -> None:
        """Append whole records, or blank space at a file's end, if received: up to `piece_size`, or one larger record.

        Raises:
            CopyingStopped: The bytes are not records, or the size in a record is impossible.
            StoreError: The store does not accept them now, or for good; the bytes are kept.
        """
        held = memoryview(self._room)[self._from : self._to]
        piece = held[: max(self.piece_size, self._wanted)]
        try:
            end = self._store.append_raw(self._start, piece)
        except RecordIllegal as error:
            raise CopyingStopped(
                f"the bytes from the master are not a log: {error}", _MEND_THE_MASTER
            ) from error
        taken = end - self._start
        self._from, self._start, self.size = self._from + taken, end, self.size - taken
        # The start of the next file has not been examined yet.
        is_looked_at = not taken or end % self._side.file_size
        is_half = is_looked_at and taken < len(piece)
        self._wanted = self._size_wanted(held[taken:]) if is_half else BLANK_TAIL_SIZE

    def took_time(self, seconds: float) -> None:
        """Adapt the size of the next pieces to the time that an append and its dispatch took."""
        if seconds > _LONG_SECONDS:
            self.piece_size = max(self.piece_size // 2, PIECE_SIZE_MIN)
        elif seconds < _LONG_SECONDS / 4:
            self.piece_size = min(self.piece_size * 2, PIECE_SIZE)

    def _size_wanted(self, held: memoryview) -> int:
        """Return how many bytes the next step needs: 8 to learn a size or for a blank end, else the next record's size.

        Raises CopyingStopped for a wrong size.
        """
        if len(held) < BLANK_TAIL_SIZE or int.from_bytes(held[4:8]) == MAGIC_BLANK:
            return BLANK_TAIL_SIZE
        size = int.from_bytes(held[:4])
        if not 0 < size <= RECORD_SIZE_MAX:
            raise CopyingStopped(
                f"the record at physical offset {self._start} has {size} bytes, but 1 to {RECORD_SIZE_MAX} are possible",
                _MEND_THE_MASTER,
            )
        return size
