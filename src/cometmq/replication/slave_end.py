"""The protocol of a slave's connection to its master, without I/O: takes bytes and times, returns bytes and decisions.

The slave mostly requests the log from slightly before its own end, so that the first bytes can be compared with
existing ones. Received bytes are passed on in log order, piece by piece; frames are never assembled. The caller
reports how far the pieces match its log (`compared`), and how far that log now reaches.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from cometmq.codec.replication import (
    CHALLENGE,
    FRAME_BODY_MAX,
    FRAME_HEAD,
    MAGIC,
    NEEDS_PROOF,
    NO_PROOF,
    REPLY,
    REPORT,
    VERSION,
    WELCOME,
    Verdict,
    is_proof,
    proof_of,
)
from cometmq.model.errors import CopyingStopped, LinkError
from cometmq.replication.terms import LinkTerms

# A RocketMQ master without data at an offset only sends heartbeats. Under flow control it also sends empty frames
# although it has data, one after the other, until its second is over.
_EMPTY_SECONDS = 3.0

_EMPTY = "start this slave with an empty storePathRootDir"

# Part of its log that a slave requests again: a whole record of the largest message (4 MiB).
JOINT_SIZE = (4 << 20) + (64 << 10)


def joint_start(oldest: int, end: int, file_size: int) -> int:
    """Return the offset from which a slave requests the log: at most some 4 MiB before `end`, in the same file.

    Args:
        oldest: Physical offset of the first byte of the slave's log.
        end: Physical offset up to which the slave may report its log; at most `oldest` if this log is empty.
        file_size: Size of a log file in bytes.
    """
    if end <= oldest:
        return end
    file_start = (end - 1) // file_size * file_size
    return max(oldest, file_start, end - JOINT_SIZE)


class SlaveStep(Enum):
    """State of a connection on the slave: ASKING; PROVING from a challenge until a welcome; COPYING."""

    ASKING = auto()
    PROVING = auto()
    COPYING = auto()


class LogPiece(NamedTuple):
    """Bytes of the master's log.

    Attributes:
        offset: Physical offset of the first byte.
        content: The bytes, as a view of received data.
        is_known: Whether the slave's log already has these bytes, so that they must be equal.
    """

    offset: int
    content: memoryview
    is_known: bool


class SlaveEnd:
    """The state of one connection to a master, on its slave.

    Attributes:
        start: Physical offset from which the log was requested.
        next: Physical offset of the next expected byte.
        is_java: Whether the master is not CometMQ; None if unknown yet.
        is_joined: Whether the part of this log that was requested again matches the master's, or this log began empty.
        master_flushed: Physical offset that the master reported as flushed in the handshake; 0 if none.
    """

    def __init__(
        self,
        terms: LinkTerms,
        *,
        broker_id: int,
        start: int,
        end: int,
        file_size: int,
        chance: bytes,
        now: float,
    ) -> None:
        """Create a connection for a log that ends at `end`, requested from `start` on; `chance` is 32 random bytes."""
        self._terms = terms
        self._broker_id = broker_id
        self._end = end
        self._file_size = file_size
        self._chance = chance
        self._step = SlaveStep.ASKING
        self._held = b""
        self._left = 0  # Missing bytes of the current frame,
        self._frame_size = 0  # which equals the frame's size before its first byte has arrived.
        self._empty_since: float | None = None  # Time since when frames have been empty.
        self._master_chance = b""
        self._reported = start
        self._read_at = self._wrote_at = now
        self._outgoing = REPORT.pack(start) * 2
        self.start = start
        self.next = start
        self.is_java: bool | None = None
        self.is_joined = end == start
        self.master_flushed = 0

    @property
    def is_copying(self) -> bool:
        """Whether the handshake has ended, so that the master sends frames: of the log, or only heartbeats."""
        return self._step is SlaveStep.COPYING

    @property
    def log_wanted(self) -> int:
        """Number of bytes to read next: a frame's rest and the next header, or the frame's part that this log also has.

        0 if a header, or a part of the handshake, comes next.
        """
        if not self._left:
            return 0
        known = self._end - self.next
        return known if 0 < known < self._left else self._left + FRAME_HEAD.size

    @property
    def head_wanted(self) -> int:
        """Number of bytes that the next frame's header still lacks; 0 in the handshake: read any number then."""
        return FRAME_HEAD.size - len(self._held) if self.is_copying else 0

    @property
    def is_within_frame(self) -> bool:
        """Whether some, but not all, of the log bytes of a frame have been received."""
        return 0 < self._left < self._frame_size

    def received(self, content: bytes | memoryview, now: float) -> Iterator[LogPiece]:
        """Process bytes from the master and yield the pieces of its log, all of which must be consumed.

        Raises:
            LinkError: A master does not send this, or its version or its secret differs; close the connection.
            CopyingStopped: The logs, or the sizes of their files, do not match; the text says why.
        """
        self._read_at = now
        if self._held:
            content, self._held = self._held + bytes(content), b""
        view = memoryview(content)
        while view:
            before = view
            if self._step is SlaveStep.ASKING:
                view = self._first_word(view)
            elif self._step is SlaveStep.PROVING:
                view = self._welcome(view)
            elif self._left:
                piece = self._piece(view)
                view = view[len(piece.content) :]
                yield piece
            else:
                view = self._frame_head(view)
            if len(view) == len(before) and not self._left:
                self._held = bytes(view)  # An incomplete message.
                return

    def tick(self, now: float) -> None:
        """Raise LinkError, to close the connection, if the master has been silent for too long."""
        silent = now - self._read_at
        if silent >= self._terms.silence_seconds:
            raise LinkError(f"the master sent nothing for {silent:.0f} s")

    def compared(self, offset: int) -> None:
        """Record that the received bytes match this log up to a physical offset."""
        self.is_joined = offset >= self._end

    def differ(self, offset: int) -> CopyingStopped:
        """Return (not raise) the CopyingStopped error for a byte at a physical offset that differs in this log."""
        where = f"the two logs differ at physical offset {offset}"
        if offset == self.start:  # A real first difference would come after equal bytes.
            where += ", the first one compared, so they may also differ before it"
        return CopyingStopped(f"another history: {where}")

    def outgoing(self, kept: int, now: float) -> bytes:
        """Return the bytes of handshake and acknowledgements to write now, and forget them; empty if there are none.

        Args:
            kept: Physical offset up to which this log survives the death of its process.
            now: Monotonic time, seconds.

        Raises:
            LinkError: The log was truncated below an offset that was reported; close the connection.
        """
        outgoing, self._outgoing = self._outgoing, b""
        if self._step is SlaveStep.COPYING:
            # Nothing after the joint is acknowledged before the joint is known to match.
            if kept < self._reported:
                raise LinkError(
                    f"this log was truncated to physical offset {kept}, after {self._reported} had been acknowledged"
                )
            end = kept if self.is_joined else self._reported
            is_due = now - self._wrote_at >= self._terms.heartbeat_seconds
            if end > self._reported or is_due:
                self._reported = end
                outgoing += REPORT.pack(end)
        if outgoing:
            self._wrote_at = now
        return outgoing

    # --- the steps

    def _first_word(self, view: memoryview) -> memoryview:
        """Process the master's first bytes: a challenge if it is CometMQ, else a frame of RocketMQ."""
        if not MAGIC.startswith(bytes(view[: len(MAGIC)])):
            if self._terms.secret is not None:
                raise LinkError(
                    "haSecretFile is set, but the master sent no proof of the secret; a Java master cannot send one"
                )
            self.is_java = True
            self._step = SlaveStep.COPYING
            return self._frame_head(view)
        if len(view) < CHALLENGE.size:
            return view
        _, version, flags, self._master_chance = CHALLENGE.unpack_from(view)
        if version != VERSION:
            raise LinkError(
                f"the master uses CMHA version {version}, but this slave needs version {VERSION}"
            )
        if self._terms.secret is None and flags & NEEDS_PROOF:
            raise LinkError(
                "the master requires a secret: set haSecretFile to a file with the same content as there"
            )
        said = REPLY.pack(MAGIC, VERSION, 0, self._broker_id, self._chance, NO_PROOF)
        said = said[: -len(NO_PROOF)]
        parts = (self._master_chance, REPORT.pack(self.start), said)
        self._outgoing += said + proof_of(self._terms.secret, b"slave", *parts)
        self.is_java = False
        self._step = SlaveStep.PROVING
        return view[CHALLENGE.size :]

    def _welcome(self, view: memoryview) -> memoryview:
        if len(view) < WELCOME.size:
            return view
        magic, version, verdict, oldest, end, flushed, file_size, proof = WELCOME.unpack_from(
            view
        )
        if magic != MAGIC or version != VERSION:
            raise LinkError("the master did not answer with a welcome")
        if verdict != Verdict.WELCOME:
            raise LinkError(
                "the master rejected the proof of the secret: haSecretFile differs there"
            )
        head = bytes(view[: WELCOME.size - len(NO_PROOF)])
        parts = (self._chance, self._master_chance, REPORT.pack(self.start), head)
        if not is_proof(self._terms.secret, proof, b"master", *parts):
            raise LinkError(
                "the master's proof of the secret is wrong: haSecretFile differs there"
            )
        self._check(oldest, end, file_size)
        self.master_flushed = flushed
        self._step = SlaveStep.COPYING
        return view[WELCOME.size :]

    def _check(self, oldest: int, end: int, file_size: int) -> None:
        """Raise CopyingStopped if the master's log cannot continue this one, or has files of another size."""
        if file_size != self._file_size:
            raise CopyingStopped(
                f"files of another size: the master's have {file_size} bytes, but here "
                f"mappedFileSizeCommitLog={self._file_size}",
                f"Set mappedFileSizeCommitLog={file_size}, and start this slave with an empty storePathRootDir",
            )
        if self._end > end:
            raise CopyingStopped(
                f"ahead: this log ends at {self._end}, and its master's at {end}, so this slave has "
                f"{self._end - end} bytes that its master lost",
                "Under SYNC_MASTER these were acknowledged. To keep them, stop the master and make this slave the "
                f"master; to discard them, {_EMPTY}",
            )
        if self._end > self.start and self.start < oldest:
            raise CopyingStopped(
                f"behind: this log ends at {self._end}, and its master has nothing before {oldest}",
                f"The master has deleted its older files; {_EMPTY}, and it will get everything that the master has",
            )

    def _frame_head(self, view: memoryview) -> memoryview:
        if len(view) < FRAME_HEAD.size:
            return view
        offset, size = FRAME_HEAD.unpack_from(view)
        if not 0 <= size <= FRAME_BODY_MAX or offset < 0:
            raise LinkError(
                f"the master sent an invalid frame of {size} bytes at physical offset {offset}"
            )
        if size and self.next == 0 and self._end == 0:
            self.next = offset  # An empty log begins where the master's does.
        if offset != self.next and (size or self.next):
            raise LinkError(
                f"the master sent a frame for physical offset {offset}, but this log continues at {self.next}"
            )
        if size:
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = self._read_at
        elif self._read_at - self._empty_since >= _EMPTY_SECONDS and not self.is_joined:
            raise CopyingStopped(
                f"ahead or behind: this log ends at {self._end}, and its master has nothing at {self.next}"
            )
        self._left = self._frame_size = size
        return view[FRAME_HEAD.size :]

    def _piece(self, view: memoryview) -> LogPiece:
        size = min(self._left, len(view))
        is_known = self.next < self._end
        if is_known:
            size = min(size, self._end - self.next)
        piece = LogPiece(self.next, view[:size], is_known)
        self.next += size
        self._left -= size
        return piece
