"""A listener that works in processes of its own: for work that keeps a processor busy in Python.

    with InProcesses(handle, processes=4) as listener:
        with PushConsumer(group="billing", listener=listener, subscriptions={"orders": "*"}) as consumer:
            consumer.wait()

`handle` is a function of a module, since each process imports it anew; messages and what it returns or raises
travel between processes. A process that dies fails the messages it had, which come again, and new ones
take its place.
"""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Self

from cometmq.client.concurrent import Listener, is_async_listener
from cometmq.model.errors import SettingsError

# Children are made by a process that has no threads and no sockets of ours: a fork of this one would
# share both.
_START_METHOD = "forkserver"


class InProcesses:
    """A listener for push consumers; the consumer's `concurrency` should not be below `processes`.

    Args:
        listener: a `def` function that can be imported.
        processes: how many; None: one for each processor.

    Raises:
        SettingsError: the listener is `async`.
    """

    def __init__(self, listener: Listener, *, processes: int | None = None) -> None:
        if is_async_listener(listener):
            raise SettingsError(
                "InProcesses takes a def listener, for async def ones never block"
            )
        self._listener = listener
        self._processes = processes or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._pool = self._make_pool()

    def _make_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context(_START_METHOD)
        return ProcessPoolExecutor(self._processes, mp_context=context)

    def __call__(self, given: Any) -> Any:
        """Run the listener in a process and wait for it; called in threads of the consumer."""
        pool = self._pool
        try:
            return pool.submit(self._listener, given).result()
        except BrokenProcessPool:
            with self._lock:
                if self._pool is pool:
                    self._pool = self._make_pool()
            raise

    def close(self) -> None:
        """Wait for what is running and end the processes; close the consumer first."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        """Nothing to start: processes come with the first messages."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
