"""A group of three brokers that elects its leader: kills, pauses, a lost majority, and members that do not belong to it."""

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cometmq import (
    ConsumeFrom,
    Message,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from tests.support import processes
from tests.support.elected_group import (
    NOT_LEADING,
    OK,
    TOPIC,
    ElectedBrokers,
    elected_brokers,
)
from tests.support.ledger import Ledger, first_accepted
from tests.support.load import read_queue
from tests.support.loop_disk import LoopDisk, full
from tests.support.members import log_of, send_to
from tests.support.processes import LOOPBACK, Program, wait_until
from tests.support.programs import halted

# `ROUNDS=50 make crash` is the long run; a round takes some 5 s.
ROUNDS = int(os.environ.get("ROUNDS", "3"))
PAUSES, PAUSE_SECONDS = 10, 5
FAILOVER_SECONDS_MAX = 10  # On a busy machine; 0.5 s and 2.5 s are usual.


def new_leader(group: ElectedBrokers, old: str, seconds: float = FAILOVER_SECONDS_MAX) -> str:
    """Wait until another member than `old` takes messages."""
    others = ElectedBrokers.__new__(ElectedBrokers)
    others.members = {name: each for name, each in group.members.items() if name != old}
    return others.wait_for_leader(seconds)


def equal_logs(folder: Path, group: ElectedBrokers) -> bool:
    logs = [log_of(folder / name) for name in group.members]
    return logs[0] == logs[1] == logs[2] != b""


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost(tmp_path, flush):
    with elected_brokers(tmp_path, flushDiskType=flush) as group:
        ledger = Ledger(TOPIC)
        leader = group.wait_for_leader()
        for _ in range(ROUNDS):
            program = group.members[leader]
            ledger.flood(program.address, window=64, until=500)
            program.kill()
            began = time.monotonic()
            ledger.abandon()
            old, leader = leader, new_leader(group, leader)
            address = group.members[leader].address
            seconds = time.monotonic() - began + first_accepted(ledger, address, seconds=5)
            print(f"first acknowledgement after {seconds:.2f} s")
            program.start()
            ledger.check(address)
            assert old != leader
        wait_until(lambda: equal_logs(tmp_path, group), seconds=20, what="equal logs")


@contextmanager
def writers_at_all(group: ElectedBrokers) -> Iterator[dict[str, list[tuple[float, bytes]]]]:
    """Two writers at each member, also where it does not lead; what each acknowledged, and when (monotonic clock, s)."""
    acknowledged: dict[str, list[tuple[float, bytes]]] = {name: [] for name in group.members}
    is_over = threading.Event()

    def write(name: str) -> None:
        address = group.members[name].address
        while not is_over.wait(0.01):  # Of each one a send waits while its member is paused.
            body = os.urandom(8)
            with suppress(OSError):
                if send_to(address, body)[0] == OK:
                    acknowledged[name].append((time.monotonic(), body))

    threads = [threading.Thread(target=write, args=(name,)) for name in (*acknowledged,) * 2]
    for each in threads:
        each.start()
    try:
        yield acknowledged
    finally:
        is_over.set()
        for each in threads:
            each.join()


@pytest.mark.timeout(60 + 20 * PAUSES)
def test_a_paused_leader_acknowledges_nothing_after_the_first_of_the_new_one(tmp_path):
    bodies: set[bytes] = set()
    with elected_brokers(tmp_path) as group:
        for _ in range(PAUSES):
            old = group.wait_for_leader()
            with writers_at_all(group) as acknowledged:
                wait_until(lambda: acknowledged[old], seconds=10, what="the first message")  # noqa: B023
                with halted(group.members[old]):
                    time.sleep(PAUSE_SECONDS)
                    others = [each for name, each in acknowledged.items() if name != old]
                    wait_until(
                        lambda: any(others),  # noqa: B023
                        seconds=FAILOVER_SECONDS_MAX,
                        what="the first message of a new leader",
                    )
                goes_on = time.monotonic()
                time.sleep(1)
            of_new = [at for those in others for at, _ in those]
            late = [at for at, _ in acknowledged[old] if at > min(of_new)]
            assert not late
            assert max(of_new) > goes_on
            assert send_to(group.members[old].address)[0] == NOT_LEADING
            bodies |= {body for those in acknowledged.values() for _, body in those}
        address = group.members[group.wait_for_leader()].address
        assert bodies <= {body for _, body in read_queue(address, TOPIC, 0)}
        wait_until(lambda: equal_logs(tmp_path, group), seconds=20, what="equal logs")


def test_without_a_majority_sends_are_refused_in_3_s_and_reads_go_on(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        address = group.members[leader].address
        assert send_to(address, b"kept")[0] == OK
        for name, program in group.members.items():
            if name != leader:
                program.kill()
        began = time.monotonic()
        code, _ = send_to(address, b"lost")
        assert code == NOT_LEADING
        assert time.monotonic() - began < 3.5
        wait_until(
            lambda: send_to(address)[1].startswith("this broker is a slave"),
            seconds=5,
            what="the new role",
        )
        bodies = [body for _, body in read_queue(address, TOPIC, 0, start=0)]
        assert bodies[-1] == b"kept"
        for name, program in group.members.items():
            if name != leader:
                program.start()
        again = group.wait_for_leader()
        found = [
            body for _, body in read_queue(group.members[again].address, TOPIC, 0, start=0)
        ]
        assert b"kept" in found


def refused(program: Program) -> str:
    """What a broker says that does not start."""
    with pytest.raises(RuntimeError):
        program.start()
    return program.log.read_text()


def test_a_directory_that_does_not_fit_is_refused(tmp_path):
    with elected_brokers(tmp_path) as group:
        group.wait_for_leader()
    store = {"storePathRootDir": tmp_path / "n1/store", "storePathCommitLog": None}

    def member(own: str, **changed: object) -> Program:
        settings = {**group.settings, "dLegerSelfId": own, **store, **changed}
        return processes.broker(tmp_path / "again", "", settings=settings)

    assert "has the data of member n1 of the group broker-a, but this is n0" in refused(
        member("n0")
    )
    assert "but this is n1 of other" in refused(member("n1", dLegerGroup="other"))
    fourth = f"{group.settings['dLegerPeers']};n3-127.0.0.1:{processes.free_port()}"
    assert "this group began with n0, n1, n2" in refused(member("n1", dLegerPeers=fourth))
    alone = processes.broker(tmp_path / "alone", "", settings=store)
    assert "belongs to a member of a group that elects its leader" in refused(alone)
    for path in (
        tmp_path / "n1/store/epochFileCheckpoint",
        tmp_path / "n1/store/config/brokerGroup.json",
    ):
        content = path.read_bytes()
        path.write_bytes(content.replace(b"1", b"2", 1))
        said = refused(member("n1"))
        assert f"{path} is damaged" in said
        assert "move storePathRootDir away and start it with an empty one" in said
        path.write_bytes(content)
    with processes.broker(tmp_path / "plain", "") as plain:
        assert send_to(plain.address)[0] == OK
    store["storePathRootDir"] = tmp_path / "plain/store"
    assert "has messages but has never been a member of a group" in refused(member("n1"))


def test_a_second_process_with_the_id_of_a_member_is_refused_by_the_others(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        peers = str(group.settings["dLegerPeers"]).split(";")
        peers[1] = f"n1-127.0.0.1:{processes.free_port()}"
        other = processes.broker(
            tmp_path / "second",
            "",
            settings={
                **group.settings, "dLegerPeers": ";".join(peers), "dLegerSelfId": "n1",
            },
        )  # fmt: skip
        with other:
            wait_until(
                lambda: "another process is connected as member n1" in other.log.read_text(),
                seconds=20,
                what="the refusal",
            )
            assert send_to(group.members[leader].address)[0] == OK
            assert send_to(other.address)[0] == NOT_LEADING
            assert group.wait_for_leader() == leader


def test_a_member_that_lost_its_disk_copies_everything(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        ledger = Ledger(TOPIC)
        ledger.send(group.members[leader].address, 200)
        lost = next(name for name in group.members if name != leader)
        group.members[lost].stop()
        (tmp_path / lost / "store").rename(tmp_path / lost / "old")
        ledger.send(group.members[leader].address, 200)
        group.members[lost].start()
        wait_until(lambda: equal_logs(tmp_path, group), seconds=20, what="equal logs")
        state = tmp_path / lost / "store/config/brokerGroup.json"
        wait_until(
            lambda: json.loads(state.read_text())["state"]["isSure"],
            seconds=10,
            what="a member that is sure of its log",
        )


def test_the_preferred_leader_leads_soon_after_it_is_there_and_nothing_is_lost(tmp_path):
    with elected_brokers(tmp_path, preferredLeaderId="n2") as group:
        ledger = Ledger(TOPIC)
        wait_until(lambda: group.leader() == "n2", seconds=40, what="the preferred leader")
        group.members["n2"].stop()
        leader = new_leader(group, "n2")
        ledger.send(group.members[leader].address, 100)
        group.members["n2"].start()
        wait_until(lambda: group.leader() == "n2", seconds=40, what="the preferred leader")
        ledger.send(group.members["n2"].address, 100)
        assert ledger.check(group.members["n2"].address) == 200


def test_sends_go_on_while_the_preferred_leader_is_down(tmp_path):
    with elected_brokers(tmp_path, preferredLeaderId="n2") as group:
        wait_until(lambda: group.leader() == "n2", seconds=40, what="the preferred leader")
        group.members["n2"].kill()
        address = group.members[new_leader(group, "n2")].address
        # Each 10 s a leader looks for a better one. A busy machine may elect once more meanwhile.
        has_changed, until = False, time.monotonic() + 25
        while time.monotonic() < until:
            code, remark = send_to(address)
            if code == NOT_LEADING and not has_changed:
                has_changed = True
                address = group.members[new_leader(group, "n2")].address
            else:
                assert code == OK, remark
            time.sleep(0.05)


def test_a_leader_with_a_full_disk_hands_over_and_leads_again_when_there_is_room(tmp_path):
    with LoopDisk(tmp_path / "disk", megabytes=256) as disk:
        (disk.root / "store").mkdir()
        (tmp_path / "n0").mkdir()
        (tmp_path / "n0/store").symlink_to(disk.root / "store")
        with elected_brokers(tmp_path, preferredLeaderId="n0") as group:
            wait_until(lambda: group.leader() == "n0", seconds=40, what="the preferred leader")
            ledger = Ledger(TOPIC)
            ledger.send(group.members["n0"].address, 100)
            with full(disk.root, left=0.05):  # diskSpaceWarningLevelRatio is 90 %.
                leader = new_leader(group, "n0", seconds=20)
                ledger.send(group.members[leader].address, 100)
                time.sleep(12)  # The others do not hand back before there is room.
                assert ledger.send(group.members[leader].address, 100) == [OK] * 100
            wait_until(lambda: group.leader() == "n0", seconds=40, what="the preferred leader")
            wait_until(lambda: equal_logs(tmp_path, group), seconds=20, what="equal logs")
            assert ledger.check(group.members["n0"].address) == 300


def test_a_producer_goes_on_at_the_new_leader_without_an_error(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        assert send_to(group.members[leader].address)[0] == OK
        with Producer(group.names) as producer:
            for number in range(200):
                if number == 100:
                    group.members[leader].kill()
                producer.send(Message(TOPIC, b"%d" % number))
        leader = new_leader(group, leader)
        found = {
            body
            for queue_id in range(8)
            for _, body in read_queue(group.members[leader].address, TOPIC, queue_id, start=0)
        }
        assert found >= {b"%d" % number for number in range(200)}


def bytes_at_port(port: int, sent: bytes) -> bytes:
    """Send bytes to a group port; what comes before it closes the connection."""
    with socket.create_connection((LOOPBACK, port), timeout=10) as peer:
        peer.sendall(sent)
        found = b""
        with suppress(ConnectionResetError):
            while piece := peer.recv(4096):
                found += piece
        return found


def test_strange_bytes_at_the_port_of_a_group_close_only_their_connection(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        ports = [
            int(each.rpartition(":")[2])
            for each in str(group.settings["dLegerPeers"]).split(";")
        ]
        hello = {
            "type": "hello", "group": "broker-a", "selfId": "n9", "run": 1, "address": "", "chance": "00",
            "proof": "",
        }  # fmt: skip
        faults = (
            b"GET / HTTP/1.0\r\n\r\n",
            b"\xff" * 64,
            struct.pack(">II", 5, 0) + b"hello",
            struct.pack(">II", 2, 0) + b"[]",
            struct.pack(">II", 16, 0) + b'{"type":"append"}'[:16],
            struct.pack(">II", 5_000, 0),
            struct.pack(">II", 0, 1),
            *(
                struct.pack(">II", len(content), 0) + content
                for content in (
                    json.dumps(hello).encode(),
                    json.dumps({**hello, "group": "other"}).encode(),
                    json.dumps({**hello, "run": "x"}).encode(),
                    json.dumps({**hello, "chance": "zz"}).encode(),
                )
            ),
        )
        for port in ports:
            for fault in faults:
                found = bytes_at_port(port, fault)
                assert b'"challenge"' in found
                assert b'"refusal"' in found
        assert send_to(group.members[leader].address)[0] == OK
        assert group.wait_for_leader() == leader


def test_a_consumer_goes_on_at_the_new_leader_within_seconds(tmp_path):
    got: dict[bytes, float] = {}

    def handle(message: StoredMessage) -> None:
        got[message.body] = time.monotonic()

    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        assert send_to(group.members[leader].address)[0] == OK
        settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST)
        with (
            PushConsumer(
                group.names,
                group="billing",
                listener=handle,
                subscriptions=[TOPIC],
                settings=settings,
            ),
            Producer(group.names) as producer,
        ):
            producer.send(Message(TOPIC, b"before"))
            wait_until(lambda: b"before" in got, seconds=30, what="the first message")
            group.members[leader].kill()
            producer.send(Message(TOPIC, b"after"))
            wait_until(lambda: b"after" in got, seconds=10, what="the next message")
