"""The positions of the log: written, in its files, on the device, confirmed, visible.

    start ... flushed ... committed ... written ... allocated

`confirmed` is what may be answered as stored, and then shown to consumers: with ASYNC_FLUSH what is
written, with SYNC_FLUSH what is flushed, and where replicas are asked for no more than they have. This
is the only place that knows the rule (docs/design/0036).
"""

from enum import Enum

from cometmq.store.file_chain import FileChain


class Durability(Enum):
    """The outcome of waiting for a position."""

    OK = "stored"
    DISK_LATE = "not on the device in time"
    REPLICA_LATE = "not on the replicas in time"
    NO_REPLICA = "there is no replica"


class Positions:
    """Physical offsets of one log; each moves forward, but for `go_back`.

    Invariants: start <= flushed <= committed <= written <= allocated; confirmed <= local;
    dispatched <= local and committed.

    Attributes:
        written: behind the last record.
        committed: behind the last that is in its file: where batches wait in memory
            (cometmq.store.staged_log) that is less.
        flushed: up to here the log is known to be on the device.
        confirmed: up to here messages may be answered as stored.
        dispatched: up to here they are in their queues.
        needs_flush: whether only what is flushed is confirmed (SYNC_FLUSH).
        replicated: up to here the replicas have the log that must have it; None: nobody asks.
        replica_count: how many members are in sync; 0: fewer than must have it.
        given_up: up to here nobody waits for replicas any more: who sent it has been told.
        refusal: why sends that wait for replicas are not even stored; None: they are.
    """

    __slots__ = (
        "_chain",
        "_is_written_enough",
        "committed",
        "confirmed",
        "dispatched",
        "flushed",
        "given_up",
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
        self.given_up = 0
        self.refusal: str | None = None
        self.written = self.committed = self.flushed = 0
        self.confirmed = self.dispatched = 0

    @property
    def local(self) -> int:
        """Up to where this broker alone can promise its log."""
        return self.flushed if self.needs_flush else self.written

    @property
    def sendable(self) -> int:
        """Up to where the log survives the death of this process, and with SYNC_FLUSH that of the machine.

        A master sends its slaves no more than this, so that it is never behind them after a restart. A slave
        acknowledges no more than this.
        """
        return self.flushed if self.needs_flush else self.committed

    def visible_limit(self) -> int:
        """Up to where dispatch may go: what is confirmed and can be read.

        No property, since a call of one costs twice as much on the way of each send that comes alone. What no replica will have in time is shown without: who sent it knows, and it stays.
        """
        confirmed, committed = self.confirmed, self.committed
        if self.replicated is not None and confirmed < self.written:
            given_up = self.given_up if self.replica_count else self.written
            confirmed = max(confirmed, min(given_up, self.local))
        # On the way of each send, where a call of `min` costs as much as ten of these lines.
        return committed if committed < confirmed else confirmed  # noqa: FURB136

    def begin_at(self, end: int) -> None:
        """All of the log that was found is flushed, confirmed and dispatched."""
        self.written = self.committed = self.flushed = end
        self.confirmed = self.dispatched = end
        self._check()

    def wrote(self, end: int) -> None:
        """A batch that ends here is in its files."""
        assert self.written <= end <= self._chain.files[-1].end
        self.written = self.committed = end
        if self._is_written_enough:
            self.confirmed = end

    def staged(self, end: int) -> None:
        """A batch that ends here waits in memory."""
        assert self.written <= end <= self._chain.files[-1].end
        self.written = end
        if self._is_written_enough:
            self.confirmed = end

    def wrote_staged(self) -> None:
        """All that waited in memory is in its files."""
        self.committed = self.written

    def flushed_to(self, end: int) -> None:
        """A flush has brought the log to the device, up to here."""
        if end > self.flushed:
            self.flushed = end
            self._confirm()

    def replicated_to(self, end: int | None, replica_count: int) -> None:
        """The replicas that count have the log up to here; None: no replica is asked for any more.

        Args:
            end: physical offset.
            replica_count: how many are in sync; 0: too few.
        """
        self.replicated, self.replica_count = end, replica_count
        self._is_written_enough = not self.needs_flush and end is None
        self._confirm()

    def dispatched_to(self, end: int) -> None:
        """The messages before this are in their queues."""
        # As `local`, which as a property costs several times as much on the way of each send that comes alone.
        assert self.dispatched <= end <= (self.flushed if self.needs_flush else self.written)
        self.dispatched = end

    def go_back(self, end: int) -> None:
        """The log was truncated to here."""
        assert self._chain.start <= end <= self.written
        self.written = end
        for name in ("committed", "flushed", "confirmed", "dispatched", "given_up"):
            setattr(self, name, min(getattr(self, name), end))
        if self.replicated is not None:
            self.replicated = min(self.replicated, end)
        self._check()

    def why_late(self, end: int) -> Durability:
        """The reason why an offset is not confirmed yet.

        Where the disk and the replicas are late, it is the replicas: CommitLog.handleDiskFlushAndHA of
        RocketMQ 5.3.3 combines them so.
        """
        if self.replicated is None or self.replicated >= end:
            return Durability.DISK_LATE
        return Durability.REPLICA_LATE if self.replica_count else Durability.NO_REPLICA

    def _confirm(self) -> None:
        """Confirm what the rule allows by now; nothing is taken back."""
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
