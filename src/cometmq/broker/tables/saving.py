"""Saves a table to its file: one save at a time, in a pool thread.

In the leader of a group a save also ends only when a majority has the changes in the log, see `Logged`. Changes during a
save share the next one. Generators of steps that must wait for a change to be on disk pass the
future from `save_soon` to `saved`. Several callers share this future, so it cannot be cancelled.

A save writes the whole table, and encoding it may take processor time from the loop; of topics only those that changed
are encoded. After a save whose encoding was long there is therefore a pause; changes meanwhile share the next save.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.text import error_text
from cometmq.steps.steps import Done, Steps, called_back
from cometmq.store.config_file import ConfigFile

_log = logging.getLogger(__name__)

# The pause after a save, as a multiple of the encoding time; none if it would be too short to matter.
_PAUSE_FACTOR = 4
_PAUSE_SECONDS_MIN = 0.01

# Takes a snapshot of the table on the loop; the result encodes it, in the thread.
Snapshot = Callable[[], Callable[[], str]]
# Returns a future that is done when the log of a majority of the group has all changes until now, or fails with
# RequestError; None unless this broker leads a group.
Logged = Callable[[], "asyncio.Future[None] | None"]


def not_logged() -> None:
    """Return None (`Logged`): changes are in no log."""


class _Saved(asyncio.Future[None]):
    """A future that is done when a save has succeeded or failed, and the log that it waits for has the changes."""

    def __init__(self, logged: Logged) -> None:
        super().__init__()
        self.logged = logged

    def cancel(self, msg: object = None) -> bool:
        """Refuse (False), because others wait, too; a waiting task that is cancelled ends when the save is done."""
        del msg
        return False


class Saver:
    """Saves one table to its file.

    Attributes:
        is_dirty: Whether there are changes that no save has begun to write, or whose save has failed.
        on_dirty: Callbacks for the first such change, if `changed` notes it or a save has failed.
        logged: Waits for the log of the group that this broker leads, if it leads one; counts for later changes.
    """

    def __init__(self, file: ConfigFile, snapshot: Snapshot, pool: Executor) -> None:
        self.is_dirty = False
        self.on_dirty: list[Callable[[], None]] = []
        self.logged: Logged = not_logged
        self._file = file
        self._snapshot = snapshot
        self._pool = pool
        self._running: _Saved | None = None
        self._next: _Saved | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._began = 0.0  # Start of the current save, seconds of the loop.

    def changed(self) -> None:
        """Note a change of the table, without a save; `save_if_dirty`, or any other later save, writes it."""
        if not self.is_dirty:
            self.is_dirty = True
            for tell in self.on_dirty:
                tell()

    def save_soon(self) -> asyncio.Future[None]:
        """Save the table, at once or after the save or pause in progress, with all changes until then.

        Returns a future that is done when the table is on disk, or fails with RequestError.
        """
        self.is_dirty = True
        if self._running is None and self._pause is None:
            return self._begin(_Saved(self.logged))
        if self._next is None:
            self._next = _Saved(self.logged)
        return self._next

    def saving(self) -> "asyncio.Future[None] | None":
        """Return a future that is done when the table as it is now is on disk, or None if it is already.

        Requests a save if none has begun to write the last changes. The future fails as that of `save_soon`.
        """
        if self.is_dirty:
            return self.save_soon()
        return self._next or self._running

    def save_if_dirty(self) -> None:
        """Save changes, including those whose save has failed, unless a save or the pause after it is in progress."""
        if self.is_dirty and self._running is None and self._pause is None:
            self.save_soon()

    async def close(self) -> None:
        """Save the table a last time, if needed; failures are logged."""
        while self._running is not None or self._pause is not None:
            if self._running is not None:
                await asyncio.wait([self._running])
            else:
                self._go_on()
        if self.is_dirty:
            await asyncio.wait([self.save_soon()])

    def _begin(self, waiter: _Saved) -> _Saved:
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
        """Encode and write the table; return the processor seconds of the encoding."""
        began = time.thread_time()
        text = encode()
        took = time.thread_time() - began
        self._file.save(text)
        return took

    def _written(self, work: "asyncio.Future[float]") -> None:
        error, waiter = work.exception(), self._running
        assert waiter is not None
        if error is not None:
            _log.error("cannot write %s: %s", self._file.path, error_text(error))
            error = RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "the change is in force but could not be written to disk; see the broker's log",
            )
        elif (logging := waiter.logged()) is not None:
            logging.add_done_callback(lambda done: self._ended(work, done.exception()))
            return
        self._ended(work, error)

    def _ended(self, work: "asyncio.Future[float]", error: BaseException | None) -> None:
        waiter, self._running = self._running, None
        assert waiter is not None
        if error is None:
            waiter.set_result(None)
        else:
            self.changed()
            waiter.set_exception(error)
            waiter.exception()  # Marks the exception as seen: nobody may be waiting.
        pause = 0.0
        if error is None:
            # At most the time that passed on the loop: under virtual time computing takes none, and runs stay reproducible.
            passed = asyncio.get_running_loop().time() - self._began
            pause = min(work.result(), passed) * _PAUSE_FACTOR
        if pause >= _PAUSE_SECONDS_MIN:
            self._pause = asyncio.get_running_loop().call_later(pause, self._go_on)
        elif self._next is not None:
            self._begin(self._next)

    def _go_on(self) -> None:
        """End the pause and begin the save that `save_soon` has requested meanwhile, if any."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._next is not None:
            self._begin(self._next)


def saved(*savings: "asyncio.Future[Any] | None") -> Steps[None]:
    """Wait until these futures of saves are all done (None: no save); raise the RequestError of a failed one."""
    error = None
    for saving in savings:
        if saving is not None:
            error = (yield from called_back(partial(_when_done, saving))) or error
    if error is not None:
        raise error


def _when_done(saving: "asyncio.Future[Any]", done: Done) -> None:
    saving.add_done_callback(lambda _: done(saving.exception(), None))
