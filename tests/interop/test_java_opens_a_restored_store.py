"""A Java broker serves a store that came back from an archive, its queues and index made from the log in sizes of their own."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from cometmq.net.clock import SystemClock
from cometmq.offline import archive, restore
from cometmq.offline.folder import StoreFolder
from cometmq.offline.plan import LogRange
from cometmq.offline.store_sizes import chosen_sizes, kept_sizes, sizes_of
from tests.interop import peer, reference
from tests.interop.handover import handover
from tests.support import processes
from tests.support.load import send_all

TOPIC = "Restored"
COUNT = 2_000
SETTINGS = {
    "autoCreateTopicEnable": "true",
    "defaultTopicQueueNums": 4,
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 4_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
}
# Queues and index come back in files of other sizes, the log as it was.
RESTORED = {**SETTINGS, "mappedFileSizeConsumeQueue": 2_000, "maxHashSlotNum": 500}

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


def bodies() -> list[bytes]:
    return [b"%05d" % number + b"x" * (number % 300) for number in range(COUNT)]


def archived(store: Path, place: Path) -> None:
    folder, rules = StoreFolder(str(store)), archive.ArchiveRules(str(place), is_raw=True)
    splits = archive.plan_archive(folder, LogRange(), split_bytes=100_000)
    archive.archive_task(folder, splits, rules)
    archive.finish_archive(folder, splits, rules)


def restored(place: Path, to: Path) -> int:
    parts = restore.plan_restore(str(place), str(to))
    restore.begin_restore(parts)
    missing = [restore.restore_task(part).missing for part in parts]
    assert not any(missing)
    settings = chosen_sizes(
        kept_sizes(StoreFolder(str(place))),
        queue_file_size=2_000,
        index_slots=500,
        index_entries=0,
    )
    assert sizes_of(settings) == {name: RESTORED[name] for name in sizes_of(settings)}
    return restore.finish_restore(parts, str(to), clock=SystemClock(), settings=settings)


def test_every_message_is_given_back(tmp_path):
    with handover(tmp_path, SETTINGS) as (names, begin):
        ours = begin(processes.broker, "ours")
        assert send_all(ours.address, TOPIC, bodies()) == [0] * COUNT
        ours.end(signal.SIGTERM)
        store, back = tmp_path / "ours" / "store", tmp_path / "java" / "store"
        archived(store, tmp_path / "archive")
        back.parent.mkdir()
        assert restored(tmp_path / "archive", back) >= COUNT
        begin(reference.broker, "java", **RESTORED)
        told = peer.read(names, TOPIC, COUNT)
    assert Counter(message.body for message in told) == Counter(bodies())
