"""The ledger: what must be committed, whoever finds it (docs/format/spark-ledger.md).

A file for each batch, that appears whole or not at all and never twice: two drivers that run the same
batch cannot both decide.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from cometmq.model.errors import CometError
from cometmq.spark.sink.half_messages import BatchKey, HalfMessages, count_of

VERSION = 1
COMMITTING, DONE = "committing", "done"
# As many as Spark keeps of its own (spark.sql.streaming.minBatchesToRetain).
_KEPT = 100


@dataclass(frozen=True)
class LedgerEntry:
    """The entry of a batch in a ledger.

    Attributes:
        state: `COMMITTING` or `DONE`.
        group: the producer group of the half messages.
        rows: how many messages.
        half_messages: what must be committed; nothing when it was.
    """

    state: str
    group: str
    rows: int
    half_messages: Sequence[HalfMessages]


class Ledgers:
    """The ledgers of all queries.

    Args:
        folder: the option `ledgerDir`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: BatchKey) -> LedgerEntry | None:
        """Read the entry of a batch; None: nothing is decided yet.

        Raises:
            CometError: the file is none of ours, or of a newer version.
        """
        path = self._path(key)
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            content = json.loads(text)
            if content["v"] != VERSION:
                raise CometError(f"{path} has version {content['v']}; this reads {VERSION}")
            half_messages = [_from_json(each) for each in content["halves"]]
            return LedgerEntry(
                content["state"], content["group"], content["rows"], half_messages
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CometError(f"{path} is no ledger: {error!r}") from error

    def begin(self, key: BatchKey, group: str, half_messages: Sequence[HalfMessages]) -> None:
        """Decide that a batch is committed; from here on it must be.

        Raises:
            CometError: somebody else has decided about the batch.
            OSError: it could not be written; nothing is decided.
        """
        entry = LedgerEntry(COMMITTING, group, count_of(half_messages), half_messages)
        fresh = self._write(key, entry)
        try:
            os.link(fresh, self._path(key))
        except FileExistsError:
            raise CometError(
                f"{self._path(key)} is there already: another driver runs this query; stop one"
            ) from None
        finally:
            fresh.unlink()
        _sync(self._path(key).parent)

    def finish(self, key: BatchKey) -> None:
        """Note that all of a batch is committed.

        Raises:
            OSError: it could not be written; it will be looked at again.
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
        """Make the folder of a query."""
        (self._folder / query).mkdir(parents=True, exist_ok=True)

    def is_known(self, query: str) -> bool:
        """Whether a query keeps its ledgers here."""
        return (self._folder / query).is_dir()

    def newest(self, query: str) -> int:
        """The last batch of a query that was decided; -1: none was."""
        return max(self._batches(query), default=-1)

    def _batches(self, query: str) -> list[int]:
        folder = self._folder / query
        return [int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal()]

    def _path(self, key: BatchKey) -> Path:
        return self._folder / key.query / f"{key.batch}.json"

    def _write(self, key: BatchKey, entry: LedgerEntry) -> Path:
        """A file beside its place, on the disk."""
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


# Field of `HalfMessages` -> key of the file.
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
