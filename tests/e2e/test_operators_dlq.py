"""`cometmq dlq`, as processes against a real cluster: dead letters are sent again, each once."""

import asyncio
import collections
import json
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import cometmq
from cometmq import (
    Admin,
    AsyncAdmin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.client.admin import replay
from cometmq.connect import (
    AsyncEncodedProducer,
    AsyncReplayClaims,
    EncodedMessage,
    LetterId,
    ReplayCandidate,
)
from cometmq.embedded import Embedded
from cometmq.errors import TopicNotFound
from cometmq.model.flags import COMPRESSED
from tests.support import json_tables, topics
from tests.support.command_line import COMETMQ, environment, output, printed, run
from tests.support.frames import ask
from tests.support.processes import wait_until
from tests.support.programs import small_cluster
from tests.support.request_fields import send_fields

SEND_V2 = 310
STRANGE = "\x1b[31m<script>\u202e"


def all_of(cluster: Embedded, topic: str) -> list[StoredMessage]:
    return topics.read(cluster.nameserver, topic)


def refuser(cluster: Embedded, group: str, topic: str) -> PushConsumer:
    """A consumer whose messages die at their first try."""
    settings = PushConsumerSettings(retries_max=0, consume_from=ConsumeFrom.FIRST)
    return PushConsumer(
        cluster.nameserver, group=group, listener=lambda _: False, subscriptions=[topic], settings=settings
    )  # fmt: skip


def bury(cluster: Embedded, group: str, count: int, *, origin: str) -> None:
    """Dead letters as a broker makes them, without waiting for sixteen tries of each."""
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(f"%DLQ%{group}", queues=1)
        admin.topics.create(origin, queues=4)
    settings = ProducerSettings(send_timeout_ms=30_000)  # A busy machine is no reason to fail.
    with Producer(cluster.nameserver, settings=settings) as producer:
        producer.send_many(
            Message(
                f"%DLQ%{group}",
                b"%d" % number,
                tag="paid" if number % 2 else "open",
                keys=f"o-{number}",
                properties={"amount": str(number)},
            )
            for number in range(count)
        )


def test_what_a_group_gave_up_goes_back_to_where_it_came_from(cluster: Embedded) -> None:
    with Producer(cluster.nameserver) as producer:
        sent = [
            producer.send(Message("orders", STRANGE.encode(), tag=tag, keys=(tag, "k")))
            for tag in ("paid", "open", "paid")
        ]
    with refuser(cluster, "billing", "orders"):
        wait_until(
            lambda: (
                [each["letters"] for each in printed("dlq", "list", cluster=cluster)] == [3]
            ),
            seconds=30,
            what="three dead letters",
        )
    [counted] = printed("dlq", "stats", "billing", cluster=cluster)
    assert (counted["origin"], counted["letters"]) == ("orders", 3)
    shown = output("dlq", "show", "billing", cluster=cluster)
    assert "from orders" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    arguments = ("dlq", "replay", "billing", "--sql", "TAGS = 'paid'")
    dry = printed(*arguments, "--dry-run", cluster=cluster)
    assert (dry["sent"], dry["before"]) == ({"orders": 2}, 0)
    assert printed(*arguments, cluster=cluster)["sent"] == {"orders": 2}
    again = printed("dlq", "replay", "billing", cluster=cluster)
    assert (again["sent"], again["before"]) == ({"orders": 1}, 2)
    back = all_of(cluster, "orders")[-3:]
    counted = collections.Counter(each.message_id for each in all_of(cluster, "orders"))
    assert counted == {each.message_id: 2 for each in sent}, "each keeps its id, and came once"
    assert all(each.body == STRANGE.encode() for each in back)


def test_dead_letters_are_chosen_by_time_and_counted(cluster: Embedded) -> None:
    topics.make(cluster.nameserver, "%DLQ%counted", queues=2)
    with Producer(cluster.nameserver) as producer:
        queues = producer.queues("%DLQ%counted")
        for number in range(6):
            letter = Message("%DLQ%counted", b"%d" % number)
            # The last queue has the oldest ones.
            producer.send(letter, queue=queues[number < 3])
    arguments = ("dlq", "stats", "counted")
    counted = printed(*arguments, cluster=cluster)
    assert [(each["origin"], each["tries"], each["letters"]) for each in counted] == [
        (None, 0, 6)
    ]
    letters = run("dlq", "show", "counted", "--json", nameserver=cluster.nameserver).stdout
    died = [json.loads(line)["stored_ms"] for line in letters.splitlines()]
    assert died == sorted(died), "the youngest is the last, of all queues"
    assert (counted[0]["first_ms"], counted[0]["last_ms"]) == (died[0], died[-1])
    [since, until] = [str(died[number]) for number in (2, 5)]
    told = [json.loads(line) for line in letters.splitlines()]
    some = [each["body"] for each in told if died[2] <= each["stored_ms"] < died[5]]
    chosen = run(
        "dlq", "show", "counted", "--since", since, "--until", until, "--json",
        nameserver=cluster.nameserver,
    ).stdout  # fmt: skip
    assert [json.loads(line)["body"] for line in chosen.splitlines()] == some
    first = run(
        "dlq", "show", "counted", "--sort", "body", "--limit", "2", "--json",
        nameserver=cluster.nameserver,
    ).stdout  # fmt: skip
    assert [json.loads(line)["body"] for line in first.splitlines()] == ["0", "1"]
    later = printed(*arguments, "--since", str(died[5] + 1), cluster=cluster)
    assert later == []


def test_a_run_that_is_killed_repeats_nothing_and_loses_nothing(cluster: Embedded) -> None:
    count = 12_000
    bury(cluster, "killed", count, origin="again")
    command = [*COMETMQ, "dlq", "replay", "killed", "--to-topic", "again", "--rate", "4000"]
    first = subprocess.Popen(
        command, env=environment(cluster.nameserver), stderr=subprocess.DEVNULL
    )
    with Admin(cluster.nameserver) as admin:

        def held() -> int:
            return sum(each.message_count for each in admin.topics.offsets("again").values())

        wait_until(lambda: held() > 1_000, seconds=30, what="a part of them")
        first.kill()
        first.wait()
        assert held() < count, "it was killed too late to show anything"
        done = run(*command[len(COMETMQ) : -2], nameserver=cluster.nameserver)
        assert done.returncode == 0, done.stderr
        assert b"another run has" in done.stderr
        assert held() == count
        repeated = printed("dlq", "replay", "killed", "--to-topic", "again", cluster=cluster)
        assert (repeated["sent"], repeated["before"]) == ({}, count)
    assert len({each.properties["amount"] for each in all_of(cluster, "again")}) == count


def test_a_letter_that_a_run_had_no_time_for_is_not_reported_as_sent(
    cluster: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.send(cluster.nameserver, "late", b"x")
    with refuser(cluster, "slow", "late"):
        letters = wait_until(
            lambda: suppressed(lambda: all_of(cluster, "%DLQ%slow")),
            seconds=30,
            what="a letter",
        )
    with Admin(cluster.nameserver) as admin:
        for is_again in (False, True):
            with monkeypatch.context() as patch:
                patch.setattr(replay, "_SEND_SECONDS_MAX", -1.0)
                [said] = admin.dead_letters.replay("slow", letters, again=is_again)
                assert said == "this run had no time left to send it; try again"
            assert admin.dead_letters.replay("slow", letters, again=is_again) == [""]


def suppressed(look: Callable[[], list[StoredMessage]]) -> list[StoredMessage]:
    with suppress(TopicNotFound):
        return look()
    return []


def test_two_runs_at_once_share_the_work(cluster: Embedded) -> None:
    count = 6_000
    bury(cluster, "shared", count, origin="both")
    command = [*COMETMQ, "dlq", "replay", "shared", "--to-topic", "both", "--json"]
    runs = [
        subprocess.Popen(command, env=environment(cluster.nameserver), stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [json.loads(each.communicate(timeout=60)[0]) for each in runs]
    assert sum(each["sent"].get("both", 0) for each in said) == count
    assert len({each.properties["amount"] for each in all_of(cluster, "both")}) == count


def test_a_rate_is_kept(cluster: Embedded) -> None:
    bury(cluster, "slow", 1_000, origin="slowly")
    output("dlq", "replay", "slow", "--to-topic", "slowly", "--key", "o-1", cluster=cluster)
    output("dlq", "replay", "slow", "--to-topic", "slowly", "--rate", "250", cluster=cluster)
    stored = sorted(each.stored_ms for each in all_of(cluster, "slowly"))[1:]
    seconds = (stored[-1] - stored[0]) / 1000
    assert len(stored) == 999
    assert seconds >= 0.95 * 998 / 250, "a busy machine may be slower, never faster"


def test_dead_letters_are_exported_and_purged(cluster: Embedded, tmp_path) -> None:
    bury(cluster, "gone", 5, origin="back")
    shown = run("dlq", "show", "gone", "--limit", "2", "--json", nameserver=cluster.nameserver)
    assert [json.loads(line)["body"] for line in shown.stdout.splitlines()] == ["3", "4"]
    file = tmp_path / "letters.jsonl"
    output("dlq", "export", "gone", str(file), "--sql", "amount > 2", cluster=cluster)
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert [line["body"] for line in lines] == ["3", "4"]
    for line in lines:
        json_tables.check("dlq export", line)
    assert [each.name for each in tmp_path.iterdir()] == ["letters.jsonl"]
    output("dlq", "replay", "gone", "--to-topic", "back", cluster=cluster)
    asked = run("dlq", "delete", "gone", nameserver=cluster.nameserver)
    assert (asked.returncode, b"nothing was done" in asked.stderr) == (3, True)
    output("dlq", "delete", "gone", "--yes", cluster=cluster)
    with Admin(cluster.nameserver) as admin:
        assert {"%DLQ%gone", "DLQ_REPLAYED_gone"}.isdisjoint(admin.topics.list())


def test_one_that_cannot_be_decoded_does_not_hold_back_the_others(cluster: Embedded) -> None:
    bury(cluster, "broken", 2, origin="around")
    fields = send_fields("%DLQ%broken", f=1)  # A compressed body, says the flag.
    assert ask(cluster.broker, SEND_V2, fields, b"not compressed")[0]["code"] == 0
    place = "%DLQ%broken:broker-a:0:2 cannot be decoded"
    shown = run("dlq", "show", "broken", "--json", nameserver=cluster.nameserver)
    assert [json.loads(line)["body"] for line in shown.stdout.splitlines()] == ["0", "1"]
    assert place in shown.stderr.decode()
    sent = run(
        "dlq",
        "replay",
        "broken",
        "--to-topic",
        "around",
        "--json",
        nameserver=cluster.nameserver,
    )
    result = json.loads(sent.stdout)
    assert (sent.returncode, result["sent"], result["failed"]) == (1, {"around": 2}, 1)
    assert place in result["reasons"][0]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("show", "nobody"), 3, "'nobody' has no dead letters"),
        (("replay", "nobody"), 3, "'nobody' has no dead letters"),
        (("replay", "stray", "--sql", "amount >"), 2, "--sql"),
        (
            ("replay", "stray"),
            1,
            "2 have no property with the original topic: name a topic with --to",
        ),
        (
            ("replay", "stray", "--to-topic", "SCHEDULE_TOPIC_XXXX"),
            1,
            "may not send to system topic",
        ),
        (("replay", "stray", "--rate", "0"), 2, "--rate"),
        (("stats", "nobody"), 3, "'nobody' has no dead letters"),
        (("stats", "stray", "--since", "yesterday"), 2, "--since"),
    ],
)
def test_what_cannot_be_done_is_said(
    cluster: Embedded, arguments: tuple[str, ...], status: int, says: str
) -> None:
    with Admin(cluster.nameserver) as admin:
        if arguments[1] == "stray" and "%DLQ%stray" not in admin.topics.list():
            bury(cluster, "stray", 2, origin="x")
    done = run("dlq", *arguments, nameserver=cluster.nameserver)
    assert (done.returncode, says in done.stderr.decode()) == (status, True), done.stderr


def copies_of(places: list[str]) -> Iterator[Message]:
    return (Message("orders", b"x", properties={"REPLAY_OF": each}) for each in places)


def test_a_run_remembers_what_a_dead_run_had_sent_through_its_next_claim() -> None:
    with cometmq.virtual() as mq:
        sent = mq.put(*copies_of(["sent", "other"]))
        letters = [
            ReplayCandidate(LetterId("broker-a", 0, place, 0), "orders", each.message_id, name)
            for place, (name, each) in enumerate(zip(["sent", "lost"], sent, strict=True))
        ]
        new = {letters[1].id}

        async def story() -> None:
            async with AsyncReplayClaims(mq.nameserver, group="billing") as dead:
                await dead.take("dead", letters[:1])
            async with AsyncReplayClaims(mq.nameserver, group="billing") as claims:
                assert await claims.take("mine", letters[:1]) == set()
                for _ in range(2):
                    assert await claims.take("mine", letters[1:]) == new
                await claims.end()
                assert await claims.take("mine", letters) == new

        mq.run(story())


@pytest.mark.timeout(120)
def test_reading_a_letter_that_decompresses_to_much_does_not_hold_the_loop(tmp_path: Path):
    body = zlib.compress(bytes(60 << 20))

    async def longest_pause(admin: AsyncAdmin) -> float:
        """Read the letter, and return the longest time (s) between two turns of the loop meanwhile."""
        longest, ended = 0.0, False

        async def tick() -> None:
            nonlocal longest
            last = time.monotonic()
            while not ended:
                await asyncio.sleep(0)
                last, before = time.monotonic(), last
                longest = max(longest, last - before)

        ticking = asyncio.create_task(tick())
        assert [len(each.body) async for each in admin.dead_letters.read("big")] == [60 << 20]
        ended = True
        await ticking
        return longest

    async def work(nameserver: str) -> None:
        async with (
            AsyncAdmin(nameserver) as admin,
            AsyncEncodedProducer(nameserver, group="buries") as producer,
        ):
            await admin.topics.create("%DLQ%big", queues=1)
            await producer.send_each([EncodedMessage("%DLQ%big", body, "", 0, COMPRESSED)])
            # Of a busy machine, at least one of several readings shows it.
            pauses = [await longest_pause(admin) for _ in range(5)]
        began = time.monotonic()
        zlib.decompress(body)
        assert min(pauses) < (time.monotonic() - began) / 2

    with small_cluster(tmp_path) as (names, _):
        asyncio.run(work(names.address))
