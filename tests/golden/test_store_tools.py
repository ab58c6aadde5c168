"""`cometmq.offline` on the stores that Java wrote: sound as they are, every change noticed.

Repair builds queues, index and checkpoint from the log alone, byte for byte as Java left them.
"""

import shutil
from pathlib import Path

import pytest

from cometmq.codec.index_file import decode_header, entry_position, slot_position
from cometmq.codec.queue_entry import QUEUE_ENTRY
from cometmq.codec.record import decode_record
from cometmq.offline import index_check, log_scan, queue_check
from cometmq.offline.copy_compare import compare_folders
from cometmq.offline.found import find_store
from cometmq.offline.repair import repair
from cometmq.offline.summary import summarize
from cometmq.offline.verify import verify
from cometmq.store.real_disk import RealDisk
from tests.golden.test_golden_stores import LEVELS_MS, STORES, directory, name
from tests.support.hand_clock import HandClock
from tests.support.offline_steps import files_below, verdict_of

__all__ = ["directory", "name"]  # Fixtures.

SLOTS = 1000
CLOCK = HandClock(1_800_000_000_000)
RECORDS = {"clean": 1245, "crash": 1243}
ONE = pytest.mark.parametrize("name", ["crash"])  # Where the other would say the same.
KEYS = {"clean": 2359, "crash": 2357}


def change(path: Path, at: int, new: bytes | None = None) -> None:
    """Overwrite bytes of a file; None flips a bit."""
    content = bytearray(path.read_bytes())
    if new is None:
        content[at] ^= 0x01
    else:
        content[at : at + len(new)] = new
    path.write_bytes(content)


def assert_one_error(path: Path, part: str, *words: str) -> None:
    verdict = verdict_of(path)
    assert not verdict.is_sound
    errors = [finding for finding in verdict.findings if finding.is_error]
    assert {finding.part for finding in errors} == {part}
    text = "\n".join(f"{finding.where}: {finding.what}" for finding in errors)
    for word in words:
        assert word in text


def test_what_java_wrote_is_sound_and_stays_untouched(name):
    source = STORES / name / "store"
    before = files_below(source)
    progress: list[int] = []
    store = find_store(str(source), None, RealDisk())
    verdict = verify(store, on_progress=progress.append)
    summary = summarize(store)
    store.close()
    assert (verdict.errors, verdict.notes, verdict.findings) == (0, 0, [])
    assert verdict.records == verdict.queue_entries == RECORDS[name]
    assert verdict.index_entries == KEYS[name]
    assert progress == sorted(progress)
    assert progress[-1] <= verdict.log_end - verdict.log_start
    assert summary.log_end == verdict.log_end
    assert summary.stopped_cleanly == (name == "clean")
    assert summary.index_keys == KEYS[name]
    assert sum(queue.messages for queue in summary.queues) == RECORDS[name]
    assert files_below(source) == before


@pytest.fixture
def _short_pieces(monkeypatch):
    """Everything is compared in many pieces, though the stores are small."""
    monkeypatch.setattr(log_scan, "CHUNK_SIZE", 3000)
    monkeypatch.setattr(queue_check, "_GATHERED_MAX", 50)
    monkeypatch.setattr(index_check, "_PIECE_ENTRIES", 10)


@pytest.mark.usefixtures("_short_pieces")
def test_pieces_of_another_length_say_the_same(name):
    verdict = verdict_of(STORES / name / "store")
    assert (verdict.errors, verdict.notes, verdict.findings) == (0, 0, [])
    assert verdict.records == verdict.queue_entries == RECORDS[name]
    assert verdict.index_entries == KEYS[name]


@ONE
@pytest.mark.usefixtures("_short_pieces")
def test_only_one_index_entry_is_wrong_where_a_pieces_last_points_far_ahead(directory):
    path = min((directory / "index").iterdir())
    change(path, entry_position(100, SLOTS) + 4 + 2, b"\1")  # Into the physical offset.
    stray, missing = verdict_of(directory).findings
    assert "1 entry of hash" in stray.what
    assert "1 key has no entry" in missing.what


@ONE
@pytest.mark.usefixtures("_short_pieces")
def test_the_first_missing_key_may_be_at_the_start_of_the_log(directory):
    path = min((directory / "index").iterdir())
    for entry in (1, 190):
        change(path, entry_position(entry, SLOTS) + 3)  # The last byte of the key's hash.
    places = [each.where for each in verdict_of(directory).findings if "no entry" in each.what]
    assert places == ["offset 0"]


def test_sizes_and_delay_levels_are_found_in_the_files(name):
    found = find_store(str(STORES / name / "store"), None, RealDisk())
    found.close()
    settings = found.settings
    assert settings.commitlog_file_size == 262_144
    assert settings.queue_file_size == 6000
    assert (settings.index.slots, settings.index.entries) == (1000, 2000)
    shown = [int(queue) for topic, queue in found.queues if topic == "SCHEDULE_TOPIC_XXXX"]
    assert len(shown) > 3
    assert [settings.delay_levels_ms[n] for n in shown] == [LEVELS_MS[n] for n in shown]


def test_repair_builds_what_java_had(name, directory):
    """Over the used range of each file, which here is all of it: what was not used is zeros."""
    before = files_below(directory)
    plan = repair(str(directory), None, clock=CLOCK, disk=RealDisk())
    assert (plan.damages, plan.tail, plan.records) == ([], 0, RECORDS[name])
    after = files_below(directory)

    def part(files: dict[str, bytes], folder: str) -> dict[str, bytes]:
        return {key: content for key, content in files.items() if key.startswith(folder)}

    assert part(after, "consumequeue/") == part(before, "consumequeue/")
    assert [*part(after, "index/").values()] == [*part(before, "index/").values()]
    # Those ahead of their use are not needed, and go.
    kept = part(after, "commitlog/")
    assert kept == {key: before[key] for key in kept}
    assert all(not any(before[key]) for key in part(before, "commitlog/").keys() - kept.keys())
    assert part(after, "config/") == part(before, "config/")
    if name == "clean":
        assert after["checkpoint"] == before["checkpoint"]
    assert "abort" not in after
    assert verdict_of(directory).is_sound


def test_a_repaired_store_compares_the_same_and_another_does_not(name, directory):
    repair(str(directory), None, clock=CLOCK, disk=RealDisk())

    def compared(other: Path):
        return compare_folders(str(directory), str(other), clock=CLOCK, is_exact=True)

    same = compared(STORES / name / "store")
    assert (same.is_same, same.queues, same.rows) == (True, 26, (RECORDS[name],) * 2)
    other = compared(STORES / ("crash" if name == "clean" else "clean") / "store")
    assert not other.is_same
    said = {difference.what for difference in other.differences}
    assert any("differs in" in what and "storeTimestamp" in what for what in said)


@ONE
def test_a_body_that_changed_is_found(directory):
    change(directory / "commitlog" / "0".zfill(20), 246 + 88)
    verdict = verdict_of(directory)
    log = [finding for finding in verdict.findings if finding.part == "log"]
    assert len(log) == 1
    assert "at 246" in log[0].where
    assert "body CRC" in log[0].what
    # What pointed to the record points to nothing now.
    assert {finding.part for finding in verdict.findings} == {"log", "queue", "index"}


@ONE
@pytest.mark.parametrize("at", [0, 7, 8, 11, 12, 19])
def test_a_queue_entry_that_changed_is_found(directory, at):
    path = directory / "consumequeue" / "GoldenOrders" / "1" / "0".zfill(20)
    change(path, 40 * 20 + at)
    assert_one_error(directory, "queue", "GoldenOrders/1")


def test_a_queue_entry_that_is_gone_is_found(directory):
    path = directory / "consumequeue" / "GoldenOrders" / "1" / "0".zfill(20)
    change(path, 99 * 20, bytes(20))
    store = find_store(str(directory), None, RealDisk())
    is_clean = store.is_clean
    store.close()
    verdict = verdict_of(directory)
    [finding] = verdict.findings
    assert "1 entry from 99 on is missing" in finding.what
    # After an unclean stop a start builds what is missing at a queue's end.
    assert finding.is_error == is_clean


@ONE
def test_a_queue_entry_without_a_record_is_found(directory):
    path = directory / "consumequeue" / "GoldenOrders" / "1" / "0".zfill(20)
    change(path, 100 * 20, QUEUE_ENTRY.pack(246, 246, 0))
    assert_one_error(directory, "queue", "GoldenOrders/1 at 100", "points to 246 bytes at 246")


@ONE
def test_queues_that_were_removed_are_found_and_those_of_deleted_topics_noted(directory):
    shutil.rmtree(directory / "consumequeue" / "GoldenOrders" / "1")
    verdict = verdict_of(directory)
    [finding] = verdict.findings
    assert finding.where == "GoldenOrders/1"
    assert "entries from 0 on are missing" in finding.what
    for path in (directory / "config").glob("topics.json*"):
        path.write_text(path.read_text().replace("GoldenOrders", "SomethingElse"))
    [finding] = verdict_of(directory).findings
    assert not finding.is_error
    assert finding.what.endswith("records of a deleted topic")


@ONE
@pytest.mark.parametrize("at", [3, 11])
def test_an_index_entry_that_changed_is_found(directory, at):
    path = min((directory / "index").iterdir())
    change(path, entry_position(700, SLOTS) + at)
    verdict = verdict_of(directory)
    assert any(
        finding.part == "index" and "of the record" in finding.what
        for finding in verdict.findings
    )


@ONE
def test_a_chain_that_leads_astray_is_found(directory):
    path = min((directory / "index").iterdir())
    change(path, entry_position(700, SLOTS) + 19)
    assert_one_error(directory, "index", "chains")


def test_a_slot_that_leads_astray_is_found(directory):
    path = min((directory / "index").iterdir())
    change(path, slot_position(500) + 3)
    [finding] = verdict_of(directory).findings
    assert "slots do not point" in finding.what


def test_keys_that_have_no_entry_are_found(directory):
    path = max((directory / "index").iterdir())
    header = decode_header(path.read_bytes())
    path.unlink()
    [finding] = verdict_of(directory).findings
    assert f"{header.index_count - 1} keys have no entry" in finding.what


@ONE
def test_a_queue_file_of_a_wrong_size_is_named(directory):
    path = directory / "consumequeue" / "GoldenOrders" / "1" / "0".zfill(20)
    with path.open("ab") as file:
        file.write(bytes(20))
    assert_one_error(directory, "queue", str(path), "has 6020 bytes")


def test_a_tail_is_an_error_after_a_clean_stop_alone(directory):
    end = verdict_of(directory).log_end
    path = directory / "commitlog" / f"{end // 262_144 * 262_144:020d}"
    change(path, end % 262_144, b"\x7f" * 50)
    [finding] = verdict_of(directory).findings
    assert finding.what == "50 bytes follow the end of the log"
    assert finding.is_error == (not (directory / "abort").exists())


def test_the_first_records_of_the_log_are_the_first_of_the_scan(name):
    found = find_store(str(STORES / name / "store"), None, RealDisk())
    content = (STORES / name / "store" / "commitlog" / "0".zfill(20)).read_bytes()
    verdict = verify(found)
    found.close()
    assert verdict.log_start == decode_record(content).physical_offset
