"""`mqadmin` looks messages up: it prints the same for our broker as for Java's on the same store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cometmq import Admin, Message, Producer
from cometmq.client.settings import ProducerSettings
from cometmq.model.errors import CometError
from tests.interop import admin_jvm, reference
from tests.support import processes, topics
from tests.support.processes import Program, broker_port, wait_until
from tests.support.programs import until_killed

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC = "Looked_Up"
COUNT = 12
TRIES_MAX = 4
SETTINGS = {"defaultTopicQueueNums": 2, "maxHashSlotNum": 100, "maxIndexNum": 20}


@pytest.fixture
def names(tmp_path: Path) -> Iterator[Program]:
    with processes.nameserver(tmp_path / "nameserver") as names:
        yield names


def fill(names: str) -> list[list[str]]:
    """Store messages, and give the commands that look for them."""
    settings = ProducerSettings(send_timeout_ms=10_000)
    with Producer(names, group="looked_up", settings=settings) as producer:
        for number in range(COUNT):
            keys = ("all", f"k{number % 3}")
            message = Message(TOPIC, b"%d" % number, tag="t", keys=keys)
            producer.send(message)
    stored = topics.read(names, TOPIC)
    assert len(stored) == COUNT
    one = stored[5]
    in_queue = ("-b", "broker-a", "-i", str(one.queue.queue_id), "-o", str(one.queue_offset))
    middle = sorted(message.stored_ms for message in stored)[COUNT // 2]
    return [
        ["queryMsgByKey", "-t", TOPIC, "-k", "k1"],
        ["queryMsgByKey", "-t", TOPIC, "-k", "all", "-m", "5"],
        ["queryMsgByKey", "-t", TOPIC, "-k", "all", "-e", str(middle - 2000)],
        ["queryMsgByKey", "-t", TOPIC, "-k", "none"],
        ["queryMsgById", "-t", TOPIC, "-i", one.offset_message_id],
        ["queryMsgByUniqueKey", "-t", TOPIC, "-i", one.message_id],
        ["queryMsgByUniqueKey", "-t", TOPIC, "-i", "0" * 32],
        ["queryMsgByOffset", "-t", TOPIC, *in_queue],
        ["queryCq", "-t", TOPIC, "-q", "0", "-i", "1", "-c", "2", "-g", "nobody"],
        ["queryCq", "-t", TOPIC, "-q", "7", "-i", "0"],
    ]


def printed(folder: Path, names: str, commands: list[list[str]]) -> list[str]:
    """What each command prints, without the lines of a trace that name threads and times.

    On a busy machine a JVM may need all the time that mqadmin waits for an answer, of Java's broker or ours: then it is asked again.
    """

    def run(number: int) -> str:
        said = ""
        for _ in range(TRIES_MAX):
            said = admin_jvm.mqadmin(folder / str(number), names, *commands[number])
            if "RemotingTimeoutException" not in said:
                break
        lines = said.replace(str(folder / str(number)), "FOLDER").splitlines()
        return "\n".join(line for line in lines if not line.lstrip().startswith("at "))

    return [run(number) for number in range(len(commands))]


@contextmanager
def serving(make, folder: Path, names: str, port: int, topic: str) -> Iterator[None]:
    """A broker that has a topic runs, until it is killed."""

    def is_known() -> bool:
        try:
            with Admin(names) as admin:
                return bool(admin.topics.offsets(topic))
        except CometError:
            return False

    with until_killed(make(folder, names, port=port, settings=SETTINGS)) as program:
        wait_until(is_known, seconds=60, what=f"{topic} at {program.address}")
        yield


def test_mqadmin_prints_the_same_for_both_brokers(tmp_path, names):
    folder, port = tmp_path / "broker", broker_port()
    with serving(reference.broker, folder, names.address, port, "TBW102"):
        commands = fill(names.address)
        theirs = printed(tmp_path / "admin", names.address, commands)
    with serving(processes.broker, folder, names.address, port, TOPIC):
        ours = printed(tmp_path / "admin", names.address, commands)
    for command, said, wanted in zip(commands, ours, theirs, strict=True):
        assert said == wanted, command
    assert sum("#Message ID" in text for text in theirs) >= 2
    assert any("Queue Offset:" in text for text in theirs)
    assert any("tagsCode=" in text for text in theirs)
    assert any("7@Looked_Up is not exist!" in text for text in theirs)
