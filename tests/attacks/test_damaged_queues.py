"""Damaged queue files: every message that the log has is reached, by each kind of reader."""

import random
import struct
import time
from pathlib import Path

import pytest

from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode
from tests.attacks.stranger import Answered, Stranger
from tests.attacks.test_starts import TOPIC, filled_store
from tests.support import processes
from tests.support.command_line import run
from tests.support.good_client import GoodClient
from tests.support.processes import Program, wait_until
from tests.support.request_fields import pop_fields, pull_fields, word_send_fields

COUNT = 200
ENTRY = struct.Struct(">qiq")
BEYOND, HUGE, FLIPS, ZEROS = "Beyond", "Huge", "Flips", "Zeros"
TOPICS = (BEYOND, HUGE, FLIPS, ZEROS)
DELAY_QUEUE = "SCHEDULE_TOPIC_XXXX/3"  # Of level 4, 30 s.


def send(peer: Stranger, topic: str, number: int, **properties: str) -> None:
    more = {"TAGS": f"t{number % 2}", "n": str(number), **properties}
    fields = word_send_fields(
        topic,
        properties="".join(f"{key}\x01{value}\x02" for key, value in more.items()),
        defaultTopicQueueNums=1,
    )
    answer = peer.ask(RequestCode.SEND_MESSAGE, fields, b"%d" % number)
    assert answer.code == 0, answer


def pull(peer: Stranger, topic: str, offset: int, expression: str, kind: str) -> Answered:
    fields = pull_fields(topic, offset=offset, subscription=expression, expressionType=kind)
    return peer.ask(RequestCode.PULL_MESSAGE, fields)


def all_of(
    address: str, topic: str, expression: str = "*", kind: str = "TAG", *, count: int = COUNT
) -> list[int]:
    """The numbers of the messages that pulls give, from the first to the end of the queue."""
    found, offset = [], 0
    with Stranger(address, seconds=5) as peer:
        while offset < count:
            answer = pull(peer, topic, offset, expression, kind)
            assert answer.code in (0, 20), answer
            found += [int(record.body) for record in decode_records(answer.body)]
            assert int(answer.fields["nextBeginOffset"]) > offset, answer
            offset = int(answer.fields["nextBeginOffset"])
    return found


def queue_file(store: Path, name: str) -> Path:
    return store / "consumequeue" / name / ("0" * 20)


def change(path: Path, number: int, place: int = 0, size: int = 0) -> None:
    """Add to an entry's physical offset and size."""
    with path.open("r+b") as file:
        file.seek(number * 20)
        was = ENTRY.unpack(file.read(20))
        file.seek(number * 20)
        file.write(ENTRY.pack(was[0] + place, was[1] + size, was[2]))


def flip(path: Path, first: int, stop: int, count: int) -> None:
    """Flip bits of places and sizes."""
    chance = random.Random(5)
    content = bytearray(path.read_bytes()[: COUNT * 20])
    for _ in range(count):
        at = chance.randrange(first, stop) * 20 + chance.randrange(12)
        content[at] ^= 1 << chance.randrange(8)
    with path.open("r+b") as file:
        file.write(content)


def damage(store: Path) -> None:
    """Do to queue files what failing disks and memory do."""
    change(queue_file(store, f"{BEYOND}/0"), 32, place=1 << 40)
    change(queue_file(store, f"{HUGE}/0"), 50, size=64 << 20)
    flip(queue_file(store, f"{FLIPS}/0"), 1, COUNT - 1, 40)
    change(queue_file(store, DELAY_QUEUE), 1, place=1 << 40)
    with queue_file(store, f"{ZEROS}/0").open("r+b") as file:
        file.seek(20 * 20)
        file.write(bytes(100 * 20))
        file.seek(150 * 20 + 8)
        file.write((3).to_bytes(4))
        file.seek(160 * 20 + 8)
        file.write((-5).to_bytes(4, signed=True))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory, access):
    """A broker whose queue files are damaged while it runs."""
    folder = tmp_path_factory.mktemp("damaged")
    settings = {"enablePropertyFilter": "true", "messageDelayLevel": "1s 2s 3s 7s"}
    program = processes.broker(folder, "", settings=settings).start()
    with Stranger(program.address) as peer:
        for number in range(COUNT):
            for topic in TOPICS:
                send(peer, topic, number)
        for number in range(3):
            send(peer, "Delayed", number, DELAY="4")
    program.stop()  # Every entry is in its file then, and a start has nothing to build again.
    program.start()
    damage(folder / "store")
    yield program
    program.stop()


def said(program: Program, topic: str) -> int:
    return program.log.read_text().count(f"queue 0 of topic {topic} ")


def test_an_entry_that_leads_beyond_the_log_stops_no_consumer(damaged):
    """Beside it a good client is served; the message is given, the entry said once and right again."""
    with GoodClient(damaged.address, damaged.pid) as good:
        assert all_of(damaged.address, BEYOND) == [*range(COUNT)]
        assert all_of(damaged.address, BEYOND) == [*range(COUNT)]
    good.check()
    assert said(damaged, BEYOND) == 1


def test_an_entry_of_64_mib_is_answered(damaged):
    assert all_of(damaged.address, HUGE) == [*range(COUNT)]
    assert said(damaged, HUGE) == 1


@pytest.mark.parametrize(
    ("expression", "kind", "wanted"),
    [
        ("n IS NOT NULL", "SQL92", range(COUNT)),
        ("t1", "TAG", range(1, COUNT, 2)),
        ("*", "TAG", range(COUNT)),
    ],
)
def test_flipped_bits_in_a_queue_file_hide_no_message(damaged, expression, kind, wanted):
    """SQL92 first: whoever reads mends, and the next readers find all of it right."""
    assert all_of(damaged.address, FLIPS, expression, kind) == [*wanted]


def test_pops_reach_what_stands_behind_zeros(damaged):
    """Sizes of 0, 3 and less than 0, too."""
    found: list[int] = []
    deadline = time.monotonic() + 10
    with Stranger(damaged.address, seconds=5) as peer:
        while len(found) < COUNT and time.monotonic() < deadline:
            fields = pop_fields(ZEROS, consumerGroup="pops")
            answer = peer.ask(RequestCode.POP_MESSAGE, fields)
            found += [int(record.body) for record in decode_records(answer.body)]
    assert found == [*range(COUNT)]


def test_a_delayed_message_behind_a_bad_entry_comes(damaged):
    """The deliverer reads entries one by one, and mends them, too."""

    def arrived() -> bool:
        with Stranger(damaged.address, seconds=5) as peer:
            answer = pull(peer, "Delayed", 0, "*", "TAG")
        return answer.code == 0 and len(decode_records(answer.body)) == 3

    wait_until(arrived, seconds=15, what="three delayed messages")


def test_a_bad_entry_is_named_by_verify_and_mended_by_who_reads(tmp_path):
    """Before anybody read it, `cometmq store verify` says where it is; behind a reader nothing is wrong any more."""
    store = filled_store(tmp_path, 40)
    change(queue_file(store, f"{TOPIC}/0"), 7, place=1 << 40)
    named = run("store", "verify", str(store), nameserver=None)
    assert named.returncode, named
    said = " ".join(named.stdout.decode().split())
    assert f"queue {TOPIC}/0 at 7: points to" in said
    with processes.broker(tmp_path, "") as program:
        assert all_of(program.address, TOPIC, count=40) == [*range(40)]
    assert run("store", "verify", str(store), nameserver=None).returncode == 0
