"""`cometmq cluster transfer` and `cluster member`: what they do to a group that elects its leader, and what they refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import sleep

import pytest

from cometmq import Admin, Message, Producer
from cometmq.errors import BrokerRefused
from cometmq.model.exit_status import ExitStatus
from tests.support import processes
from tests.support.command_line import run
from tests.support.elected_group import NOT_LEADING, OK, TOPIC, ElectedBrokers, elected_brokers
from tests.support.ledger import Ledger
from tests.support.load import read_queue
from tests.support.members import log_of, send_to
from tests.support.processes import LOOPBACK, Program, free_port, wait_until
from tests.support.programs import halted

QUEUES = 4


def change(group: ElectedBrokers, *words: str) -> tuple[int, str]:
    """Run a command of `cometmq cluster`; its status, and what it says."""
    done = run("cluster", *words, nameserver=group.names)
    return done.returncode, done.stderr.decode()


def others(group: ElectedBrokers, leader: str) -> list[str]:
    return [name for name in group.members if name != leader]


def registered(group: ElectedBrokers) -> str:
    """Wait until the leader is the registered master, too; its id."""
    leader = group.wait_for_leader()
    address = group.members[leader].address
    wait_until(
        lambda: f'"id":0,"address":"{address}"' in replicas(group), seconds=20, what="the route"
    )
    return leader


def replicas(group: ElectedBrokers) -> str:
    return run("cluster", "replicas", "--json", nameserver=group.names).stdout.decode()


@contextmanager
def sends(group: ElectedBrokers) -> Iterator[list[bytes]]:
    """A producer that sends one message after the other; the bodies of those that were acknowledged."""
    done: list[bytes] = []
    is_over = threading.Event()

    def send() -> None:
        with Producer(group.names) as producer:
            while not is_over.is_set():
                body = b"%d" % len(done)
                producer.send(Message(TOPIC, body))
                done.append(body)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield done
    finally:
        is_over.set()
        thread.join()


def bodies_at(program: Program) -> list[bytes]:
    return [
        body
        for queue_id in range(2 * QUEUES)
        for _, body in read_queue(program.address, TOPIC, queue_id, start=0)
    ]


def more(done: list[bytes], count: int = 50) -> None:
    """Wait until so many more messages are acknowledged."""
    enough = len(done) + count
    wait_until(lambda: len(done) >= enough, seconds=30, what="acknowledged sends")


def test_the_lead_goes_to_the_named_member_while_sends_go_on_and_nothing_is_lost(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        with sends(group) as done:
            more(done)
            for to in others(group, leader):
                status, said = change(group, "transfer", "broker-a", "--to", to)
                assert status == ExitStatus.WELL, said
                assert f"{to} leads broker-a now." in said
                more(done)
                assert registered(group) == to
        found = bodies_at(group.members[to])
        assert set(found) >= set(done)
        assert to in change(group, "transfer", "broker-a", "--to", to)[1]


def test_what_is_in_flight_at_a_transfer_is_answered_and_stored_once(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        ledgers = [Ledger(f"{TOPIC}-{number}", queues=QUEUES) for number in range(8)]
        threads = [
            threading.Thread(target=send_until_refused, args=(ledger, group.members[leader]))
            for ledger in ledgers
        ]
        for thread in threads:
            thread.start()
        wait_until(
            lambda: all(len(each.acknowledged) > 20 for each in ledgers),
            seconds=30,
            what="sends",
        )
        to = others(group, leader)[0]
        assert change(group, "transfer", "broker-a", "--to", to)[0] == ExitStatus.WELL
        for thread in threads:
            thread.join()
        address = group.members[registered(group)].address
        for ledger in ledgers:
            assert ledger.codes[NOT_LEADING] == 1
            ledger.check(address)
            assert ledger.read == ledger.acknowledged, "a refused send is stored"


def send_until_refused(ledger: Ledger, program: Program) -> None:
    while ledger.send(program.address, 1) == [OK]:
        pass


def test_a_transfer_to_a_member_that_cannot_lead_changes_nothing(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        gone = others(group, leader)[0]
        status, said = change(group, "transfer", "broker-a", "--to", "n9")
        assert status == ExitStatus.FAILED
        assert "'n9' cannot lead; the members that vote are n0, n1, n2" in said
        status, said = change(group, "transfer", "broker-b", "--to", "n1")
        assert status == ExitStatus.FAILED
        assert "broker-b" in said
        with Admin(group.names) as admin, halted(group.members[gone]):
            admin.brokers.cluster()
            Ledger(TOPIC, padding=200_000).send(group.members[leader].address, 8)
            # A slow machine may need longer than the 1.5 s after which it counts as silent.
            with pytest.raises(
                BrokerRefused, match=r"lacks 1[0-9]{6} bytes|does not answer"
            ) as why:
                admin.brokers.transfer("broker-a", gone)
            print(why.value)
        wait_until(
            lambda: change(group, "transfer", "broker-a", "--to", gone)[0] == ExitStatus.WELL,
            seconds=20,
            what="the lead",
        )
        leader = registered(group)
        gone = others(group, leader)[0]
        group.members[gone].kill()
        wait_until(
            lambda: "does not answer" in change(group, "transfer", "broker-a", "--to", gone)[1],
            seconds=20,
            what="the refusal",
        )
        assert group.leader() == leader


def test_a_member_that_answers_soon_is_waited_for(tmp_path):
    with elected_brokers(tmp_path) as group, Admin(group.names) as admin:
        leader = registered(group)
        to = others(group, leader)[0]
        admin.brokers.cluster()
        with ThreadPoolExecutor(1) as pool:
            with halted(group.members[to]):
                sleep(2)  # A member counts as silent after 1.5 s.
                transferred = pool.submit(admin.brokers.transfer, "broker-a", to)
                sleep(0.2)
            assert transferred.result(20) == to


def new_member(group: ElectedBrokers, gone: str, new: str) -> tuple[str, Program]:
    """A broker that is to replace a member; what the command gets, and the program, not started."""
    place = f"{new}-{LOOPBACK}:{free_port()}"
    peers = str(group.settings["dLegerPeers"]).split(";")
    peers[int(gone[1:])] = place
    settings = {**group.settings, "dLegerPeers": ";".join(peers), "dLegerSelfId": new}
    return place, processes.broker(group.folder / new, group.names, settings=settings)


def equal_logs(folder: Path, members: list[str]) -> bool:
    logs = {log_of(folder / name) for name in members}
    return len(logs) == 1 and logs != {b""}


def test_a_dead_member_is_replaced_while_sends_go_on(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        gone, kept = others(group, leader)
        group.members[gone].kill()
        place, program = new_member(group, gone, "n3")
        with program:
            with sends(group) as done:
                more(done)
                replace(group, gone, place, done)
                wait_until(lambda: votes(tmp_path / "n3"), seconds=20, what="its vote")
                group.members.pop(gone)
                group.members["n3"] = program
                # The two left are a majority of those that are members now, but not of those that were.
                group.members[leader].kill()
                more(done)
                transfer = ("transfer", "broker-a", "--to", "n3")
                wait_until(
                    lambda: change(group, *transfer)[0] == ExitStatus.WELL,
                    seconds=30,
                    what="the lead of n3",
                )
                group.members[leader].start()
                more(done)
            log = group.members[leader].log.read_text()
            assert "since it was written they were changed to" in log
            wait_until(
                lambda: equal_logs(tmp_path, [leader, kept, "n3"]),
                seconds=30,
                what="equal logs",
            )
            found = bodies_at(group.members[group.wait_for_leader()])
            assert set(found) >= set(done)


def replace(group: ElectedBrokers, gone: str, place: str, done: list[bytes]) -> None:
    """Replace a dead member by a new one while messages are acknowledged."""
    status, said = change(group, "member", "remove", "broker-a", gone, "--yes")
    assert status == ExitStatus.WELL, said
    assert f"{gone} was removed; the members of broker-a are" in said
    more(done)
    status, said = change(group, "member", "add", "broker-a", place)
    assert status == ExitStatus.WELL, said
    status, said = change(group, "member", "add", "broker-a", place)
    assert status == ExitStatus.FAILED
    assert "n3 is a member already" in said
    more(done)


def test_a_member_that_was_down_finds_a_leader_that_it_never_heard_of(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        kept, down = others(group, leader)
        group.members[down].stop()
        place, program = new_member(group, leader, "n3")
        with program:
            group.members["n3"] = program
            for words in (
                ("member", "add", "broker-a", place),
                ("transfer", "broker-a", "--to", "n3"),
                ("member", "remove", "broker-a", leader, "--yes"),
            ):
                wait_until(
                    lambda: change(group, *words)[0] == ExitStatus.WELL,  # noqa: B023
                    seconds=30,
                    what=words[0],
                )
            group.members.pop(leader).stop()
            assert send_to(program.address)[0] == OK
            # It knows the one that is gone, and `kept`, which does not lead.
            group.members[down].start()
            wait_until(
                lambda: equal_logs(tmp_path, [kept, down, "n3"]), seconds=30, what="equal logs"
            )
            assert group.leader() == "n3"


def votes(folder: Path) -> bool:
    """Whether a new member knows that it votes."""
    text = (folder / "store/config/brokerGroup.json").read_text()
    return '"learners":[]' in text.rpartition('"voters"')[2]


def test_a_removed_member_that_comes_back_gets_nothing_and_disturbs_nobody(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        gone = others(group, leader)[0]
        assert (
            change(group, "member", "remove", "broker-a", gone, "--yes")[0] == ExitStatus.WELL
        )
        address = f'"{group.members[gone].address}"'
        unlisted = partial(wait_until, lambda: address not in replicas(group), seconds=30)
        unlisted(what="a route without the member, which runs on")
        group.members[gone].stop()
        group.members[gone].start()
        wait_until(
            lambda: (
                f"the group has no other member {gone}" in group.members[gone].log.read_text()
            ),
            seconds=20,
            what="the refusal",
        )
        unlisted(what="a route without the member that came back")
        assert group.wait_for_leader() == leader


def test_a_leader_that_is_removed_leads_until_that_is_committed(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        status, said = change(group, "member", "remove", "broker-a", leader, "--yes")
        assert status == ExitStatus.WELL, said
        assert group.wait_for_leader() != leader


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "a name twice": (("add", "n1-127.0.0.1:1"), "n1 is a member already"),
    "no address": (("add", "n3"), "'n3' is not ID-HOST:PORT"),
    "a port of 0": (("add", "n3-127.0.0.1:0"), "with a port from 1 to 65535"),
    "an id with a separator": (
        ("add", "n;3-127.0.0.1:1"),
        "ids and hosts have printable ASCII characters",
    ),
    "an unknown member": (
        ("remove", "n9", "--yes"),
        "no member n9; the members are n0, n1, n2",
    ),
}


def test_changes_that_cannot_be_made_are_refused_with_a_sentence(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = registered(group)
        for (verb, *arguments), why in REFUSED.values():
            status, said = change(group, "member", verb, "broker-a", *arguments)
            assert status == ExitStatus.FAILED, said
            assert why in said
        first = f"n3-{LOOPBACK}:{free_port()}"
        status, said = change(group, "member", "add", "broker-a", first)
        assert status == ExitStatus.WELL, said
        assert "now n3 does not answer: it cannot be reached" in said
        for words in (
            ("add", "broker-a", "n4-127.0.0.1:1"),
            ("remove", "broker-a", "n1", "--yes"),
        ):
            status, said = change(group, "member", *words)
            assert status == ExitStatus.FAILED
            assert "members change one at a time, and n3 has not copied the log yet" in said
        assert (
            change(group, "member", "remove", "broker-a", "n3", "--yes")[0] == ExitStatus.WELL
        )
        one, two = others(group, leader)
        group.members[one].kill()
        refuses = partial_refusal(group, ("remove", "broker-a", two, "--yes"))
        wait_until(
            refuses(f"no majority, because {one} does not answer"), seconds=20, what="it"
        )
        assert group.leader() == leader
        group.members[two].kill()
        refuses = partial_refusal(group, ("add", "broker-a", first))
        wait_until(refuses("does not lead its group; no member does"), seconds=20, what="it")


def partial_refusal(
    group: ElectedBrokers, words: tuple[str, ...]
) -> Callable[[str], Callable[[], bool]]:
    def refuses(why: str) -> Callable[[], bool]:
        return lambda: why in change(group, "member", *words)[1]

    return refuses


@pytest.mark.parametrize(
    "words", [("transfer", "broker-a", "--to", "n1"), ("member", "add", "broker-a", "n3-h:1")]
)
def test_a_broker_without_elections_says_so(tmp_path, words):
    with (
        processes.nameserver(tmp_path) as nameserver,
        processes.broker(tmp_path, nameserver.address),
    ):
        done = run("cluster", *words, nameserver=nameserver.address)
        assert done.returncode == ExitStatus.FAILED
        assert b"does not elect its leader" in done.stderr
