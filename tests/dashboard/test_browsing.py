"""Pages of messages: each message stands on exactly one, and any page comes at once."""

import re
import time

from cometmq import Admin, Message, Producer
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


def test_a_filter_passes_over_no_message_although_bodies_are_large(admin, nameserver):
    """62 of them are more than the 32 MiB that one read holds; the wanted one is the oldest."""
    with Admin(nameserver) as asked:
        asked.topics.create("large", queues=2)
    with Producer(nameserver) as producer:
        producer.send(Message("large", b"here", tag="wanted"))
        for _ in range(62):
            producer.send(Message("large", bytes(1 << 20), tag="other"))
    said = text_of(admin.get("/messages", by="time", topic="large", tag="wanted"))
    assert "1 message among 63 examined" in said
    assert "cannot be read" not in said
