"""Rows of the views of the Spark format "rocketmq-store" other than messages, such as `consumequeue` or `offsets`."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from cometmq.offline.columns.pieces import same
from cometmq.offline.config_table import config_table
from cometmq.offline.folder import INDEX_NAME_DIGITS
from cometmq.offline.folder_disk import disk_of
from cometmq.offline.found import find_store
from cometmq.offline.index_entries import index_columns
from cometmq.offline.known_queues import KnownQueues
from cometmq.offline.queue_reader import queue_files, read_queue_file
from cometmq.offline.queue_runs import EntryRun
from cometmq.offline.rebuild import RebuildTarget, packed_runs
from cometmq.offline.verify import verify
from cometmq.spark.store.partitions import StorePartition
from cometmq.spark.store.settings import StoreReadSettings

Columns = dict[str, Any]


def view_rows(
    settings: StoreReadSettings, partition: StorePartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Iterate over a task's rows of a view other than messages; may raise CometError or OSError for unreadable files."""
    return (
        _projected(columns, schema) for columns in _VIEWS[settings.view](settings, partition)
    )


def _projected(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):  # Values are ms.
        micros = pa.array(np.asarray(values, np.int64) * 1000, pa.int64())
        return micros.view(kind)
    if isinstance(values, np.ndarray):
        return pa.array(values.astype(kind.to_pandas_dtype()), kind)
    return pa.array(values, kind)


def _queue_entries(settings: StoreReadSettings, partition: StorePartition) -> Iterator[Columns]:
    for file in partition.queues:
        found = read_queue_file(settings.folder, file)
        count = len(found.offsets)
        yield {
            "topic": same(file.topic, count),
            "queueId": np.full(count, file.queue_id),
            "queueOffset": found.offsets,
            "commitLogOffset": found.entries["offset"],
            "storeSize": found.entries["size"],
            "tagsCode": found.entries["tags"],
            "storeFile": same(file.path, count),
        }


def _index_entries(settings: StoreReadSettings, partition: StorePartition) -> Iterator[Columns]:
    columns = index_columns(settings.folder, partition.path, settings.index_slots)
    yield {**columns, "storeFile": same(partition.path, len(columns["entry"]))}


def _packed(settings: StoreReadSettings, partition: StorePartition) -> Iterator[Columns]:
    # Nothing is written; the target only selects topics and delay levels.
    wanted = RebuildTarget("", 0, partition.delay_levels_ms, settings.rules.topics)
    runs = list(packed_runs(settings.folder, partition.log, wanted))
    if partition.known is not None:
        runs = [run for run in runs if not _is_dead(run, partition.known)]
    yield {
        "topic": [run.topic for run in runs],
        "queueId": [run.queue_id for run in runs],
        "queueOffset": [run.first for run in runs],
        "messages": [len(run.entries) for run in runs],
        "entries": [run.entries.tobytes() for run in runs],
    }


def _is_dead(run: EntryRun, known: KnownQueues) -> bool:
    """Return whether a run of queue entries is known to belong to a deleted topic."""
    last_place = int(run.entries[-1]["offset"])
    return known.is_dead(run.topic, run.queue_id, run.end - 1, last_place)


def _verify(settings: StoreReadSettings, _partition: StorePartition) -> Iterator[Columns]:
    """Yield the result of checking the whole store in one task: a row for the store, then its first 1,000 findings."""
    folder = settings.folder
    disk = disk_of(folder)
    store = find_store(folder.root, None, disk, log_paths=folder.log_paths)
    try:
        verdict = verify(store)
    finally:
        store.close()
    size = verdict.log_end - verdict.log_start
    rows: list[tuple[Any, ...]] = [
        ("store", folder.root, None, False, verdict.records, size, verdict.queue_entries)
    ]
    rows += [
        (each.part, each.where, each.what, each.is_error, 0, 0, 0) for each in verdict.findings
    ]
    names = ("part", "place", "finding", "isError", "messages", "bytes", "queueEntries")
    yield dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _files(settings: StoreReadSettings, _partition: StorePartition) -> Iterator[Columns]:
    folder = settings.folder
    names = ("kind", "name", "startOffset", "bytes", "modified")
    rows: list[tuple[Any, ...]] = []
    for log in folder.log_files():
        modified = folder.files.get_file_info(log.path).mtime_ns // 10**6
        rows.append(("commitlog", log.path, log.start, log.size, modified))
    for _, of in groupby(queue_files(folder), lambda file: file[:2]):
        for queue in of:
            found = folder.files.get_file_info(queue.path)
            first = queue.first
            rows.append(
                ("consumequeue", queue.path, first, found.size, found.mtime_ns // 10**6)
            )
    indexes = folder.numbered(folder.path("index"), INDEX_NAME_DIGITS)
    rows += [("index", each.path, None, each.size, each.mtime_ns // 10**6) for each in indexes]
    columns = zip(*rows, strict=True)
    yield dict(zip(names, map(list, columns), strict=True))


def _config_table(settings: StoreReadSettings, name: str, key: str) -> dict[str, Any]:
    return config_table(disk_of(settings.folder), settings.folder.root, name, key)


def _offsets(settings: StoreReadSettings, _partition: StorePartition) -> Iterator[Columns]:
    table = _config_table(settings, "consumerOffset.json", "offsetTable")
    rows = [
        (*topic_group.rpartition("@")[::2], int(queue_id), int(offset))
        for topic_group, queues in table.items()
        for queue_id, offset in queues.items()
    ]
    yield {
        "topic": [row[0] for row in rows],
        "group": [row[1] for row in rows],
        "queueId": [row[2] for row in rows],
        "committedOffset": [row[3] for row in rows],
    }


def _topics(settings: StoreReadSettings, _partition: StorePartition) -> Iterator[Columns]:
    topics = list(_config_table(settings, "topics.json", "topicConfigTable").values())
    yield {
        "topic": [each.get("topicName") for each in topics],
        "readQueues": [each.get("readQueueNums") for each in topics],
        "writeQueues": [each.get("writeQueueNums") for each in topics],
        "perm": [each.get("perm") for each in topics],
        "isOrdered": [bool(each.get("order")) for each in topics],
    }


_VIEWS: dict[str, Callable[[StoreReadSettings, StorePartition], Iterator[Columns]]] = {
    "consumequeue": _queue_entries,
    "index": _index_entries,
    "packed-cq": _packed,
    "verify": _verify,
    "files": _files,
    "offsets": _offsets,
    "topics": _topics,
}
