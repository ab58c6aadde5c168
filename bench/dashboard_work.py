"""What the dashboard takes: its pages in Chromium, an hour of them, and what the broker loses beside it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from playwright.sync_api import Page

from bench.load import run_loadgen
from bench.measure import processor_seconds
from bench.store_work import QUEUES, make_topics, settle
from bench.systems import COMETMQ, Running, running
from bench.work import Measured
from tests.dashboard.test_open_pages import stay_open
from tests.dashboard.web import ADMIN, Served, Visitor, wait_for
from tests.support.chromium import chromium
from tests.support.memory import anonymous_bytes

TOPICS = 1_000
BROWSED = "Browsed"
MESSAGES = 1_000_000
SAMPLE_SECONDS = "5"  # The default; the suite's own looks come ten times as often.
LOOKS = 5
TURNS = 3
PAGES = (1, 2, 25_000, 49_999, 50_000)  # Of 20 messages each.
# The last number of each page: the curve needs two looks at the brokers, the list of groups a request of its own.
LAST = {"/": "#rates canvas", f"/topic?name={BROWSED}": "main table >> nth=1"}


def do_dashboard(folder: Path, *, seconds: int) -> dict[str, Measured]:
    """All rows, of a broker of ours."""
    with running(COMETMQ, folder / "dashboard", defaultTopicQueueNums=QUEUES) as system:
        make_topics(system, "Of1000x", TOPICS)
        make_topics(system, BROWSED, 1)
        flags = {"conns": 4, "window": 256, "size": 128, "queues": QUEUES}
        address = system.broker.address
        run_loadgen("send", address, topic=BROWSED, secs=300, messages=MESSAGES, **flags)
        settle(system)
        rows = {"lost": lost(system, folder / "beside", seconds)}
        with Served(
            folder / "pages", system.nameserver, "--sample-seconds", SAMPLE_SECONDS
        ) as served:
            visitor = Visitor(served).log_in()
            wait_for(visitor, "/", "1 of 1")
            rows |= {"pages": pages(served), "browsing": browsing(visitor)}
            stay_open(visitor, 1.0, topic=BROWSED)
            rows["hour"] = {"bytes": anonymous_bytes(served.program.pid)}
    return rows


@contextmanager
def browser_page(served: Served) -> Iterator[Page]:
    """A tab of somebody who is logged in."""
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{served.url}/login")
        page.fill("[name=name]", ADMIN)
        page.fill("[name=password]", served.password)
        page.click("button.main")
        page.wait_for_url(f"{served.url}/")
        yield page


def pages(served: Served) -> Measured:
    """Milliseconds from the address to the last number of the first page and of a topic's."""
    with browser_page(served) as page:
        first, topic = (timed(page, served.url + path, last) for path, last in LAST.items())
    return {"first_ms": first, "topic_ms": topic}


def timed(page: Page, address: str, last: str) -> float:
    """The median of its times; the first one waits for what the page shows to be there at all."""
    page.goto(address)
    while page.locator(last).count() == 0:
        time.sleep(1.0)
        page.goto(address)
    times = []
    for _ in range(LOOKS):
        began = time.monotonic()
        page.goto(address)
        page.wait_for_selector(last)
        times.append((time.monotonic() - began) * 1_000)
    return median(times)


def browsing(visitor: Visitor) -> Measured:
    """The slowest of a few pages of a million messages, milliseconds; the median of each."""
    slowest = 0.0
    for number in PAGES:
        times = []
        for _ in range(LOOKS):
            began = time.monotonic()
            said = visitor.get("/messages", by="time", topic=BROWSED, page=number)
            times.append((time.monotonic() - began) * 1_000)
            if f"Page {number:,} of 50,000" not in said.text:
                raise RuntimeError(f"page {number} is not there: {said.status_code}")
        slowest = max(slowest, median(times))
    return {"ms": slowest}


def lost(system: Running, folder: Path, seconds: int) -> Measured:
    """What an open page takes of the broker: of a core while nobody sends, and of its sends beside Chromium.

    The second is what the page's requests cost and what Chromium and the dashboard, on the same cores, cost every other
    program; the first is the requests alone.
    """
    kept, kept_rates, shares = [], [], []
    for turn in range(TURNS):
        bare = loaded(system, seconds)
        idle = processor_share(system, seconds)
        served = Served(
            folder / str(turn), system.nameserver, "--sample-seconds", SAMPLE_SECONDS
        )
        with served, browser_page(served):
            shares.append(processor_share(system, seconds) - idle)
            watched = loaded(system, seconds)
        kept.append(bare[0] / watched[0])
        kept_rates.append(watched[1] / bare[1])
    return {
        "of_core": median(shares) * 100,
        "kept": median(kept),
        "kept_rate": median(kept_rates),
    }


def processor_share(system: Running, seconds: int) -> float:
    """Of one core, what the broker takes for so long."""
    before, began = processor_seconds(system.group), time.monotonic()
    time.sleep(seconds)
    return (processor_seconds(system.group) - before) / (time.monotonic() - began)


def loaded(system: Running, seconds: int) -> tuple[float, float]:
    """Processor time of the broker for a message, and messages a second."""
    before = processor_seconds(system.group)
    report = run_loadgen(
        "send",
        system.broker.address,
        topic="Beside",
        secs=seconds,
        conns=4,
        window=256,
        size=128,
    )
    took = processor_seconds(system.group) - before
    return took / report["messages"], report["per_second"]
