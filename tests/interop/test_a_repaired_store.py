"""One broker at a time has a directory, ours or Java's; and a Java broker serves what we have repaired."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from cometmq.offline.found import find_store
from cometmq.offline.log_scan import LogScan
from cometmq.store.real_disk import RealDisk
from tests.interop import peer, reference
from tests.interop.handover import handover
from tests.support import processes
from tests.support.command_line import run
from tests.support.load import send_all
from tests.support.processes import Program

TOPIC = "Repaired"
COUNT = 2_000
DAMAGED = (
    20,
    700,
)  # One in the log's first file: behind a blank entry Java passes over what is there.
QUEUES = 4
SETTINGS = {
    "autoCreateTopicEnable": "true",
    "defaultTopicQueueNums": QUEUES,
    "mappedFileSizeCommitLog": 65_536,
}

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


def bodies() -> list[bytes]:
    return [b"%05d" % number + b"x" * (number % 300) for number in range(COUNT)]


def said_when_refused(program: Program) -> str:
    """What a program says that must end by itself, and not well."""
    with pytest.raises(RuntimeError, match="ended with") as caught:
        program.start()
    assert "ended with 0" not in str(caught.value)
    return str(caught.value)


def damage(store: Path, body: bytes) -> None:
    """Flip a bit in the body of a message."""
    found = find_store(str(store), None, RealDisk())
    records = [record for records in LogScan(found) for record in records]
    offset = next(record.physical_offset for record in records if record.body == body)
    file = found.log.chain.find(offset)
    found.close()
    assert file is not None
    path = Path(file.path)
    content = bytearray(path.read_bytes())
    content[offset - file.start + 88] ^= 1
    path.write_bytes(content)


def test_a_directory_has_one_owner_and_java_serves_a_repaired_one(tmp_path):
    folder = tmp_path / "broker"
    with handover(tmp_path, SETTINGS) as (names, begin):
        ours = begin(processes.broker)
        assert send_all(ours.address, TOPIC, bodies()) == [0] * COUNT
        second = reference.broker(folder, names, settings=SETTINGS)
        assert "Lock failed" in said_when_refused(second)
        ours.end(signal.SIGTERM)

        lost = {bodies()[number] for number in DAMAGED}
        for body in lost:
            damage(folder / "store", body)
        assert run("store", "verify", str(folder / "store"), nameserver=None).returncode == 1
        done = run("store", "repair", str(folder / "store"), "--yes", nameserver=None)
        assert done.returncode == 0, done.stderr

        begin(reference.broker)
        third = processes.broker(folder, names, settings=SETTINGS)
        assert "another broker has locked lock" in said_when_refused(third)
        told = peer.read(names, TOPIC, COUNT)
    wanted = Counter(set(bodies()) - lost)
    # The next one of its queue stands in the place of a lost one, too (docs/format/queue-entry.md).
    wanted.update(bodies()[number + QUEUES] for number in DAMAGED)
    assert Counter(message.body for message in told) == wanted
