"""Replicates a master's log on a slave: connects, compares the ends of both logs, copies, and reconnects."""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from concurrent.futures import Executor

from cometmq.broker.replication.master_link import MasterLink
from cometmq.broker.tables.replication_state import MasterState, ReplicationState
from cometmq.codec.bodies.ha_status import STOPPED_WORDS
from cometmq.codec.replication import CHANCE_SIZE
from cometmq.model.address import split_address
from cometmq.model.clock import Clock
from cometmq.model.errors import CopyingStopped, SettingsError
from cometmq.model.text import error_text
from cometmq.model.tls import TlsSettings
from cometmq.net.tasks import Tasks
from cometmq.net.tls import client_context
from cometmq.replication.slave_end import SlaveEnd, joint_start
from cometmq.replication.terms import LinkTerms
from cometmq.store.message_store import MessageStore

_log = logging.getLogger(__name__)

# Pauses before reconnecting: after a connection that worked, after others, and if the logs do not fit.
_AGAIN_SECONDS = 1.0
_RETRY_SECONDS = 5.0  # DefaultHAClient of RocketMQ 5.3.3.
_LOOK_AGAIN_SECONDS = 60.0
_CONNECT_SECONDS = 5.0


class LogCopier:
    """The slave's side of log replication, from `serve` to `close`."""

    def __init__(
        self,
        store: MessageStore,
        *,
        broker_id: int,
        own_ip: str | None,
        terms: LinkTerms,
        clock: Clock,
        pool: Executor,
        on_written: Callable[[], None],
        tls: TlsSettings | None = None,
    ) -> None:
        """No other component may append to `store`; `own_ip` is the local address of connections, None: any.

        Threads of `pool` read this broker's log and certificates; `on_written` is called to flush what was appended;
        without `tls` there is no TLS.
        """
        self._store = store
        self._side = store.replica_side
        self._broker_id = broker_id
        self._own_ip = own_ip
        self._terms = terms
        self._clock = clock
        self._pool = pool
        self._on_written = on_written
        self._tls = tls
        self._address = ""
        self._is_told = asyncio.Event()
        self._link: MasterLink | None = None
        self._last: MasterLink | None = None
        self._stopped: str | None = None
        self._error: str | None = None
        self._tasks = Tasks("copier")

    def serve(self) -> None:
        """Let the store refuse messages, and start the job that copies the log once the master's address is known."""
        self._side.begin_copying()
        self._side.on_moved(self._moved)
        self._tasks.spawn(self._run(), "run")

    async def close(self) -> None:
        """Stop copying and close the connection."""
        await self._tasks.close()
        if self._last is not None:
            await asyncio.wait([self._last.gone], timeout=1)

    def master_told(self, address: str) -> None:
        """Set the master's HA address, "host:port", and close a present connection; ignored if empty or unchanged."""
        if not address or address == self._address:
            return
        _log.info("the log is copied from the master's HA port, %s", address)
        self._address = address
        self._stopped = self._error = None
        self._is_told.set()
        if self._link is not None:
            self._link.close()

    def knows(self, _ip: str) -> bool:
        """Return False: a slave has no slaves."""
        return False

    def state(self) -> ReplicationState:
        """Return the replication state of this slave."""
        link, end = self._link, self._store.max_offset
        seen = link or self._last
        master = MasterState(
            address=self._address,
            max_offset=end,
            master_flushed=(seen.end.master_flushed if seen else 0)
            or self._side.master_flushed,
            is_active=link is not None and link.is_active,
            bytes_per_second=link.bytes_per_second if link is not None else 0,
            read_ms=seen.read_ms if seen is not None else 0,
            written_ms=seen.written_ms if seen is not None else 0,
            stopped=None if link is not None and link.is_active else self._stopped,
            error=link.trouble if link is not None else self._error,
        )
        return ReplicationState(is_master=False, max_offset=end, master=master)

    def _moved(self) -> None:
        if self._link is not None:
            self._link.moved()

    async def _run(self) -> None:
        while True:
            await self._is_told.wait()
            self._is_told.clear()
            pause = await self._copy(self._address)
            if self._address:
                # A new address ends the pause.
                try:
                    async with asyncio.timeout(pause):
                        await self._is_told.wait()
                except TimeoutError:
                    self._is_told.set()

    async def _copy(self, address: str) -> float:
        """Try to connect, copy until the connection ends, and return the seconds to pause before the next attempt."""
        link = await self._connect(address)
        if link is None:
            return _RETRY_SECONDS
        self._last = self._link = link
        if address != self._address:  # The address changed meanwhile.
            link.close()
        try:
            await asyncio.shield(link.gone)
        finally:
            self._link = None
            link.close()
        if isinstance(link.why, CopyingStopped):
            self._stop(link.why)
            return _LOOK_AGAIN_SECONDS
        if link.end.is_copying and link.end.is_joined:
            self._stopped = self._error = None
        self._say(str(link.why or "the master closed the connection"))
        return _AGAIN_SECONDS if link.read_ms else _RETRY_SECONDS

    def _stop(self, why: CopyingStopped) -> None:
        advice = why.advice or (
            "Find out which of the two is right (`cometmq store compare` with copies of both stores), and start the "
            "other with an empty storePathRootDir"
        )
        stopped = f"{why}{STOPPED_WORDS}{advice}"
        if stopped != self._stopped:
            _log.error("copying from %s has stopped: %s", self._address, stopped)
        self._stopped = self._error = stopped

    def _say(self, error: str) -> None:
        if error != self._error:
            _log.warning("the log is not copied from master %s: %s", self._address, error)
        self._error = error

    async def _connect(self, address: str) -> MasterLink | None:
        store, size = self._store, self._side.file_size
        end = store.max_offset
        # The first report acknowledges this offset, so it must not be more than a restart finds.
        start = joint_start(store.min_offset, min(end, self._side.sendable), size)
        loop = asyncio.get_running_loop()
        try:
            joint = await loop.run_in_executor(self._pool, self._read, start, end)
        except OSError as error:
            self._say(f"the end of this log cannot be read: {error.strerror or error}")
            return None

        def make() -> MasterLink:
            machine = SlaveEnd(
                self._terms,
                broker_id=self._broker_id,
                start=start,
                end=end,
                file_size=size,
                chance=secrets.token_bytes(CHANCE_SIZE),
                now=self._clock.monotonic(),
            )
            return MasterLink(
                machine, joint, store=store, clock=self._clock, on_written=self._on_written
            )

        own = None if self._own_ip is None else (self._own_ip, 0)
        try:
            host, port = split_address(address)
            async with asyncio.timeout(_CONNECT_SECONDS):
                context = await loop.run_in_executor(self._pool, self._context)
                _, link = await loop.create_connection(
                    make, host, port, local_addr=own, ssl=context
                )
        # Timeouts and TLS errors are OSErrors, too.
        except (OSError, ValueError, SettingsError) as error:
            self._say(f"cannot connect: {error_text(error) or 'it does not answer'}")
            return None
        return link

    def _context(self) -> ssl.SSLContext | None:
        """Create the TLS context from the current files, or return None without TLS; runs in a thread."""
        return None if self._tls is None else client_context(self._tls)

    def _read(self, start: int, end: int) -> bytes:
        """Return the bytes of this log from `start` to `end`; runs in a thread; raise OSError if it lacks some."""
        pieces = []
        while start < end:
            piece = self._store.read_log(start, end - start)
            if not piece:
                raise OSError(f"the log has no bytes at physical offset {start}")
            pieces.append(bytes(piece))
            start += len(piece)
        return b"".join(pieces)
