"""Groups of three that elect their leader, ours and Java's DLedger: how long a failover takes, and what the copies cost.

Both do the same on the same two cores: three brokers, nameserver and load share them. Each broker of Java has a heap of
2 GB (`bench.systems.JAVA_HEAP`). Failovers are timed with our client for both, each member on a machine of its own (a network
namespace): from the fault to the first acknowledgement of another member.
"""

import math
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from statistics import median, quantiles
from typing import Self

from bench.ha_work import MANY, SETTLE_SECONDS, Watch, end_of, wait_for_copy
from bench.load import run_loadgen
from bench.measure import anonymous_bytes
from bench.systems import COMETMQ, FLOOR, JAVA, broker_program
from bench.work import WARM_SECONDS, Measured
from cometmq import Message, Producer, ProducerSettings
from cometmq.model.errors import CometError
from tests.interop import reference
from tests.interop.dledger_group import leader_of
from tests.support import processes
from tests.support.elected_group import IDS
from tests.support.other_machine import OtherMachine
from tests.support.processes import LOOPBACK, Program, free_port, wait_until
from tests.support.programs import halted

FAULTS = ("kill -9", "SIGSTOP", "cut")
FAILOVER_SECONDS_MAX = 120  # DLedger's takes 10 s and more.
CAUGHT_UP_SECONDS_MAX = 120
LAG_MAX = 64 << 10  # Bytes that a member may lack to count as caught up, as sends go on.
MEMORY_MESSAGES = 1_000_000
COPIED_BODY = 1_024


class Group:
    """A nameserver and three members, each on this machine or on one of its own."""

    def __init__(
        self, name: str, folder: Path, flush: str, machines: list[OtherMachine]
    ) -> None:
        host = machines[0].here if machines else LOOPBACK
        place = folder / "nameserver"
        if name == JAVA:
            self.nameserver = reference.nameserver(place)
        else:
            self.nameserver = processes.nameserver(place, bindAddress=host)
        self.nameserver.host = host
        hosts = [each.there for each in machines] or [LOOPBACK] * len(IDS)
        peers = ";".join(
            f"{own}-{place}:{free_port()}" for own, place in zip(IDS, hosts, strict=True)
        )
        self.machines = machines
        self.members = [
            self._member(name, folder / own, own, place, flushDiskType=flush, dLegerPeers=peers)
            for own, place in zip(IDS, hosts, strict=True)
        ]

    def _member(
        self, name: str, folder: Path, own: str, host: str, **settings: object
    ) -> Program:
        bound = {} if name == JAVA else {"bindAddress": host, "brokerId": None}
        program = broker_program(
            name,
            folder,
            self.nameserver.address,
            {
                "enableDLegerCommitLog": "true",
                "dLegerGroup": "broker-a",
                "dLegerSelfId": own,
                "brokerIP1": host,
                **settings,
                **bound,
            },
        )
        program.host = host
        program.is_ready = lambda: True  # Who waits for a leader waits for more.
        return program

    def start(self, number: int) -> None:
        """Start a member, on its machine."""
        if self.machines:
            self.machines[number].call(self.members[number].start)
        else:
            self.members[number].start()

    def leader(self) -> int:
        """Wait for a leader; its number."""
        return self.members.index(leader_of(self.nameserver.address, self.members))

    def end(self, number: int) -> int:
        """Where the log of a member ends; it may say so on its own machine only."""
        program = self.members[number]
        if not self.machines:
            return end_of(program)
        return self.machines[number].call(lambda: end_of(program))

    def wait_until_whole(self) -> None:
        """Wait until all members have what the leader has."""

        def is_whole() -> bool:
            ends = [self.end(number) for number in range(len(IDS))]
            return max(ends) - min(ends) <= LAG_MAX

        wait_until(is_whole, seconds=CAUGHT_UP_SECONDS_MAX, what="three equal logs")


@contextmanager
def group(
    name: str, folder: Path, flush: str, *, has_machines: bool = False
) -> Iterator[Group]:
    """A running group; in the end its members are killed, and their stores gone."""
    with ExitStack() as stack:
        machines = [stack.enter_context(OtherMachine()) for _ in IDS if has_machines]
        for machine in machines:
            machine.reach_others()
        made = Group(name, folder, flush, machines)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for program in (made.nameserver, *made.members):
            stack.callback(kill_if_started, program)
        made.nameserver.start()
        for number in range(len(IDS)):
            made.start(number)
        made.leader()
        yield made


def kill_if_started(program: Program) -> None:
    if program.process is not None:
        program.kill()


class Sends:
    """One of our producers that sends all the time, each message when the one before it is over."""

    def __init__(self, names: str) -> None:
        self._names = names
        self._acknowledged: list[tuple[float, str]] = []  # When, and by which broker.
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        settings = ProducerSettings(send_timeout_ms=60_000)
        with Producer(self._names, group="writers", settings=settings) as producer:
            while not self._is_over.wait(0.001):
                try:
                    done = producer.send(Message("Failover", b"x" * 128))
                except CometError:
                    continue
                host = bytes.fromhex(done.offset_message_id[:16])
                address = f"{IPv4Address(host[:4])}:{int.from_bytes(host[4:])}"
                self._acknowledged.append((time.monotonic(), address))

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            wait_until(lambda: self._acknowledged, seconds=FAILOVER_SECONDS_MAX, what="a send")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def host(self) -> str:
        """The address of the broker that acknowledged last."""
        return self._acknowledged[-1][1]

    def first_of_other(self, host: str, since: float) -> float:
        """Wait for the first acknowledgement of another host after a moment; its distance, s."""

        def find() -> list[float]:
            return [
                at for at, other in self._acknowledged[-5_000:] if at > since and other != host
            ]

        found = wait_until(find, seconds=FAILOVER_SECONDS_MAX, what="a new leader")
        return found[0] - since


def do_failover(
    name: str, folder: Path, *, seconds: int, faults: int, copied: int
) -> dict[str, Measured]:
    """All rows of one system."""
    if name == FLOOR:
        return {}
    rows: dict[str, Measured] = {}
    with (
        group(name, folder / "faults", "ASYNC_FLUSH", has_machines=True) as made,
        Sends(made.nameserver.address) as sends,
    ):
        for fault in FAULTS:
            times = [failover(made, sends, fault) for _ in range(faults)]
            rows[fault] = {"p50_s": median(times), "p95_s": p95(times), "all_s": times}
            print(f"  {name:8} {fault:16} {median(times):.2f} s", flush=True)
    for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"):
        with group(name, folder / flush, flush) as made:
            rows[flush] = throughput(made, name, seconds)
            if flush == "ASYNC_FLUSH" and name == COMETMQ:
                rows["memory"] = memory(made)
                rows["catch up"] = catch_up(made, seconds, copied)
    return rows


def p95(values: list[float]) -> float:
    """Return the 95th percentile, between two values where none is there."""
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def failover(made: Group, sends: Sends, fault: str) -> float:
    """Let a fault happen to the leader, until another one has acknowledged; how long that took, s."""
    made.wait_until_whole()
    host = sends.host
    old = [each.address for each in made.members].index(host)
    program = made.members[old]
    began = time.monotonic()
    if fault == "kill -9":
        program.kill()
        took = sends.first_of_other(host, began)
        made.start(old)
    elif fault == "SIGSTOP":
        with halted(program):
            took = sends.first_of_other(host, began)
    else:
        made.machines[old].unplug()
        try:
            took = sends.first_of_other(host, began)
        finally:
            made.machines[old].plug_in_again()
    return took


def throughput(made: Group, name: str, seconds: int) -> Measured:
    """Sends of 128 B, 4 connections, window 256, to the leader."""
    address = made.members[made.leader()].address
    run_loadgen(
        "send",
        address,
        refused_share_max=math.inf,
        topic="Many",
        secs=WARM_SECONDS[name],
        **MANY,
    )
    # DLedger refuses many sends of this load: "in-sync replicas not enough".
    sent = run_loadgen(
        "send", address, refused_share_max=math.inf, topic="Many", secs=seconds, **MANY
    )
    print(f"  {sent['per_second']:12,.0f}/s", flush=True)
    return sent


def memory(made: Group) -> Measured:
    """The anonymous memory of the largest member once a million messages more were sent."""
    address = made.members[made.leader()].address
    run_loadgen("send", address, topic="Many", secs=300, messages=MEMORY_MESSAGES, **MANY)
    time.sleep(SETTLE_SECONDS)
    return {"bytes": max(anonymous_bytes(each.pid) for each in made.members)}


def catch_up(made: Group, seconds: int, copied: int) -> Measured:
    """What a member with an empty disk gets a second while sends go on, and what it leaves of them."""
    made.wait_until_whole()
    leader = made.leader()
    program = made.members[leader]
    alone = run_loadgen("send", program.address, topic="Many", secs=seconds, **MANY)
    behind = next(number for number in range(len(IDS)) if number != leader)
    made.members[behind].kill()
    record = COPIED_BODY + 256
    run_loadgen(
        "send", program.address, topic="Copied", conns=4, window=256, size=COPIED_BODY, secs=300,
        messages=copied // record,
    )  # fmt: skip
    with Watch(program, made.members[behind]) as watch:
        made.start(behind)
        beside = run_loadgen("send", program.address, topic="Many", secs=seconds, **MANY)
        wait_for_copy(program, made.members[behind], seconds=CAUGHT_UP_SECONDS_MAX)
    return {
        "bytes_per_second": watch.bytes_per_second,
        "kept": beside["per_second"] / alone["per_second"],
    }
