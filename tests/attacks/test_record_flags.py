"""Bits of sysFlag that say how a record is written: no sender can set them, and no record with them stops a level."""

import pytest

from cometmq.codec.record import decode_records
from tests.attacks.by_hand import pull_all, send
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.frames import ask
from tests.support.processes import wait_until
from tests.support.request_fields import send_fields

SEND = 310
SYS_FLAG_AT = 36
BORN_HOST_V6, STORE_HOST_V6, NEED_UNWRAP, INNER_BATCH = 16, 32, 64, 128
CASES = [BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6, NEED_UNWRAP | INNER_BATCH]


@pytest.fixture(scope="module")
def broker(tmp_path_factory, nameserver, access):
    """One for all flags."""
    settings = {"messageDelayLevel": "1s 3s"}
    home = tmp_path_factory.mktemp("flags")
    with processes.broker(home, nameserver.address, settings=settings) as program:
        yield program


def fields(topic: str, sys_flag: int, properties: str = "") -> dict[str, str]:
    return send_fields(topic, properties=properties, a="group", f=sys_flag, l=0, n="broker-a")


@pytest.mark.parametrize("sys_flag", CASES)
@pytest.mark.parametrize("properties", ["", "KEYS\x01k\x02"])
def test_a_message_with_them_is_read_as_every_other(broker, sys_flag, properties):
    topic = f"Flags{sys_flag}{'Keys' if properties else ''}"
    with Stranger(broker.address) as stranger:
        assert stranger.ask(SEND, fields(topic, sys_flag, properties), b"one").code == 0
        assert send(stranger, topic, body=b"two").code == 0
        records = decode_records(pull_all(stranger, topic, 0))
    assert [(record.sys_flag, record.body) for record in records] == [(0, b"one"), (0, b"two")]


def test_a_delayed_message_with_them_is_delivered(broker):
    with Stranger(broker.address) as stranger:
        delayed = fields("FlagsDelayed", BORN_HOST_V6, "DELAY\x011\x02")
        assert stranger.ask(SEND, delayed, b"later").code == 0
        wait_until(
            lambda: pull_all(stranger, "FlagsDelayed", 0) != b"", seconds=30, what="delivery"
        )
        records = decode_records(pull_all(stranger, "FlagsDelayed", 0))
    assert [record.body for record in records] == [b"later"]


def test_a_level_goes_on_behind_a_record_that_an_older_broker_wrote(tmp_path, nameserver):
    settings = {"messageDelayLevel": "5s"}
    with processes.broker(tmp_path, nameserver.address, settings=settings) as program:
        for body in (b"lost", b"found"):
            header, _ = ask(program.address, SEND, fields("Level", 0, "DELAY\x011\x02"), body)
            assert header["code"] == 0
    (log,) = (tmp_path / "store/commitlog").iterdir()
    with log.open("r+b") as file:
        assert file.read(SYS_FLAG_AT + 4)[SYS_FLAG_AT:] == bytes(4)
        file.seek(SYS_FLAG_AT + 3)
        file.write(bytes([BORN_HOST_V6]))
    with processes.broker(tmp_path, nameserver.address, settings=settings) as program:
        with Stranger(program.address) as stranger:
            wait_until(
                lambda: pull_all(stranger, "Level", 0) != b"", seconds=30, what="delivery"
            )
            records = decode_records(pull_all(stranger, "Level", 0))
        assert [record.body for record in records] == [b"found"]
        assert (
            "the delayed message at physical offset 0 cannot be decoded and is discarded"
            in program.log.read_text()
        )
