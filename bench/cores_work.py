"""One broker and two of one cluster with the same load on the same cores: what a second broker brings, and what it costs.

Both brokers run all the time. The load goes to one of them and to both in turns, so that a machine that is slower for
a minute is so for both figures. Brokers and load share the cores: on two of them the rate of two brokers can hardly be
twice that of one. Processor time a message is what a core more would be used for.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.load import Report, run_java_client, run_loadgen
from bench.measure import anonymous_bytes, processor_seconds
from bench.systems import FLOOR, JAVA, broker_program
from bench.work import WARM_SECONDS, Measured
from tests.interop import reference
from tests.support import processes
from tests.support.processes import Program
from tests.support.programs import until_killed

NAMES = ("broker-a", "broker-b")
TURNS = 3
CONNECTIONS = 4  # In all, of one broker or of both.
PULLED_MESSAGES = 1_000_000
Brokers = Sequence[Program]


def do_cores(name: str, folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows of one system; the floor has none."""
    if name == FLOOR:
        return {}
    with two_brokers(name, folder) as (nameserver, brokers):
        load(brokers, "send", topic="Warm", secs=WARM_SECONDS[name], refused_share_max=1.0)
        rows: dict[str, Measured] = {}
        secs = max(2, seconds // TURNS)
        for row, size in (("send 128", 128), ("send 1024", 1024)):
            rows |= in_turns(
                name, row, brokers, "send", topic=f"Sent{size}", size=size, secs=secs
            )
        filled = {"messages": PULLED_MESSAGES // len(brokers), "secs": 300}
        load(brokers, "send", topic="Pulled", size=128, **filled)
        rows |= in_turns(name, "pull", brokers, "pull", topic="Pulled", secs=secs)
        rows |= java_clients(name, nameserver, brokers, seconds=secs)
        for broker in brokers:
            for topic in ("Sent128", "Sent1024"):
                run_loadgen(
                    "count", broker.address, topic=topic
                )  # Fails where a queue has a gap.
        rows["memory"] = {"bytes": sum(anonymous_bytes(broker.pid) for broker in brokers)}
    return rows


def in_turns(
    name: str, row: str, brokers: Brokers, mode: str, **flags: Any
) -> dict[str, Measured]:
    """A load on the first broker and on all in turns; the rows "ROW one" and "ROW two" with medians."""
    turns: dict[str, list[Measured]] = {"one": [], "two": []}
    for _ in range(TURNS):
        for kind, those in (("one", brokers[:1]), ("two", brokers)):
            turns[kind].append(measured(those, mode, **flags))
    return compared(name, row, turns)


def measured(brokers: Brokers, mode: str, **flags: Any) -> Measured:
    """What a load on some brokers reaches in all, and the processor time of these brokers for a message."""
    before = sum(processor_seconds(broker.pid) for broker in brokers)
    reports = load(brokers, mode, **flags)
    used = sum(processor_seconds(broker.pid) for broker in brokers) - before
    messages = sum(report["messages"] for report in reports)
    return {
        "per_second": sum(report["per_second"] for report in reports),
        "processor_us": used * 1e6 / max(1, messages),
    }


def load(brokers: Brokers, mode: str, **flags: Any) -> list[Report]:
    """Run loadgen at each broker at the same time, with equal shares of the connections.

    Raises:
        RuntimeError: one failed.
    """
    shared = {"conns": CONNECTIONS // len(brokers), **flags}
    if mode == "send":
        shared = {"window": 256, "size": 128, **shared}
    reports: dict[str, Report] = {}

    def one(broker: Program, name: str) -> None:
        reports[name] = run_loadgen(mode, broker.address, broker=name, **shared)

    threads = [
        threading.Thread(target=one, args=each)
        for each in zip(brokers, NAMES[: len(brokers)], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(reports) < len(brokers):
        raise RuntimeError(f"loadgen {mode} failed at a broker; it printed why")
    return list(reports.values())


def java_clients(
    name: str, nameserver: str, brokers: Brokers, *, seconds: int
) -> dict[str, Measured]:
    """The official Java client with 1,024 sends in flight, to a topic of one broker and to one of both, in turns."""
    for topic, those in (("ClientOne", brokers[:1]), ("ClientTwo", brokers)):
        load(those, "send", topic=topic, messages=CONNECTIONS, secs=30)  # It is created.
    processes.wait_until(
        lambda: all(
            one.encode() in reference.route_of(nameserver, "ClientTwo") for one in NAMES
        ),
        seconds=60,
        what="a route with both",
    )
    turns: dict[str, list[Measured]] = {"one": [], "two": []}
    for _ in range(TURNS):
        for kind, topic in (("one", "ClientOne"), ("two", "ClientTwo")):
            report = run_java_client(
                nameserver, "async", seconds=seconds, threads=4, size=128, topic=topic
            )
            turns[kind].append({"per_second": report["per_second"]})
    return compared(name, "java async", turns)


def compared(name: str, row: str, turns: dict[str, list[Measured]]) -> dict[str, Measured]:
    """The medians of both kinds of turns; of two brokers also the median of the turns' ratios to one."""
    rows: dict[str, Measured] = {}
    for kind, those in turns.items():
        rows[f"{row} {kind}"] = {
            figure: median(turn[figure] for turn in those) for figure in those[0]
        }
        print(
            f"  {name:8} {row} {kind:4} {rows[f'{row} {kind}']['per_second']:>12,.0f}/s"
            f" {rows[f'{row} {kind}'].get('processor_us', 0):8.2f} us/msg",
            flush=True,
        )
    for figure in turns["one"][0]:
        rows[f"{row} two"][f"{figure}_of_one"] = median(
            two[figure] / one[figure] for one, two in zip(*turns.values(), strict=True)
        )
    return rows


@contextmanager
def two_brokers(name: str, folder: Path) -> Iterator[tuple[str, Brokers]]:
    """A nameserver and two masters of one cluster, of one make, as processes; in the end all are killed."""
    names = (reference if name == JAVA else processes).nameserver(folder / "nameserver")
    brokers = [
        broker_program(name, folder / each, names.address, {"brokerName": each})
        for each in NAMES
    ]
    with ExitStack() as stack:
        for program in (names, *brokers):
            stack.enter_context(until_killed(program))
        for each in NAMES:
            reference.wait_registered(names.address, each)
        yield names.address, brokers
