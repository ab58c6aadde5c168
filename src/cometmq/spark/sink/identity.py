"""Message ids, many at once: new ones, and those that a row gets again when it runs again.

An id is 16 bytes (28 with an IPv6 address), shown as hex digits (docs/format/message-id.md). Twelve of
the 16 are free to say which row it is; the four between them are a time, which readers of ids take for
the begin of their search. Docs: docs/format/spark-ledger.md.
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
from cometmq.offline.columns.pieces import BINARY, STRING

_DIGITS = np.frombuffer(b"".join(b"%02X" % octet for octet in range(256)), np.uint16)
_STAMP_SIZE = 6  # Time and counter, the end of an id.
_COUNTER_BITS = 16
_DAY = 86_400_000 << _COUNTER_BITS
_ROWS_MAX = 1 << 32
_RUN_SIZE, _VALUE_SIZE = 8, 12

Octets = npt.NDArray[np.uint8]


class TaskRun(NamedTuple):
    """The identity of a task: query, batch and partition, the same when Spark runs it again.

    Attributes:
        query: Spark's query id, or the name of a batch write.
        batch: Spark's batch id; 0 for a batch write.
        partition: of the task.
    """

    query: str
    batch: int
    partition: int


class Ids(Protocol):
    """Gives each row its id."""

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array | None]:
        """The ids of the next rows of the task, and the values of SPARK_SEQ.

        Raises:
            MessageError: a row has no id, or the task has more rows than there are ids.
        """


class FreshIds:
    """Ids that no other message has; safe to share between threads.

    Args:
        next_id: makes an id, whose prefix and time these ids go on from.
    """

    def __init__(self, next_id: Callable[[], str]) -> None:
        self._next_id = next_id
        self._next = 0
        self._lock = Lock()

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, None]:
        """New ids for the rows, and no values of SPARK_SEQ."""
        return self.make(batch.num_rows), None

    def make(self, count: int) -> pa.Array:
        """Make new message ids.

        Time and counter are counted through as one number: 65,536 a millisecond, and more than that
        run ahead of the clock instead of meeting again.
        """
        sample = bytes.fromhex(self._next_id())
        prefix, time = sample[:-_STAMP_SIZE], int.from_bytes(sample[-_STAMP_SIZE:-2])
        now = time << _COUNTER_BITS
        with self._lock:
            # Further back than any set clock: a new month, which begins at 0.
            start = now if now < self._next - _DAY else max(self._next, now)
            self._next = start + count
        table = np.empty((count, len(sample)), np.uint8)
        table[:, :-_STAMP_SIZE] = np.frombuffer(prefix, np.uint8)
        stamps = (start + np.arange(count)).astype(">u8")
        table[:, -_STAMP_SIZE:] = stamps.view(np.uint8).reshape(count, 8)[:, 2:]
        return _hex(table)


class RunIds:
    """Ids of a task's rows by their number: the same in every attempt.

    Args:
        run: which task it is.
    """

    def __init__(self, run: TaskRun) -> None:
        self._numbers = RowNumbers(run)
        text = f"{run.query}\0{run.batch}\0{run.partition}".encode()
        self._front = np.frombuffer(blake2b(text, digest_size=_RUN_SIZE).digest(), np.uint8)

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """The ids of the next rows."""
        rows, texts = self._numbers.take(batch.num_rows)
        return _hex(_spread(self._front, rows)), texts


def _spread(front: Octets, rows: npt.NDArray[np.int64]) -> Octets:
    """Ids of a run and row numbers."""
    number = rows.astype(">u4").view(np.uint8).reshape(len(rows), 4)
    table = np.zeros((len(rows), 16), np.uint8)
    table[:, :8] = front
    table[:, 8:10] = number[:, :2]
    table[:, 14:] = number[:, 2:]
    return table


class ColumnIds:
    """Ids by the value of a column: the same whoever sends the row, in whatever order.

    Args:
        run: which task it is.
        column: its name.
    """

    def __init__(self, run: TaskRun, column: str) -> None:
        self._numbers = RowNumbers(run)
        self._column = column

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """The ids of these rows."""
        values = batch.column(batch.schema.get_field_index(self._column))
        if values.null_count:
            raise MessageError(
                f"a row has no id: its column {self._column!r} is null; filter such rows out or give "
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
    """Numbers the rows of a task.

    Args:
        run: which task it is.
    """

    def __init__(self, run: TaskRun) -> None:
        self._front = f"{run.batch}-{run.partition}-"
        self._next = 0

    def take(self, count: int) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """The next numbers, and the same as SPARK_SEQ has them.

        Raises:
            MessageError: there are more than 2^32 rows.
        """
        rows = np.arange(self._next, self._next + count)
        self._next += count
        if self._next > _ROWS_MAX:
            raise MessageError(
                f"a task of more than {_ROWS_MAX} rows has no ids for them; make more partitions"
            )
        return rows, pc.binary_join_element_wise(self._front, pa.array(rows).cast(STRING), "")


class SequencedIds:
    """Ids of `ids` with the numbers of a task's rows beside them.

    Args:
        make: gives so many ids.
        run: which task it is.
    """

    def __init__(self, make: Callable[[int], pa.Array], run: TaskRun) -> None:
        self._make = make
        self._numbers = RowNumbers(run)

    def take(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """The ids of the next rows."""
        return self._make(batch.num_rows), self._numbers.take(batch.num_rows)[1]


def _hex(table: Octets) -> pa.Array:
    """A row of octets each as upper-case hex digits."""
    count, width = table.shape
    digits = pa.py_buffer(_DIGITS[table].tobytes())
    fixed = pa.Array.from_buffers(pa.binary(2 * width), count, [None, digits])
    return fixed.cast(BINARY).cast(STRING)
