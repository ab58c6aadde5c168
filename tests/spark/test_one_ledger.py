"""The command, the dashboard and Spark's job know of each other what they replayed: a dead letter is sent once."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from cometmq import StoredMessage
from cometmq.client.admin import replay_claims
from cometmq.client.admin.replay import id_of
from cometmq.connect import ReplayCandidate, ReplayClaims
from cometmq.errors import TopicNotFound
from cometmq.spark.jobs import dlq, sending
from tests.dashboard.web import Served, Visitor, text_of
from tests.spark.test_jobs_moving import make_dead_letters
from tests.support import topics
from tests.support.command_line import COMETMQ
from tests.support.processes import wait_until
from tests.support.programs import run_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SECONDS_MAX = 120.0
COUNT = 6


def messages(cluster, topic: str) -> list[StoredMessage]:
    with suppress(TopicNotFound):
        return topics.read(cluster.nameserver, topic)
    return []


@pytest.fixture
def letters(cluster, topic) -> dict[str, StoredMessage]:
    """Six dead letters of a group of the topic's name, by their keys."""
    make_dead_letters(cluster, topic, topic, COUNT)
    return {each.keys[0]: each for each in messages(cluster, f"%DLQ%{topic}")}


def command(cluster, group: str, *options: str) -> dict[str, Any]:
    """What `cometmq dlq replay` says it did."""
    replay = (*COMETMQ, "dlq", "replay", group, "--json", *options)
    env = {"NAMESRV_ADDR": cluster.nameserver}
    said: dict[str, Any] = json.loads(run_program(*replay, env=env, seconds=SECONDS_MAX).stdout)
    return said


@pytest.fixture
def visitor(cluster, tmp_path) -> Iterator[Visitor]:
    """An admin at a dashboard of the cluster."""
    with Served(tmp_path / "dashboard", cluster.nameserver) as served:
        yield Visitor(served).log_in()


def place(letter: StoredMessage) -> str:
    return f"{letter.queue.broker_name}:{letter.queue.queue_id}:{letter.queue_offset}"


def options(cluster, group: str, folder, **more: Any) -> dlq.ReplayDeadOptions:
    given = {"nameserver": cluster.nameserver, "progress": "none", "group": group}
    return dlq.ReplayDeadOptions(state=str(folder / "state"), **given, **more)


def test_what_one_way_sent_no_other_sends(spark, cluster, topic, letters, visitor, tmp_path):
    assert command(cluster, topic, "--key", "k0")["sent"] == {topic: 1}
    both = {"pick01": place(letters["k0"]), "pick02": place(letters["k1"])}
    said = visitor.post("/dead/replay", name=topic, **both)
    assert said.status_code == 400
    assert f"{letters['k0'].message_id}: replayed before" in text_of(said)
    said = visitor.post("/dead/replay", name=topic, pick01=both["pick02"])
    assert "1 dead letter was sent again" in text_of(said)

    some = options(cluster, topic, tmp_path, where="keys < 'k4'")
    assert dlq.replay_dead(spark, some).counts["rows"] == 2, "k2 and k3"
    rest = command(cluster, topic)
    assert (rest["sent"], rest["before"]) == ({topic: 2}, 4)

    every = replace(some, where="")
    assert dlq.replay_dead(spark, every).counts.get("rows", 0) == 0
    page = visitor.get("/dead/group", name=topic)
    assert page.text.count(">replayed<") == COUNT
    counted = Counter(each.message_id for each in messages(cluster, topic))
    assert counted == {each.message_id: 2 for each in letters.values()}


def die_after_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sending.SendTarget.send

    def dies(target, batch, number):
        real(target, batch, number)
        raise OSError("the power is gone")

    monkeypatch.setattr(sending.SendTarget, "send", dies)


def test_a_job_that_died_behind_its_sends_comes_again_and_sends_none_twice(
    spark, cluster, topic, letters, tmp_path, monkeypatch
):
    given = options(cluster, topic, tmp_path)
    with monkeypatch.context() as patched:
        die_after_sending(patched)
        with pytest.raises(Exception, match="the power is gone"):
            dlq.replay_dead(spark, given)
    assert dlq.replay_dead(spark, given).counts["rows"] == COUNT
    assert len(messages(cluster, topic)) == 2 * COUNT
    assert command(cluster, topic)["before"] == COUNT


def test_the_command_takes_over_from_a_job_that_died_and_finds_what_it_sent(
    spark, cluster, topic, letters, tmp_path, monkeypatch
):
    given = options(cluster, topic, tmp_path)
    die_after_sending(monkeypatch)
    with pytest.raises(Exception, match="the power is gone"):
        dlq.replay_dead(spark, given)
    said = command(cluster, topic)
    assert (said["sent"], said["before"]) == ({}, COUNT)
    monkeypatch.undo()
    assert dlq.replay_dead(spark, given).counts.get("rows", 0) == 0
    assert len(messages(cluster, topic)) == 2 * COUNT


def test_claims_are_renewed_while_they_are_needed(cluster, topic, letters, monkeypatch):
    monkeypatch.setattr(replay_claims, "RENEW_SECONDS", 0.05)
    sought = [
        ReplayCandidate(id_of(each), topic, each.message_id, "") for each in letters.values()
    ]
    first, *_ = (each.id for each in sought)
    with (
        ReplayClaims(cluster.nameserver, group=topic) as mine,
        ReplayClaims(cluster.nameserver, group=topic) as others,
    ):
        assert mine.take("run-1", sought) == {each.id for each in sought}

        def free_at() -> int:
            ledger = others._portal.do(others._client._opened)
            others._portal.call(ledger.read)
            return ledger.state.free_at(first)

        claimed = free_at()
        wait_until(lambda: free_at() > claimed, seconds=SECONDS_MAX, what="a renewal")
        mine.end()
        assert others.take("run-2", sought) == set()
        assert mine.take("run-1", sought) == {each.id for each in sought}, "it was this run"
