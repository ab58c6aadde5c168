"""Every page says what it is for, and what is written wrong is answered with a sentence."""

import pytest

from cometmq import __version__
from tests.dashboard.web import text_of, wait_for
from tests.dashboard.world import GROUP, HOSTILE, ORDERS, ORDERS_COUNT, SMALL, TOPICS

ORDERS_PAGE = f"/topic?name={ORDERS}"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/", ["Overview", "Brokers up", "1 of 1", "broker-a", GROUP]),
        ("/brokers", ["DefaultCluster", "broker-a", "master", f"CometMQ {__version__}"]),
        ("/broker?name=broker-a&id=0", ["flushDiskType", "ASYNC_FLUSH", "msgPutTotalTodayNow"]),
        ("/replicas", ["broker-a", "master", "no slave is connected"]),
        ("/topics", ["topic-000", "Page 1 of 5"]),
        ("/topics?find=topic-", [f"{TOPICS} topics", "Page 1 of 4"]),
        ("/topics?page=5", ["topic-199"]),
        ("/topics?find=TOPIC-19", ["topic-190", "10 topics"]),
        ("/topics?find=nothing-like-it", ["No topic name matches"]),
        ("/topics?all=1&find=TBW", ["TBW102", "system"]),
        (ORDERS_PAGE, [f"{ORDERS_COUNT:,}", "broker-a", GROUP, "read and write"]),
        ("/groups", [GROUP, f"{ORDERS_COUNT - 40:,}"]),
        (f"/group?name={GROUP}", [f"{ORDERS_COUNT - 40:,}", "The group has no members", ORDERS]),
        (f"/group/preview?name={GROUP}&topic={ORDERS}&to=earliest", ["10 consumed again", "Nothing is changed yet"]),
        (f"/group/preview?name={GROUP}&topic={ORDERS}&to=latest", ["skipped"]),
        (f"/group/preview?name={GROUP}&topic={ORDERS}&to=time&time=2026-01-01", ["10 consumed again"]),
        ("/messages", ["No search yet"]),
        (f"/messages?by=time&topic={ORDERS}", [f"{ORDERS_COUNT:,} messages", "Page 1 of 5,000"]),
        (f"/messages?by=time&topic={ORDERS}&page=5000", ["Page 5,000 of 5,000"]),
        (f"/messages?by=time&topic={ORDERS}&from=1970-01-01&until=9999-12-31T23:59:59", [f"{ORDERS_COUNT:,} messages"]),
        (f"/messages?by=time&topic={ORDERS}&until=1970-01-01T00:00", ["No message was stored in this time"]),
        (f"/messages?by=time&topic={ORDERS}&from=9999-01-01&until=9999-12-31", ["No message was stored in this time"]),
        (f"/messages?by=time&topic={ORDERS}&tag=paid", ["20 messages among 20 examined of 100,000", "Continue with older ones"]),
        (f"/messages?by=time&topic={ORDERS}&tag=paid&begin=99990", ["10 messages among 10 examined of 100,000, after the 99,990 newest", "Newest"]),
        (f"/messages?by=time&topic={ORDERS}&tag=PAID", ["0 messages among 5,000 examined", "No message is like this"]),
        (f"/messages?by=time&topic={ORDERS}&body=%22order%22:+7%7D&begin=97000", ['{"order": 7}', "1 message among 3,000 examined"]),
        (f"/messages?by=time&topic={ORDERS}&property=KEYS%3Do-7&begin=97000", ['{"order": 7}', "1 message among"]),
        (f"/messages?by=time&topic={ORDERS}&property=KEYS&body=%22order%22:+99999%7D", ['{"order": 99999}', "1 message among"]),
        (f"/messages?by=time&topic={ORDERS}&tag=paid&property=none", ["0 messages among 5,000"]),
        (f"/messages?by=time&topic={ORDERS}&tag=paid&begin=999999999999", ["0 messages among 0 examined of 100,000"]),
        (f"/messages?by=time&topic={HOSTILE}&body=%3Cb%3Ex", ["1 message among 8 examined of 8", "3.8 MiB"]),
        (f"/messages?by=key&topic={ORDERS}&key=o-77", ['{"order": 77}', "1 message"]),
        (f"/messages?by=key&topic={ORDERS}&key=o-none", ["No message has this key"]),
        (f"/tail?topic={SMALL}", ["No messages yet", "Pause"]),
        ("/doctor", ["What to do", GROUP]),
    ],
)  # fmt: skip
def test_a_page_says_what_is_there(admin, reader, path, says):
    for visitor in (admin, reader):
        for each in says:
            wait_for(visitor, path, each)
    said = reader.get(path)
    assert said.status_code == 200
    assert "Actions</h2>" not in said.text


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/topics?page=0", 400, "'0' is not a whole number from 1"),
        ("/topics?page=-1", 400, "is not a whole number"),
        ("/topics?page=99", 400, "Page 99 does not exist; the last page is 5"),
        ("/topics?page=9" + "9" * 40, 400, "is not a whole number"),
        ("/topics?page=x", 400, "is not a whole number"),
        ("/topics?page=٣", 400, "is not a whole number"),
        ("/topics?find=" + "x" * 1001, 400, "at most 1000 are allowed"),
        ("/topic", 400, "The topic is missing"),
        ("/topic?name=never-made", 404, "has no route of topic"),
        ("/topic?name=../../etc/passwd", 404, "has no route"),
        ("/topic?name=%00", 404, "has no route"),
        ("/topic?name=%ff%fe", 404, "has no route"),
        ("/broker?name=nobody", 404, "No broker 'nobody' with the id 0"),
        ("/broker?name=broker-a&id=x", 400, "is not a whole number"),
        ("/group", 400, "The group is missing"),
        ("/group?name=never-made", 404, "No broker has a group"),
        (f"/group/member?name={GROUP}&client=nobody", 502, "nobody"),
        (f"/group/preview?name={GROUP}", 400, "The topic is missing"),
        (f"/group/preview?name={GROUP}&topic={ORDERS}&to=time", 400, "Enter the time"),
        (f"/group/preview?name={GROUP}&topic={ORDERS}&to=time&time=yesterday", 400, "is not a time from 1970 to 9999"),
        (f"/group/preview?name={GROUP}&topic={ORDERS}&to=time&time=99999-01-01", 400, "is not a time"),
        (f"/group/preview?name={GROUP}&topic={ORDERS}&to=mars", 400, "is not a position"),
        ("/messages?by=colour&topic=x", 400, "not by 'colour'"),
        ("/messages?by=time&topic=never-made", 404, "has no route"),
        (f"/messages?by=time&topic={ORDERS}&page=5001", 400, "Page 5001 does not exist; the last page is 5000"),
        (f"/messages?by=time&topic={ORDERS}&from=0001-01-01", 400, "is not a time"),
        (f"/messages?by=time&topic={ORDERS}&from=-5", 400, "is not a time"),
        (f"/messages?by=time&topic={ORDERS}&from=99999999999999999999", 400, "is not a time"),
        (f"/messages?by=time&topic={ORDERS}&from=2027-01-01&until=2026-01-01", 400, "The time From is later than Until"),
        (f"/messages?by=time&topic={ORDERS}&property=%3Dx", 400, "The property has no name"),
        (f"/messages?by=time&topic={ORDERS}&tag=x&begin=-1", 400, "is not a whole number"),
        (f"/messages?by=time&topic={ORDERS}&tag={'x' * 1001}", 400, "at most 1000 are allowed"),
        (f"/messages?by=time&topic={ORDERS}&body={'x' * 1001}", 400, "at most 1000 are allowed"),
        (f"/messages?by=key&topic={ORDERS}", 400, "The key is missing"),
        ("/messages?by=id&id=zzz", 404, "No message has the id"),
        (f"/messages?by=id&topic={ORDERS}&id=" + "0" * 32, 404, "No message has the id"),
        ("/messages?by=id&id=C0000201000000500000000000000000", 404, "at any broker of this cluster"),
        (f"/message?topic={ORDERS}", 400, "The broker is missing"),
        (f"/message?topic={ORDERS}&broker=broker-a&queue=77&offset=0", 404, "has no queue 77"),
        (f"/message?topic={ORDERS}&broker=broker-b&queue=0&offset=0", 404, "has no queue 0"),
        (f"/message?topic={ORDERS}&broker=broker-a&queue=0&offset=99999999", 404, "the queue has the offsets 0 to"),
        (f"/message?topic={ORDERS}&broker=broker-a&queue=0&offset=-1", 400, "is not a whole number"),
        (f"/message?topic={ORDERS}&broker=broker-a&queue=0&offset=0&as=html", 400, "not as 'html'"),
        ("/tail?topic=never-made", 404, "has no route"),
        ("/audit?page=77", 400, "Page 77 does not exist"),
        ("/kv?page=2", 400, "Page 2 does not exist"),
        ("/dead/stats", 400, "The group is missing"),
        ("/dead/stats?name=never-made", 404, "has no dead letters"),
    ],
)  # fmt: skip
def test_what_is_written_wrong_is_answered_with_a_sentence(admin, path, status, sentence):
    said = admin.get(path)
    assert sentence in text_of(said)
    assert said.status_code == status
    assert "Traceback" not in said.text
    assert "<nav" in said.text


@pytest.mark.parametrize(
    "at", ["", "x", "a:0", "a:0:-1", "a:0:1," * 300, "a:" + "9" * 30 + ":0"]
)
def test_a_part_that_cannot_be_made_says_so_in_its_place(admin, at):
    said = admin.get("/part/tail", topic=SMALL, at=at)
    assert "load the page again" in text_of(said)
    assert 'hx-get="/part/tail' in said.text


def test_a_part_of_who_is_logged_out_leads_the_whole_page_to_the_login(stranger):
    headers = {"hx-request": "true", "hx-current-url": f"{stranger.served.url}/topic?name=x"}
    said = stranger.http.get("/part/overview", headers=headers)
    assert said.status_code == 401
    assert said.headers["hx-redirect"] == "/login?next=%2Ftopic%3Fname%3Dx"


def test_a_file_is_kept_by_browsers_under_its_version(stranger):
    page = stranger.http.get("/login").text
    start = page.index("/static/dashboard.css?v=")
    path = page[start : page.index('"', start)]
    assert stranger.http.get(path).status_code == 200
