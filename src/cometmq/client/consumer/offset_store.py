"""A member's offsets of its group: kept in memory, stored every 5 s and at the end.

A clustering group's offsets lie at the brokers; those of a broadcasting member in a file of its
own, offsets.json, as the Java client keeps it. An offset is the next one to consume.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from cometmq.client.api.offsets import OffsetApi
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets, encode_queue_offsets
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue


class OffsetStore(Protocol):
    """A place to read offsets from and to write them to."""

    async def read(self, queue: MessageQueue) -> int | None:
        """The stored offset of a queue; None when there is none."""
        ...

    async def write(self, changed: dict[MessageQueue, int], *, is_answered: bool) -> None:
        """Store changed offsets; with `is_answered` they are stored when it returns."""
        ...

    def lose(self, queue: MessageQueue) -> None:
        """Forget the offset of a queue whose topic is deleted."""
        ...


class ClusterOffsets:
    """A clustering group's offsets, at the brokers. Raises what `OffsetApi` raises."""

    def __init__(self, offsets: OffsetApi, group: str, *, is_written: bool = True) -> None:
        """Read and write the offsets of a group; without `is_written` its user commits by hand."""
        self._offsets = offsets
        self._group = group
        self._is_written = is_written

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset that the broker has stored for a queue; None when there is none."""
        return await self._offsets.committed(self._group, queue)

    async def write(self, changed: dict[MessageQueue, int], *, is_answered: bool) -> None:
        """Tell the brokers; what got lost on the way is told again by the next pull."""
        if self._is_written:
            await self._offsets.commit_all(self._group, changed, answered=is_answered)

    def lose(self, queue: MessageQueue) -> None:
        """Do nothing: a broker forgets the offsets of a topic that it deletes."""


class LocalOffsets:
    """A broadcasting member's offsets, in a file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        """Name the file; nothing is read yet."""
        self._path = path
        self._stored: dict[MessageQueue, int] | None = None

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset that the file holds for a queue; None when there is none.

        Raises:
            CodecError: neither the file nor its .bak can be read.
        """
        return self._load().get(queue)

    async def write(
        self, changed: dict[MessageQueue, int], *, is_answered: bool = True
    ) -> None:
        """Replace the file; the one before becomes .bak.

        Raises:
            OSError: it cannot be written.
        """
        del is_answered  # It is written when it returns.
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
        """Forget the offset of a queue whose topic is deleted; the next write takes it out of the file."""
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


class QueuePlace:
    """The offset of a member in one queue, and what of it is stored.

    Attributes:
        offset: the next to consume; None: nothing was consumed yet.
        stored: what was last stored of it.
    """

    __slots__ = ("offset", "stored")

    def __init__(self) -> None:
        self.offset: int | None = None
        self.stored: int | None = None


class ConsumedProgress:
    """Offsets that a member has consumed and not stored yet.

    Args:
        store: where offsets lie.
    """

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._places: dict[MessageQueue, QueuePlace] = {}

    def place(self, queue: MessageQueue) -> QueuePlace:
        """The place in a queue, until `forget`; for callers that update it with every message."""
        place = self._places.get(queue)
        if place is None:
            place = self._places[queue] = QueuePlace()
        return place

    def get(self, queue: MessageQueue) -> int | None:
        """The offset that will be stored next, None when nothing was consumed yet."""
        place = self._places.get(queue)
        return None if place is None else place.offset

    async def read(self, queue: MessageQueue) -> int | None:
        """The stored offset of a queue; None when there is none."""
        return await self._store.read(queue)

    def lose(self, queue: MessageQueue) -> None:
        """Forget where a queue stands, because its topic is deleted: nothing of it is stored any more."""
        place = self.place(queue)
        place.offset = place.stored = None
        self._store.lose(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Forget a queue that belongs to someone else now."""
        self._places.pop(queue, None)

    async def store(
        self, queues: Iterable[MessageQueue] | None = None, *, is_answered: bool = False
    ) -> None:
        """Store the offsets that changed.

        Args:
            queues: of these; None: of all.
            is_answered: return when it is stored: where neither a pull nor a round follows.

        Raises:
            CometError, OSError: it could not be stored everywhere; the next call tries again.
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
            if place is not None:  # Else it was given up meanwhile.
                place.stored = offset
