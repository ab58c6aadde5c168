"""Writes to the log as their writer knows them: a put, and a batch of records that follow each other.

A put is a plain tuple, and so is what comes of it: a frozen dataclass would cost as much as
everything else in an append together.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.kernel import SendBatch, record_places, rows
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer

# Their fields: cometmq.kernel.rows.
Put = rows.Put[ConsumeQueue]
PutResult = rows.PutResult
Arrival = rows.Arrival[ConsumeQueue]
# Plain sends, without an object of each.
Columns = SendBatch[ConsumeQueue]


class RawRecords(NamedTuple):
    """Records of one log file as bytes; each of them was checked.

    Attributes:
        start: physical offset of the first.
        content: their bytes, which nobody changes before they are dispatched.
        kinds: all bits of their sysFlags.
    """

    start: int
    content: Buffer
    kinds: int

    def place_of(self, offset: int) -> int:
        """The place in the bytes of the first record that begins at a physical offset or behind it."""
        before = offset - self.start - 1
        return 0 if before < 0 else record_places(self.content, 0, before)[1]


class Batch(NamedTuple):
    """Records that lie one behind the other in the log.

    Attributes:
        end_offset: physical offset behind the last.
        store_ms: store time of the last.
        results: where each message lies; of a put alone, as the next two.
        puts: the messages.
        arrivals: the queue entries that are due.
        raw: the records themselves where they came as bytes; None: a put knows them as above.
        columns: the messages where they are columns, which know results, puts and arrivals; None: they are puts.
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
        """The queue entries of its messages; none of records."""
        return self.arrivals if self.columns is None else self.columns.arrivals()


def raw_batch(raw: RawRecords, store_ms: int) -> Batch:
    """The batch of records that came as bytes; `store_ms` is the store time of the last."""
    return Batch(raw.start + len(raw.content), store_ms, [], (), [], raw)
