"""A Java broker opens the store that our cleaning left, and goes on with every queue."""

import os
from pathlib import Path

import pytest

from cometmq.codec.record import Record, decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from tests.interop import reference
from tests.interop.handover import handover
from tests.support import processes
from tests.support.frames import ask
from tests.support.load import send_all
from tests.support.processes import wait_until
from tests.support.request_fields import pull_fields

TOPIC = "Cleaned"
COUNT = 400  # Of 4,000 bytes: seven log files.
FILE = 262_144
SETTINGS = {
    "autoCreateTopicEnable": "true",
    "defaultTopicQueueNums": 4,
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": 400,  # Twenty entries.
}
# It cleans at every hour, so that how full this machine's disk is has no say.
CLEANING = {
    "cleanResourceInterval": 100,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
}

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def body(number: int) -> bytes:
    return b"%05d" % number + b"x" * 3995


def test_java_goes_on_where_the_log_begins_now(tmp_path: Path):
    folder = tmp_path / "broker"
    with handover(tmp_path, SETTINGS) as (_, begin):
        ours = begin(processes.broker, **CLEANING)
        assert send_all(ours.address, TOPIC, map_bodies(0)) == [0] * COUNT
        old = sorted((folder / "store" / "commitlog").iterdir())[:3]
        for path in old:
            os.utime(path, (1, 1))
        wait_until(lambda: not any(map(Path.exists, old)), seconds=30, what="three files gone")
        queues = folder / "store" / "consumequeue" / TOPIC
        # All that go: a Java broker that finds one of them answers 19 until it has cleaned, a minute after its start.
        gone = [queues / str(queue) / f"{byte:020}" for queue in range(4) for byte in (0, 400)]
        wait_until(lambda: not any(map(Path.exists, gone)), seconds=30, what="queue files gone")
        ours.kill()
        theirs = begin(reference.broker)
        assert send_all(theirs.address, TOPIC, map_bodies(COUNT)) == [0] * COUNT
        numbers = [number for queue_id in range(4) for number in read(theirs.address, queue_id)]
    # What was in the three files is gone, and nothing else is missing, doubled or out of place.
    assert sorted(numbers) == list(range(min(numbers), 2 * COUNT))
    assert 3 * FILE // 4300 <= min(numbers) <= 3 * FILE // 4000


def read(address: str, queue_id: int) -> list[int]:
    """The numbers of a queue, from its min offset on; its offsets have no gap."""
    place = {"topic": TOPIC, "queueId": str(queue_id)}
    first, last = (
        int(ask(address, code, place)[0]["extFields"]["offset"])
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    )
    early, _ = ask(address, RequestCode.PULL_MESSAGE, pull_fields(TOPIC, queue_id))
    assert early["code"] == ResponseCode.PULL_OFFSET_MOVED
    assert early["extFields"]["nextBeginOffset"] == str(first)
    records: list[Record] = []
    while first + len(records) < last:
        fields = pull_fields(TOPIC, queue_id, first + len(records))
        header, answer = ask(address, RequestCode.PULL_MESSAGE, fields)
        assert header["code"] == ResponseCode.SUCCESS, header
        records += decode_records(answer)
    assert [record.queue_offset for record in records] == [*range(first, last)]
    return [int(record.body[:5]) for record in records]


def map_bodies(start: int) -> list[bytes]:
    return [body(number) for number in range(start, start + COUNT)]
