"""Takes the bytes of a master's log into a slave's store: whole records are appended, half of one waits.

Bytes are received where the store reads them: nothing is copied but into the log. They are appended in pieces that do
not hold the loop; the half of a record at their end is held, and no more than that and what came in a read or two.
"""

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.kernel import MAGIC_BLANK, WHY_PLAIN
from cometmq.model.errors import CopyingStopped, RecordIllegal
from cometmq.store.message_store import MessageStore

# Appended in a turn of the loop. Pieces of 512 KiB cost a tenth more a message than the largest.
PIECE_SIZE_MIN = 64 << 10
PIECE_SIZE = 1 << 20 if WHY_PLAIN is None else PIECE_SIZE_MIN
# What took the loop longer goes on in pieces half as large: 1 MiB of small messages takes one ms, but of delayed ones 22 and of
# those of light queues 56, for these the kernel leaves to Python.
_LONG_SECONDS = 0.008
# A record is no longer than a frame of RocketMQ and what is put around it.
RECORD_SIZE_MAX = 17 << 20
# Where bytes are received, and wait to be appended.
ROOM_SIZE = 2 << 20
_LITTLE = 64 << 10  # Bytes that may be moved about.
_MEND_THE_MASTER = (
    "The master's log is damaged there. Stop the master, and mend its store with `cometmq store repair DIR --yes`, "
    "which keeps what follows; then copying goes on by itself"
)
# What is appended and in no queue yet: beyond it nothing is read.
UNDISPATCHED_SIZE_MAX = 8 << 20


class LogIntake:
    """Bytes of another broker's log on their way into a store.

    Attributes:
        size: how many have come that are not in the store.
        piece_size: how many are appended in a turn of the loop.
    """

    def __init__(self, store: MessageStore, start: int) -> None:
        """The first bytes are those at physical offset `start`, where the store's log ends."""
        self._store = store
        self._side = store.replica_side
        self._room = bytearray(ROOM_SIZE)
        self._from = 0  # Where in it the first byte stands that is held,
        self._start = start  # and its physical offset.
        self.size = 0
        self.piece_size = PIECE_SIZE_MIN  # Until it shows how long that takes.
        self._wanted = BLANK_TAIL_SIZE  # Fewer bytes than this hold no whole record.

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read for now."""
        is_out = self._to == len(self._room) or self.size >= ROOM_SIZE
        return not self.has_room or (is_out and self.is_due)

    @property
    def has_room(self) -> bool:
        """Whether the store has shown enough of what it was given to be given more."""
        return self._side.undispatched < UNDISPATCHED_SIZE_MAX

    @property
    def is_due(self) -> bool:
        """Whether the bytes held may make a whole record."""
        return self.size >= self._wanted

    @property
    def end(self) -> int:
        """Physical offset behind all that came."""
        return self._start + self.size

    @property
    def _to(self) -> int:
        return self._from + self.size

    def space(self, size: int) -> memoryview:
        """The memory that the next bytes are to be received in: for so many of them, or fewer."""
        if not self.size and not self._side.undispatched:
            self._from = 0  # Nobody reads the last ones any more, and the processor has this memory at hand.
        left = len(self._room) - self._to
        is_large = len(self._room) > ROOM_SIZE and self.size < _LITTLE
        if not left or (left < size and not self.is_due) or is_large:
            self._move()
        return memoryview(self._room)[self._to : self._to + size]

    def _move(self) -> None:
        """Have what is held at the beginning of a room, which has room for a whole record."""
        size = max(ROOM_SIZE, self._wanted)
        if self.size >= size:  # It comes although it was not to be read.
            size = self.size + _LITTLE
        if not self._from and size == len(self._room):
            return
        held = memoryview(self._room)[self._from : self._to]
        if (
            size != len(self._room) or self._side.undispatched
        ):  # Who shows those before reads them there.
            self._room = bytearray(size)
        memoryview(self._room)[: self.size] = held
        self._from = 0

    def took(self, offset: int, content: memoryview) -> None:
        """Bytes came, into the last `space` or from elsewhere."""
        if not self.size:
            self._start = offset
        assert offset == self.end
        if content.obj is not self._room:
            self.space(len(content))[:] = content
        self.size += len(content)

    def append(self) -> None:
        """Append a piece of what waits: whole records, or a part of a file's blank end.

        Raises:
            CopyingStopped: these bytes are no records.
            StoreError: the store takes nothing just now, or for good; the bytes wait.
        """
        held = memoryview(self._room)[self._from : self._to]
        piece = held[: max(self.piece_size, self._wanted)]
        try:
            end = self._store.append_raw(self._start, piece)
        except RecordIllegal as error:
            raise CopyingStopped(
                f"what came from the master is no log: {error}", _MEND_THE_MASTER
            ) from error
        taken = end - self._start
        self._from, self._start, self.size = self._from + taken, end, self.size - taken
        # What lies in the next file nobody has looked at yet.
        is_looked_at = not taken or end % self._side.file_size
        is_half = is_looked_at and taken < len(piece)
        self._wanted = self._size_wanted(held[taken:]) if is_half else BLANK_TAIL_SIZE

    def took_time(self, seconds: float) -> None:
        """A piece was appended and shown in so long: the next ones are smaller, or may be larger again."""
        if seconds > _LONG_SECONDS:
            self.piece_size = max(self.piece_size // 2, PIECE_SIZE_MIN)
        elif seconds < _LONG_SECONDS / 4:
            self.piece_size = min(self.piece_size * 2, PIECE_SIZE)

    def _size_wanted(self, held: memoryview) -> int:
        """The number of bytes needed to go on, of which so many are held: the next whole record, or the head of a blank end."""
        if len(held) < BLANK_TAIL_SIZE or int.from_bytes(held[4:8]) == MAGIC_BLANK:
            return BLANK_TAIL_SIZE
        size = int.from_bytes(held[:4])
        if not 0 < size <= RECORD_SIZE_MAX:
            raise CopyingStopped(
                f"a record of {size} bytes at physical offset {self._start}; {RECORD_SIZE_MAX} is the most",
                _MEND_THE_MASTER,
            )
        return size
