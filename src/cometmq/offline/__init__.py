"""Stores without a broker: verify, compare, repair, rebuild, archive, restore, and read as Arrow.

`cometmq store` uses this code on one core, some Spark jobs on all cores (docs/design/0052). Nothing here depends on
Spark, and `verify` and `repair` need neither numpy nor pyarrow. `repair` and the installation of rebuilt
files change a store's files and need its lock; `archive` only records its progress in it (archived.json). The package
itself has `read`, which returns a store's messages as Arrow batches; everything else is in its modules.
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
    """Read the messages of a store's log as Arrow batches, in log order; a broker may have the store open.

    Batches are read lazily. A batch has at most 8,192 rows from at most 8 MiB of the log (64 MiB if it is not on this
    machine), or the messages of one larger record or stored batch; with at most 64 MiB of decompressed bodies plus one
    body.

    Args:
        path: The store directory (storePathRootDir), also Java's: a path, a URI of pyarrow's file systems, or a
            `StoreFolder` if the log is elsewhere (storePathCommitLog).
        topics: Only these topics; empty for all.
        queues: Only queues with these ids; empty for all.
        start: Only messages stored at or after this time: a `datetime` with a time zone, or ms since 1970.
        end: Only messages stored before this time.
        columns: Names from docs/spark/schema.md, `storeFile`, `valid` or `rawRecord`; empty for all but the last.
        mode: Handling of most damage: "PERMISSIVE" warns and returns a row with `valid` false (with `topics` or
            `queues` not for bytes that are no record or readable batch), "DROPMALFORMED" only warns, "FAILFAST" raises.
        with_deleted: Include messages of deleted topics whose records are still in the log. By default they are left
            out, as far as the queue files show which they are.

    Returns:
        A reader of the batches.

    Raises:
        SettingsError: An argument has a wrong value.
        StoreDamaged: There is no readable store, or there is damage; in other modes than "FAILFAST" only rarely.
        OSError: A file cannot be read.
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
