"""Where dead letters came from: the page, the saved file and the command name the topic to which a replay sends them."""

import json
import re
import zlib

import pytest

from cometmq import Admin, Message, ProducerSettings
from cometmq.client.identity import make_unique_ids
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.sender import EncodedSender
from cometmq.connect import ClientInstance
from cometmq.model.flags import COMPRESSED
from cometmq.net.loop import run as run_loop
from tests.dashboard.web import text_of
from tests.support.command_line import run

FROM, RETRIED = "origin-of-a-letter", "retried-by-name"
CASES = {
    "both": ({"DLQ_ORIGIN_TOPIC": FROM, "RETRY_TOPIC": RETRIED}, FROM),
    "only-retry": ({"RETRY_TOPIC": RETRIED}, RETRIED),
    "only-origin": ({"DLQ_ORIGIN_TOPIC": FROM}, FROM),
}


def bury(
    nameserver: str,
    topic: str,
    properties: dict[str, str],
    *,
    sys_flag: int = 0,
    body: bytes = b"dead",
) -> None:
    """A dead letter with these properties and flags, which users cannot set."""

    async def work() -> None:
        instance = ClientInstance(nameserver)
        settings = ProducerSettings(compress_over=1 << 20)
        ids = make_unique_ids(instance.ip, instance.clock, instance.chance)
        encoder = SendEncoder("buries", settings, instance.clock, ids)
        try:
            encoded = encoder.pack(Message(topic, body), properties, sys_flag=sys_flag)
            await EncodedSender(instance, settings).start(encoded, None, None)
        finally:
            await instance.close()

    run_loop(work())


@pytest.mark.parametrize("case", CASES)
def test_a_letter_goes_where_the_page_said(admin, nameserver, case):
    properties, wanted = CASES[case]
    group = f"origins-{case}"
    with Admin(nameserver) as asked:
        asked.topics.create(f"%DLQ%{group}", queues=1)
        for topic in (FROM, RETRIED):
            asked.topics.create(topic, queues=1)
        bury(nameserver, f"%DLQ%{group}", properties)
        before = counts(asked)
        page = admin.get("/dead/group", name=group)
        named = [topic for topic in (FROM, RETRIED) if topic in text_of(page)]
        (place,) = re.findall(r'name="pick\d\d" value="([^"]+)"', page.text)
        saved = json.loads(admin.get("/dead/export", name=group).text)["origin"]
        said = run("dlq", "show", group, "--json", nameserver=nameserver)
        shown = json.loads(said.stdout)
        admin.post("/dead/replay", name=group, pick01=place)
        went = [topic for topic, count in counts(asked).items() if count > before[topic]]
    shown = shown[0] if isinstance(shown, list) else shown
    assert (named, saved, shown["origin"], went) == ([wanted], wanted, wanted, [wanted])


def test_the_saved_file_names_a_letter_that_cannot_be_decoded(admin, nameserver):
    group = "origins-broken"
    with Admin(nameserver) as asked:
        asked.topics.create(f"%DLQ%{group}", queues=1)
    for sys_flag in (COMPRESSED, 0, COMPRESSED):
        bury(nameserver, f"%DLQ%{group}", {}, sys_flag=sys_flag)
    saved = admin.get("/dead/export", name=group).text
    first, second, third = map(json.loads, saved.splitlines())
    assert (first["error"].split(":")[3], third["error"].split(":")[3]) == (
        "0 cannot be decoded", "2 cannot be decoded",
    )  # fmt: skip
    assert second["body"] == "dead"


def test_the_count_by_origin_ends_after_256_mib_and_says_so(reader, nameserver):
    group, body = "origins-large", zlib.compress(bytes(64 << 20))
    with Admin(nameserver) as asked:
        asked.topics.create(f"%DLQ%{group}", queues=1)
        for _ in range(5):
            bury(nameserver, f"%DLQ%{group}", {}, sys_flag=COMPRESSED, body=body)
        said = text_of(reader.get("/dead/stats", name=group))
        assert "Incomplete: reading ended after 268,435,456 bytes of bodies" in said
        assert re.search(r"Last one \N{EN DASH} 0 4 ", said)
        [whole] = asked.dead_letters.stats(group, bytes_max=5 * (64 << 20))
    assert whole.letters == 5


def test_a_count_that_found_nothing_readable_does_not_say_that_nothing_is_left(
    reader, nameserver
):
    group = "origins-unreadable"
    with Admin(nameserver) as asked:
        asked.topics.create(f"%DLQ%{group}", queues=1)
    bury(nameserver, f"%DLQ%{group}", {}, sys_flag=COMPRESSED)
    said = text_of(reader.get("/dead/stats", name=group))
    assert "cannot be decoded" in said
    assert "no dead letters left" not in said


def counts(asked: Admin) -> dict[str, int]:
    return {
        topic: sum(each.message_count for each in asked.topics.offsets(topic).values())
        for topic in (FROM, RETRIED)
    }
