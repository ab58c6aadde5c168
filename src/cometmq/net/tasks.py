"""Named background tasks of an owner: kept alive, logged on failure, and cancelled when the owner closes them."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from cometmq.model.errors import ClientClosed

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


async def shared(task: asyncio.Task[Value]) -> Value:
    """Return the result of a task that others may await as well; cancelling this wait does not cancel the task.

    Raises:
        ClientClosed: The task was cancelled, as its owner does when it closes.
        Exception: The exception of the task.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # If all waiters leave, the task's exception must still be retrieved.
        task.add_done_callback(_take_error)
        current = asyncio.current_task()
        if not task.cancelled() or (current is not None and current.cancelling()):
            raise
        raise ClientClosed("the client was closed during the call") from None


def _take_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


class Tasks:
    """The background tasks of one owner: logs those that fail, and cancels all at its end."""

    def __init__(self, owner: str) -> None:
        """Use `owner` as the first part of each task's name in logs."""
        self._owner = owner
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` in the background and return the task; a failure is logged with the task's name."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}/{name}")
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("task %s failed", task.get_name(), exc_info=task.exception())

    async def close(self) -> None:
        """Cancel all running tasks except the calling one and wait until they have stopped."""
        current = asyncio.current_task()
        tasks = [task for task in self._running if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
