"""A connection of a slave, at its master: the machine, its transport, and reads of the log."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol, cast

from cometmq.broker.replication.rate import ByteRate
from cometmq.broker.tables.replication_state import CopyState
from cometmq.model.errors import LinkError
from cometmq.replication.master_end import MasterEnd, Span
from cometmq.replication.pace import Pace
from cometmq.replication.terms import LogBounds
from cometmq.store.disk import Buffer
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

# Frames that are sent to one slave in a turn of the loop.
_FRAMES_A_TURN = 2


class LinkOwner(Protocol):
    """The port of a connection, as the connection sees it (`MasterPort`)."""

    def bounds(self) -> LogBounds: ...  # noqa: D102
    def now(self) -> float: ...  # noqa: D102
    def joined(self, link: "SlaveLink") -> None: ...  # noqa: D102
    def acked(self, link: "SlaveLink") -> None: ...  # noqa: D102
    def failed(self, link: "SlaveLink", why: str) -> None: ...  # noqa: D102
    def left(self, link: "SlaveLink") -> None: ...  # noqa: D102


class SlaveLink(asyncio.Protocol):
    """One connection.

    Attributes:
        end: the machine.
        ip: where it comes from.
        name: the same for people, with its id where it has one.
        gone: done when it is closed.
    """

    def __init__(
        self,
        port: LinkOwner,
        end: MasterEnd,
        remote: tuple[str, int],
        *,
        store: MessageStore,
        pool: Executor,
    ) -> None:
        """Nothing is read before it is attached."""
        self.end = end
        self.ip = remote[0]
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._port = port
        self._remote = f"{remote[0]}:{remote[1]}"
        self._store = store
        self._pool = pool
        self._rate = ByteRate()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_reading = False  # A piece of the log, in a thread.
        self._again: asyncio.Handle | None = None  # When it is pumped again by itself.

    @property
    def member(self) -> str:
        """The name of the slave, whatever its connection: a slave of ours by id, a Java slave by IP."""
        number = self.end.broker_id
        return self.ip if number is None else f"id {number}"

    @property
    def is_open(self) -> bool:
        """Whether the connection stands."""
        return self._transport is not None

    @property
    def name(self) -> str:
        """For people."""
        number = self.end.broker_id
        return self._remote if number is None else f"{number} at {self._remote}"

    def state(self, end: int, *, is_in_sync: bool, error: str | None) -> CopyState:
        """The state of this slave's copy."""
        return CopyState(
            address=self._remote,
            broker_id=self.end.broker_id,
            acked=max(self.end.acked, 0),
            gap=end - max(self.end.acked, 0),
            is_in_sync=is_in_sync,
            transferred_per_second=self._rate.per_second(self._port.now()),
            sent=self.end.sent,
            error=error,
        )

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.

    def data_received(self, content: bytes) -> None:
        """Reports came, or what goes before them."""
        was_copying, acked = self.end.is_copying, self.end.acked
        self._do(lambda: self.end.received(content, self._port.bounds(), self._port.now()))
        self._told(is_new=not was_copying, acked=acked)

    def eof_received(self) -> None:
        """End the link when the slave says nothing more, whether or not it reads what is on its way."""
        self.close()

    def pause_writing(self) -> None:
        """The connection takes no more for now."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Go on sending when the transport has room again."""
        self._is_paused = False
        self.pump()

    def connection_lost(self, _error: Exception | None) -> None:
        """End the link when the connection is gone."""
        self._transport = None
        self._forget_again()
        self._port.left(self)
        self.gone.set_result(None)

    # --- asked by the port

    def tick(self) -> None:
        """Time has passed."""
        if self._transport is None or self._transport.is_closing():
            return
        was_copying, acked = self.end.is_copying, self.end.acked
        self._do(lambda: self.end.tick(self._port.bounds(), self._port.now()))
        self._told(is_new=not was_copying, acked=acked)
        beat = None if self._is_busy else self.end.heartbeat(self._port.now())
        if beat is not None and self._transport is not None:
            self._transport.write(beat)

    def pump(self) -> None:
        """Send what the slave may have by now, as far as its connection takes it."""
        for _ in range(_FRAMES_A_TURN):
            if self._is_busy:
                return
            span = self.end.wanted(self._port.bounds())
            if span is None:
                return
            if self.end.pace is not None and self._waits(self.end.pace, span.size):
                return
            content = self._read_nowait(span)
            if content is None:
                return
            self._send(content)
        if self._again is None:
            self._again = asyncio.get_running_loop().call_soon(self._pump_again)

    def bound(self, per_second: int | None) -> None:
        """From now on send so many bytes of the log a second at most; None: as many as it takes."""
        pace = self.end.pace
        if per_second == (None if pace is None else pace.per_second):
            return
        if per_second is None:
            self.end.pace = None
        elif pace is None:
            self.end.pace = Pace(per_second)
        else:
            pace.change(per_second)
        self._forget_again()
        self.pump()

    def fail(self, why: str) -> None:
        """Close the connection, for a reason that is told."""
        if self._transport is not None and not self._transport.is_closing():
            self._port.failed(self, why)
            self._transport.abort()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    # --- what it does

    @property
    def _is_busy(self) -> bool:
        """Whether nothing can be sent just now."""
        transport = self._transport
        is_held = self._is_paused or self._is_reading
        return is_held or transport is None or transport.is_closing()

    def _do(self, step: Callable[[], None]) -> None:
        """Take a step of the machine, and write what it says before it ends."""
        why = None
        try:
            step()
        except LinkError as error:
            why = str(error)
        outgoing = self.end.outgoing(self._port.now())
        if self._transport is not None and outgoing:
            self._transport.write(outgoing)
        if why is None:
            return
        if not outgoing:
            # Not behind what it does not read: that may be a quarter of an hour.
            self.fail(why)
        elif self._transport is not None:
            self._port.failed(self, why)
            self._transport.close()  # Behind what it is told, before anything of the log.

    def _told(self, *, is_new: bool, acked: int) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if is_new and self.end.is_copying:
            self._port.joined(self)
        if self.end.acked > acked:
            self._port.acked(self)
        if is_new:
            self.pump()

    def _waits(self, pace: Pace, size: int) -> bool:
        """Whether so many bytes are too many for now; it is pumped when they are not."""
        seconds = pace.wait(size, self._port.now())
        if seconds and self._again is None:
            self._again = asyncio.get_running_loop().call_later(seconds, self._pump_again)
        return seconds > 0

    def _pump_again(self) -> None:
        self._again = None
        self.pump()

    def _forget_again(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _read_nowait(self, span: Span) -> Buffer | None:
        """Read log that is in the page cache; else a thread reads it, and it is sent then."""
        try:
            content = self._store.replica_side.read_nowait(*span)
        except OSError as error:
            self.fail(f"the log cannot be read at {span.offset}: {error.strerror or error}")
            return None
        if content is None:
            self._is_reading = True
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(self._pool, self._store.read_log, *span)
            reading.add_done_callback(lambda done: self._read(span, done))
        return content

    def _read(self, span: Span, done: "asyncio.Future[Buffer | None]") -> None:
        """A thread has read a piece."""
        self._is_reading = False
        if done.cancelled() or self._transport is None or self._transport.is_closing():
            return
        error = done.exception()
        if error is not None:
            _log.error("the log cannot be read for slave %s", self.name, exc_info=error)
            self.fail(f"the log cannot be read at {span.offset}: {error}")
            return
        content = done.result()
        if content is None:
            self.fail(f"it needs bytes from {span.offset}, which are not there any more")
            return
        self._send(content)
        self.pump()

    def _send(self, content: Buffer) -> None:
        assert self._transport is not None
        now = self._port.now()
        self._rate.count(len(content), now)
        self._transport.writelines([self.end.frame_head(len(content), now), content])
