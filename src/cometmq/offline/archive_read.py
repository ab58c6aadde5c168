"""Reads an archive: its files, and their messages as batches with the requested columns.

If an archive has raw records, its readers decode these instead of the columns beside them, because `restore` uses them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cometmq.model.errors import CodecError, SettingsError, StoreDamaged
from cometmq.offline.archive import kept_queues, read_manifest, topic_files
from cometmq.offline.archive_files import NONE
from cometmq.offline.columns.names import RAW_RECORD
from cometmq.offline.columns.pieces import contents, same
from cometmq.offline.columns.window import RecordWindow
from cometmq.offline.coverage import Coverage
from cometmq.offline.folder import StoreFolder
from cometmq.offline.rows import RowRules, record_batches
from cometmq.offline.scan import SoundRecords
from cometmq.offline.topic_manifest import read_topic_manifest


class MessageFile(NamedTuple):
    """A Parquet file of an archive: its path in the archive's file system, topic of its messages, size in bytes."""

    path: str
    topic: str
    size: int


def message_files(place: str, topics: Sequence[str] = ()) -> Iterator[MessageFile]:
    """Yield an archive's Parquet files of some topics (none named: all), sorted by path, without those of damaged bytes."""
    for topic, file in topic_files(StoreFolder(place), topics):
        is_whole = file.base_name.endswith(".parquet") and not file.base_name.startswith(".")
        if topic != NONE and is_whole:
            yield MessageFile(file.path, topic, file.size)


def file_batches(
    place: str, file: MessageFile, schema: pa.Schema, *, is_raw: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of an archive's file in batches with the columns of `schema`, from raw records if `is_raw`.

    Raises:
        StoreDamaged: The file is not a readable archive file, for example as the form of a raw record is wrong.
        OSError: The file cannot be read.
    """
    names = [RAW_RECORD] if is_raw else [name for name in schema.names if name != "topic"]
    try:
        with StoreFolder(place).files.open_input_file(file.path) as opened:
            for batch in pq.ParquetFile(opened).iter_batches(columns=names):
                if is_raw:
                    yield from _of_records(batch.column(0), file, schema)
                else:
                    yield _with_topic(batch, file.topic, schema)
    except (pa.ArrowInvalid, CodecError, KeyError) as error:
        raise StoreDamaged(f"{file.path} is not a readable archive file: {error}") from error


def _with_topic(batch: pa.RecordBatch, topic: str, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        same(topic, batch.num_rows)
        if field.name == "topic"
        else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _of_records(
    column: pa.Array, file: MessageFile, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    octets, _, ends = contents(column.filter(pc.is_valid(column)))
    if len(ends) < 2:
        return
    window = RecordWindow(bytes(octets), ends[:-1])
    if not np.array_equal(window.starts + window.int32(0), ends[1:]):
        raise CodecError("the size field of a record differs from its number of bytes")
    yield from record_batches(SoundRecords(window, 0, file.path), schema, RowRules())


def coverage_of_archive(place: str) -> Coverage:
    """Return which messages an archive should hold by its manifest; SettingsError without one, StoreDamaged if damaged."""
    manifest = read_manifest(place)
    if manifest is not None:
        known = kept_queues(StoreFolder(place))
        return Coverage(physical=manifest.ranges, known=known, topics=manifest.topics)
    topics = read_topic_manifest(place)
    if topics is None:
        raise SettingsError(
            f"{place} has no manifest, so it is not an archive of a store or of topics; name the folder of an archive"
        )
    return Coverage(ranges=topics.by_queue())
