"""A member's consumed offsets in memory, and the stores to which they are written: brokers, or a local file.

An offset is that of the next message to consume.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from cometmq.client.api.offsets import OffsetApi
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets, encode_queue_offsets
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue


class ClusterOffsets:
    """The offsets of a clustering group, stored at the brokers; `read` and `write` raise the errors of `OffsetApi`."""

    def __init__(self, offsets: OffsetApi, group: str) -> None:
        self._offsets = offsets
        self._group = group

    async def read(self, queue: MessageQueue) -> int | None:
        """Query the group's committed offset of a queue; the result is None without one.

        Brokers report 0 instead of None for a queue whose first message counts as in memory.
        """
        return await self._offsets.committed(self._group, queue)

    async def write(self, changed: dict[MessageQueue, int], *, is_answered: bool) -> None:
        """Commit the offsets at the brokers.

        With `is_answered`, wait for the answers; otherwise most commits are one-way, and a lost one is not noticed.
        """
        await self._offsets.commit_all(self._group, changed, answered=is_answered)

    def lose(self, queue: MessageQueue) -> None:
        """Do nothing, because the broker keeps the offsets and may delete those of a deleted topic."""


class LocalOffsets:
    """The offsets of a broadcasting member, in a file (offsets.json of the Java client) that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stored: dict[MessageQueue, int] | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        """Return a queue's offset or None; the first call reads the file or its .bak (CodecError if one exists, but none is readable)."""
        return self._load().get(queue)

    async def write(
        self, changed: dict[MessageQueue, int], *, is_answered: bool = True
    ) -> None:
        """Rewrite the file with the changed offsets; the old one becomes .bak. May raise OSError or CodecError."""
        del is_answered  # The file is always written when this returns.
        stored = self._load()
        stored.update(changed)
        path = self._path
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".tmp")
        fresh.unlink(missing_ok=True)
        with fresh.open("xb") as file:  # Never through a link.
            file.write(encode_queue_offsets(stored, is_pretty=True))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            path.replace(path.with_name(path.name + ".bak"))
        fresh.replace(path)

    def lose(self, queue: MessageQueue) -> None:
        """Forget the offset that was read for a queue whose topic was deleted; the next write leaves it out."""
        if self._stored is not None:
            self._stored.pop(queue, None)

    def _load(self) -> dict[MessageQueue, int]:
        if self._stored is None:
            self._stored = self._read_file()
        return self._stored

    def _read_file(self) -> dict[MessageQueue, int]:
        trouble: CodecError | None = None
        for path in (self._path, self._path.with_name(self._path.name + ".bak")):
            try:
                return decode_queue_offsets(path.read_bytes())
            except FileNotFoundError:
                continue
            except (CodecError, OSError) as error:
                trouble = trouble or CodecError(f"{path} cannot be read: {error}")
        if trouble is not None:
            raise trouble
        return {}


# Where a member stores its offsets.
OffsetStore = ClusterOffsets | LocalOffsets


class QueuePlace:
    """The consumed offset of a member in one queue, and the last stored offset.

    Attributes:
        offset: Next offset to consume; None: not known yet, or forgotten because the topic was deleted.
        stored: The offset that this member last wrote to the store; None: none, or the topic was deleted since.
    """

    __slots__ = ("offset", "stored")

    def __init__(self) -> None:
        self.offset: int | None = None
        self.stored: int | None = None


class ConsumedProgress:
    """The consumed offsets of a member, including those not stored yet."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._places: dict[MessageQueue, QueuePlace] = {}

    def place(self, queue: MessageQueue) -> QueuePlace:
        """Return the `QueuePlace` of a queue, valid until `forget`; for callers that update it with every message."""
        place = self._places.get(queue)
        if place is None:
            place = self._places[queue] = QueuePlace()
        return place

    def get(self, queue: MessageQueue) -> int | None:
        """Return a queue's consumed offset as this member knows it, stored or not, or None if it is not known."""
        place = self._places.get(queue)
        return None if place is None else place.offset

    async def read(self, queue: MessageQueue) -> int | None:
        """Return the offset that the store has for a queue, or None; raise the errors of the store."""
        return await self._store.read(queue)

    def lose(self, queue: MessageQueue) -> None:
        """Forget the offset of a queue whose topic was deleted; `store` skips the queue until it has a new one."""
        place = self.place(queue)
        place.offset = place.stored = None
        self._store.lose(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Forget a queue that this member no longer pulls, and its offset even if that was not stored."""
        self._places.pop(queue, None)

    async def store(
        self, queues: Iterable[MessageQueue] | None = None, *, is_answered: bool = False
    ) -> None:
        """Store the offsets that changed, of these queues or of all; after CometError or OSError the next call tries again.

        With `is_answered`, wait until they are confirmed. Without it, a commit that is lost on its way is not repeated.
        """
        chosen = None if queues is None else set(queues)
        changed = {
            queue: place.offset
            for queue, place in self._places.items()
            if place.offset is not None
            and place.offset != place.stored
            and (chosen is None or queue in chosen)
        }
        if not changed:
            return
        await self._store.write(changed, is_answered=is_answered)
        for queue, offset in changed.items():
            place = self._places.get(queue)
            if place is not None:  # Otherwise it was given up meanwhile.
                place.stored = offset
