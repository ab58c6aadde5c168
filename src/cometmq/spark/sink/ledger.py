"""Ledger of transactional batches: messages that any process that finds it must commit (docs/format/spark-ledger.md).

A batch to be committed has one file, whose atomic creation fails if it exists: only one of two drivers can decide.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from cometmq.model.errors import CometError
from cometmq.model.text import decode_reason
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages, count_of

VERSION = 1
COMMITTING, DONE = "committing", "done"
# Finished entries kept per query, as many as Spark keeps batches (spark.sql.streaming.minBatchesToRetain).
_KEPT = 100


@dataclass(frozen=True)
class LedgerEntry:
    """Decision to commit a transactional batch, as the ledger records it.

    Attributes:
        state: `COMMITTING`, or `DONE` when all messages are committed.
        group: Producer group of the half messages.
        rows: Number of messages.
        half_messages: Half messages to commit; empty in the state `DONE`.
    """

    state: str
    group: str
    rows: int
    half_messages: Sequence[HalfMessages]


class Ledgers:
    """Ledgers of all queries of a Spark sink in the folder that the option `ledgerDir` names, one file per batch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: BatchKey) -> LedgerEntry | None:
        """Return the entry of a batch, or None without one; raise CometError for a bad file, OSError if unreadable."""
        path = self._path(key)
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            content = json.loads(text)
            if content["v"] != VERSION:
                raise CometError(
                    f"{path} has version {content['v']}, but this CometMQ reads version {VERSION}; use the CometMQ "
                    "that wrote it"
                )
            half_messages = [_from_json(each) for each in content["halves"]]
            return LedgerEntry(
                content["state"], content["group"], content["rows"], half_messages
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CometError(
                f"{path} is not a ledger of transactional writes ({decode_reason(error)}); restore it from a copy"
            ) from error

    def begin(self, key: BatchKey, group: str, half_messages: Sequence[HalfMessages]) -> None:
        """Record the decision to commit a batch, which must then be completed.

        Raises:
            CometError: The ledger has an entry of the batch already, so another driver may run the query.
            OSError: The file or its folder cannot be written.
        """
        entry = LedgerEntry(COMMITTING, group, count_of(half_messages), half_messages)
        fresh = self._write(key, entry)
        try:
            os.link(fresh, self._path(key))
        except FileExistsError:
            raise CometError(
                f"{self._path(key)} exists already, so another driver runs this query; stop one of the two"
            ) from None
        finally:
            fresh.unlink()
        _sync(self._path(key).parent)

    def finish(self, key: BatchKey) -> None:
        """Record that a batch is committed, and delete its query's finished entries, except among the last 100 batches.

        Does nothing without an unfinished entry. Raises OSError or CometError if a file cannot be read or written.
        """
        entry = self.read(key)
        if entry is None or entry.state == DONE:
            return
        path = self._path(key)
        self._write(key, LedgerEntry(DONE, entry.group, entry.rows, [])).replace(path)
        _sync(path.parent)
        for batch in sorted(self._batches(key.query))[:-_KEPT]:
            old = BatchKey(key.query, batch)
            found = self.read(old)
            if found is not None and found.state == DONE:
                self._path(old).unlink()

    def make_folder(self, query: str) -> None:
        """Create the folder of a query, so that `is_known` returns True for it.

        Half messages of an unknown query are neither committed nor rolled back when a broker checks them, because the
        ledgers of that query may be in another folder.
        """
        (self._folder / query).mkdir(parents=True, exist_ok=True)

    def is_known(self, query: str) -> bool:
        """Return whether a query has a folder here, which its first recorded commit or its first abort creates."""
        return (self._folder / query).is_dir()

    def newest(self, query: str) -> int:
        """Return the highest number of a batch of a query that has an entry, or -1 if none has."""
        return max(self._batches(query), default=-1)

    def _batches(self, query: str) -> list[int]:
        folder = self._folder / query
        return [int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal()]

    def _path(self, key: BatchKey) -> Path:
        return self._folder / key.query / f"{key.batch}.json"

    def _write(self, key: BatchKey, entry: LedgerEntry) -> Path:
        """Write an entry to a new temporary file in the query's folder, flushed to disk, and return its path."""
        self.make_folder(key.query)
        content = {
            "v": VERSION,
            "state": entry.state,
            "query": key.query,
            "batch": key.batch,
            "group": entry.group,
            "rows": entry.rows,
            "halves": [_to_json(each) for each in entry.half_messages],
        }
        path = self._path(key).with_name(f".{key.batch}.{uuid4().hex}")
        with path.open("x") as file:
            file.write(json.dumps(content, separators=(",", ":")))
            file.flush()
            os.fsync(file.fileno())
        return path


# Key in the file for each field of `HalfMessages`.
_NAMES = {
    "broker": "broker",
    "topic": "topic",
    "ids": "ids",
    "queue_offsets": "queueOffsets",
    "log_offsets": "commitLogOffsets",
}


def _to_json(half_messages: HalfMessages) -> dict[str, Any]:
    return {_NAMES[name]: value for name, value in asdict(half_messages).items()}


def _from_json(content: dict[str, Any]) -> HalfMessages:
    return HalfMessages(**{name: content[key] for name, key in _NAMES.items()})


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
