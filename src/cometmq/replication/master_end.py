"""The protocol of a slave's connection on its master, without I/O: takes bytes and times, returns bytes and decisions.

The master waits for the slave to begin. A slave that sends its offset once is RocketMQ's. One that sends it twice is
CometMQ's: it must prove that it knows the secret, if one is set, and is told where this log begins and ends. After that
the slave gets frames, and acknowledges bytes of the log. Wrong bytes end the connection by a `LinkError`.
"""

from enum import Enum, auto
from typing import NamedTuple

from cometmq.codec.replication import (
    CHALLENGE,
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
from cometmq.model.errors import LinkError
from cometmq.replication.pace import Pace
from cometmq.replication.terms import LinkTerms, LogBounds

# A slave of ours sends its offset twice at once; one that sends nothing more for this long is Java's.
SECOND_WORD_SECONDS = 1.0


class MasterStep(Enum):
    """State of a slave's connection on the master: SILENT, SPOKE_ONCE (sent an offset), ASKED (got a challenge), COPYING."""

    SILENT = auto()
    SPOKE_ONCE = auto()
    ASKED = auto()
    COPYING = auto()


class Span(NamedTuple):
    """A range of the log to send now: physical offset and size in bytes."""

    offset: int
    size: int


class MasterEnd:
    """The state of one connection of a slave, on its master.

    Attributes:
        acked: Physical offset up to which the slave reports its log; -1 if unknown yet, or if this log cannot continue it.
        sent: Physical offset of the next byte to send.
        broker_id: Broker id of a CometMQ slave; None for a Java slave, or if unknown yet.
        pace: Limits when the slave may be sent more of the log; None for no limit.
    """

    def __init__(self, terms: LinkTerms, *, chance: bytes, now: float) -> None:
        """Create a connection; `chance` is 32 unpredictable bytes, `now` (here and below) the monotonic time in seconds."""
        self._terms = terms
        self._chance = chance
        self._step = MasterStep.SILENT
        self._held = b""
        self._start = 0
        self._spoke_at = now
        self._read_at = self._wrote_at = now
        self._outgoing = b""
        self.acked = -1
        self.sent = 0
        self.broker_id: int | None = None
        self.pace: Pace | None = None

    @property
    def is_copying(self) -> bool:
        """Whether the handshake has ended, so that the slave gets frames: of the log, or only heartbeats."""
        return self._step is MasterStep.COPYING

    @property
    def is_compared(self) -> bool:
        """Whether the acknowledged bytes count as this log.

        A CometMQ slave begins before its log's end, and acknowledges more once it has compared; until then they do not
        count. Those of a Java slave, which compares nothing, and of a slave that begins at 0 always count.
        """
        return self.broker_id is None or self.acked > self._start or not self._start

    def received(self, content: bytes, log: LogBounds, now: float) -> None:
        """Process bytes from the slave; raise LinkError, to end the connection, if they are wrong or it is refused."""
        self._read_at = now
        content = self._held + content
        self._held = b""
        if self._step is MasterStep.SILENT:
            content = self._first_word(content, log, now)
        if self._step is MasterStep.SPOKE_ONCE:
            content = self._second_word(content, log)
        if self._step is MasterStep.ASKED:
            content = self._reply(content, log)
        if self._step is MasterStep.COPYING:
            content = self._reports(content)
        self._held = content

    def tick(self, log: LogBounds, now: float) -> None:
        """Raise LinkError, to close the connection, if the slave has been silent for too long.

        A slave that sends no second offset within a second is treated as a Java slave, or refused by a LinkError.
        """
        if self._step is MasterStep.SPOKE_ONCE and now - self._spoke_at >= SECOND_WORD_SECONDS:
            self._begin_plain(log)
        silent = now - self._read_at
        if silent >= self._terms.silence_seconds:
            raise LinkError(f"it sent nothing for {silent:.0f} s")

    def outgoing(self, now: float) -> bytes:
        """Return the bytes of the handshake to write before anything else, and forget them; empty if there are none."""
        outgoing, self._outgoing = self._outgoing, b""
        if outgoing:
            self._wrote_at = now
        return outgoing

    def wanted(self, log: LogBounds) -> Span | None:
        """Return the range of the log to send next; None if nothing is left to send, or the slave gets none (yet)."""
        size = min(log.sendable - self.sent, self._terms.frame_size)
        if self._step is not MasterStep.COPYING or size <= 0 or self.acked < 0:
            return None
        if self.pace is not None:
            size = min(size, self.pace.size_max)
        return Span(self.sent, size)

    def frame_head(self, size: int, now: float) -> bytes:
        """Return the header of a frame with the next `size` bytes of the log, and count them as sent."""
        head = FRAME_HEAD.pack(self.sent, size)
        self.sent += size
        self._wrote_at = now
        if self.pace is not None:
            self.pace.sent(size, now)
        return head

    def heartbeat(self, now: float) -> bytes | None:
        """Return the bytes of a heartbeat if one is due, else None."""
        is_due = now - self._wrote_at >= self._terms.heartbeat_seconds
        if self._step is not MasterStep.COPYING or not is_due:
            return None
        return self.frame_head(0, now)

    # --- the steps

    def _first_word(self, content: bytes, log: LogBounds, now: float) -> bytes:
        if content[: len(MAGIC)] == MAGIC:
            raise LinkError("it began with CMHA, which only a master may send first")
        if len(content) < REPORT.size:
            return content
        (start,) = REPORT.unpack_from(content)
        if not 0 <= start <= max(log.end, 0) and not self._may_be_ours(content, start):
            raise LinkError(
                f"it reports a log up to physical offset {start}, but this log ends at {log.end}"
            )
        self._start, self._spoke_at = start, now
        self._step = MasterStep.SPOKE_ONCE
        return content[REPORT.size :]

    def _may_be_ours(self, content: bytes, start: int) -> bool:
        """Return whether the first bytes may come from a CometMQ slave, which finds out itself that it is ahead."""
        return start >= 0 and content[REPORT.size :] in (b"", content[: REPORT.size])

    def _second_word(self, content: bytes, log: LogBounds) -> bytes:
        if len(content) < REPORT.size:
            return content
        (second,) = REPORT.unpack_from(content)
        if second != self._start:
            self._begin_plain(log)
            return content
        flags = NEEDS_PROOF if self._terms.secret is not None else 0
        self._outgoing += CHALLENGE.pack(MAGIC, VERSION, flags, self._chance)
        self._step = MasterStep.ASKED
        return content[REPORT.size :]

    def _reply(self, content: bytes, log: LogBounds) -> bytes:
        if not MAGIC.startswith(content[: len(MAGIC)]):
            raise LinkError("it reported its offset twice, but did not continue with CMHA")
        if len(content) < REPLY.size:
            return content
        _, version, _, broker_id, chance, proof = REPLY.unpack_from(content)
        if version != VERSION or broker_id <= 0:
            raise LinkError(
                f"it uses CMHA version {version} and broker id {broker_id}; version {VERSION} and an id above 0 are needed"
            )
        said = content[: REPLY.size - len(NO_PROOF)]
        parts = (self._chance, REPORT.pack(self._start), said)
        if not is_proof(self._terms.secret, proof, b"slave", *parts):
            self._outgoing += WELCOME.pack(
                MAGIC, VERSION, Verdict.NOT_PROVEN, 0, 0, 0, 0, NO_PROOF
            )
            raise LinkError(
                "its proof of the secret is wrong: haSecretFile must be the same at every member"
            )
        head = WELCOME.pack(
            MAGIC, VERSION, Verdict.WELCOME,
            log.oldest, log.end, log.flushed, log.file_size, NO_PROOF,
        )[: -len(NO_PROOF)]  # fmt: skip
        self._outgoing += head + proof_of(
            self._terms.secret, b"master", chance, self._chance, REPORT.pack(self._start), head
        )
        self.broker_id = broker_id
        self._begin(log)
        return content[REPLY.size :]

    def _begin_plain(self, log: LogBounds) -> None:
        """Begin to send the log to a RocketMQ slave; raise LinkError if a secret is set or its log cannot be continued."""
        if self._terms.secret is not None:
            raise LinkError(
                "haSecretFile is set, but it sent no proof of the secret; a Java slave cannot send one"
            )
        if self._start > log.end:
            raise LinkError(
                f"its log ends at physical offset {self._start}, ahead of this log, which ends at {log.end}; "
                "compare the two (`cometmq store compare`), and empty the wrong one"
            )
        if 0 < self._start < log.oldest:
            raise LinkError(
                f"its log ends at physical offset {self._start}, but this log starts at {log.oldest}, because older files "
                "were deleted; empty its store, and it will get everything that this broker has"
            )
        self._begin(log)

    def _begin(self, log: LogBounds) -> None:
        self._step = MasterStep.COPYING
        # An empty log, which may begin at any file, gets everything.
        self.sent = self._start or log.oldest
        if log.oldest <= self.sent <= log.end:
            # Otherwise it gets nothing; a slave of ours finds out the reason itself.
            self.acked = self._start

    def _reports(self, content: bytes) -> bytes:
        """Process acknowledgements, of which only the last one counts; return the bytes of an incomplete one."""
        whole = len(content) // REPORT.size * REPORT.size
        if whole:
            (acked,) = REPORT.unpack_from(content, whole - REPORT.size)
            if acked < self.acked or acked > self.sent:
                raise LinkError(
                    f"it acknowledged physical offset {acked} after {self.acked}, but was sent bytes up to {self.sent}"
                )
            self.acked = acked
        return content[whole:]
