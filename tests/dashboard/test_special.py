"""Dead letters, what waits, and traces: looked at, replayed, saved."""

import contextlib
import json
import re
import time
from functools import partial
from html import unescape

import pytest

from cometmq import Admin, PushConsumer, StoredMessage
from tests.dashboard.special import FINE, GROUP, LETTERS, TOPIC
from tests.dashboard.web import text_of, wait_for
from tests.dashboard.world import SCRIPT, place
from tests.support.processes import wait_until


def test_dead_letters_stand_under_their_group(admin, reader, special):
    text = wait_for(reader, "/dead", GROUP)
    assert f"{GROUP} {len(LETTERS)} " in text
    page = reader.get("/dead/group", name=GROUP)
    assert TOPIC in text_of(page)
    assert SCRIPT in unescape(page.text)
    assert "<script>document" not in page.text
    assert "\u202e" not in page.text
    assert "pick01" not in page.text
    assert f'href="/group?name={GROUP}"' in page.text
    assert f'href="/topic?name={TOPIC}"' in page.text
    assert f'href="/dead/group?name={GROUP}"' in reader.get("/group", name=GROUP).text
    assert reader.get("/dead/group", name="never-made").status_code == 404


def test_dead_letters_are_replayed_once(admin, nameserver, special):
    page = admin.get("/dead/group", name=GROUP).text
    places = re.findall(r'name="(pick\d\d)" value="([^"]+)"', page)
    assert len(places) == len(LETTERS)
    before = count(nameserver)
    said = admin.post("/dead/replay", name=GROUP, **dict(places[:2]))
    assert "2 dead letters were sent again" in text_of(said)
    assert count(nameserver) == before + 2
    said = admin.post("/dead/replay", name=GROUP, **dict(places))
    assert said.status_code == 400
    assert "replayed before; nothing was sent" in text_of(said)
    assert count(nameserver) == before + 2
    admin.post("/dead/replay", name=GROUP, again="1", **dict(places[:1]))
    assert count(nameserver) == before + 3
    assert text_of(admin.get("/dead/group", name=GROUP)).count("replayed") >= 2
    with Admin(nameserver) as asked:
        (first, *again) = asked.messages.by_key(TOPIC, "one")
        assert all(each.user_properties["a"] == "b" for each in (first, *again))
    assert f"of {GROUP} done" in text_of(admin.get("/audit"))


def keep(messages: list[tuple[str, bytes]], each: StoredMessage) -> None:
    messages.append((each.topic, bytes(each.body)))


def test_a_dead_letter_goes_to_its_group_alone(admin, nameserver, special):
    """Both groups of the topic consume; the letter comes to the one that failed, as a message of its topic."""
    seen: dict[str, list[tuple[str, bytes]]] = {GROUP: [], FINE: []}
    place = re.findall(
        r'name="pick\d\d" value="([^"]+)"', admin.get("/dead/group", name=GROUP).text
    )[0]
    before = count(nameserver)
    with contextlib.ExitStack() as stack:
        for group, messages in seen.items():
            consumer = PushConsumer(
                nameserver,
                group=group,
                listener=partial(keep, messages),
            )
            consumer.subscribe(TOPIC)
            stack.enter_context(consumer)
        with Admin(nameserver) as asked:
            # They first get what the other tests have replayed.
            wait_until(
                lambda: not any(any(asked.offsets.lag(each, TOPIC).values()) for each in seen),
                seconds=40,
                what="nothing that waits",
            )
        for messages in seen.values():
            messages.clear()
        fields = {"pick01": place, "only": "1", "again": "1"}
        said = text_of(admin.post("/dead/replay", name=GROUP, **fields))
        assert f"1 dead letter was sent again; only {GROUP} gets it." in said
        wait_until(lambda: seen[GROUP], seconds=40, what="the letter")
        assert count(nameserver) == before
        time.sleep(1)
        [(topic, body)] = seen[GROUP]
        assert topic == TOPIC
        assert body in LETTERS.values()
        assert seen[FINE] == []


def test_a_message_goes_to_a_member_of_one_group(admin, nameserver, special):
    seen: list[bytes] = []
    with Admin(nameserver) as asked:
        message = asked.messages.by_key(TOPIC, "one")[0]
    fields = {**place(message.queue, message.queue_offset), "to": FINE}
    said = admin.post("/message/resend", **fields)
    assert said.status_code == 400
    assert f"The group '{FINE}' has no connected member." in text_of(said)
    before = count(nameserver)
    consumer = PushConsumer(
        nameserver, group=FINE, listener=lambda each: seen.append(bytes(each.body))
    )
    consumer.subscribe(TOPIC)
    with consumer:

        def is_consumed() -> bool:
            text = text_of(admin.post("/message/resend", **fields))
            return f"A member of group {FINE} has consumed it, in " in text

        wait_until(is_consumed, seconds=40, what="a member that consumes")
    assert seen[-1] == b"one"
    assert count(nameserver) == before
    assert f"of {TOPIC} to {FINE} done" in text_of(admin.get("/audit"))


def count(nameserver):
    with Admin(nameserver) as asked:
        return sum(each.message_count for each in asked.topics.offsets(TOPIC).values())


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "Choose 1 to 20"),
        ({"pick01": "x"}, "is not the position of a message"),
        ({"pick01": "broker-a:0:999999"}, "There is no message at offset 999999"),
        ({f"pick{number}": "broker-a:0:0" for number in range(21)}, "Choose 1 to 20"),
    ],
)
def test_a_wrong_choice_sends_nothing(admin, nameserver, special, fields, sentence):
    before = count(nameserver)
    said = admin.post("/dead/replay", name=GROUP, **fields)
    assert sentence in text_of(said)
    assert count(nameserver) == before


def test_dead_letters_are_saved_as_lines_of_json(reader, special):
    said = reader.get("/dead/export", name=GROUP)
    assert (
        said.headers["content-disposition"]
        == f'attachment; filename="dead-letters-{GROUP}.jsonl"'
    )
    lines = [json.loads(line) for line in said.text.splitlines()]
    assert {line["keys"][0] for line in lines} == set(LETTERS)
    by_key = {line["keys"][0]: line for line in lines}
    assert by_key["one"]["body"] == "one"
    assert by_key["one"]["origin"] == TOPIC
    assert by_key["bytes"]["body_hex"] == "ff00"


def test_what_waits_is_shown_with_its_time(reader, special):
    text = wait_for(reader, "/waiting", "later", kind="level")
    assert "level 18" in text
    assert TOPIC in text
    text = wait_for(reader, "/waiting", "at a time", kind="time")
    due = time.strftime("%Y-%m-%d", time.localtime(time.time() + 3500))
    assert due in text
    assert "half of it" in wait_for(reader, "/waiting", "half of it", kind="half")
    assert "No half message was discarded" in text_of(reader.get("/waiting", kind="discarded"))
    assert reader.get("/waiting", kind="tea").status_code == 400


def test_a_trace_is_a_graph(reader, special):
    text = wait_for(reader, "/trace", FINE, id=special.traced)
    text = wait_for(reader, "/trace", GROUP, id=special.traced)
    assert "makes_letters sent: stored" in text
    assert f"{FINE} consumed: success" in text
    assert f"{GROUP} consumed: " in text
    assert f"through {TOPIC}" in text
    page = reader.get("/trace", id=special.traced).text
    assert page.count("<rect ") == 3
    assert "This message has no trace" in text_of(reader.get("/trace", id="0" * 32))
    assert "No message yet" in text_of(reader.get("/trace"))
    assert reader.get("/trace", id="x", trace_topic="never-made").status_code == 404
