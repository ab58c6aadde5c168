"""What no CRC covers says where a message is queued: what cannot be is passed over, at a start and in a copy."""

from __future__ import annotations

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, encode_record
from tests.support.store_puts import (
    HOST_V4,
    bodies_of,
    flush,
    make_put,
    open_store,
    put,
    settle,
    store_with,
)


@pytest.mark.parametrize("offset", ["0", "-7", "99999999999999999999", "4611686018427387904"])
@pytest.mark.parametrize("name", ["orders", "%LMQ%light"])
def test_a_message_that_names_another_queue_takes_nothing_from_it(name, offset):
    store, disk, clock = store_with(b"1", b"2", b"3")
    settle(store, clock)
    block = encode_properties(
        {"INNER_MULTI_DISPATCH": name, "INNER_MULTI_QUEUE_OFFSET": offset}
    )
    for topic in ("mine", "orders"):
        store.put_many([make_put(store, topic, body=topic.encode(), property_block=block)])
    flush(store)
    again = open_store(disk=disk.kill(), clock=clock)
    assert bodies_of(again) == [b"1", b"2", b"3", b"orders"]
    assert bodies_of(again, "mine") == [b"mine"]
    settle(again, clock)
    again.close()


@pytest.mark.parametrize(
    ("queue_id", "offset"), [(-3, 0), (0, -5), (0, (1 << 63) - 1), (0, 1 << 60)]
)
def test_a_record_whose_place_in_a_queue_cannot_be_is_in_the_log_alone(queue_id, offset):
    store, disk, clock = store_with()
    damaged = Record(
        queue_id=queue_id, queue_offset=offset, born_host=HOST_V4, store_host=HOST_V4, topic="orders"
    )  # fmt: skip
    store.append_raw(0, encode_record(damaged))
    store.dispatch_pending()
    put(store, b"1")
    settle(store, clock)
    assert [queue.queue_id for queue in store.queues_of("orders")] == [0]
    assert bodies_of(store) == [b"1"]
    store.close()
    again = open_store(disk=disk, clock=clock)
    assert bodies_of(again) == [b"1"]
