"""Rebuilds index files from the log: tasks find and hash keys, a single step enters them in order.

    `begin_keys` -> `keys_task` for each task, in any order -> `finish_keys` once -> `install_keys` once

A task writes the keys of its part of the log to one file, named after the part's start; repeating the task writes the
same file. An index entry points to the previous one of its slot, so `finish_keys` reads these files in order.

| Java's hash of "topic#key" 4 | physical offset 8 | store time, ms 8 | ... (little-endian; deleted at the end)
"""

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.codec.record import PHYSICAL_OFFSET_AT
from cometmq.kernel import java_hash_many
from cometmq.model import flags
from cometmq.model import properties as keys_of
from cometmq.model.clock import Clock
from cometmq.offline.columns.pieces import BINARY, take_text
from cometmq.offline.columns.properties import PropertyColumn
from cometmq.offline.columns.window import Longs, RecordWindow
from cometmq.offline.damage import Damage
from cometmq.offline.folder import StoreFolder
from cometmq.offline.new_folder import replace_folder
from cometmq.offline.plan import Task
from cometmq.offline.scan import scan
from cometmq.store.index import Index
from cometmq.store.index_file import IndexShape
from cometmq.store.lock import DirectoryLock
from cometmq.store.real_disk import RealDisk

KEYS = "index.keys"
INDEX = "index"

KEY = np.dtype([("hash", "<i4"), ("offset", "<i8"), ("ms", "<i8")])
_ENTERED_AT_ONCE = 50_000

Keys = npt.NDArray[np.void]


def begin_keys(out: str) -> None:
    """Create empty folders for keys and new index files; what `out` has under their names is deleted."""
    for name in (KEYS, INDEX):
        shutil.rmtree(f"{out}/{name}", ignore_errors=True)
        Path(out, name).mkdir(parents=True)


def keys_task(folder: StoreFolder, task: Task, out: str) -> int:
    """Write the index keys of a part of the log; return their number. Repeatable, also while other tasks run.

    Raises:
        OSError: A file could not be read or written.
    """
    parts = [
        window_keys(found.window)
        for split in task
        for found in scan(folder, split)
        if not isinstance(found, Damage)
    ]
    keys = np.concatenate(parts) if parts else np.zeros(0, KEY)
    path = Path(out, KEYS, f"{task[0].lo:020d}")
    path.with_suffix(".new").write_bytes(keys.tobytes())
    path.with_suffix(".new").rename(path)
    return len(keys)


def window_keys(window: RecordWindow) -> Keys:
    """Return the index keys (hash, offset, ms) of records in the index's order: the unique key, then each word of KEYS.

    Rolled-back records have none (`kernel.keys` defines which keys are indexed).
    """
    kept = (window.sys_flag & flags.TRANSACTION_MASK) != flags.TRANSACTION_ROLLBACK
    if not kept.all():
        window = window.select(kept)
    octets = pa.py_buffer(window.buffer)
    properties = PropertyColumn(take_text(octets, window.properties))
    unique = properties.column(keys_of.UNIQ_KEY)
    words = pc.split_pattern(properties.column(keys_of.KEYS), " ")
    word_rows = np.asarray(pc.list_parent_indices(words))
    values = pa.concat_arrays([unique, words.flatten()])
    rows = np.concatenate((np.arange(len(window)), word_rows))
    real = pc.fill_null(pc.greater(pc.binary_length(values), 0), False)  # noqa: FBT003
    keep = np.flatnonzero(real.to_numpy(zero_copy_only=False))
    # Stable, so that a row's unique key comes before its words, which keep their order.
    order = keep[np.argsort(rows[keep], kind="stable")]
    rows = rows[order]
    topics = take_text(octets, window.topic).take(pa.array(rows))
    texts = pc.binary_join_element_wise(topics, values.take(pa.array(order)), "#")
    keys = np.empty(len(rows), KEY)
    keys["hash"] = java_hash_many(texts.view(BINARY).to_pylist())
    keys["offset"] = _at(window.int64(PHYSICAL_OFFSET_AT), rows)
    keys["ms"] = _at(window.stored_ms(), rows)
    return keys


def _at(column: Longs, rows: Longs) -> Longs:
    found: Longs = column[rows]
    return found


def finish_keys(out: str, shape: IndexShape, *, clock: Clock) -> int:
    """Build and sync index files from the keys that tasks wrote to `out`, delete the keys, and return their number.

    `shape` are slots and entries of a file (maxHashSlotNum, maxIndexNum). Raises OSError if files cannot be read or written.
    """
    index = Index(RealDisk(), f"{out}/{INDEX}", shape, clock=clock)
    count = 0
    try:
        for path in sorted(Path(out, KEYS).glob("[0-9]*")):
            keys = np.fromfile(path, KEY)
            for first in range(0, len(keys), _ENTERED_AT_ONCE):
                part = keys[first : first + _ENTERED_AT_ONCE]
                index.enter(*(part[name].tolist() for name in ("hash", "offset", "ms")))
                index.write()
            count += len(keys)
        index.write_all()
        index.take_sync().run()
    finally:
        index.close()
    shutil.rmtree(f"{out}/{KEYS}")
    return count


def install_keys(root: str, out: str) -> None:
    """Replace the old index by the new one; the broker must be stopped.

    Raises:
        StoreLocked: A program has the directory open.
        OSError: A file could not be moved.
    """
    lock = DirectoryLock(RealDisk(), root)
    lock.take()
    try:
        replace_folder(Path(out, INDEX), Path(root, INDEX))
    finally:
        lock.release()
