"""Reads the entries of an index file as columns, in order."""

from typing import Any

import numpy as np

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    SLOTS_DEFAULT,
    IndexHeader,
    decode_header,
    entry_position,
)
from cometmq.model.errors import StoreDamaged
from cometmq.offline.folder import StoreFolder
from cometmq.offline.folder_disk import disk_of
from cometmq.offline.index_shape import find_shape
from cometmq.store.disk import opened

_ENTRY = np.dtype(
    [("hash", ">i4"), ("at", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)  # fmt: skip
assert _ENTRY.itemsize == INDEX_ENTRY_SIZE


def index_columns(folder: StoreFolder, path: str, slots: int | None) -> dict[str, Any]:
    """Return an index file's entries as arrays: keyHash, commitLogOffset, storeTimestamp (ms, to 1 s), entry, previousEntry.

    Args:
        folder: The store.
        path: Path of the file; entries that its header does not count yet are left out.
        slots: Number of slots; None to determine it from a local file, and for RocketMQ's default otherwise.

    Raises:
        StoreDamaged: No number of slots fits the file.
        CodecError: The file has no whole header.
    """
    header, slots = _shape(folder, path, slots)
    count = max(header.index_count - 1, 0)
    with folder.opened(path) as read_at:
        content = read_at(entry_position(1, slots), count * INDEX_ENTRY_SIZE)
    entries = np.frombuffer(content, _ENTRY, len(content) // INDEX_ENTRY_SIZE)
    return {
        "keyHash": entries["hash"],
        "commitLogOffset": entries["at"],
        "storeTimestamp": header.begin_timestamp + entries["seconds"].astype(np.int64) * 1000,
        "entry": np.arange(1, len(entries) + 1),
        "previousEntry": entries["previous"],
    }


def _shape(folder: StoreFolder, path: str, slots: int | None) -> tuple[IndexHeader, int]:
    with folder.opened(path) as read_at:
        header = decode_header(read_at(0, INDEX_HEADER_SIZE))
    if slots is not None or not folder.is_local:
        return header, slots or SLOTS_DEFAULT
    disk = disk_of(folder)
    with opened(disk, path, write=False) as fd:
        shape = find_shape(disk, fd, header)
    if shape is None:
        raise StoreDamaged(
            f"{path}: the number of slots cannot be derived from its size; set the option indexSlots"
        )
    return header, shape.slots
