"""Reads consume-queue files, local or remote, as arrays of entries."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from pyarrow import fs

from cometmq.codec.queue_entry import BLANK_SIZE, GAP_CODE, QUEUE_ENTRY_SIZE
from cometmq.offline.columns.window import Longs
from cometmq.offline.folder import LOG_NAME_DIGITS, StoreFolder
from cometmq.offline.queue_runs import ENTRY, Entries

QUEUES = "consumequeue"


class QueueFile(NamedTuple):
    """A file of a consume queue; `first` is the queue offset of its first entry."""

    topic: str
    queue_id: int
    path: str
    first: int
    is_last: bool


class FileEntries(NamedTuple):
    """Entries of a queue file and their queue offsets, without blank and gap entries (`codec.queue_entry`)."""

    offsets: Longs
    entries: Entries


def queue_files(folder: StoreFolder, topic: str | None = None) -> Iterator[QueueFile]:
    """Yield the files of all consume queues, or of one topic's, in order of topic, queue id and offset."""
    topics = folder.entries(folder.path(QUEUES))
    for each in topics:
        if each.type == fs.FileType.Directory and topic in (None, each.base_name):
            numbers = [q for q in folder.entries(each.path) if q.base_name.isdigit()]
            for queue in sorted(numbers, key=lambda queue: int(queue.base_name)):
                found = folder.numbered(queue.path, LOG_NAME_DIGITS)
                for place, file in enumerate(found):
                    first = int(file.base_name) // QUEUE_ENTRY_SIZE
                    is_last = place + 1 == len(found)
                    number = int(queue.base_name)
                    yield QueueFile(each.base_name, number, file.path, first, is_last)


def read_queue_file(folder: StoreFolder, file: QueueFile) -> FileEntries:
    """Return the entries of a consume-queue file up to its first unused one, without filler (see `FileEntries`)."""
    with folder.opened(file.path) as read_at:
        start, hole = read_at.written(0) or (0, 0)
        # A hole is unused like an entry of zeros, and makes up most of a queue's last file.
        content = read_at(0, min(hole, read_at.size)) if start == 0 else b""
    entries = np.frombuffer(content, ENTRY, len(content) // ENTRY.itemsize)
    unused = np.flatnonzero(entries["size"] == 0)
    entries = entries[: unused[0]] if len(unused) else entries
    real = np.flatnonzero((entries["size"] != BLANK_SIZE) & (entries["tags"] != GAP_CODE))
    return FileEntries(file.first + real, entries[real])
