"""The positions of the log: offsets up to which it is written, in its files, on the device, confirmed and visible.

    start ... flushed ... committed ... written ... allocated

`confirmed` is the offset up to which messages may be acknowledged and then shown to consumers: `written` with
ASYNC_FLUSH, `flushed` with SYNC_FLUSH; while replicas are required, it only grows up to what they have. Only this module
implements the rule (docs/design/0036).
"""

from enum import Enum

from cometmq.store.file_chain import FileChain


class Durability(Enum):
    """Outcome of waiting until the log is flushed, or confirmed (stored as safely as configured), up to an offset.

    It is OK, DISK_LATE, REPLICA_LATE or, with too few replicas in sync, NO_REPLICA; in a group that elects its leader
    NOT_COMMITTED in place of the last two, as a later leader may lack such messages.
    """

    OK = "stored"
    DISK_LATE = "not flushed to the device in time"
    REPLICA_LATE = "not replicated in time"
    NO_REPLICA = "no replica is connected"
    NOT_COMMITTED = "not stored by a majority of the group in time"


class Positions:
    """Physical offsets of one log, which only grow, except by `go_back`; `replicated` may also shrink.

    Invariants: start <= flushed <= committed <= written <= allocated; confirmed <= local; dispatched <= local and
    committed.

    Attributes:
        written: End of the last record.
        committed: End of the last record in its file; the rest is staged in memory (cometmq.store.staged_log).
        flushed: End of the part that is known to be on the device.
        confirmed: End of the messages that may be acknowledged.
        dispatched: End of the records that were added to their queues.
        needs_flush: Whether messages must be flushed to be confirmed (SYNC_FLUSH).
        replicated: End of the part that all required replicas have; None if none are required.
        replica_count: Number of members in sync; 0 if there are fewer than required, or until it is first set; in a group that
            elects its leader 1 if this broker leads, else 0.
        is_elected: Whether a group of brokers elects its leader: what is not replicated may be truncated, so it is never shown.
        given_up: End of the last send whose waiter was called back because its time was over; 0 without any.
        refusal: Reason why sends that need replicas are not even stored; None if they are stored.
    """

    __slots__ = (
        "_chain",
        "_is_written_enough",
        "committed",
        "confirmed",
        "dispatched",
        "flushed",
        "given_up",
        "is_elected",
        "needs_flush",
        "refusal",
        "replica_count",
        "replicated",
        "written",
    )

    def __init__(self, chain: FileChain, *, needs_flush: bool) -> None:
        self._chain = chain
        self.needs_flush = needs_flush
        self._is_written_enough = not needs_flush
        self.replicated: int | None = None
        self.replica_count = 0
        self.is_elected = False
        self.given_up = 0
        self.refusal: str | None = None
        self.written = self.committed = self.flushed = 0
        self.confirmed = self.dispatched = 0

    @property
    def local(self) -> int:
        """Physical offset up to which this broker has done its own part: `flushed` with SYNC_FLUSH, else `written`."""
        return self.flushed if self.needs_flush else self.written

    @property
    def sendable(self) -> int:
        """Physical offset up to which the log survives the death of this process and, with SYNC_FLUSH, of the machine.

        A master sends slaves nothing after it, so none is ahead after such a death; slaves acknowledge nothing after it.
        """
        return self.flushed if self.needs_flush else self.committed

    def visible_limit(self) -> int:
        """Return the physical offset up to which messages may be shown to consumers: readable, and confirmed or given up.

        Messages that too few replicas got in time, or at all, are given up, but stay; in a group that elects its leader
        none is given up. No property, for speed.
        """
        confirmed, committed = self.confirmed, self.committed
        if self.replicated is not None and confirmed < self.written and not self.is_elected:
            given_up = self.given_up if self.replica_count else self.written
            confirmed = max(confirmed, min(given_up, self.local))
        # Runs for each send, where calling `min` costs as much as ten of these lines.
        return committed if committed < confirmed else confirmed  # noqa: FURB136

    def begin_at(self, end: int) -> None:
        """Set the end of a recovered or new log: all before it counts as flushed, confirmed and dispatched."""
        self.written = self.committed = self.flushed = end
        self.confirmed = self.dispatched = end
        self._check()

    def wrote(self, end: int) -> None:
        """Record that a batch that ends at an offset is in its log files."""
        assert self.written <= end <= self._chain.files[-1].end
        self.written = self.committed = end
        if self._is_written_enough:
            self.confirmed = end

    def staged(self, end: int) -> None:
        """Record that a batch that ends at an offset is staged in memory."""
        assert self.written <= end <= self._chain.files[-1].end
        self.written = end
        if self._is_written_enough:
            self.confirmed = end

    def wrote_staged(self) -> None:
        """Record that all staged batches are in their files."""
        self.committed = self.written

    def flushed_to(self, end: int) -> None:
        """Record that a flush has brought the log to the device up to an offset."""
        if end > self.flushed:
            self.flushed = end
            self._confirm()

    def replicated_to(self, end: int | None, replica_count: int) -> None:
        """Record up to which physical offset all required replicas have the log; None if replicas are no longer required.

        `replica_count` is the number of members in sync, 0 if there are too few.
        """
        self.replicated, self.replica_count = end, replica_count
        self._is_written_enough = not self.needs_flush and end is None
        self._confirm()

    def dispatched_to(self, end: int) -> None:
        """Record that the records before this offset were added to their queues."""
        # Same as `local`, inlined because a property costs several times as much per single send.
        assert self.dispatched <= end <= (self.flushed if self.needs_flush else self.written)
        self.dispatched = end

    def go_back(self, end: int) -> None:
        """Move the positions after the end of a truncated log back to it."""
        assert self._chain.start <= end <= self.written
        self.written = end
        for name in ("committed", "flushed", "confirmed", "dispatched", "given_up"):
            setattr(self, name, min(getattr(self, name), end))
        if self.replicated is not None:
            self.replicated = min(self.replicated, end)
        self._check()

    def why_late(self, end: int) -> Durability:
        """Return the reason why an offset that is not confirmed yet is late.

        If disk and replicas are late, the replicas are reported: CommitLog.handleDiskFlushAndHA of RocketMQ 5.3.3.
        """
        if self.replicated is None or self.replicated >= end:
            return Durability.DISK_LATE
        if self.is_elected:
            return Durability.NOT_COMMITTED
        return Durability.REPLICA_LATE if self.replica_count else Durability.NO_REPLICA

    def _confirm(self) -> None:
        """Raise `confirmed` to the offset that flush and replicas allow; never lower it."""
        end = self.local
        if self.replicated is not None:
            end = min(end, self.replicated)
        self.confirmed = max(self.confirmed, end)
        self._check()

    def _check(self) -> None:
        assert self._chain.start <= self.flushed <= self.committed <= self.written
        assert self.written <= self._chain.end
        assert self.dispatched <= min(self.local, self.committed)
        assert self.confirmed <= self.written
