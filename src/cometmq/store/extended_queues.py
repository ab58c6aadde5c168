"""Tags codes of queues whose entries a Java broker has extended (`enableConsumeQueueExt`).

    consumequeue_ext/TOPIC/QUEUE_ID/00000000000050331648

In such a queue, an entry's tags code may be the address of a unit that contains the real tags code. We read these units
and keep needed files. Our new entries contain their tags codes directly, which a Java broker accepts as well.
"""

from cometmq.codec.other_queues import (
    EXTENDED_UNIT_SIZE_MIN,
    decode_extended_unit,
    extended_place,
    is_extended_address,
)
from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk, opened
from cometmq.store.file_chain import NAME_DIGITS
from cometmq.store.queue_files import remove_topic
from cometmq.store.reader import Match

_UNIT_SIZE_MAX = 1 << 15


class ExtendedQueues:
    """The extended units (tags codes in separate files) of a store."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._directory = f"{root}/consumequeue_ext"
        self._topics = frozenset(disk.list_names(self._directory))
        self._file_size: dict[str, int] = {}

    def has(self, topic: str) -> bool:
        """Return whether a topic had a folder of extended units at the start and was not deleted since.

        Filters by tag must then look into the units, as `ReadSide.get` does; the fast path of pulls cannot.
        """
        return topic in self._topics

    def topics(self) -> list[str]:
        """Return the topics that had a folder of extended units when the store was opened, and were not deleted since."""
        return sorted(self._topics)

    def paths(self, topic: str, queue_id: int) -> list[str]:
        """Return the paths of a queue's files of extended units (tags codes), oldest first."""
        directory = f"{self._directory}/{topic}/{queue_id}"
        names = self._disk.list_names(directory)
        return [f"{directory}/{name}" for name in names if len(name) == NAME_DIGITS]

    def delete_topic(self, topic: str) -> None:
        """Delete the extended units of a topic; raise OSError if a file could not be removed."""
        self._topics -= {topic}
        remove_topic(self._disk, f"{self._directory}/{topic}")

    def resolving(self, topic: str, queue_id: int, match: Match) -> Match:
        """Return a filter that gives `match` the tags code of the unit if it gets an address; may block or raise OSError."""
        wanted = match if callable(match) else match.__contains__
        return lambda code: wanted(self.tags_code(topic, queue_id, code))

    def tags_code(self, topic: str, queue_id: int, tags_code: int) -> int:
        """Return an entry's tags code, from its unit if `tags_code` is an address (0 if that is unusable); may block.

        Raises:
            OSError: The disk failed.
        """
        if not is_extended_address(tags_code):
            return tags_code
        directory = f"{self._directory}/{topic}/{queue_id}"
        content = self._read(directory, extended_place(tags_code))
        try:
            return decode_extended_unit(content).tags_code
        except CodecError:
            return 0

    def _read(self, directory: str, place: int) -> bytes:
        """Return the bytes of an extended unit, or its first 20 if its size is impossible; empty if it has no file."""
        size = self._size_of(directory)
        if not size:
            return b""
        path = f"{directory}/{place // size * size:020d}"
        try:
            with opened(self._disk, path, write=False) as fd:
                head = self._disk.pread(fd, EXTENDED_UNIT_SIZE_MIN, place % size)
                unit_size = int.from_bytes(head[:2], signed=True)
                if not EXTENDED_UNIT_SIZE_MIN < unit_size < _UNIT_SIZE_MAX:
                    return head
                return self._disk.pread(fd, unit_size, place % size)
        except FileNotFoundError:
            return b""

    def _size_of(self, directory: str) -> int:
        """Return the size of each file of a queue's extended units in bytes; 0 if the queue has no such file.

        It is that of the queue's oldest file, because the Java broker that made the files chose it
        (mappedFileSizeConsumeQueueExt). Once known, the size is remembered.
        """
        size = self._file_size.get(directory)
        if size is None:
            names = self._disk.list_names(directory)
            if not names:
                return 0
            with opened(self._disk, f"{directory}/{names[0]}", write=False) as fd:
                size = self._file_size[directory] = self._disk.size(fd)
        return size
