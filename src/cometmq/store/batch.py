"""A put, and a batch of adjacent records: what the appender writes to the log and dispatch makes visible.

A put (a message to be stored) and its result are plain tuples: a frozen dataclass would cost as much as the rest of an
append.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.kernel import SendBatch, record_places, rows
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer

# The fields are documented in cometmq.kernel.rows.
Put = rows.Put[ConsumeQueue]
PutResult = rows.PutResult
Arrival = rows.Arrival[ConsumeQueue]
# Simple sends as columns, without an object per message.
Columns = SendBatch[ConsumeQueue]


class RawRecords(NamedTuple):
    """Checked records of one log file, as bytes.

    Attributes:
        start: Physical offset of the first record.
        content: Their bytes; must not be changed before they are dispatched.
        kinds: Bitwise OR of their sysFlags.
    """

    start: int
    content: Buffer
    kinds: int

    def place_of(self, offset: int) -> int:
        """Return the position in `content` of the first record at or after a physical offset, else `len(content)`."""
        before = offset - self.start - 1
        return 0 if before < 0 else record_places(self.content, 0, before)[1]


class Batch(NamedTuple):
    """Adjacent records of the log, with data about them from the code that appended them.

    Attributes:
        end_offset: Physical offset of the end of the last record.
        store_ms: Store time of the last record, ms.
        results: Queue offset, physical offset and size of each put; empty if `raw` or `columns` is set, as are the next two.
        puts: The messages.
        arrivals: Queue entries to be added.
        raw: The records, if they were received or recovered as bytes; else None.
        columns: The messages in column form, with results, puts and arrivals, if the fast path made them; else None.
    """

    end_offset: int
    store_ms: int
    results: list[PutResult]
    puts: Sequence[Put]
    arrivals: list[Arrival]
    raw: RawRecords | None = None
    columns: Columns | None = None

    @property
    def start(self) -> int:
        """Physical offset of the first record."""
        if self.columns is not None:
            return self.columns.start
        return self.raw.start if self.raw is not None else self.results[0][1]

    def due_entries(self) -> list[Arrival]:
        """Return the queue entries that a batch of puts or columns adds; empty for records that are bytes (`raw`)."""
        return self.arrivals if self.columns is None else self.columns.arrivals()


def raw_batch(raw: RawRecords, store_ms: int) -> Batch:
    """Return the batch of records that are bytes; `store_ms` is the store time of the last one, ms since 1970."""
    return Batch(raw.start + len(raw.content), store_ms, [], (), [], raw)
