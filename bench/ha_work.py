"""A master and its slave: what sends cost when two must have them, and how fast a copy is made.

Both systems do the same on the same two cores: master, slave and load share them. Each broker of Java
has a heap of 2 GB (`bench.systems.JAVA_HEAP`).
"""

import json
import math
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Self

from bench.load import run_loadgen
from bench.measure import anonymous_bytes
from bench.systems import COMETMQ, FLOOR, JAVA, Running, broker_program
from bench.work import Measured, Round, warm_up
from tests.interop import reference
from tests.support import processes
from tests.support.frames import ask
from tests.support.processes import Program, wait_until

UPDATE_BROKER_CONFIG, GET_BROKER_RUNTIME_INFO = 25, 28
# With the first record of a start behind them these fit a file of Java's, which gives an empty slave its last one only.
COPIED_BYTES = 1_000_000_000
COPIED_BODY = 1_024
JOIN_SECONDS_MAX = 90
LOOK_SECONDS = 0.02
SETTLE_SECONDS = 6
TURNS = 3
TURNS_OF_BOTH = 5  # With a slave and without.
# Until a message costs master and slave of a fresh group no less any more: Java's compiler goes on for that long.
WARM_PAIR_SECONDS = {JAVA: 40, COMETMQ: 2}
MANY = {"conns": 4, "window": 256, "size": 128}
LONE = {"conns": 16, "window": 1, "size": 128}


def do_ha(
    name: str, folder: Path, *, seconds: int, copied: int = COPIED_BYTES
) -> dict[str, Measured]:
    """All rows of one system: an asynchronous master, then a synchronous one, each with a slave."""
    if name == FLOOR:
        return {}
    rows = with_slave_and_without(name, folder / "fresh", seconds)
    with group(name, folder / "async", "ASYNC_MASTER") as (system, slave):
        rows |= beside_an_asynchronous_master(
            Round(system, seconds), slave, copied, rows["async with slave"]["per_second"]
        )
    with group(name, folder / "sync", "SYNC_MASTER") as (system, slave):
        rows |= with_two_copies(Round(system, seconds), slave)
    rows["sync many"]["of_async"] = sync_of_async(name, folder / "turns", seconds)
    return rows


def sync_of_async(name: str, folder: Path, seconds: int) -> float:
    """What the same sends reach with a SYNC_MASTER, of those with an ASYNC_MASTER, each with a slave: the median of turns.

    The two are fresh, as warm as each other, and take turns: a machine that is slower for a minute is so for both.
    """
    with (
        group(name, folder / "async", "ASYNC_MASTER") as (alone, its_slave),
        group(name, folder / "sync", "SYNC_MASTER") as (system, slave),
    ):
        for one in (its_slave, slave):
            one.start()
        wait_until(
            lambda: is_replicated(system), seconds=JOIN_SECONDS_MAX, what="a slave in sync"
        )
        for each, its in ((alone, its_slave), (system, slave)):
            warm_up(each)
            run_loadgen("send", each.broker.address, topic="Many", secs=2, **MANY)
            wait_for_copy(each.broker, its, seconds=JOIN_SECONDS_MAX)
        ratios: list[float] = []
        for _ in range(TURNS):
            rates: list[float] = []
            for each, its in ((alone, its_slave), (system, slave)):
                row = "turn of async" if each is alone else "turn of sync"
                secs = max(2, seconds // 2)
                sent = Round(each, secs).send(row, topic="Many", secs=secs, **MANY)
                wait_for_copy(each.broker, its, seconds=JOIN_SECONDS_MAX)
                rates.append(sent["per_second"])
            ratios.append(rates[1] / rates[0])
    return median(ratios)


def beside_an_asynchronous_master(
    work: Round, slave: Program, copied: int, with_slave: float
) -> dict[str, Measured]:
    """1 GB for an empty slave, and the master's sends while it catches up; with it in sync they are `with_slave` a second."""
    system = work.system
    fill_log(work, copied)
    time.sleep(SETTLE_SECONDS)  # It flushes and writes keys behind the last of them.
    before = anonymous_bytes(system.group)
    with Watch(system.broker, slave) as watch:
        slave.start()
        wait_for_copy(system.broker, slave, seconds=JOIN_SECONDS_MAX)
    work.rows["catch up"] = {"bytes_per_second": watch.bytes_per_second}
    work.rows["master's memory"] = {"growth_bytes": watch.master_bytes - before}
    print(
        f"  {system.name:8} catch up         {watch.bytes_per_second / 1e6:12,.0f} MB/s",
        flush=True,
    )
    slave.kill()
    warm_up(system)
    meanwhile(work, slave, with_slave, row="async meanwhile")
    if (
        system.name == COMETMQ
    ):  # Java's counts the heads of frames alone, which holds nobody back.
        bound_slaves(system.broker)
        meanwhile(work, slave, with_slave, row="async bounded")
    work.read_back()
    return work.rows


def meanwhile(work: Round, slave: Program, with_slave: float, *, row: str) -> None:
    """Sends without a slave and while one catches up, in turns; of those with one in sync, `with_slave` a second.

    Each begins with an empty disk, as the row before, so that what it copies meanwhile are the messages of 1 KiB.
    """
    secs = max(2, work.seconds // 2)
    kept, rates, copied, behind = [], [], [], 0
    for _ in range(TURNS):
        alone = work.send("async alone again", topic="Many", secs=secs, **MANY)
        shutil.rmtree(slave.log.parent / "store")
        slave.start()
        wait_until(lambda: end_of(slave), seconds=JOIN_SECONDS_MAX, what="its first bytes")
        began, had = time.monotonic(), end_of(slave)
        sent = work.send(row, topic="Many", secs=secs, **MANY)
        has = end_of(slave)
        copied.append((has - had) / (time.monotonic() - began))
        behind = end_of(work.system.broker) - has
        slave.kill()
        rates.append(sent["per_second"])
        kept.append(sent["per_second"] / alone["per_second"])
    rate = median(rates)
    work.rows[row] = {
        "per_second": rate,
        "kept": median(kept),
        "kept_of_slave": rate / with_slave,
        "behind_bytes": behind,
        "copied_per_second": median(copied),
    }


def bound_slaves(master: Program) -> None:
    """From now on each slave is sent 100 MiB a second at most, which is RocketMQ's default where it has a bound."""
    header, _ = ask(master.address, UPDATE_BROKER_CONFIG, body=b"haFlowControlEnable=true\n")
    assert header["code"] == 0, header


def with_slave_and_without(name: str, folder: Path, seconds: int) -> dict[str, Measured]:
    """The same sends with a slave in sync, and right behind without it: the median of turns, each of a group of its own.

    What a slave leaves is measured by rate, which its own work on the same cores takes part of, and by processor time of the master,
    which other programs change less. A group is fresh, and as warm as it gets: behind some GB that were written a virtual machine's
    host gives memory more slowly, and twice came to decide what a message costs of who has two copies.
    """
    secs = max(2, seconds // 4)
    turns: list[tuple[Measured, Measured]] = []
    for _ in range(TURNS_OF_BOTH):
        with group(name, folder, "ASYNC_MASTER") as (system, slave):
            slave.start()
            address = system.broker.address
            run_loadgen(
                "send", address, refused_share_max=1.0,
                topic="Many", secs=WARM_PAIR_SECONDS[name], **MANY,
            )  # fmt: skip
            wait_for_copy(system.broker, slave, seconds=JOIN_SECONDS_MAX)
            work = Round(system, secs)
            both = work.send("async with slave", topic="Many", secs=secs, **MANY)
            slave.kill()
            turns.append((both, work.send("async alone", topic="Many", secs=secs, **MANY)))
    rows: dict[str, Measured] = {}
    for row, measured in zip(
        ("async with slave", "async alone"), zip(*turns, strict=True), strict=True
    ):
        rows[row] = {
            name: median(turn[name] for turn in measured)
            for name in ("per_second", "processor_us")
        }
    kept = rows["async with slave"]
    kept["kept"] = median(both["per_second"] / alone["per_second"] for both, alone in turns)
    kept["processor_kept"] = median(
        alone["processor_us"] / both["processor_us"] for both, alone in turns
    )
    return rows


def with_two_copies(work: Round, slave: Program) -> dict[str, Measured]:
    """Sends that a slave must have, too: many in flight, and from sixteen who wait for each."""
    system = work.system
    slave.start()
    wait_until(lambda: is_replicated(system), seconds=JOIN_SECONDS_MAX, what="a slave in sync")
    warm_up(system)
    work.send("sync many", topic="Many", secs=work.seconds, **MANY)
    run_loadgen("send", system.broker.address, topic="Lone", secs=2, **LONE)
    work.send("sync lone", topic="Lone", secs=work.seconds, **LONE)
    wait_for_copy(system.broker, slave, seconds=JOIN_SECONDS_MAX)
    # As above; and what a burst has freed a broker gives back when that is over at two looks (`process.freed_memory`).
    time.sleep(SETTLE_SECONDS)
    work.rows["slave's memory"] = {
        "of_master": anonymous_bytes(slave.pid) / anonymous_bytes(system.group)
    }
    work.read_back()
    return work.rows


@contextmanager
def group(name: str, folder: Path, role: str) -> Iterator[tuple[Running, Program]]:
    """A nameserver and a master of one make, and a slave that is not started yet; in the end all are killed, and their stores gone."""
    nameserver = reference.nameserver if name == JAVA else processes.nameserver
    names = nameserver(folder / "nameserver")
    master = member(name, folder / "master", names.address, brokerRole=role)
    slave = member(name, folder / "slave", names.address, brokerRole="SLAVE", brokerId=1)
    try:
        with reference.served(names, master):
            yield Running(name, names.address, master, 0.0), slave
    finally:
        if slave.process is not None:
            slave.kill()
        # Two copies of tens of millions of messages; another group of this round writes as many.
        shutil.rmtree(folder, ignore_errors=True)


def member(name: str, folder: Path, names: str, **role: object) -> Program:
    """A broker of the group; in a process group of its own, so that its processor time is."""
    return broker_program(
        name, folder, names, {"inSyncReplicas": 2, "totalReplicas": 2, **role}
    )


def fill_log(work: Round, size: int) -> None:
    """Send messages of 1 KiB until the log has so many bytes."""
    address = work.system.broker.address
    while (missing := size - end_of(work.system.broker)) > 0:
        record = COPIED_BODY + 256
        report = run_loadgen(
            "send", address, topic="Copied", conns=4, window=256,
            size=COPIED_BODY, secs=300, messages=missing // record + 1,
        )  # fmt: skip
        work.acknowledged["Copied"] += report["messages"]


def is_replicated(system: Running) -> bool:
    """Whether the master counts its slave by now."""
    report = run_loadgen(
        "send", system.broker.address, refused_share_max=math.inf,
        topic="Warm", conns=1, window=1, size=128, secs=10, messages=1,
    )  # fmt: skip
    return bool(report["messages"])


def end_of(program: Program) -> int:
    """Where a broker says that its log ends; 0: it does not say yet."""
    try:
        said = ask(program.address, GET_BROKER_RUNTIME_INFO)[1]
    except OSError:
        return 0
    return int(json.loads(said)["table"]["commitLogMaxOffset"]) if said else 0


def wait_for_copy(master: Program, slave: Program, *, seconds: float) -> None:
    """Wait until the slave has what the master has now."""
    end = end_of(master)
    wait_until(lambda: end_of(slave) >= end, seconds=seconds, what=f"{end} bytes at the slave")


@dataclass(slots=True)
class _Look:
    at: float
    end: int


class Watch:
    """Looks at a copy while it is made: how fast it grows, and what the master's memory reaches."""

    def __init__(self, master: Program, slave: Program) -> None:
        self._master = master
        self._slave = slave
        self._looks: list[_Look] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.master_bytes = 0

    @property
    def bytes_per_second(self) -> float:
        """From the first bytes that were seen to the last."""
        growing = [look for look in self._looks if look.end]
        first, last = growing[0], next(look for look in growing if look.end == growing[-1].end)
        return (last.end - first.end) / (last.at - first.at) if last.at > first.at else 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            if self._slave.process is not None:
                self._looks.append(_Look(time.monotonic(), end_of(self._slave)))
            self.master_bytes = max(self.master_bytes, anonymous_bytes(self._master.pid))
