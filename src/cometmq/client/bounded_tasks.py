"""Bounds the tasks that requests of brokers begin in a client.

A broker asks to check transactions, to run a listener on a message, to reset offsets. Each request is a task that
holds its message; thousands that come at once, or that wait for a listener that never ends, have a bound in
number and in bytes (docs/operate/limits.md).
"""

from collections.abc import Coroutine
from typing import Any

from cometmq.net.tasks import Tasks

COUNT_MAX = 1024
SIZE_MAX = 32 << 20
# What a task takes beside the message that it holds, bytes.
_TASK_SIZE = 4096


class BoundedTasks:
    """The tasks of one owner."""

    def __init__(self, owner: str) -> None:
        """Name the tasks; `owner` is the first part of each task's name in logs."""
        self._tasks = Tasks(owner)
        self._size = 0

    def has_room(self, size: int) -> bool:
        """Whether one more task that holds so many bytes may begin; the first one always may."""
        count = len(self._tasks)
        return not count or (count < COUNT_MAX and self._size + size + _TASK_SIZE <= SIZE_MAX)

    def spawn(self, work: Coroutine[Any, Any, None], name: str, size: int) -> None:
        """Begin a task that holds so many bytes."""
        size += _TASK_SIZE
        self._size += size
        self._tasks.spawn(work, name).add_done_callback(lambda _: self._ended(size))

    def _ended(self, size: int) -> None:
        self._size -= size

    async def close(self) -> None:
        """Cancel everything and wait until it has stopped."""
        await self._tasks.close()
