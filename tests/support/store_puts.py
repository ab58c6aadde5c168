"""Opens stores and puts messages, the way a broker does, for tests of the store."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, decode_records
from cometmq.model.java_hash import java_hash
from cometmq.store.appender import Put, encode_topic_block
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.derived import Step
from cometmq.store.disk import Disk
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import Match
from cometmq.store.retention import Retention
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock


class DerivedFiles(Protocol):
    """What follows the log's start."""

    def delete_before(self, offset: int, /) -> Iterator[Step]: ...


ROOT = "/store"
HOST_V4 = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
HOST_V6 = bytes(15) + b"\x01" + bytes((0, 0, 0x2A, 0x9F))
SMALL = StoreSettings(commitlog_file_size=16_384, queue_file_size=400, disk_reserve=0)
FILE = SMALL.commitlog_file_size
BODY = b"x" * 3900  # Four records fill a log file.
# Files go when somebody asks, and at no hour.
NEVER = replace(SMALL, retention=Retention(delete_hours=frozenset()))


def open_store(
    path: Path | str = ROOT,
    settings: StoreSettings = SMALL,
    *,
    disk: Disk | None = None,
    clock: HandClock | None = None,
    read_only: bool = False,
) -> MessageStore:
    """A store that can be put into."""
    store = MessageStore.open(
        path, settings, clock=clock or HandClock(), disk=disk, read_only=read_only
    )
    store.store_host = HOST_V4
    return store


def make_put(
    store: MessageStore,
    topic: str = "orders",
    queue_id: int = 0,
    body: bytes = b"hello",
    *,
    tag: str | None = None,
    transaction: int = 0,
    born_host: bytes = HOST_V4,
    property_block: bytes | None = None,
) -> Put:
    """One message; `property_block` stands for the properties it would have."""
    if property_block is None:
        property_block = encode_properties({"TAGS": tag} if tag else {"k": "v"})
    return (
        store.queue_for_append(topic, queue_id),
        encode_topic_block(topic),
        body,
        property_block,
        java_hash(tag) if tag else 0,
        7,
        transaction,
        1_600_000_000_000,
        born_host,
        0,
        0,
        transaction,
    )


@contextmanager
def writing(
    path: Path | str, settings: StoreSettings = SMALL, *, clock: HandClock | None = None
) -> Iterator[MessageStore]:
    """A store that is to be filled; in the end it is closed as a broker closes it."""
    store = open_store(path, settings, clock=clock)
    yield store
    run_jobs(store)
    store.close()


def put(store: MessageStore, *bodies: bytes, topic: str = "orders", queue_id: int = 0) -> int:
    """Put bodies as one batch and show them; gives the log's end."""
    store.put_many([make_put(store, topic, queue_id, body) for body in bodies])
    store.dispatch_pending()
    return store.max_offset


def run_jobs(store: MessageStore, *, ticks: int = 3) -> None:
    """What the broker's threads would do, here and now."""
    for _ in range(ticks):
        store.tick()
        flush(store)
        plan = store.file_ahead_needed()
        if plan is not None:
            store.adopt(plan, store.make_file(plan))
        job = store.checkpoint_due()
        if job is not None:
            job.run()
            store.checkpointed(job)


def clean(store: MessageStore, *, is_asked: bool = True) -> None:
    """One whole cleaning round, as soon as it is due."""
    if is_asked:
        store.cleaner.ask()
    while (step := store.clean_due()) is not None:
        step()


def delete_before(derived: DerivedFiles, offset: int) -> None:
    """What a cleaning round does when the log begins at an offset now."""
    for step in derived.delete_before(offset):
        step()


def flush(store: MessageStore) -> None:
    """One flush, if it is due."""
    target = store.flush_target()
    if target is None:
        return
    try:
        store.flush_files(target)
    except OSError as error:
        store.flush_failed(error)
    else:
        store.flushed(target)


def read_all(
    store: MessageStore,
    topic: str = "orders",
    queue_id: int = 0,
    offset: int | None = None,
    match: Match | None = None,
) -> list[Record]:
    """Every message of a queue that matches, through `get`."""
    queue = store.queue(topic, queue_id)
    if queue is None:
        return []
    offset = queue.min_offset if offset is None else offset
    records: list[Record] = []
    while offset < queue.max_offset:
        result = store.get(topic, queue_id, offset, match=match)
        if result.cold is not None:
            result = result.cold()
        assert result.next_offset > offset, result
        found = decode_records(b"".join(result.records))
        assert len(found) == result.message_count
        assert sum(record.store_size for record in found) == result.size
        records += found
        offset = result.next_offset
    return records


def bodies_of(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """The bodies of a queue; its offsets must have no gap."""
    records = read_all(store, topic, queue_id)
    offsets = [record.queue_offset for record in records]
    if offsets:
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    return [record.body for record in records]


def later(store: MessageStore, clock: HandClock, seconds: float = 2) -> None:
    """So much time has passed, and the broker's threads did what they do."""
    clock.turn(seconds)
    run_jobs(store)


def settle(store: MessageStore, clock: HandClock) -> None:
    """Everything put so far is flushed and in a checkpoint."""
    for _ in range(3):
        later(store, clock, 11)
    assert store.flushed_offset == store.max_offset


def queue_of(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> ConsumeQueue:
    """A queue that is there."""
    queue = store.queue(topic, queue_id)
    assert queue is not None
    return queue


def reopened(
    store: MessageStore, disk: FakeDisk, clock: HandClock, settings: StoreSettings = SMALL
) -> tuple[MessageStore, FakeDisk]:
    """Close a store and open it again, as another process would; gives it and its disk."""
    store.close()
    disk = disk.kill()
    return open_store(disk=disk, clock=clock, settings=settings), disk


def writable_copy(source: Path, target: Path) -> Path:
    """Copy a store of the repository, which may be read-only there; gives the target."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def store_with(
    *bodies: bytes, settings: StoreSettings = SMALL
) -> tuple[MessageStore, FakeDisk, HandClock]:
    """A store on a disk and with a clock of its own, and these messages in it."""
    disk, clock = FakeDisk(), HandClock()
    store = open_store(settings=settings, disk=disk, clock=clock)
    for body in bodies:
        put(store, body)
    return store, disk, clock
