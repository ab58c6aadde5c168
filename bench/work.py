"""The work that every system does in a round, row by row, and what is measured of it."""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.awake import awake
from bench.backed import back_memory
from bench.load import Report, run_java_client, run_loadgen
from bench.measure import anonymous_bytes, processor_seconds
from bench.placing import placed
from bench.queries import IndexLag
from bench.sql92 import evaluations
from bench.systems import COMETMQ, FLOOR, JAVA, Running

Measured = dict[str, Any]
WARM_SECONDS = {JAVA: 10, COMETMQ: 3, FLOOR: 1}
POPPED_MESSAGES = 300_000
# What pulls read again and again; the same for all, so that a faster sender does not make its own pulls read more.
PULLED_MESSAGES = 2_000_000
CONSUMED_MESSAGES = (
    1_000_000  # what the consumer finds; the same for all, for it warms on the way
)
MEMORY_MESSAGES = 5_000_000
# Messages that a system stores in a second, what each takes of its log beside its body, and the part of the machine's memory that
# all of a row may be.
STORED_A_SECOND, RECORD_REST, FILLED_PART = 600_000, 256, 4
JAVA_CLIENT_THREADS = {"sync": 16, "async": 4, "batch": 4}


@dataclass
class Round:
    """One system through all rows; `rows` fills up."""

    system: Running
    seconds: int
    rows: dict[str, Measured] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def send(self, row: str, *, topic: str, **flags: Any) -> Measured:
        """A row of loadgen sends; what was acknowledged is remembered by topic."""
        with self.measured(row) as measured:
            measured.update(
                run_loadgen("send", self.system.broker.address, topic=topic, **flags)
            )
        self.acknowledged[topic] += measured["messages"]
        return measured

    def back(self, size: int = 128) -> None:
        """Have the machine get the memory from its host that a row of sends of this size will fill (`bench.backed`)."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        filled = self.seconds * STORED_A_SECOND * (size + RECORD_REST)
        back_memory(min(filled, memory // FILLED_PART))

    def send_many(self, row: str, *, topic: str, size: int = 128, **flags: Any) -> None:
        """A row of sends of four connections, 256 under way on each."""
        self.send(row, topic=topic, conns=4, window=256, size=size, secs=self.seconds, **flags)

    def pull(self, row: str, *, topic: str) -> None:
        """A row of loadgen pulls, after others to warm: four connections, each a queue again and again."""
        fill(self, topic, PULLED_MESSAGES)
        warm = min(3, WARM_SECONDS[self.system.name])
        run_loadgen("pull", self.system.broker.address, topic=topic, conns=4, secs=warm)
        with self.measured(row) as measured:
            measured.update(
                run_loadgen(
                    "pull", self.system.broker.address, topic=topic, conns=4, secs=self.seconds
                )
            )

    def pop(self, row: str, *, topic: str) -> None:
        """A row of loadgen pops, each message acknowledged by itself, until the topic is empty."""
        with self.measured(row) as measured:
            measured.update(
                run_loadgen("pop", self.system.broker.address, topic=topic, conns=4, secs=60)
            )

    def java_client(self, row: str, mode: str, *, topic: str, threads: int) -> None:
        """A row of the official client; it warms itself, so processor time would say nothing."""
        report: Report = run_java_client(
            self.system.nameserver,
            mode,
            seconds=self.seconds if mode != "consume" else 60,
            threads=threads,
            size=128,
            topic=topic,
        )
        self.keep(row, report)

    @contextmanager
    def measured(self, row: str) -> Iterator[Measured]:
        """Adds the system's processor time for a message to what the load reports."""
        before = processor_seconds(self.system.group)
        measured: Measured = {}
        yield measured
        used = processor_seconds(self.system.group) - before
        measured["processor_us"] = used * 1e6 / max(1, measured["messages"])
        self.keep(row, measured)

    def keep(self, row: str, measured: Measured) -> None:
        """Remember what was measured, and tell it."""
        self.rows[row] = measured
        processor = (
            f"{measured['processor_us']:8.2f} us/msg" if "processor_us" in measured else ""
        )
        print(
            f"  {self.system.name:8} {row:16} {measured['per_second']:>12,.0f}/s"
            f" p50 {measured.get('p50_us', 0):>6} us {processor}",
            flush=True,
        )

    def read_back(self, **flags: Any) -> None:
        """Read all that was acknowledged by loadgen, with these flags of it, and count it.

        Raises:
            AssertionError: something that was acknowledged is not there.
        """
        for topic, acknowledged in self.acknowledged.items():
            found = run_loadgen("count", self.system.broker.address, topic=topic, **flags)[
                "messages"
            ]
            print(
                f"  {self.system.name:8} {topic}: {acknowledged:,} acknowledged, {found:,} read"
            )
            assert found >= acknowledged, f"{self.system.name} lost messages of {topic}"
            self.rows[f"read back {topic}"] = {"acknowledged": acknowledged, "read": found}


def warm_up(system: Running, **flags: Any) -> None:
    """Send unmeasured for as long as the system needs, with these flags of loadgen."""
    warm = WARM_SECONDS[system.name]
    run_loadgen(
        "send",
        system.broker.address,
        refused_share_max=1.0,
        topic="Warm",
        conns=4,
        window=256,
        size=128,
        secs=warm,
        **flags,
    )


def do_alone(system: Running, *, seconds: int) -> dict[str, Measured]:
    """One sender on a system that does nothing else: what was sent before is on the disk by then."""
    work = Round(system, seconds)
    warm_up(system)
    os.sync()
    with awake():
        run_loadgen(
            "send", system.broker.address, topic="Alone", conns=1, window=1, size=128, secs=2
        )
        work.send("send alone", topic="Alone", conns=1, window=1, size=128, secs=seconds)
        first, second, *_ = sorted(os.sched_getaffinity(0))
        for row, load in (("on one core", first), ("on a core each", second)):
            with placed(system.group, server={first}, load={load}):
                work.send(row, topic="Alone", conns=1, window=1, size=128, secs=seconds)
    if system.name != FLOOR:
        work.read_back()
    return work.rows


def do_all(system: Running, *, seconds: int, with_memory: bool) -> dict[str, Measured]:
    """All rows on one system that was just started."""
    work = Round(system, seconds)
    work.rows["start"] = {"seconds": system.start_seconds}
    print(f"  {system.name:8} start            {system.start_seconds:12.2f} s", flush=True)
    warm_up(system)
    send_both_sizes(work)
    if system.name == FLOOR:
        return work.rows
    send_with_keys(work)
    work.pull("pull", topic="Pulled")
    pop_all(work)
    if system.name == COMETMQ:
        work.rows["sql92"] = evaluations()
    for mode, threads in JAVA_CLIENT_THREADS.items():
        work.java_client(f"java {mode}", mode, topic=f"Java{mode}", threads=threads)
    fill(work, "Consumed", CONSUMED_MESSAGES)
    work.java_client("java consume", "consume", topic="Consumed", threads=1)
    if with_memory:
        fill(work, "Many", MEMORY_MESSAGES - sum(work.acknowledged.values()))
        work.rows["memory"] = {
            "messages": sum(work.acknowledged.values()),
            "anonymous_bytes": anonymous_bytes(system.group),
        }
    work.read_back()
    return work.rows


def do_columns(system: Running, *, seconds: int) -> dict[str, Measured]:
    """What a message costs by itself: many at once, one at a time, in a crowd, and read."""
    work = Round(system, seconds)
    warm_up(system)
    send_both_sizes(work)
    if system.name != FLOOR:
        work.back()
        work.send_many("send keys", topic="Keyed", keys=True)
        work.send("crowd 64", topic="Crowd", conns=64, window=1, size=128, secs=seconds)
        pop_all(work)
    work.pull("pull", topic="Pulled")
    os.sync()
    first, *_ = sorted(os.sched_getaffinity(0))
    with awake(), placed(system.group, server={first}, load={first}):
        work.send("on one core", topic="Alone", conns=1, window=1, size=128, secs=seconds)
    if system.name != FLOOR:
        work.read_back()
    return work.rows


def send_both_sizes(work: Round) -> None:
    """Sends of 128 bytes and of 1 KiB, many at once."""
    for row, topic, size in (("send 128", "Small", 128), ("send 1024", "Large", 1024)):
        work.back(size)
        work.send_many(row, topic=topic, size=size)


def pop_all(work: Round) -> None:
    """Messages popped and acknowledged, after others to warm."""
    fill(work, "PopWarm", POPPED_MESSAGES // 5)
    run_loadgen("pop", work.system.broker.address, topic="PopWarm", conns=4, secs=20)
    fill(work, "Popped", POPPED_MESSAGES)
    work.pop("pop", topic="Popped")


def send_with_keys(work: Round) -> None:
    """Sends with a key each, and how far the index is behind meanwhile."""
    work.back()
    # The first key of the first connection is there when the first read is stored.
    with IndexLag(work.system.broker.port, "Keyed", "key-0-0") as lag:
        work.send_many("send keys", topic="Keyed", keys=True)
    work.rows["index lag"] = {"most_ms": max(lag.lags_ms, default=0), "looks": len(lag.lags_ms)}


def fill(work: Round, topic: str, messages: int, **flags: Any) -> None:
    """Send `messages` of 128 bytes, unmeasured, with these flags of loadgen besides."""
    if messages > 0:
        report = run_loadgen(
            "send",
            work.system.broker.address,
            topic=topic,
            conns=4,
            window=256,
            size=128,
            secs=300,
            messages=messages,
            **flags,
        )
        work.acknowledged[topic] += report["messages"]
