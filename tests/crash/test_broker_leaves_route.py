"""A broker whose disk failed takes itself out of the routes of producers, and not of consumers."""

import json
from pathlib import Path

import pytest

from cometmq import Message, Producer
from tests.support import processes
from tests.support.frames import ask
from tests.support.iofault import Fault, FaultyDisk
from tests.support.ledger import OK, Ledger
from tests.support.request_fields import topic_fields

TOPIC = "Routed"
GET_ROUTE, CREATE_TOPIC = 105, 17
READ, READ_WRITE = 4, 6
SECONDS_MAX = 60.0


def permissions(nameserver: str) -> dict[str, int]:
    """What the nameserver says of each broker's queues of the topic."""
    header, body = ask(
        nameserver, GET_ROUTE, {"topic": TOPIC, "acceptStandardJsonOnly": "true"}
    )
    assert header["code"] == OK, header
    return {each["brokerName"]: each["perm"] for each in json.loads(body)["queueDatas"]}


def make_topic(broker: str) -> None:
    fields = topic_fields(TOPIC, 4)
    assert ask(broker, CREATE_TOPIC, fields)[0]["code"] == OK


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_after_a_failed_flush_producers_go_to_another_broker_until_a_restart(
    tmp_path: Path, flush: str
):
    names = processes.nameserver(tmp_path)
    disk = FaultyDisk(tmp_path)

    def broker(name: str) -> processes.Program:
        settings = {"brokerName": name, "flushDiskType": flush, "flushIntervalCommitLog": 50,
                    "flushCommitLogLeastPages": 0}  # fmt: skip
        return processes.broker(tmp_path / name, names.address, settings=settings)

    with names, disk.under(broker("failing")) as failing, broker("sound") as sound:
        make_topic(failing.address)
        make_topic(sound.address)
        assert permissions(names.address) == {"failing": READ_WRITE, "sound": READ_WRITE}
        ledger = Ledger(TOPIC)
        assert ledger.send(failing.address, 20) == [OK] * 20
        disk.fail(Fault("fdatasync", "/commitlog/", last=1))
        ledger.send(failing.address, 1)
        processes.wait_until(
            lambda: permissions(names.address) == {"failing": READ, "sound": READ_WRITE},
            seconds=SECONDS_MAX,
            what="the failing broker without write permission",
        )
        with Producer(names.address) as producer:
            results = [producer.send(Message(TOPIC, b"x")) for _ in range(20)]
        assert {result.queue.broker_name for result in results} == {"sound"}
        ledger.check(failing.address)  # Consumers still find what is there.

        failing.kill()
        disk.heal()
        with failing.start():
            processes.wait_until(
                lambda: permissions(names.address).get("failing") == READ_WRITE,
                seconds=SECONDS_MAX,
                what="the restarted broker with write permission",
            )
            ledger.check(failing.address)
    print(f"{flush}: one EIO, 20 of 20 sends to the other broker, 0 lost")
