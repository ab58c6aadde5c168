"""Decides whether a directory may be opened, before a byte of it is changed.

Two kinds of stores are refused. If a part is stored in a form that we do not read (RocksDB, DLedger, tiered storage),
the store would open without that part and new data would be built on the rest. If all of the log is missing (a disk that
is not mounted, a mistyped path), queues and index would be adapted to the missing log and lost. Paths: RocketMQ 5.3.3,
5.4, 5.5.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.model.errors import CodecError, StoreDamaged
from cometmq.store.checkpoint import CheckpointFiles
from cometmq.store.disk import Disk, file_size, read_file
from cometmq.store.file_chain import NAME_DIGITS

logger = logging.getLogger(__name__)

_MARK = "CURRENT"  # Every RocksDB directory has this file.
_WRITE_AHEAD_LOG = re.compile(r"[0-9]+\.log")
_TABLE_SUFFIXES = (".sst", ".ldb", ".blob")
DLEDGER_PREFIX = "dledger-"  # dledger-<dLegerSelfId>/data is its log.
# RocksDB as well, but not part of the store: users and policies (auth 2.0).
_NOT_OF_THE_STORE = ("config/users", "config/acls")

_TO_JSON = "have RocketMQ write it as JSON (mqadmin rocksDBConfigToJson), then move it away"
# Directories that RocketMQ keeps in RocksDB: their content, and how to export it.
_IN_ROCKSDB = {
    "config/rdb": ("topics, groups and offsets", _TO_JSON),
    "config/topics": ("topics", _TO_JSON),
    "config/subscriptionGroups": ("consumer groups", _TO_JSON),
    "config/consumerOffsets": ("consumer offsets", _TO_JSON),
    "kvStore": (
        "messages that were popped and not acknowledged",
        "have RocketMQ deliver them, then move it away",
    ),
    "RocksDBMessageStore": (
        "timers and transactions that wait",
        "have RocketMQ finish them, then move it away",
    ),
}


class OtherPart(NamedTuple):
    """A part of a store that CometMQ does not read: its relative path, what it holds, and advice for the operator."""

    path: str
    what: str
    remedy: str


def message_parts(names: Iterable[str], exists: Callable[[str], bool]) -> Iterator[OtherPart]:
    """Yield parts of a store directory that hold messages or queues, or refer to messages, and that CometMQ cannot read.

    Args:
        names: Names in the store directory.
        exists: Returns whether a path relative to the store directory exists.
    """
    for name in names:
        if name.startswith(DLEDGER_PREFIX) and exists(f"{name}/data"):
            yield OtherPart(
                name,
                "the log of DLedger (enableDLegerCommitLog)",
                "make an ordinary store of it with `cometmq store import-dledger`, or use RocketMQ for it",
            )
    if exists(f"consumequeue/{_MARK}"):
        yield OtherPart(
            "consumequeue",
            "the consume queues in RocksDB",
            "move that folder away, and they are rebuilt from the log",
        )
    if exists("config/tieredStoreMetadata.json"):
        yield OtherPart(
            "config/tieredStoreMetadata.json",
            "the metadata of older messages in tiered storage",
            "continue with RocketMQ, or move it away to keep only the messages of the local log",
        )


def rocksdb_parts(disk: Disk, root: str) -> Iterator[OtherPart]:
    """Yield parts of a store directory and its `config` that are, or seem to be, RocksDB databases with entries.

    Consume queues, users and policies are left out; complete databases without an entry are logged and skipped.
    RocketMQ 5.5 opens a database `rocksdbstore` at each start and writes nothing to it with its default settings.
    """
    for folder in ("", "config/"):
        for name in disk.list_names(f"{root}/{folder}".rstrip("/")):
            path = folder + name
            if path in ("config", "consumequeue", *_NOT_OF_THE_STORE):
                continue
            inside = disk.list_names(f"{root}/{path}")
            if not (_MARK in inside or (inside and path in _IN_ROCKSDB)):
                continue
            if _is_empty_database(disk, f"{root}/{path}", inside):
                logger.info("%s/%s is an empty RocksDB database and is ignored", root, path)
                continue
            default = ("a database", "move it away if it is not needed")
            what, remedy = _IN_ROCKSDB.get(path, default)
            yield OtherPart(path, f"{what} in RocksDB", remedy)


def _is_empty_database(disk: Disk, path: str, names: Sequence[str]) -> bool:
    """Return whether a RocksDB directory is complete and its database has no entry.

    Entries are in table and blob files, or in a write-ahead log (`NUMBER.log`) that is not empty. A complete database
    has a file CURRENT and at least one write-ahead log.
    """
    logs = [name for name in names if _WRITE_AHEAD_LOG.fullmatch(name)]
    has_tables = any(name.endswith(_TABLE_SUFFIXES) for name in names)
    if not logs or has_tables or _MARK not in names:
        return False
    return not any(file_size(disk, f"{path}/{name}") for name in logs)


def refuse(root: str, parts: Iterable[OtherPart]) -> None:
    """Raise StoreDamaged if a store has parts that CometMQ does not read; the text names each one and what to do."""
    said = [f"{part.path} holds {part.what}: {part.remedy}" for part in parts]
    if said:
        raise StoreDamaged(
            f"{root} is a store with parts that are not supported yet; nothing was changed. "
            + "; ".join(said)
        )


def check_kind(disk: Disk, root: str, *, is_for_messages: bool = False) -> None:
    """Raise StoreDamaged if CometMQ cannot read a part of a store.

    With `is_for_messages`, only the parts that `message_parts` finds count, not those that `rocksdb_parts` finds.
    """
    found = message_parts(disk.list_names(root), lambda path: disk.exists(f"{root}/{path}"))
    refuse(root, found)
    if not is_for_messages:
        refuse(root, rocksdb_parts(disk, root))


# --- a log that is not there


def check_log(
    disk: Disk, root: str, log_directories: Sequence[str], checkpoints: CheckpointFiles
) -> None:
    """Refuse a store (in `root`, storePathRootDir) without a log file if there is evidence that it had one.

    Raises:
        StoreDamaged: No directory has a log file, and there is evidence; the text names it and what to do.
    """
    if any(_has_log_file(disk, directory) for directory in log_directories):
        return
    evidence = _evidence(disk, root, checkpoints)
    if evidence is not None:
        raise StoreDamaged(
            f"no log file in {' or '.join(log_directories)}, but {evidence}: without its log the "
            "store would lose its queues and index. Mount the disk, or set storePathCommitLog to "
            "the folder of the log; to start with an empty store, move consumequeue, index, checkpoint, "
            "checkpoint.cometmq and the offsets in config away. Nothing was changed"
        )


def _has_log_file(disk: Disk, directory: str) -> bool:
    for name in disk.list_names(directory):
        if len(name) == NAME_DIGITS and name.isdigit():
            return True
    return False


def _evidence(disk: Disk, root: str, checkpoints: CheckpointFiles) -> str | None:
    """Return the first evidence found that there was a log with messages, in words; None if there is none."""
    progress = checkpoints.progress
    if progress is not None and progress.flushed:
        return f"checkpoint.cometmq records that the log was flushed up to {progress.flushed}"
    if checkpoints.times.log_timestamp:
        return "checkpoint has the time of a last message"
    for folder in ("consumequeue", "batchconsumequeue"):
        for topic in disk.list_names(f"{root}/{folder}"):
            for queue_id in disk.list_names(f"{root}/{folder}/{topic}"):
                if disk.list_names(f"{root}/{folder}/{topic}/{queue_id}"):
                    return f"{folder}/{topic}/{queue_id} has entries"
    if progress is not None:  # Its value is 0: offsets were committed here without any message.
        return None
    for name in ("consumerOffset.json", "lmqConsumerOffset.json", "delayOffset.json"):
        path = f"config/{name}"
        if disk.exists(f"{root}/{path}") and _has_offset(disk, f"{root}/{path}"):
            return f"{path} has offsets of consumed messages"
    return None


def _has_offset(disk: Disk, path: str) -> bool:
    """Return whether a file with consumer offsets has a positive one; False if it cannot be read."""
    try:
        table = fastjson.loads(read_file(disk, path))
    except (OSError, CodecError):
        return False
    tables = ("offsetTable", "lmqOffsetTable")
    return isinstance(table, dict) and any(_is_positive(table.get(name)) for name in tables)


def _is_positive(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_positive(part) for part in value.values())
    return isinstance(value, int) and value > 0
