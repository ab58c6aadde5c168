"""Pages that stay open for an hour, each part asked for as often as a browser asks in that time, without the waiting: memory has a bound."""

import re
from html import unescape

import pytest

from tests.dashboard.web import READER, READER_PASSWORD, Served, Visitor, wait_for
from tests.dashboard.world import ORDERS
from tests.support.memory import MIB, anonymous_bytes

# What the pages ask for in an hour, as their templates say (hx-trigger).
HOUR = {"/part/overview": 720, "/part/brokers": 720, "/part/troubles": 720, "/part/tail": 3_600}
MEMORY_MAX = 120_000_000
GROWTH_MAX = 16 * MIB
_NEXT = re.compile(r'hx-get="(/part/tail[^"]*)"')


def stay_open(visitor: Visitor, share: float, topic: str = ORDERS) -> None:
    """All parts, for that share of an hour; the tail goes on where it is, as its page does."""
    tail = f"/part/tail?topic={topic}"
    for path, times in HOUR.items():
        for _ in range(int(times * share)):
            said = visitor.http.get(tail if path == "/part/tail" else path)
            assert said.status_code == 200
            if path == "/part/tail":
                (following,) = _NEXT.findall(said.text)
                tail = unescape(following)


@pytest.mark.timeout(600)
def test_an_hour_of_open_pages_costs_no_more_memory_than_their_first_minutes(
    nameserver, tmp_path
):
    with Served(tmp_path, nameserver, "--sample-seconds", "0.1") as served:
        visitor = Visitor(served).log_in(READER, READER_PASSWORD)
        wait_for(visitor, "/", "1 of 1")
        stay_open(visitor, 0.2)
        before = anonymous_bytes(served.program.pid)
        stay_open(visitor, 0.8)
        after = anonymous_bytes(served.program.pid)
    print(
        f"{before / MIB:.1f} MiB after 12 minutes of pages, {after / MIB:.1f} MiB after an hour"
    )
    assert after - before <= GROWTH_MAX
    assert after <= MEMORY_MAX
