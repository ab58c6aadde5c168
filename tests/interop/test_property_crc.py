"""Records with a CRC of their whole: Java's fit as we read it, and ours as a Java broker does."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.codec.property_crc import is_crc_right
from cometmq.kernel import walk_records
from cometmq.offline.found import find_store, with_found_sizes
from cometmq.offline.verify import verify
from cometmq.store.real_disk import RealDisk
from tests.interop import peer, reference
from tests.interop.handover import handover
from tests.support import processes
from tests.support.load import read_queue, send_all

COUNT = 1_000
TOPIC = "WholeRecords"
SETTINGS: dict[str, object] = {
    "autoCreateTopicEnable": "true",
    "defaultTopicQueueNums": 4,
    "mappedFileSizeCommitLog": 1 << 20,
    "enabledAppendPropCRC": "true",
    "forceVerifyPropCRC": "true",  # A Java broker forgets what does not fit, and all behind it.
}

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def bodies(first: int) -> list[bytes]:
    return [b"%05d" % n + b"x" * (n % 700) for n in range(first, first + COUNT)]


def check_all_fit(store: Path) -> int:
    """Every record of the log has such a CRC, and it fits; how many there are."""
    count = 0
    for path in sorted((store / "commitlog").iterdir()):
        content = path.read_bytes()
        for at, size, _ in walk_records(content, 0, len(content))[0]:
            assert is_crc_right(content, at, size) is True, (path, at)
            count += 1
    disk = RealDisk()
    settings = with_found_sizes(str(store), None, disk)
    found = find_store(str(store), replace(settings, is_whole_crc_checked=True), disk)
    verdict = verify(found)
    found.close()
    assert verdict.errors == 0, verdict.findings
    return count


def test_java_and_ours_take_turns_and_each_believes_the_other(tmp_path: Path):
    store, ours, javas = tmp_path / "broker" / "store", bodies(0), bodies(COUNT)
    with handover(tmp_path, SETTINGS, nameserver=processes.nameserver) as (names, begin):
        broker = begin(processes.broker)
        assert send_all(broker.address, TOPIC, ours) == [0] * COUNT
        broker.end(signal.SIGKILL)
        assert check_all_fit(store) == COUNT
        broker = begin(reference.broker)
        assert send_all(broker.address, TOPIC, javas) == [0] * COUNT
        told = peer.read(names, TOPIC, 2 * COUNT)
        broker.end(signal.SIGKILL)
        assert check_all_fit(store) >= 2 * COUNT
        broker = begin(processes.broker)
        found = [read_queue(broker.address, TOPIC, queue_id) for queue_id in range(4)]
    assert sorted(message.body for message in told) == ours + javas
    assert sorted(body for queue in found for _, body in queue) == ours + javas
