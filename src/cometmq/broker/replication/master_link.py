"""A slave's connection to its master: the protocol, its transport, and received bytes on their way into the store."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from cometmq.broker.replication.received_log import LogIntake
from cometmq.model.clock import Clock
from cometmq.model.errors import CopyingStopped, LinkError, StoreError
from cometmq.replication.pace import ByteRate
from cometmq.replication.slave_end import LogPiece, SlaveEnd
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
# How long to wait for the rest of a frame before a part of it is appended; an append costs as much as a hundred messages.
_REST_SECONDS = 0.001
# Size of the receive buffer before the log starts; the master sends less than this before it.
_WORDS_SIZE = 4096
# Time between retries if the store accepts nothing at the moment (a full disk, a checkpoint in progress).
_RETRY_SECONDS = 0.5


class MasterLink(asyncio.BufferedProtocol):
    """A slave's connection to its master, from which it receives the log.

    Attributes:
        end: The state machine of the protocol.
        gone: Done when the connection is closed.
        why: The first error for which this side closed the connection; None if there was none.
        trouble: Why the last append of received bytes failed, if it will be tried again; otherwise None.
        read_ms: When bytes were last received, epoch ms; 0 if never.
        written_ms: When a report was last sent, epoch ms; 0 if never.
    """

    def __init__(
        self,
        end: SlaveEnd,
        joint: bytes,
        *,
        store: MessageStore,
        clock: Clock,
        on_written: Callable[[], None],
    ) -> None:
        """`joint` has this log's bytes from `end.start` on, to compare; `on_written` is called to flush the store."""
        self.end = end
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.why: LinkError | None = None
        self.trouble: str | None = None
        self.read_ms = self.written_ms = 0
        self._joint = joint
        self._store = store
        self._clock = clock
        self._on_written = on_written
        self._intake = LogIntake(store, store.max_offset)
        self._rate = ByteRate()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._words = memoryview(bytearray(_WORDS_SIZE))
        self._received_in = self._words
        self._is_work_near = False
        # While the rest of a frame is waited for.
        self._rest: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        """Whether the connection to the master is open, and the comparison of the two logs found no difference."""
        return self._transport is not None and self.end.is_copying and self.end.is_joined

    @property
    def bytes_per_second(self) -> int:
        """Bytes received in the last full second that this log did not have."""
        return self._rate.per_second(self._clock.monotonic())

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the master the first report, which requests the log, and start the periodic checks and reports."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        self._report()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def get_buffer(self, _size: int) -> memoryview:
        """Return the buffer for the master's next bytes."""
        size = self.end.log_wanted
        if size:
            self._received_in = self._intake.space(size)
        else:
            self._received_in = self._words[: self.end.head_wanted or _WORDS_SIZE]
        return self._received_in

    def buffer_updated(self, count: int) -> None:
        """Process bytes received from the master; close the connection if they are faulty or the two logs differ."""
        self.read_ms = self._clock.now_ms()
        content = self._received_in[:count]
        try:
            for piece in self.end.received(content, self._clock.monotonic()):
                self._take(piece)
        except LinkError as error:
            self._end(error)
            return
        self._report()
        self._go_on()

    def connection_lost(self, _error: Exception | None) -> None:
        """Stop the timers and set `gone`, because the connection to the master is closed."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._forget_rest()
        if not self.gone.done():
            self.gone.set_result(None)

    def close(self) -> None:
        """Close the connection to the master."""
        if self._transport is not None:
            self._transport.abort()

    # --- behaviour

    def moved(self) -> None:
        """Report new offsets to the master and go on reading and appending: the slave's log was written or flushed."""
        self._report()
        self._go_on()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        try:
            self.end.tick(self._clock.monotonic())
        except LinkError as error:
            if self._transport is None or self._transport.is_reading():
                self._end(error)
                return
        self._report()
        self._go_on()

    def _end(self, error: LinkError) -> None:
        self.why = self.why or error
        self.close()

    def _report(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        kept, positions = self._store.replica_side.sendable, self._store.positions
        assert kept <= min(positions.confirmed, positions.committed)
        try:
            outgoing = self.end.outgoing(kept, self._clock.monotonic())
        except LinkError as error:
            self._end(error)
            return
        if outgoing:
            self._transport.write(outgoing)
            self.written_ms = self._clock.now_ms()

    def _take(self, piece: LogPiece) -> None:
        """Compare bytes that this log already has, and keep new ones; raise CopyingStopped if the two logs differ."""
        if not piece.is_known:
            if self.end.is_java and self._store.replica_side.is_empty and not self._intake.size:
                _log.warning(
                    "a Java master sends only its last file to an empty slave, so this log begins at physical "
                    "offset %d", piece.offset,
                )  # fmt: skip
            self._rate.count(len(piece.content), self._clock.monotonic())
            self._intake.took(piece.offset, piece.content)
            return
        at = piece.offset - self.end.start
        known = memoryview(self._joint)[at : at + len(piece.content)]
        if known != piece.content:
            raise self.end.differ(piece.offset + first_difference(known, piece.content))
        self.end.compared(piece.offset + len(piece.content))
        if self.end.is_joined:
            self._joint = b""

    def _go_on(self) -> None:
        """Schedule an append of received bytes if one is due, and read from the master as long as there is room."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._intake.is_due and self._intake.has_room and not self._is_work_near:
            is_rest_near = self.end.is_within_frame and not self._intake.is_full
            if is_rest_near and self._intake.size < self._intake.piece_size:
                if self._rest is None:
                    self._rest = self._loop.call_later(_REST_SECONDS, self._work)
            else:
                self._forget_rest()
                self._is_work_near = True
                self._loop.call_soon(self._work)
        if self._intake.is_full:
            if transport.is_reading():
                transport.pause_reading()
        elif not transport.is_reading():
            transport.resume_reading()

    def _forget_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _work(self) -> None:
        self._forget_rest()
        self._is_work_near = False
        self.trouble = None
        if self._transport is None:
            return
        began = self._clock.monotonic()
        try:
            self._intake.append()
        except CopyingStopped as error:
            self._end(error)
            return
        except StoreError as error:
            # The bytes stay, nothing more is read, and the master knows our offset.
            self.trouble = str(error)
            self._is_work_near = True
            self._loop.call_later(_RETRY_SECONDS, self._work)
            return
        self._store.dispatch_pending()  # This calls `moved`.
        self._intake.took_time(self._clock.monotonic() - began)
        self._on_written()
        self._go_on()


def first_difference(ours: memoryview, theirs: memoryview) -> int:
    """Return the index of the first byte that differs in two different blocks of the same size.

    Bisects, because a byte loop would take 50 ms per frame.
    """
    same, end = 0, len(ours)
    while end - same > 1:
        middle = (same + end) // 2
        if ours[same:middle] == theirs[same:middle]:
            same = middle
        else:
            end = middle
    return same
