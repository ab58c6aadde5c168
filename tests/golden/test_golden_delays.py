"""The delayed message that a Java broker left waiting is delivered by ours, and no other a second time."""

from pathlib import Path
from typing import Any

import pytest

from cometmq.codec.bodies.delay_offset import decode_delay_offsets, encode_delay_offsets
from cometmq.codec.record import Record, decode_record
from tests.support.hand_clock import HandClock
from tests.support.store_puts import writable_copy
from tests.unit.broker.conftest import Served, eventually, serve

STORES = Path(__file__).parent / "stores"
FILES = sorted(STORES.glob("*/store/config/delayOffset.json*"))
TOPIC = "GoldenDelay"
LEFT_MS = 1_795_256_166_073  # When Java's broker ended.
DAY_SECONDS = 86_400


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-4]}-{path.name}")
def test_javas_file_is_written_again_byte_by_byte(path):
    assert encode_delay_offsets(decode_delay_offsets(path.read_text())) == path.read_text()


def all_of(served: Served) -> list[Record]:
    store = served.broker._store
    found = []
    for queue in store.queues_of(TOPIC):
        for entry in store.entries(queue, 0, 100):
            content = store.read_record(entry.physical_offset)
            assert content is not None
            found.append(decode_record(content))
    return found


async def test_what_java_left_waiting_comes_once(tmp_path):
    writable_copy(STORES / "clean" / "store", tmp_path / "store")
    clock = HandClock(LEFT_MS)
    settings: dict[str, Any] = {
        "commitlog_file_size": 262_144,
        "queue_file_size": 6000,
        "index_slots": 1000,
        "index_entries": 2000,
        "is_timer_on": False,
        "delay_levels": "1s 3s 5s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    }
    async with serve(tmp_path / "store", clock, **settings) as served:
        before = {record.physical_offset for record in all_of(served)}
        assert len(before) == 3
        clock.turn(DAY_SECONDS)
        await eventually(lambda: len(all_of(served)) > len(before))
        (late,) = [each for each in all_of(served) if each.physical_offset not in before]
    assert late.properties().items() >= {("REAL_TOPIC", TOPIC), ("DELAY", "18")}
