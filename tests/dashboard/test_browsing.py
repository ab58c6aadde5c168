"""Pages of messages: each message stands on exactly one, and any page comes at once."""

import re
import time

from tests.dashboard.web import text_of
from tests.dashboard.world import ORDERS, SMALL, SMALL_COUNT

_ROW = re.compile(r"small (\d+)")


def test_each_message_stands_on_exactly_one_page(admin):
    seen: list[str] = []
    first = admin.get("/messages", by="time", topic=SMALL)
    (until,) = set(re.findall(r"until=(\d+)", first.text))
    for page in (1, 2, 3):
        seen += _ROW.findall(
            text_of(admin.get("/messages", by="time", topic=SMALL, until=until, page=page))
        )
    assert sorted(map(int, seen)) == list(range(SMALL_COUNT))
    # The newest first: pages go back in time, queue by queue, so a page is no older than the next by more than a row of queues.
    assert abs(int(seen[0]) - (SMALL_COUNT - 1)) < 4


def test_a_range_of_time_holds_what_was_stored_then(admin):
    rows = admin.get("/messages", by="key", topic=SMALL, key="s-28")
    place = re.search(r'href="(/message\?[^"]+)"', rows.text)
    assert place
    stored = admin.get(place[1].replace("&amp;", "&"))
    assert "small 28" in text_of(stored)


def test_any_page_of_100_000_comes_at_once(admin):
    took = []
    for page in (1, 2500, 4999, 5000, 1234):
        begun = time.perf_counter()
        said = admin.get("/messages", by="time", topic=ORDERS, page=page)
        took.append(time.perf_counter() - begun)
        assert said.text.count("<tr>") == 21
    assert sorted(took)[2] < 0.3, took


def test_a_message_is_found_by_the_id_of_its_producer_and_of_its_place(admin):
    rows = admin.get("/messages", by="key", topic=SMALL, key="s-5")
    place = re.search(r'href="(/message\?[^"]+)"', rows.text)
    assert place
    page = text_of(admin.get(place[1].replace("&amp;", "&")))
    ids = re.search(r"Id ([0-9A-F]{32}) .*Offset id ([0-9A-F]{32})", page)
    assert ids
    assert "small 5" in text_of(admin.get("/messages", by="id", topic=SMALL, id=ids[1]))
    assert "small 5" in text_of(admin.get("/messages", by="id", id=ids[2]))
    assert "small 5" in text_of(admin.get("/messages", by="id", topic=SMALL, id=ids[2]))
