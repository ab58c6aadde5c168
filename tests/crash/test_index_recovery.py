"""The index after a power cut or the death of the process: every key of every message, and no other."""

import random
from dataclasses import dataclass, field, replace

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.codec.record import decode_record
from cometmq.store.appender import Put
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import IndexSettings, StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, make_put, open_store, read_all, run_jobs

ALL_TIME = 1 << 62
# Files of 40 entries; half of the slots are in use soon, so there are chains.
INDEX = IndexSettings(slots=64, entries=41, answer_count_max=1000)
ASYNC = replace(SMALL, index=INDEX)


def keyed_put(store: MessageStore, number: int) -> Put:
    """A message with a unique key and one that comes again."""
    put = make_put(store, "orders", number % 3, b"body %d" % number)
    properties = {"UNIQ_KEY": f"U{number}", "KEYS": f"k{number % 5} all"}
    return (*put[:3], encode_properties(properties), *put[4:])


def found(store: MessageStore, key: str) -> list[int]:
    """Physical offsets under a key, the hash's other keys left out."""
    search = store.index.search("orders", key, begin_ms=0, end_ms=ALL_TIME)
    offsets = list(search.run().offsets)
    assert len(set(offsets)) == len(offsets)
    kept = []
    for offset in offsets:
        record = store.read_record(offset)
        assert record is not None, f"{key} leads to {offset}, where no message is"
        properties = decode_record(record).properties()
        if key in [properties["UNIQ_KEY"], *properties["KEYS"].split()]:
            kept.append(offset)
    return kept


def assert_index_is_whole(store: MessageStore) -> None:
    """Every key finds what has it, the newest first."""
    wanted: dict[str, list[int]] = {}
    records = [
        record for queue_id in range(3) for record in read_all(store, "orders", queue_id)
    ]
    for record in sorted(records, key=lambda record: -record.physical_offset):
        properties = record.properties()
        for key in [properties["UNIQ_KEY"], *properties["KEYS"].split()]:
            wanted.setdefault(key, []).append(record.physical_offset)
    assert {key: found(store, key) for key in wanted} == wanted
    entries = sum(file.header.index_count - 1 for file in store.index.files)
    assert entries == sum(map(len, wanted.values())), "an entry too many"


@dataclass
class Run:
    """A store, its disk and its clock."""

    settings: StoreSettings
    disk: FakeDisk = field(default_factory=FakeDisk)
    clock: HandClock = field(default_factory=HandClock)
    number: int = 0

    def __post_init__(self) -> None:
        self.store = open_store(settings=self.settings, disk=self.disk, clock=self.clock)

    def open_again(self, disk: FakeDisk) -> None:
        self.disk = disk
        self.store = open_store(settings=self.settings, disk=disk, clock=self.clock)
        assert self.store.refusal is None
        assert_index_is_whole(self.store)

    def take(self, kind: str, count: int) -> None:
        if kind == "put":
            for _ in range(count):
                self.clock.turn(0.001)
                self.store.put_many([keyed_put(self.store, self.number)])
                self.number += 1
            self.store.dispatch_pending()
        elif kind == "jobs":
            self.clock.turn(2)
            run_jobs(self.store, ticks=count)
        elif kind == "ticks":
            for _ in range(count):
                self.clock.turn(0.1)
                self.store.tick()
        elif kind == "close":
            self.store.close()
            self.open_again(self.disk.kill())
        elif kind == "kill":
            self.open_again(self.disk.kill())
        else:
            self.open_again(self.disk.power_cut(random.Random(count)))


KINDS = ("put", "put", "put", "jobs", "ticks", "close", "kill", "cut")


@pytest.mark.parametrize("seed", range(8))
def test_whatever_stops_it_the_index_has_every_key_of_every_message(seed):
    chance = random.Random(seed)
    for _ in range(10):
        run = Run(replace(ASYNC, flush_sync=chance.random() < 0.5))
        for _ in range(25):
            run.take(
                chance.choice(KINDS), chance.choice([1, 2, 3, 9, 40, chance.getrandbits(5)])
            )
        run.store.close()
        run.open_again(run.disk.kill())
