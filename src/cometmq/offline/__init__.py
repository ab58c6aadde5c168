"""Stores without a broker: verified, compared, repaired, rebuilt, archived, restored, read as Arrow.

`cometmq store` does it on one core, the jobs of Spark on all, with the same code (docs/design/0052).
Nothing here knows Spark; what only looks needs neither numpy nor pyarrow. Only `repair` and what
installs rebuilt files change a store, and they take its lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pyarrow as pa

    from cometmq.offline.arrow_reader import Moment
    from cometmq.offline.folder import StoreFolder

__all__ = ["read"]


def read(
    path: str | os.PathLike[str] | StoreFolder,
    *,
    topics: Sequence[str] = (),
    queues: Sequence[int] = (),
    start: Moment | None = None,
    end: Moment | None = None,
    columns: Sequence[str] = (),
    mode: str = "PERMISSIVE",
    with_deleted: bool = False,
) -> pa.RecordBatchReader:
    """Read the messages of a store's log as Arrow batches, in the order of the log; a broker may have it open.

    Nothing is read before a batch is asked for. A batch has at most 8,192 rows and takes what 8 MiB of the log decode to,
    at most 64 MiB of unpacked bodies and one body more; nothing else is held, however long the log is.

    Args:
        path: the store directory (storePathRootDir), Java's too: a path, a URI of pyarrow's file systems, or
            a `StoreFolder` where the log lies elsewhere (storePathCommitLog).
        topics: only these; none: all.
        queues: only queues of these numbers; none: all.
        start: only what was stored at this time or later: a `datetime` with its time zone, or ms since 1970.
        end: only what was stored before this time.
        columns: names of docs/spark/schema.md, of `storeFile`, `valid` and `rawRecord`; none: all but the last.
        mode: of what is broken, "PERMISSIVE" makes a row with `valid` false, "DROPMALFORMED" a warning,
            "FAILFAST" an error.
        with_deleted: also messages of topics that were deleted, of which the log still has the records. Without it they
            are left out, as far as the queue files say which they are.

    Returns:
        A reader; pandas, Polars, DuckDB and Parquet writers take it as it is.

    Raises:
        SettingsError: an argument is wrong.
        StoreDamaged: there is no store; while it is read and the mode is "FAILFAST": something is broken.
        OSError: a file cannot be read.
    """
    from cometmq.offline.arrow_reader import read_store

    return read_store(
        path,
        topics=topics,
        queues=queues,
        start=start,
        end=end,
        columns=columns,
        mode=mode,
        with_deleted=with_deleted,
    )
