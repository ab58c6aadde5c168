"""What a record says of its place in a batch queue may be any text; a start passes over what cannot be."""

from __future__ import annotations

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, encode_record
from cometmq.model.flags import INNER_BATCH
from cometmq.store.batch_queues import BatchQueue
from tests.support.store_puts import HOST_V4, open_store, store_with

RECORD = Record(sys_flag=INNER_BATCH, born_host=HOST_V4, store_host=HOST_V4, topic="batches")


@pytest.mark.parametrize(
    ("first", "count"),
    [
        ((1 << 48) - 1, 2),
        (2, (1 << 15) - 1),
        (1 << 48, 1),
        ((1 << 63) - 1, 1),
        (1 << 70, 1),
        (-1, 1),
        (2, 0),
        (2, -1),
        (2, 1 << 15),
    ],
)
def test_a_record_has_an_entry_where_its_numbers_may_be(first, count):
    store, disk, clock = store_with()
    ends = [2]
    for numbers in ((0, 2), (first, count)):
        base, number = map(str, numbers)
        block = encode_properties({"INNER_BASE": base, "INNER_NUM": number})
        record = RECORD._replace(physical_offset=store.max_offset, property_block=block)
        store.append_raw(store.max_offset, encode_record(record))
        store.dispatch_pending()
    if 0 <= first < 1 << 48 and 0 < count < 1 << 15:
        ends.append(first + count)
    for _ in range(2):
        queue = store.queue("batches", 0)
        assert isinstance(queue, BatchQueue)
        assert (queue.max_offset, queue.end_entry) == (ends[-1], len(ends))
        store = open_store(disk=disk.kill(), clock=clock)
