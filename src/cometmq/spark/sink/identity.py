"""Message ids of a Spark write, generated many at once: new ones, or ids that a row gets again if it is sent again.

An id is 16 bytes (a new one 28 with an IPv6 address), shown as hex digits (docs/format/message-id.md). In an id
that a row gets again, twelve bytes come from its value, or its task and number; the four between them, for other ids
a time, are 0, which tools read as the first of the month. Format: docs/format/spark-ledger.md.
"""

from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.model.errors import MessageError
from cometmq.model.text import in_quotes
from cometmq.offline.columns.pieces import BINARY, STRING

_DIGITS = np.frombuffer(b"".join(b"%02X" % octet for octet in range(256)), np.uint16)
_STAMP_SIZE = 6  # Time and counter, at the end of an id.
_COUNTER_BITS = 16
_DAY = 86_400_000 << _COUNTER_BITS
_ROWS_MAX = 1 << 32
_RUN_SIZE, _VALUE_SIZE = 8, 12

Octets = npt.NDArray[np.uint8]


class TaskRun(NamedTuple):
    """Identity of a task, the same if Spark retries it: query id or write name, batch id (0 for a batch write), partition."""

    query: str
    batch: int
    partition: int


class Ids(Protocol):
    """Generator of the message ids of a task's rows, and of their property SPARK_SEQ."""

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array | None]:
        """Return the next rows' ids, and their SPARK_SEQ texts or None; raise MessageError if a row gets no id."""


class FreshIds:
    """Thread-safe generator of unique ids in RocketMQ's form, with prefix and time of the ids that `next_id` makes."""

    def __init__(self, next_id: Callable[[], str]) -> None:
        self._next_id = next_id
        self._next = 0
        self._lock = Lock()

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, None]:
        """Return new ids for the rows, and None, because such ids need no property SPARK_SEQ."""
        return self.make(batch.num_rows), None

    def make(self, count: int) -> pa.Array:
        """Return `count` new message ids; with more than 65,536 per ms, their time runs ahead of the clock."""
        sample = bytes.fromhex(self._next_id())
        prefix, time = sample[:-_STAMP_SIZE], int.from_bytes(sample[-_STAMP_SIZE:-2])
        now = time << _COUNTER_BITS
        with self._lock:
            # A jump back by more than a day is the start of a month, at which the time of ids restarts at 0.
            start = now if now < self._next - _DAY else max(self._next, now)
            self._next = start + count
        table = np.empty((count, len(sample)), np.uint8)
        table[:, :-_STAMP_SIZE] = np.frombuffer(prefix, np.uint8)
        stamps = (start + np.arange(count)).astype(">u8")
        table[:, -_STAMP_SIZE:] = stamps.view(np.uint8).reshape(count, 8)[:, 2:]
        return _hex(table)


class RunIds:
    """Generator of ids from a task's identity and the row number: row n has the same id in every attempt of the task."""

    def __init__(self, run: TaskRun) -> None:
        self._numbers = RowNumbers(run)
        text = f"{run.query}\0{run.batch}\0{run.partition}".encode()
        self._front = np.frombuffer(blake2b(text, digest_size=_RUN_SIZE).digest(), np.uint8)

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the ids of the next rows, and their SPARK_SEQ texts; raise MessageError beyond 2^32 rows."""
        rows, texts = self._numbers.take(batch.num_rows)
        return _hex(_spread(self._front, rows)), texts


def _spread(front: Octets, rows: npt.NDArray[np.int64]) -> Octets:
    """Return ids that contain the task's hash and the row numbers, one row of 16 bytes for each."""
    number = rows.astype(">u4").view(np.uint8).reshape(len(rows), 4)
    table = np.zeros((len(rows), 16), np.uint8)
    table[:, :8] = front
    table[:, 8:10] = number[:, :2]
    table[:, 14:] = number[:, 2:]
    return table


class ColumnIds:
    """Generator of ids from the value of a column: equal values get the same id, in every task and order of rows."""

    def __init__(self, run: TaskRun, column: str) -> None:
        self._numbers = RowNumbers(run)
        self._column = column

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the ids of the rows, made from hashes of their values in the id column, and their SPARK_SEQ texts.

        Raises MessageError if the column has a null, or the task has more than 2^32 rows.
        """
        values = batch.column(batch.schema.get_field_index(self._column))
        if values.null_count:
            raise MessageError(
                f"a row has no id: its column {in_quotes(self._column)} is null; filter such rows out, or give "
                "them a value"
            )
        if not pa.types.is_binary(values.type):
            values = values.cast(STRING).cast(BINARY)
        digests = b"".join(
            blake2b(value, digest_size=_VALUE_SIZE).digest() for value in values.to_pylist()
        )
        octets = np.frombuffer(digests, np.uint8).reshape(batch.num_rows, _VALUE_SIZE)
        table = np.zeros((batch.num_rows, 16), np.uint8)
        table[:, :10] = octets[:, :10]
        table[:, 14:] = octets[:, 10:]
        return _hex(table), self._numbers.take(batch.num_rows)[1]


class RowNumbers:
    """Counter of the rows of a task, from 0, with their property SPARK_SEQ: `batch-partition-row`."""

    def __init__(self, run: TaskRun) -> None:
        self._front = f"{run.batch}-{run.partition}-"
        self._next = 0

    def take(self, count: int) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Return the next row numbers and their SPARK_SEQ texts; raise MessageError beyond 2^32 rows of a task."""
        rows = np.arange(self._next, self._next + count)
        self._next += count
        if self._next > _ROWS_MAX:
            raise MessageError(
                f"a task has more than {_ROWS_MAX} rows, the most that can get ids; use more partitions"
            )
        return rows, pc.binary_join_element_wise(self._front, pa.array(rows).cast(STRING), "")


class SequencedIds:
    """Generator of ids that are new in every attempt, with the task's row numbers in the property SPARK_SEQ."""

    def __init__(self, make: Callable[[int], pa.Array], run: TaskRun) -> None:
        self._make = make
        self._numbers = RowNumbers(run)

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the ids of the next rows, and their SPARK_SEQ texts; raise MessageError beyond 2^32 rows."""
        return self._make(batch.num_rows), self._numbers.take(batch.num_rows)[1]


def _hex(table: Octets) -> pa.Array:
    """Return each row of bytes as a text of upper-case hex digits."""
    count, width = table.shape
    digits = pa.py_buffer(_DIGITS[table].tobytes())
    fixed = pa.Array.from_buffers(pa.binary(2 * width), count, [None, digits])
    return fixed.cast(BINARY).cast(STRING)
