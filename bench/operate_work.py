"""What it costs to be watched: sends with a scrape each 5 s, the page of very many topics, and looks at many topics and groups."""

import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median

from bench.commands_work import cometmq, do_commands, timed
from bench.dashboard_work import do_dashboard, loaded
from bench.load import run_loadgen
from bench.measure import processor_seconds
from bench.store_work import JAVA_TOPICS_MAX, QUEUES, ask_all, make_topics, settle, warm
from bench.systems import COMETMQ, FLOOR, JAVA, Running, running
from bench.work import Measured, Round
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, encode_heartbeat
from cometmq.model.subscription import parse_subscription
from tests.dashboard.web import Served, Visitor, wait_for
from tests.support.frames import json_frame
from tests.support.metrics_page import page
from tests.support.processes import free_port

TOPICS = (1_000, 10_000)
GROUPS, TOPICS_OF_GROUP = 100, 100
# The cluster that an operator looked at, with the topics of each group.
SEEN_TOPICS, SEEN_GROUPS, SEEN_TOPICS_OF_GROUP = 1_000, 300, 5
COMMANDS = (
    ("topics", ("topic", "list")),
    ("groups", ("group", "list")),
    ("doctor", ("doctor",)),
)
PAGES = (
    ("overview", "/"),
    ("topics", "/topics"),
    ("sorted", "/topics?sort=messages"),
    ("topic", "/topic?name=Seen0"),
    ("groups", "/groups"),
    ("group", "/group?name=group-0"),
)
SCRAPE_SECONDS = 5.0
TURNS = 3
SCRAPES = 5
UPDATE_CONSUMER_OFFSET, HEART_BEAT, UPDATE_GROUP = 15, 34, 200
_LOAD = {"conns": 4, "window": 256, "size": 128}


def do_operate(name: str, folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows of one system, on brokers of its own."""
    if name == FLOOR:
        return {}
    rows: dict[str, Measured] = {}
    port = free_port()
    settings = {"metricsExporterType": "PROM", "metricsPromExporterPort": port,
                "metricsPromExporterHost": "127.0.0.1", "defaultTopicQueueNums": QUEUES}  # fmt: skip
    with running(name, folder / "scraped", **settings) as system:
        rows["scraped"] = sends_while_scraped(Round(system, seconds), port)
    shutil.rmtree(folder / "scraped")  # A minute of sends: some 10 GB.
    for count in TOPICS:
        if name == JAVA and count > JAVA_TOPICS_MAX:
            continue
        with running(name, folder / f"page{count}", **settings) as system:
            rows[f"page {count}"] = page_of(Round(system, seconds), port, count)
    if name == COMETMQ:
        rows |= do_dashboard(folder, seconds=seconds)
        with running(name, folder / "looks", **settings) as system:
            rows |= looks_at_many(system, port, folder)
    return {**rows, **do_commands(name, folder)}


def sends_while_scraped(work: Round, port: int) -> Measured:
    """The same load without a scrape and with one each 5 s, in turns; what is kept of the rate.

    Each turn is without, with, with, without: a machine that grows slower meanwhile does so to both alike.
    """
    warm(work, conns=4, window=256)
    watched_rates, ratios, processor = [], [], []
    for _ in range(TURNS):
        rates: dict[bool, float] = {False: 0.0, True: 0.0}
        costs: dict[bool, float] = {False: 0.0, True: 0.0}
        for is_watched in (False, True, True, False):
            with scraping(port, SCRAPE_SECONDS) if is_watched else nullcontext():
                took, rate = loaded(work.system, int(SCRAPE_SECONDS))
            rates[is_watched] += rate
            costs[is_watched] += took
        watched_rates.append(rates[True] / 2)
        ratios.append(rates[True] / rates[False])
        processor.append(costs[False] / costs[True])
    return {
        "per_second": median(watched_rates),
        "kept": median(ratios),
        "kept_by_processor": median(processor),
    }


def page_of(work: Round, port: int, count: int) -> Measured:
    """How long the page of so many topics takes, and the longest that a lone send waits while one is made."""
    system, prefix = work.system, f"Of{count}x"
    make_topics(system, prefix, count)
    flags = {**_LOAD, "topics": count, "queues": QUEUES}
    address = system.broker.address
    run_loadgen("send", address, topic=prefix, secs=300, messages=QUEUES * count, **flags)
    with groups_of(system, prefix, count):
        settle(system)
        times, size = [], 0
        for _ in range(SCRAPES):
            began = time.monotonic()
            size = len(page(port))
            times.append((time.monotonic() - began) * 1_000)
            time.sleep(1.5)  # A page is remembered for a second.
        with scraping(port, 2.0):
            lone = run_loadgen(
                "send", address, topic=prefix, secs=work.seconds, conns=1, window=1, size=128
            )
    return {"ms": median(times), "bytes": size, "p999_ms": lone["p999_us"] / 1_000}


def looks_at_many(system: Running, port: int, folder: Path) -> dict[str, Measured]:
    """The broker's processor time for a scrape, and what commands and pages of the dashboard take, at 1,000 topics and 300 groups."""
    make_topics(system, "Seen", SEEN_TOPICS)
    flags = {**_LOAD, "topics": SEEN_TOPICS, "queues": QUEUES}
    address, count = system.broker.address, QUEUES * SEEN_TOPICS
    run_loadgen("send", address, topic="Seen", secs=300, messages=count, **flags)
    with groups_of(
        system,
        "Seen",
        SEEN_TOPICS,
        groups=SEEN_GROUPS,
        topics_of=SEEN_TOPICS_OF_GROUP,
        has_member=False,  # The doctor would wait for one that answers nothing.
    ):
        settle(system)
        page(port)
        took = []
        for _ in range(SCRAPES):
            time.sleep(1.5)  # A page is remembered for a second.
            before = processor_seconds(system.group)
            page(port)
            took.append(processor_seconds(system.group) - before)
        commands = {f"{name}_ms": timed(looks_of(system, *words)) for name, words in COMMANDS}
        pages = read_pages(system, folder / "seen")
    return {
        "many": {"scrape_s": median(took), **commands},
        "many pages": pages,
    }


def looks_of(system: Running, *words: str) -> Callable[[], object]:
    """A command that may find something."""
    return lambda: cometmq(system, *words, statuses=(0, 1))


def read_pages(system: Running, folder: Path) -> Measured:
    """Milliseconds that pages of the dashboard take, without a browser."""
    with Served(folder, system.nameserver, "--sample-seconds", "5") as served:
        visitor = Visitor(served).log_in()
        wait_for(visitor, "/", "1 of 1")
        return {f"{name}_ms": timed(partial(read, visitor, path)) for name, path in PAGES}


def read(visitor: Visitor, path: str) -> None:
    """Read a page that must be there."""
    if (status := visitor.get(path).status_code) != 200:
        raise RuntimeError(f"{path} answers {status}")


@contextmanager
def groups_of(
    system: Running,
    prefix: str,
    count: int,
    *,
    groups: int = GROUPS,
    topics_of: int = TOPICS_OF_GROUP,
    has_member: bool = True,
) -> Iterator[None]:
    """Groups that are one message far in some topics each; with a member, as a Java broker tells the lag of no others."""
    with socket.create_connection(("127.0.0.1", system.broker.port), timeout=60) as peer:
        for group in range(groups):
            name = f"group-{group}"
            topics = [
                f"{prefix}{(group * topics_of + number) % count}" for number in range(topics_of)
            ]
            part = ConsumerPart(name, tuple(parse_subscription(each, "*") for each in topics))
            beat = encode_heartbeat(Heartbeat("bench@1", (), (part,)))
            make = json.dumps({"groupName": name}).encode()
            place = {"consumerGroup": name, "queueId": "0", "commitOffset": "0"}
            # One after the other: a Java broker has a pool of threads for each kind of request, and refuses
            # what is said of a group that is not there yet.
            ask_all(peer, [json_frame(UPDATE_GROUP, {}, make)])
            if has_member:
                ask_all(peer, [json_frame(HEART_BEAT, {}, beat)])
            offsets = [{**place, "topic": each} for each in topics]
            ask_all(peer, [json_frame(UPDATE_CONSUMER_OFFSET, each) for each in offsets])
        yield


@contextmanager
def scraping(port: int, seconds: float) -> Iterator[None]:
    """Read the page now and then, in a thread of this process."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            page(port)
            is_over.wait(seconds)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
