"""A connection to a master, at its slave: the machine, its transport, and bytes on their way into the store."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from cometmq.broker.replication.rate import ByteRate
from cometmq.broker.replication.received_log import LogIntake
from cometmq.model.clock import Clock
from cometmq.model.errors import CopyingStopped, LinkError, StoreError
from cometmq.replication.slave_end import LogPiece, SlaveEnd
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
# So long the rest of a frame is waited for, before what is there of it is appended: a turn for each costs as much as a hundred messages.
_REST_SECONDS = 0.001
# What is received while no log comes: less than this a master says before it.
_WORDS_SIZE = 4096
# A store that takes nothing for now (a full disk, a checkpoint under way) is asked again so soon.
_RETRY_SECONDS = 0.5


class MasterLink(asyncio.BufferedProtocol):
    """One connection.

    Attributes:
        end: the machine.
        gone: done when it is closed.
        why: what ended it; None: the master, or nobody yet.
        trouble: why bytes that came are not taken just now; None: they are.
        read_ms: when bytes came last, ms since 1970; 0: never.
        written_ms: when this end wrote last, the same.
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
        """`joint` is what this log has from `end.start` on; `on_written` flushes what was appended."""
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
        self._rest: asyncio.TimerHandle | None = (
            None  # While the rest of a frame is waited for.
        )
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        """Whether bytes may come, and the two logs fit."""
        return self._transport is not None and self.end.is_copying and self.end.is_joined

    @property
    def bytes_per_second(self) -> int:
        """Of the log, in the last whole second."""
        return self._rate.per_second(self._clock.monotonic())

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands: ask for the log."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        self._report()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def get_buffer(self, _size: int) -> memoryview:
        """Have the log received where it is to be read."""
        size = self.end.log_wanted
        if size:
            self._received_in = self._intake.space(size)
        else:
            self._received_in = self._words[: self.end.head_wanted or _WORDS_SIZE]
        return self._received_in

    def buffer_updated(self, count: int) -> None:
        """Bytes of the log came, or what goes before them."""
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
        """End the link when the connection is gone."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._forget_rest()
        if not self.gone.done():
            self.gone.set_result(None)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    # --- what it does

    def moved(self) -> None:
        """The log was written or flushed: more may be acknowledged, and read."""
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
        """Compare what is known, and keep what is new.

        Raises:
            CopyingStopped: the two logs differ.
        """
        if not piece.is_known:
            if self.end.is_java and self._store.replica_side.is_empty and not self._intake.size:
                _log.warning(
                    "a Java master gives an empty slave its last file only: this log begins at physical "
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
        """Append what is due, in a turn of its own, and read as long as there is room."""
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
            # What came waits, nothing more is read, and the master knows how far we are.
            self.trouble = str(error)
            self._is_work_near = True
            self._loop.call_later(_RETRY_SECONDS, self._work)
            return
        self._store.dispatch_pending()  # Which tells `moved`.
        self._intake.took_time(self._clock.monotonic() - began)
        self._on_written()
        self._go_on()


def first_difference(ours: memoryview, theirs: memoryview) -> int:
    """The place of the first byte that differs, of two pieces of one size that do; byte by byte a frame would take the loop 50 ms."""
    same, end = 0, len(ours)
    while end - same > 1:
        middle = (same + end) // 2
        if ours[same:middle] == theirs[same:middle]:
            same = middle
        else:
            end = middle
    return same
