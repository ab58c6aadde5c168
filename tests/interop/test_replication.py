"""Masters and slaves of RocketMQ and ours, each as it is run: one log, one set of tables, whoever is killed.

Each side is killed in the middle of load and started again. Then the slave has, from its first offset on, the master's
bytes; `mqadmin` sees both, and tells the same of a group when the slave is all there is.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cometmq import Admin, MessageQueue, PullConsumer
from cometmq.model.codes import RequestCode
from cometmq.model.group import GroupConfig
from tests.interop import admin_jvm, reference
from tests.interop.slave_tables import check_filled, difference, fill_tables, tables_of
from tests.support import processes
from tests.support.frames import ask
from tests.support.ledger import Ledger
from tests.support.load import send_all
from tests.support.processes import Program, wait_until
from tests.support.programs import until_killed
from tests.support.replica import copying

FILE_SIZE = 1 << 20
TOPIC, GROUP = "Replicated", "Readers"
COMMITTED = 7
OURS, V5, V4, NEWEST = "ours", reference.VERSION, "4.9.7", reference.NEWEST
# Small files, so that there are several and their blank ends are copied, too.
SETTINGS: dict[str, object] = {"mappedFileSizeCommitLog": FILE_SIZE, "defaultTopicQueueNums": 4}
# Java writes offsets each 5 s and registers each 30 s; 10 s is the least that it takes.
# The check point of the timer, which slaves copy, is as old as the last flush of its wheel.
OF_JAVA = {
    "flushConsumerOffsetInterval": 500,
    "registerNameServerPeriod": 10_000,
    "timerFlushIntervalMs": 5_000,
}
# Those that wait for a slave of Java 5 first: the others' work lies in that time.
PAIRS = [
    (V5, V5), (OURS, V5), (OURS, NEWEST), (V5, OURS), (NEWEST, OURS), (V4, OURS), (OURS, V4),
    (OURS, OURS),
]  # fmt: skip
AT_A_TIME = 3
# A slave of 5.3.3 asks for tables a minute after its start, and each minute then.
TABLES_SECONDS_MAX = 100

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


class Pair(NamedTuple):
    """A nameserver of ours, a master, and a slave that is not started yet."""

    names: Program
    master: Program
    slave: Program
    master_folder: Path
    slave_folder: Path


def broker(make: str, folder: Path, names: str, **role: object) -> Program:
    settings = {**SETTINGS, **role}
    if make == OURS:
        return processes.broker(folder, names, settings=settings)
    return reference.broker(
        folder,
        names,
        settings={**settings, **OF_JAVA},
        version=make,
    )


@contextmanager
def pair(folder: Path, master_make: str, slave_make: str) -> Iterator[Pair]:
    folders = folder / "master", folder / "slave"
    with processes.nameserver(folder / "nameserver") as names:
        master = broker(master_make, folders[0], names.address)
        slave = broker(
            slave_make, folders[1], names.address,
            brokerRole="SLAVE", brokerId=1, slaveReadEnable="true",
        )  # fmt: skip
        both = Pair(names, master, slave, *folders)
        try:
            start(both, master)
            yield both
        finally:
            for program in (slave, master):
                if program.process is not None:
                    program.kill()


def start(both: Pair, program: Program) -> None:
    program.start()
    wait_until(
        lambda: processes.is_known_to(both.names.address, program.address),
        seconds=60,
        what="the broker at its nameserver",
    )


def end_of(address: str) -> int:
    """Where the log of a broker ends; one of Java that just started has no answer yet."""
    said = wait_until(
        lambda: ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)[1],
        seconds=20,
        what="a broker's numbers",
    )
    return int(json.loads(said)["table"]["commitLogMaxOffset"])


def log_bytes(folder: Path, start: int, end: int) -> bytes:
    """The bytes of a log that lies in files; b"" while it does not go so far."""
    found = b""
    for name in range(start // FILE_SIZE * FILE_SIZE, end, FILE_SIZE):
        path = folder / "store" / "commitlog" / f"{name:020d}"
        if not path.exists():
            return b""
        found += path.read_bytes()
    return found[start % FILE_SIZE : end - start // FILE_SIZE * FILE_SIZE]


def first_offset(folder: Path) -> int:
    names = [path.name for path in (folder / "store" / "commitlog").glob("[0-9]*")]
    return int(min(names)) if names else 0


def wait_equal(master: Program, master_folder: Path, slave_folder: Path) -> None:
    """Wait until the slave has the master's log, byte for byte."""
    end = end_of(master.address)

    def are_equal() -> bool:
        begin = first_offset(slave_folder)
        copied = log_bytes(slave_folder, begin, end)
        return bool(copied) and copied == log_bytes(master_folder, begin, end)

    wait_until(are_equal, seconds=60, what=f"a log of {end} bytes at the slave")


def fill(both: Pair, ledger: Ledger) -> None:
    """More than a file of messages, a group, and how far it is."""
    ledger.flood(both.master.address, window=64, until=700)
    assert ledger.abandon() == 0
    with (
        Admin(both.names.address) as admin,
        PullConsumer(both.names.address, group=GROUP) as consumer,
    ):
        admin.groups.create(GroupConfig(GROUP))
        admin.topics.create(f"%RETRY%{GROUP}", queues=1)  # By which `mqadmin` finds the group.
        for queue_id in range(4):
            consumer.commit(MessageQueue(TOPIC, "broker-a", queue_id), COMMITTED + queue_id)
    # Java writes offsets first ten seconds after its start, and a kill loses those since.
    offsets = both.master_folder / "store" / "config" / "consumerOffset.json"
    wait_until(
        lambda: offsets.exists() and f"{TOPIC}@{GROUP}" in offsets.read_text(),
        seconds=30,
        what="the group's offsets in a file of the master",
    )


def kill_in_load(both: Pair, ledger: Ledger, program: Program) -> None:
    """`kill -9` with the window full; started again, and load goes on."""
    ledger.flood(both.master.address, window=64, until=200)
    program.kill()
    if program is not both.master:
        ledger.flood_on(window=64, until=200)
    ledger.abandon()
    start(both, program)
    ledger.flood(both.master.address, window=64, until=200)
    assert ledger.abandon() == 0


def committed(address: str) -> list[str | None]:
    fields = {"consumerGroup": GROUP, "topic": TOPIC}
    said = [
        ask(address, RequestCode.QUERY_CONSUMER_OFFSET, {**fields, "queueId": str(number)})[0]
        for number in range(4)
    ]
    return [(header.get("extFields") or {}).get("offset") for header in said]


def has_tables(address: str) -> bool:
    return committed(address) == [str(COMMITTED + number) for number in range(4)]


def wait_same_tables(both: Pair, *, has_timer: bool) -> None:
    """Wait until the slave has the master's groups, topics, modes, delays and timer."""
    deadline = time.monotonic() + TABLES_SECONDS_MAX
    while True:
        master, slave = (
            tables_of(program.address, folder, has_timer=has_timer)
            for program, folder in (
                (both.master, both.master_folder),
                (both.slave, both.slave_folder),
            )
        )
        differs = difference(master, slave)
        if not differs and master["delivered of the level"]:
            check_filled(master)
            return
        assert time.monotonic() < deadline, differs or master
        time.sleep(0.2)


def progress(mqadmin: Callable[..., str]) -> list[list[str]]:
    """What `mqadmin consumerProgress` says of each queue."""
    lines = [line.split() for line in mqadmin("consumerProgress", "-g", GROUP).splitlines()]
    # Without the last column: when the message was stored, which a slave with the last file only does not know.
    return sorted(
        words[:6] for words in lines if words and words[0] in (TOPIC, f"%RETRY%{GROUP}")
    )


def ids_in_cluster_list(said: str) -> dict[str, str]:
    """Broker ids and addresses, as `mqadmin clusterList` prints them."""
    lines = [line.split() for line in said.splitlines() if "broker-a" in line]
    return {
        words[words.index("broker-a") + 1]: words[words.index("broker-a") + 2]
        for words in lines
    }


def check_pair(folder: Path, master: str, slave: str) -> None:
    ledger = Ledger(TOPIC, padding=1_500)
    with pair(folder, master, slave) as both:
        fill(both, ledger)
        start(both, both.slave)
        wait_equal(both.master, both.master_folder, both.slave_folder)
        assert (first_offset(both.slave_folder) == 0) == (master == OURS), (
            "Java gives its last file only"
        )
        kill_in_load(both, ledger, both.slave)
        kill_in_load(both, ledger, both.master)
        has_timer = V4 not in (master, slave)
        fill_tables(both.names.address, both.master.address, has_timer=has_timer)
        wait_equal(both.master, both.master_folder, both.slave_folder)
        ledger.check(both.master.address)
        wait_until(
            lambda: has_tables(both.slave.address),
            seconds=TABLES_SECONDS_MAX,
            what="the group's offsets at the slave",
        )
        wait_same_tables(both, has_timer=has_timer)
        # 5.3.3's asks for more than a broker of 4.9 answers.
        makes = {master, slave}
        version = V4 if V4 in makes else NEWEST if NEWEST in makes else V5
        check_what_mqadmin_tells(both, folder, version=version)
        if slave == OURS:
            check_offsets_come_back(both)


def check_what_mqadmin_tells(both: Pair, folder: Path, *, version: str) -> None:
    def mqadmin(*arguments: str) -> str:
        home = folder / "mqadmin"
        return admin_jvm.mqadmin(home, both.names.address, *arguments, version=version)

    listed = ids_in_cluster_list(mqadmin("clusterList"))
    assert listed == {"0": both.master.address, "1": both.slave.address}
    if version != V4:  # Which has no such request.
        said = mqadmin("haStatus", "-b", both.master.address)
        assert "127.0.0.1" in said, said
        assert str(end_of(both.master.address)) in said, said
    before = progress(mqadmin)
    of_topic = [words for words in before if words[0] == TOPIC]
    assert len(of_topic) == 4, mqadmin("consumerProgress", "-g", GROUP)
    both.master.kill()
    wait_until(
        lambda: not processes.is_known_to(both.names.address, both.master.address),
        seconds=20,
        what="the master out of the routes",
    )
    # A slave of Java tells of topics that it has copied with its next registration.
    deadline = time.monotonic() + 45
    while (after := progress(mqadmin)) != before:
        seen = after or mqadmin("consumerProgress", "-g", GROUP)
        assert time.monotonic() < deadline, f"{before}\n{seen}"


def check_offsets_come_back(both: Pair) -> None:
    """What a group commits at our slave while its master is dead is the master's, too, once that lives."""
    grown = str(COMMITTED + 50)
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": grown}
    said, _ = ask(both.slave.address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    assert said["code"] == 0, said
    start(both, both.master)
    wait_until(
        lambda: committed(both.master.address)[0] == grown,
        seconds=60,
        what="the offset that grew at the slave, at the master",
    )


@pytest.fixture(scope="module")
def checked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str], Future[None]]]:
    """The pairs that are asked for, some at a time: most of their time is Java's starts and periods."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    of_pairs = [
        item
        for item in items
        if item.originalname
        == "test_any_pair_is_one_log_and_one_set_of_tables_whoever_is_killed"
    ]
    wanted: list[Any] = [item.callspec.params["makes"] for item in of_pairs]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {
            makes: pool.submit(check_pair, tmp_path_factory.mktemp("pair"), *makes)
            for makes in wanted
        }


@pytest.mark.parametrize("makes", PAIRS, ids="-to-".join)
def test_any_pair_is_one_log_and_one_set_of_tables_whoever_is_killed(checked, makes):
    """Of two Java brokers, too: so what is asked of ours is what RocketMQ does."""
    checked[makes].result()


def test_a_sync_master_of_java_counts_our_slave(tmp_path):
    settings = {
        **SETTINGS,
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": 2,
        "totalReplicas": 2,
    }
    bodies = [b"%06d" % number for number in range(600)]
    with processes.nameserver(tmp_path / "nameserver") as names:
        java = reference.broker(tmp_path / "broker", names.address, settings=settings)
        with until_killed(java):
            reference.wait_registered(names.address)
            ha_address = f"127.0.0.1:{java.port + 1}"
            with copying(tmp_path / "slave", ha_address, file_size=FILE_SIZE):
                wait_until(
                    lambda: send_all(java.address, TOPIC, [b"body"]) == [0],
                    seconds=60,
                    what="a send that our slave has, too",
                )
                assert send_all(java.address, TOPIC, bodies) == [0] * len(bodies)
                wait_equal(java, tmp_path / "broker", tmp_path / "slave")
