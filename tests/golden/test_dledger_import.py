"""`cometmq store import-dledger`: what a Java DLedger group committed becomes an ordinary store; bad directories are refused."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cometmq import PullConsumer
from cometmq.cli.__main__ import app
from cometmq.codec.dledger import (
    ENTRY_HEAD_SIZE,
    NOOP_MAGIC,
    EntryHead,
    decode_entry_head,
    encode_entry_head,
)
from cometmq.codec.property_crc import fill_in, is_crc_right, with_room
from cometmq.codec.record import Record, decode_record, encode_record
from cometmq.model.queue import MessageQueue
from cometmq.offline.dledger_log import DledgerWalk, find_dledger
from cometmq.offline.found import find_store
from cometmq.offline.log_scan import LogScan
from cometmq.offline.verify import verify
from cometmq.store.lock import DirectoryLock
from cometmq.store.real_disk import RealDisk
from tests.support import processes
from tests.support.archives import opened_tar

GOLDEN = Path(__file__).parent / "stores" / "dledger"
TOPIC, GROUP = "Ledger", "ledger_readers"
FILE_SIZE = 65_536
ENTRIES = 366


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the directory of the leader of a Java DLedger group."""
    with opened_tar(GOLDEN / "dledger.tar.xz") as packed:
        packed.extractall(tmp_path)
    return (tmp_path / "store").rename(tmp_path / "java")


def ledger(source: Path) -> Path:
    """DLedger's own folder."""
    (found,) = source.glob("dledger-*")
    return found


def rewrite(source: Path, content: bytes, *, committed: int, start: int = 0) -> None:
    """Give a group's log this one file, which begins at `start`; entries up to an index are committed."""
    data = ledger(source) / "data"
    shutil.rmtree(data)
    data.mkdir()
    (data / f"{start:020d}").write_bytes(content.ljust(FILE_SIZE, b"\0"))
    (ledger(source) / "checkpoint").write_text(f"committedIndex={committed}\n")


def run_import(source: Path, to: Path, status: int = 0) -> str:
    """What the command says, on one line."""
    command = ["store", "import-dledger", str(source), "--to", str(to)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == status, done.output
    return " ".join(done.output.split())


def expected() -> list[tuple[bytes, int | None, int | None]]:
    rows = json.loads((GOLDEN / "expected.json").read_text())
    return [
        (text.ljust(size, "x").encode(), queue, offset) for text, size, queue, offset in rows
    ]


def records_of(store: Path) -> list[Record]:
    """The records of an ordinary store, which must be sound and of a clean stop."""
    found = find_store(str(store), None, RealDisk())
    try:
        assert found.is_clean
        assert verify(found).is_sound
        return [record for records in LogScan(found) for record in records]
    finally:
        found.close()


def entries_of(source: Path) -> Iterator[tuple[EntryHead, bytes]]:
    found = find_dledger(str(source), None, RealDisk())
    try:
        yield from DledgerWalk(found.log.chain, found.begin)
    finally:
        found.close()


def change(path: Path, at: int, new: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)


def test_the_store_has_every_message_at_its_queue_offset(source, tmp_path):
    assert f"{ENTRIES} messages, 4 log files" in run_import(source, tmp_path / "new")
    records = records_of(tmp_path / "new")
    mine = {
        (each.queue_id, each.queue_offset): each.body for each in records if each.topic == TOPIC
    }
    placed = {(queue, offset): body for body, queue, offset in expected() if queue is not None}
    (of_transaction,) = (body for body, queue, _ in expected() if queue is None)
    assert placed.items() <= mine.items()
    assert [body for place, body in mine.items() if place not in placed] == [of_transaction]
    verified = CliRunner().invoke(app, ["store", "verify", str(tmp_path / "new")])
    assert verified.stdout.startswith("sound: 366 records from 0 to 241458")
    for name in ("topics", "subscriptionGroup", "consumerOffset", "delayOffset"):
        kept = tmp_path / "new" / "config" / f"{name}.json"
        assert kept.read_bytes() == (source / "config" / f"{name}.json").read_bytes()


def test_records_are_copied_but_for_their_physical_offset(source, tmp_path):
    before = [(record.position, record.position) for record, _ in entries_of(source)]
    assert len(before) == ENTRIES
    run_import(source, tmp_path / "new")
    log = b"".join(path.read_bytes() for path in sorted((tmp_path / "new/commitlog").iterdir()))
    place = 0
    for head, record in entries_of(source):
        if place + len(record) + 8 > (place // FILE_SIZE + 1) * FILE_SIZE:
            place = (place // FILE_SIZE + 1) * FILE_SIZE
        moved = record[:28] + place.to_bytes(8) + record[36:]
        assert log[place : place + len(record)] == moved
        assert int.from_bytes(record[28:36]) == head.position + ENTRY_HEAD_SIZE
        place += len(record)
    assert (
        len({head.term for head, _ in entries_of(source)}) == 2
    )  # The leader was killed in between.


def test_queues_and_delays_are_as_java_made_them(source, tmp_path):
    run_import(source, tmp_path / "new")
    new = tmp_path / "new"
    for path in (source / "consumequeue").glob("*/*/*"):
        made = (new / path.relative_to(source)).read_bytes()
        before = path.read_bytes()
        for at in range(
            0, len(before), 20
        ):  # The physical offset differs; size and tags code do not.
            assert made[at + 8 : at + 20] == before[at + 8 : at + 20]


def test_a_broker_goes_on_where_the_group_stopped(source, tmp_path):
    """Consumers continue at their offsets, and the next message gets the next queue offset."""
    run_import(source, tmp_path / "ours" / "store")
    size = {"mappedFileSizeCommitLog": FILE_SIZE, "mappedFileSizeConsumeQueue": 6_000}
    shape = {"maxHashSlotNum": 1_000, "maxIndexNum": 2_000}
    with (
        processes.nameserver(tmp_path / "names") as names,
        processes.broker(tmp_path / "ours", names.address, settings={**size, **shape}),
        PullConsumer(names.address, group=GROUP) as consumer,
    ):
        queue = MessageQueue(TOPIC, "broker-a", 0)
        bodies = {offset: body for body, queue_id, offset in expected() if queue_id == 0}
        assert consumer.committed(queue) == 10
        got = consumer.fetch(queue, 10, max_count=5).messages
        assert [each.body for each in got] == [bodies[n] for n in range(10, 15)]
        assert consumer.max_offset(queue) == max(offset for offset in bodies if offset) + 2


def test_deleted_files_at_the_beginning_keep_the_offsets(source, tmp_path):
    """Java has deleted the oldest files; also a queue whose messages are all gone goes on at its next offset."""
    for start in (0, FILE_SIZE):
        (ledger(source) / "data" / f"{start:020d}").unlink()
    old = source / "consumequeue" / "Old" / "0" / f"{0:020d}"
    old.parent.mkdir(parents=True)
    old.write_bytes(
        b"".join(bytes(7) + bytes([n + 1]) + b"\0\0\0\x80" + bytes(8) for n in range(7)).ljust(
            6_000, b"\0"
        )
    )
    run_import(source, tmp_path / "new")
    records = records_of(tmp_path / "new")
    assert records[0].physical_offset == 2 * FILE_SIZE
    bodies = {(queue, offset): body for body, queue, offset in expected()}
    for record in records:
        if record.topic == TOPIC and record.body != b"of a transaction":
            assert bodies[record.queue_id, record.queue_offset] == record.body
    stat = json.loads(
        CliRunner().invoke(app, ["store", "stat", str(tmp_path / "new"), "--json"]).stdout
    )
    assert [row["next"] for row in stat["queues"] if row["topic"] == "Old"] == [7]


def test_entries_after_the_committed_index_are_left_out(source, tmp_path):
    (ledger(source) / "checkpoint").write_text("committedIndex=299\nendIndex=365\n")
    said = run_import(source, tmp_path / "new", status=1)
    assert "300 messages" in said
    assert "the 66 entries after it were left out" in said
    assert len(records_of(tmp_path / "new")) == 300


def test_an_entry_without_a_record_is_passed_over(source, tmp_path):
    """A leader of DLedger 0.4 begins its term with one."""
    last, content = None, b""
    for head, record in entries_of(source):
        last = head
        if head.number == 9:
            break
        content += encode_entry_head(head) + record
    assert last is not None
    noop = EntryHead(NOOP_MAGIC, ENTRY_HEAD_SIZE, 9, last.term, len(content), 0, 0, 0, 0)
    content += encode_entry_head(noop)
    moved = bytearray(next(body for head, body in entries_of(source) if head.number == 9))
    moved[28:36] = (len(content) + ENTRY_HEAD_SIZE).to_bytes(8)
    head = last._replace(number=10, position=len(content))
    content += encode_entry_head(head) + moved
    rewrite(source, content, committed=10)
    run_import(source, tmp_path / "new")
    assert len(records_of(tmp_path / "new")) == 10


def test_a_crc_of_the_whole_record_moves_with_it(source, tmp_path):
    first = decode_record(next(entries_of(source))[1])
    second = first._replace(
        queue_offset=1, property_block=with_room(first.property_block), physical_offset=0
    )
    whole = bytearray(encode_record(second))
    place = ENTRY_HEAD_SIZE + first.store_size + ENTRY_HEAD_SIZE
    whole[28:36] = place.to_bytes(8)
    fill_in(whole, 0, len(whole))
    plain = encode_record(first)
    content = b"".join(
        encode_entry_head(
            EntryHead(1, ENTRY_HEAD_SIZE + len(body), n, 1, at, 0, 0, 0, len(body))
        )
        + bytes(body)
        for n, (at, body) in enumerate([(0, plain), (ENTRY_HEAD_SIZE + len(plain), whole)])
    )
    rewrite(source, content, committed=1)
    run_import(source, tmp_path / "new")
    log = (tmp_path / "new" / "commitlog" / f"{0:020d}").read_bytes()
    assert is_crc_right(log, len(plain), len(whole)) is True


def test_an_ordinary_log_before_that_of_dledger_is_taken_along(source, tmp_path):
    """A broker that became a DLedger broker keeps its old files; DLedger's begin at the next file."""
    run_import(source, tmp_path / "old")
    first = min((tmp_path / "old" / "commitlog").iterdir())
    (source / "commitlog").mkdir(exist_ok=True)
    shutil.copy(first, source / "commitlog")
    records = [
        record for record in records_of(tmp_path / "old") if record.physical_offset >= FILE_SIZE
    ]
    content, at = b"", FILE_SIZE
    for index, each in enumerate(records[:20]):
        body = encode_record(each._replace(physical_offset=at + ENTRY_HEAD_SIZE))
        size = ENTRY_HEAD_SIZE + len(body)
        content += (
            encode_entry_head(EntryHead(1, size, index, 1, at, 0, 0, 0, len(body))) + body
        )
        at += size
    rewrite(source, content, committed=19, start=FILE_SIZE)
    run_import(source, tmp_path / "new")
    kept = records_of(tmp_path / "new")
    assert kept == records_of(tmp_path / "old")[: len(kept)]
    assert len([each for each in kept if each.physical_offset >= FILE_SIZE]) == 20


# --- what is refused


Harm = Callable[[Path], None]


def patched(file: int, at: int, new: bytes) -> Harm:
    """Other bytes in a log file, which begins at `file`."""
    return lambda source: change(ledger(source) / "data" / f"{file:020d}", at, new)


def without_file(file: int) -> Harm:
    """A log file is gone."""
    return lambda source: (ledger(source) / "data" / f"{file:020d}").unlink()


def checkpoint(text: str) -> Harm:
    """The checkpoint says something else."""

    def harm(source: Path) -> None:
        (ledger(source) / "checkpoint").write_text(text)

    return harm


def other_index(source: Path) -> None:
    data = ledger(source) / "data" / f"{0:020d}"
    size = decode_entry_head(data.read_bytes(), 0).size
    change(data, size + 8, (7).to_bytes(8))


def cut_file(source: Path) -> None:
    data = ledger(source) / "data" / f"{3 * FILE_SIZE:020d}"
    data.write_bytes(data.read_bytes()[:30_000])


def no_file(source: Path) -> None:
    shutil.rmtree(ledger(source) / "data")
    (ledger(source) / "data").mkdir()


def no_checkpoint(source: Path) -> None:
    (ledger(source) / "checkpoint").unlink()


def expired(source: Path) -> None:
    checkpoint("committedIndex=3")(source)
    without_file(0)(source)


def data_elsewhere(source: Path) -> None:
    (ledger(source) / "data").rename(source / "elsewhere")


def two_members(source: Path) -> None:
    (source / "dledger-n7").mkdir()


def ordinary(source: Path) -> None:
    shutil.rmtree(ledger(source))


def tables_in_rocksdb(source: Path) -> None:
    (source / "config" / "topics").mkdir()
    (source / "config" / "topics" / "CURRENT").write_text("MANIFEST-000001")


HARMS: dict[str, tuple[Harm, int, str]] = {
    "other_type": (patched(0, 0, (77).to_bytes(4)), 3, "byte 0: the type of the entry is 77"),
    "zeros": (patched(FILE_SIZE, 0, bytes(FILE_SIZE)), 3, "byte 0: there is no entry"),
    "damaged_body": (patched(FILE_SIZE, ENTRY_HEAD_SIZE + 100, b"\xff"), 3, "byte 0: its record is damaged"),
    "wrong_size": (patched(0, 4, (1 << 30).to_bytes(4)), 3, "the entry has 1073741824 bytes"),
    "wrong_position": (patched(0, 24, (5).to_bytes(8)), 3, "the entry records the position 5"),
    "other_index": (other_index, 3, "entry 7 of term 1 follows entry 0"),
    "other_record": (patched(0, ENTRY_HEAD_SIZE + 28, (5).to_bytes(8)), 3, "and the physical offset 5"),
    "missing_file": (without_file(FILE_SIZE), 3, "a log file is missing"),
    "last_file_missing": (without_file(3 * FILE_SIZE), 3, "the log ends there; entry"),
    "cut_file": (cut_file, 3, "has 30000 bytes"),
    "no_file": (no_file, 3, "has no log file"),
    "no_checkpoint": (no_checkpoint, 3, "which entries are committed is unknown; start the broker"),
    "damaged_checkpoint": (checkpoint("committedIndex=many"), 3, "committedIndex is 'many', not a number; start the broker"),
    "expired": (expired, 3, "is 92, after the committed index 3"),
    "nothing_committed": (checkpoint("committedIndex=-1"), 2, "records no committed entry"),
    "data_elsewhere": (data_elsewhere, 2, "make data a symbolic link"),
    "two_members": (two_members, 2, "has the logs of several members"),
    "ordinary": (ordinary, 2, "is not the store of a DLedger broker"),
    "tables_in_rocksdb": (tables_in_rocksdb, 3, "rocksDBConfigToJson"),
}  # fmt: skip


@pytest.mark.parametrize("name", HARMS)
def test_a_bad_directory_is_refused_with_the_reason_and_nothing_is_made(source, tmp_path, name):
    harm, status, words = HARMS[name]
    harm(source)
    said = run_import(source, tmp_path / "new", status)
    assert words in said
    if status == 3 and harm is not tables_in_rocksdb:
        assert "another member of the group" in said
    assert {each.name for each in tmp_path.iterdir()} == {"java"}


def test_dledgers_own_folder_is_recognized(source, tmp_path):
    said = run_import(ledger(source), tmp_path / "new", status=2)
    assert "name the directory that contains it" in said


def test_a_store_in_use_and_a_filled_destination_are_refused(source, tmp_path):
    filled = tmp_path / "filled"
    filled.mkdir()
    (filled / "file").touch()
    assert "is not empty" in run_import(source, filled, status=2)
    lock = DirectoryLock(RealDisk(), str(source))
    lock.take()
    try:
        said = run_import(source, tmp_path / "new", status=3)
    finally:
        lock.release()
    assert "stop the broker first" in said


def test_a_broker_refuses_the_directory_and_names_the_command(source):
    done = CliRunner().invoke(app, ["store", "verify", str(source)])
    assert done.exit_code == 3
    assert "cometmq store import-dledger" in " ".join(done.output.split())
