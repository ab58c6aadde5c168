"""Keeps a table's file in step with the table: one save at a time, in a thread that is lent.

Changes that come while a save runs share the next one; whoever must not be answered before a change
is on disk waits for the future that its `save_soon` gave. Several share it, so nobody can cancel it: one
whose peer goes away would take it from the others.

A save writes the whole table, and making its text takes the processor from the loop; so after one that
took long nothing is saved for some time, and what changes meanwhile shares the next one.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.config_file import ConfigFile

_log = logging.getLogger(__name__)

# A pause follows a save, so many times as long as its text took to make; none where that is too short
# to be felt.
_PAUSE_FACTOR = 4
_PAUSE_SECONDS_MIN = 0.01

# Takes the table's present content, on the loop; what it gives makes the text, in the thread.
Snapshot = Callable[[], Callable[[], str]]


class _Saved(asyncio.Future[None]):
    """Done when a save is; a task that is cancelled while it waits ends then."""

    def cancel(self, msg: object = None) -> bool:
        """Refuse: others wait, too."""
        del msg
        return False


class Saver:
    """Saves one table.

    Attributes:
        is_dirty: whether something has changed that no save has brought to disk.
        on_dirty: each is told when the first such change comes.
    """

    def __init__(self, file: ConfigFile, snapshot: Snapshot, pool: Executor) -> None:
        self.is_dirty = False
        self.on_dirty: list[Callable[[], None]] = []
        self._file = file
        self._snapshot = snapshot
        self._pool = pool
        self._running: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._began = 0.0  # The save that runs, seconds of the loop.

    def changed(self) -> None:
        """Something has changed; `save_if_dirty` saves it."""
        if not self.is_dirty:
            self.is_dirty = True
            for tell in self.on_dirty:
                tell()

    def save_soon(self) -> asyncio.Future[None]:
        """Save the table as it is now; done when it is on disk, RequestError when it cannot be."""
        self.is_dirty = True
        if self._running is None and self._pause is None:
            return self._begin(_Saved())
        if self._next is None:
            self._next = _Saved()
        return self._next

    def saving(self) -> "asyncio.Future[None] | None":
        """Return what is done when the table is on disk as it is now; None if it is already."""
        if self.is_dirty:
            return self.save_soon()
        return self._next or self._running

    def save_if_dirty(self) -> None:
        """Save what has changed, or what could not be saved before."""
        if self.is_dirty and self._running is None and self._pause is None:
            self.save_soon()

    async def close(self) -> None:
        """Bring everything to disk; failures are logged."""
        while self._running is not None or self._pause is not None:
            if self._running is not None:
                await asyncio.wait([self._running])
            else:
                self._go_on()
        if self.is_dirty:
            await asyncio.wait([self.save_soon()])

    def _begin(self, waiter: asyncio.Future[None]) -> asyncio.Future[None]:
        self._running = waiter
        self._next = None
        self.is_dirty = False
        encode = self._snapshot()
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        work = loop.run_in_executor(self._pool, self._write, encode)
        work.add_done_callback(self._written)
        return waiter

    def _write(self, encode: Callable[[], str]) -> float:
        """Write the text; processor seconds that it took to make it."""
        began = time.thread_time()
        text = encode()
        took = time.thread_time() - began
        self._file.save(text)
        return took

    def _written(self, work: "asyncio.Future[float]") -> None:
        waiter, self._running = self._running, None
        assert waiter is not None
        error = work.exception()
        if error is None:
            waiter.set_result(None)
        else:
            self.changed()
            _log.error("cannot write %s: %s", self._file.path, error)
            waiter.set_exception(
                RequestError(
                    ResponseCode.SERVICE_NOT_AVAILABLE,
                    "the change is in force but could not be written to disk; see the broker's log",
                )
            )
            waiter.exception()  # Nobody has to wait for it.
        pause = 0.0
        if error is None:
            # No longer than it was on the loop: under virtual time, where computing takes none, a run stays the same.
            passed = asyncio.get_running_loop().time() - self._began
            pause = min(work.result(), passed) * _PAUSE_FACTOR
        if pause >= _PAUSE_SECONDS_MIN:
            self._pause = asyncio.get_running_loop().call_later(pause, self._go_on)
        elif self._next is not None:
            self._begin(self._next)

    def _go_on(self) -> None:
        """The pause is over: save what has changed meanwhile."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._next is not None:
            self._begin(self._next)
