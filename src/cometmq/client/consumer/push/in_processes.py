"""A listener that runs in separate processes, for CPU-bound work in Python.

    with InProcesses(handle, processes=4) as listener:
        with PushConsumer(group="billing", listener=listener, subscriptions=["orders"]) as consumer:
            consumer.wait()

`handle` must be importable, because each process imports it. Messages, results and exceptions are pickled. If a process
dies, the running calls fail, and new processes are started; while none can start, calls wait, and their messages are not
sent back by a consume timeout. The processes end when their parent ends, for any reason.
"""

import contextvars
import copy
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self, cast

from cometmq.client.consumer.listeners import ListenerClosed, OrderlyStatus, Said
from cometmq.client.user_calls import is_async_function
from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given

_log = logging.getLogger(__name__)

# Child processes are forked from a server process without our threads and sockets; a fork of this process would share both.
_START_METHOD = "forkserver"
_PROCESSES_MAX = 1024
_START_SECONDS_MAX = 60.0
# Pause before processes are started again, doubled from the first value to the last, seconds.
_PAUSE_SECONDS = 0.5
_PAUSE_SECONDS_MAX = 30.0


class InProcesses:
    """A `listener` or `batch_listener` for push consumers that runs in separate processes.

    The consumer's `concurrency` should be at least `processes`.

    Attributes:
        is_broken: Whether the last attempt to replace processes that died has failed.

    Args:
        listener: An importable `def` function of one message or of a list.
        processes: Number of processes; None: one per processor.

    Raises:
        SettingsError: The listener is `async` or no function, `processes` is out of range, or no process can start and
            import the listener.
    """

    def __init__(
        self, listener: Callable[[Any], Said], *, processes: int | None = None
    ) -> None:
        if not callable(listener):
            raise SettingsError(f"listener is {as_given(listener)}; it must be a function")
        if is_async_function(listener):
            raise SettingsError(
                "InProcesses needs a `def` listener; pass an `async def` listener to the consumer directly, "
                "because it does not block"
            )
        if processes is not None and not 1 <= processes <= _PROCESSES_MAX:
            raise SettingsError(
                f"processes is {as_given(processes)}; it must be from 1 to {_PROCESSES_MAX}, or None"
            )
        self.is_broken = False
        self._listener = listener
        self._processes = processes or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._closed = threading.Event()
        context = multiprocessing.get_context(_START_METHOD)
        # Nothing is ever written: processes that read from it notice the end of this one.
        self._theirs, self._ours = context.Pipe(duplex=False)
        try:
            self._pool = self._make_pool()
        except Exception as error:
            self._close_pipe()
            raise SettingsError(
                f"no process can start and import {as_given(listener)} ({type(error).__name__}: {error}); "
                "it must be a function of a module, and the program must start its work below "
                'if __name__ == "__main__"'
            ) from error

    def _make_pool(self) -> ProcessPoolExecutor:
        """Make a pool of processes, and check that one can start and import the listener; raise the error if not."""
        context = multiprocessing.get_context(_START_METHOD)
        pool = ProcessPoolExecutor(
            self._processes, mp_context=context, initializer=_end_with, initargs=(self._theirs,)
        )
        try:
            pool.submit(_nothing, self._listener).result(_START_SECONDS_MAX)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return pool

    def __call__(self, given: Any) -> Said:
        """Run the listener in a process; return its result, or raise its error, BrokenProcessPool or ListenerClosed."""
        while True:
            pool = self._pool
            try:
                running = pool.submit(_run, self._listener, given)
            except BrokenProcessPool:  # The process had died before: this message was in none.
                self._renew(pool)
                continue
            except RuntimeError as error:  # The pool, or the interpreter, is shut down.
                raise _closed() from error
            try:
                said: Said = running.result()
            except BrokenProcessPool:
                self._renew(pool)
                raise
            return said

    def _renew(self, broken: ProcessPoolExecutor) -> None:
        """Replace a broken pool unless that was done; retry until it works, or raise ListenerClosed after `close`."""
        with self._lock:
            pause = _PAUSE_SECONDS
            while self._pool is broken:
                if self._closed.is_set():
                    raise _closed()
                try:
                    self._pool = self._make_pool()
                except Exception as error:  # noqa: BLE001  Whatever prevents processes from starting.
                    self.is_broken = True
                    _log.error(
                        "no process can start for %s (%s: %s); messages wait, next attempt in %s s",
                        as_given(self._listener), type(error).__name__, error, pause,
                    )  # fmt: skip
                    self._closed.wait(pause)
                    pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            self.is_broken = False

    def close(self) -> None:
        """Wait, without a timeout, for the calls in progress and end the processes; close the consumer first.

        A consumer that is still open stops at its next message, which stays unconsumed.
        """
        self._closed.set()
        self._pool.shutdown()
        self._close_pipe()

    def _close_pipe(self) -> None:
        self._theirs.close()
        self._ours.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _closed() -> ListenerClosed:
    return ListenerClosed(
        "the processes of the listener were closed before the consumer, which stops; after a restart it gets the message "
        "again. Close the consumer first"
    )


def _run(listener: Callable[[Any], Said], given: Any) -> Said:
    """Call the listener; an invalid result becomes a text, an exception that cannot be pickled a RuntimeError."""
    try:
        answer = contextvars.copy_context().run(listener, given)
    except BaseException as error:
        try:
            # As the pool does: pickle the exception, and recreate it from its arguments.
            ForkingPickler.dumps(error)
            copy.copy(error)
        except Exception:  # noqa: BLE001  A constructor may raise anything.
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise
    # An invalid result is returned as text, because it may not be picklable either.
    is_known = answer is None or isinstance(answer, bool | OrderlyStatus)
    return answer if is_known else cast("Said", as_given(answer))


def _nothing(_listener: Callable[[Any], Said]) -> None:
    """Do nothing; shows that a worker process runs and has imported the listener."""


def _end_with(parent: Connection) -> None:
    """Start a thread that ends this process when the parent's end of the pipe closes, as when the parent is killed."""

    def watch() -> None:
        with suppress(OSError):
            parent.poll(None)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()
