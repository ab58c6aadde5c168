"""A master's connection to a slave: the protocol, its transport, and reads of the log."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, cast

from cometmq.broker.tables.replication_state import CopyState
from cometmq.model.errors import LinkError
from cometmq.net.connections import OpenConnection, ServedProtocol
from cometmq.replication.caught_up import CaughtUp
from cometmq.replication.master_end import MasterEnd, Span
from cometmq.replication.pace import ByteRate, Pace, limited
from cometmq.store.disk import Buffer
from cometmq.store.message_store import MessageStore

if TYPE_CHECKING:
    from cometmq.broker.replication.master_port import MasterPort

_log = logging.getLogger(__name__)

# Frames sent to one slave per loop iteration.
_FRAMES_A_TURN = 2


class SlaveLink(ServedProtocol):
    """A master's connection to a slave, to which it sends the log.

    Attributes:
        end: The state machine of the protocol.
        ip: The slave's IP.
    """

    def __init__(
        self,
        port: "MasterPort",
        end: MasterEnd,
        came: OpenConnection,
        *,
        store: MessageStore,
        pool: Executor,
    ) -> None:
        self.end = end
        self.ip = came.ip
        self.has_read = False
        self._port = port
        self._remote = f"{came.ip}:{came.accepted.remote[1]}"
        self._store = store
        self._pool = pool
        self._rate = ByteRate()
        self._caught_up = CaughtUp(store.max_offset, port.now())
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_reading = False  # Whether a thread reads a piece of the log.
        self._again: asyncio.Handle | None = None  # The scheduled `pump`.

    @property
    def member(self) -> str:
        """The identity of the slave across connections: "id N" with its broker id, or its IP if the id is unknown."""
        number = self.end.broker_id
        return self.ip if number is None else f"id {number}"

    @property
    def is_busy(self) -> bool:
        """Whether the connection is in use: its handshake has ended, so that the slave gets the log or heartbeats."""
        return self.end.is_copying

    @property
    def name(self) -> str:
        """The slave's address, with its id if known, for log lines."""
        number = self.end.broker_id
        return self._remote if number is None else f"{number} at {self._remote}"

    def state(self, end: int, *, is_in_sync: bool, error: str | None) -> CopyState:
        """Return the replication state of this slave."""
        return CopyState(
            address=self._remote,
            broker_id=self.end.broker_id,
            acked=max(self.end.acked, 0),
            gap=end - max(self.end.acked, 0),
            gap_seconds=self._caught_up.behind_seconds(self.end.acked, end, self._port.now()),
            is_in_sync=is_in_sync,
            bytes_per_second=self._rate.per_second(self._port.now()),
            sent=self.end.sent,
            error=error,
        )

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and add this connection to those of the port."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        self._port.came(self)

    def data_received(self, content: bytes) -> None:
        """Process the slave's reports and its handshake; close the connection if they are faulty."""
        self.has_read = True
        was_copying, acked = self.end.is_copying, self.end.acked
        self._do(lambda: self.end.received(content, self._port.bounds(), self._port.now()))
        self._told(is_new=not was_copying, acked=acked)

    def eof_received(self) -> None:
        """Close the connection when the slave closes its side, even if it still reads."""
        self.abort()

    def pause_writing(self) -> None:
        """Stop sending the log to the slave until the transport has room."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Continue to send the log to the slave, because the transport has room again."""
        self._is_paused = False
        self.pump()

    def connection_lost(self, _error: Exception | None) -> None:
        """Remove this connection from those of the port, because it is closed."""
        self._transport = None
        self._forget_again()
        self._port.left(self)

    # --- called by the port

    def tick(self) -> None:
        """Check the timeouts of a slave's connection, and send a heartbeat if one is due and sending is possible."""
        if self._transport is None or self._transport.is_closing():
            return
        was_copying, acked = self.end.is_copying, self.end.acked
        self._do(lambda: self.end.tick(self._port.bounds(), self._port.now()))
        self._told(is_new=not was_copying, acked=acked)
        beat = None if self._is_busy else self.end.heartbeat(self._port.now())
        if beat is not None and self._transport is not None:
            self._transport.write(beat)

    def pump(self) -> None:
        """Send the next frames of the log that the slave may have, as far as its connection and rate limit allow."""
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
        """Limit the rate of sending to a slave, in bytes of the log per second; None: no limit."""
        pace = self.end.pace
        if per_second == (None if pace is None else pace.per_second):
            return
        self.end.pace = limited(pace, per_second)
        self._forget_again()
        self.pump()

    def fail(self, why: str) -> None:
        """Close the connection to the slave, unless it is closed, and report the reason to the port."""
        if self._transport is not None and not self._transport.is_closing():
            self._port.failed(self, why)
            self._transport.abort()

    def abort(self) -> None:
        """Close the connection to the slave."""
        if self._transport is not None:
            self._transport.abort()

    # --- behaviour

    @property
    def _is_busy(self) -> bool:
        transport = self._transport
        is_held = self._is_paused or self._is_reading
        return is_held or transport is None or transport.is_closing()

    def _do(self, step: Callable[[], None]) -> None:
        """Take a step of the protocol and send its output, also before an error closes the connection."""
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
            # Closing without flushing: unread output could delay it for a quarter of an hour.
            self.fail(why)
        elif self._transport is not None:
            self._port.failed(self, why)
            self._transport.close()  # The slave still gets the error, but no log.

    def _told(self, *, is_new: bool, acked: int) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if is_new and self.end.is_copying:
            self._port.joined(self)
        self._caught_up.note(self.end.acked, self._store.max_offset, self._port.now())
        if self.end.acked > acked:
            self._port.acked(self)
        if is_new:
            self.pump()

    def _waits(self, pace: Pace, size: int) -> bool:
        """Return whether `size` bytes exceed the rate for now; if so, `pump` is scheduled."""
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
        """Return log from the page cache; None if a thread reads it, and sends it then, or an error closed the link."""
        try:
            content = self._store.replica_side.read_nowait(*span)
        except OSError as error:
            self.fail(
                f"the log cannot be read at physical offset {span.offset}: {error.strerror or error}"
            )
            return None
        if content is None:
            self._is_reading = True
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(self._pool, self._store.read_log, *span)
            reading.add_done_callback(lambda done: self._read(span, done))
        return content

    def _read(self, span: Span, done: "asyncio.Future[Buffer | None]") -> None:
        """Send the slave a piece of the log that a thread has read; close the connection if that failed."""
        self._is_reading = False
        if done.cancelled() or self._transport is None or self._transport.is_closing():
            return
        error = done.exception()
        if error is not None:
            _log.error("the log cannot be read for slave %s", self.name, exc_info=error)
            self.fail(f"the log cannot be read at physical offset {span.offset}: {error}")
            return
        content = done.result()
        if content is None:
            self.fail(
                f"it needs the log from physical offset {span.offset}, which no longer exists here"
            )
            return
        self._send(content)
        self.pump()

    def _send(self, content: Buffer) -> None:
        assert self._transport is not None
        now = self._port.now()
        self._rate.count(len(content), now)
        self._transport.writelines([self.end.frame_head(len(content), now), content])
