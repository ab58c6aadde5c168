"""Limits on tasks that requests of brokers start in a client (docs/operate/limits.md).

A broker may ask a client to check transactions, to run a listener on a message or to reset offsets. A task for such a
request keeps the data of the request in memory. Thousands may arrive at once or wait for a listener that never returns.
"""

from collections.abc import Coroutine
from typing import Any

from cometmq.net.tasks import Tasks

COUNT_MAX = 1024
SIZE_MAX = 32 << 20
# Memory of a task in addition to its message, bytes.
_TASK_SIZE = 4096


class BoundedTasks:
    """The tasks of one owner, with a limit on their number (1,024) and size (32 MiB) that callers check with `has_room`."""

    def __init__(self, owner: str) -> None:
        """Set the owner, which is the first part of each task's name in logs."""
        self._tasks = Tasks(owner)
        self._size = 0

    def has_room(self, size: int) -> bool:
        """Return whether another task that holds `size` bytes may start; always True if none is running."""
        count = len(self._tasks)
        return not count or (count < COUNT_MAX and self._size + size + _TASK_SIZE <= SIZE_MAX)

    def spawn(self, work: Coroutine[Any, Any, None], name: str, size: int) -> None:
        """Start a task that holds `size` bytes; the caller has checked `has_room`."""
        size += _TASK_SIZE
        self._size += size
        self._tasks.spawn(work, name).add_done_callback(lambda _: self._ended(size))

    def _ended(self, size: int) -> None:
        self._size -= size

    async def close(self) -> None:
        """Cancel all tasks except the calling one and wait until they have stopped."""
        await self._tasks.close()
