"""Writes to the log as their writer knows them: a put, and a batch of records that follow each other.

A put is a plain tuple, and so is what comes of it: a frozen dataclass would cost as much as
everything else in an append together.

Next: cometmq.store.derived
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.codec.record import Record
from cometmq.kernel import SendBatch, rows
from cometmq.store.consume_queue import ConsumeQueue

# Their fields: cometmq.kernel.rows.
Put = rows.Put[ConsumeQueue]
PutResult = rows.PutResult
Arrival = rows.Arrival[ConsumeQueue]
# Plain sends, without an object of each.
Columns = SendBatch[ConsumeQueue]


class Batch(NamedTuple):
    """Records that lie one behind the other in the log.

    Attributes:
        end_offset: physical offset behind the last.
        store_ms: store time of the last.
        results: where each message lies; of a put alone, as the next two.
        puts: the messages.
        arrivals: the queue entries that are due.
        records: the records themselves where they came as bytes; None: a put knows them as above, and
            they need not be decoded.
        columns: the messages where they are columns, which know results, puts and arrivals; None: they are puts.
    """

    end_offset: int
    store_ms: int
    results: list[PutResult]
    puts: Sequence[Put]
    arrivals: list[Arrival]
    records: Sequence[Record] | None = None
    columns: Columns | None = None

    @property
    def start(self) -> int:
        """Physical offset of the first record."""
        if self.columns is not None:
            return self.columns.start
        return self.records[0].physical_offset if self.records else self.results[0][1]

    def due_entries(self) -> list[Arrival]:
        """The queue entries of its messages; none of records."""
        return self.arrivals if self.columns is None else self.columns.arrivals()


def batch_of(records: Sequence[Record]) -> Batch:
    """The batch of records that were read from bytes."""
    last = records[-1]
    end = last.physical_offset + last.store_size
    return Batch(end, last.store_timestamp, [], (), [], records)
